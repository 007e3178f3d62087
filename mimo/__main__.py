"""The command line: `python -m mimo explain EDGE --shape 8,256,1024 --dtype bfloat16`."""

from __future__ import annotations

import argparse
import sys

import torch

from mimo.explain import explain_edge


def _shape(text: str) -> list[int]:
    try:
        return [int(size) for size in text.split(",")]
    except ValueError:
        message = f"{text!r}: expected whole numbers such as 8,256,1024"
        raise argparse.ArgumentTypeError(message) from None


def _dtype(text: str) -> torch.dtype:
    dtype = getattr(torch, text, None)
    if not isinstance(dtype, torch.dtype):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a torch dtype such as bfloat16")
    return dtype


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    parser = argparse.ArgumentParser(prog="mimo", description="Borders between placed modules.")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="how an edge is carried out")
    explain.add_argument("edge", help="'vision{dp:4,tp:2}[S(0),I] -> language{dp:2,tp:4}[S(0),I]'")
    explain.add_argument("--shape", type=_shape, required=True, help="logical sizes: 8,256,1024")
    explain.add_argument("--dtype", type=_dtype, default=torch.float32, help="torch dtype")
    options = parser.parse_args(arguments)
    try:
        print(explain_edge(options.edge, options.shape, options.dtype), end="")
    except (ValueError, NotImplementedError) as error:
        print(f"mimo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
