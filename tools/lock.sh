#!/usr/bin/env bash
# Makes third_party/requirements.lock anew from requirements.in, with hashes, for Python 3.10 and later.
set -euo pipefail
cd "$(dirname "$0")/../third_party"
work=$(mktemp -d)
python3 -m venv "$work"
"$work/bin/pip" install --quiet uv
"$work/bin/uv" pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url requirements.in --output-file requirements.lock
rm -rf "$work"
