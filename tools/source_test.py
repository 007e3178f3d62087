"""Rules that hold for every file of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent


def sources(*suffixes: str) -> list[Path]:
    """The tree's files with these suffixes; what Git ignores lies in links and hidden folders."""
    return [
        path
        for folder in sorted(ROOT.iterdir())
        if folder.is_dir() and not folder.is_symlink() and not folder.name.startswith(".")
        for path in sorted(folder.rglob("*"))
        if path.suffix in suffixes
    ]


def run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cpp_is_formatted() -> None:
    run(TOOLS / "clang-format", "--dry-run", "--Werror", *sources(".cc", ".h", ".cu"))


def test_python_is_formatted() -> None:
    run(TOOLS / "ruff", "format", "--no-cache", "--check", ".")


def test_python_is_clean() -> None:
    run(TOOLS / "ruff", "check", "--no-cache", ".")


def test_clang_tidy_reads_every_source() -> None:
    read = {path.name for path in (Path.cwd()).rglob("*.tidy")}
    missing = [str(path) for path in sources(".cc") if f"{path.name}.tidy" not in read]
    assert not missing, "add their tests to clang_tidy_test in tools/BUILD"


@pytest.mark.parametrize("suffix", [".cc", ".h", ".py"])
def test_files_are_short(suffix: str) -> None:
    long = [path for path in sources(suffix) if len(path.read_text().splitlines()) > 400]
    assert not long
