"""What borders cost this process."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Traffic(NamedTuple):
    """Totals since the start of the process, forward and backward.

    Attributes:
        calls: boxing ops carried out.
        seconds: wall-clock time in them, waiting for other ranks included.
        bytes: bytes received from other ranks.
    """

    calls: int
    seconds: float
    bytes: int


def traffic() -> Traffic:
    """The totals up to now."""
    calls, nanoseconds, received = torch.ops.mimo.traffic()
    return Traffic(calls, nanoseconds * 1e-9, received)
