"""Runs pytest on the files given, with its report where Bazel looks for one."""

import os
import sys

import pytest

if __name__ == "__main__":
    report = os.environ.get("XML_OUTPUT_FILE")
    options = ["--junitxml", report] if report else []
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-q", *options, *sys.argv[1:]]))
