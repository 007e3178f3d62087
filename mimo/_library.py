"""Loads the plugin's shared library, once, when `mimo` is imported."""

from __future__ import annotations

from pathlib import Path

import torch


def _find() -> Path:
    """The library beside this file (installed, or in Bazel's runfiles) or in a clone's build."""
    here = Path(__file__).parent
    candidates = [here / "libmimo.so", here.parent / "bazel-bin" / "mimo" / "libmimo.so"]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise ImportError(
        f"libmimo.so is neither {' nor '.join(map(str, candidates))}: run ./bazelw build //mimo"
    )


torch.ops.load_library(str(_find()))
