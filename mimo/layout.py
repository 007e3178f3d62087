"""How a tensor lies on a placement's ranks, in Python's words for the text form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sbp:
    """What one mesh axis does with a tensor.

    Attributes:
        text: the entry's text: "S(0)", "I", "B" or "P".
    """

    text: str

    def __str__(self) -> str:
        return self.text


def S(dim: int, *, rows: str | None = None) -> Sbp:  # noqa: N802  the field's name
    """Split along tensor dimension `dim`: each rank holds its part.

    Args:
        dim: the dimension, from 0.
        rows: for parts whose rows are known at run time only.

    Raises:
        ValueError: the dimension is negative.
        TypeError: the dimension is no whole number.
        NotImplementedError: `rows` is given: only even parts can cross yet.
    """
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"S({dim!r}): a dimension is a whole number")
    if dim < 0:
        raise ValueError(f"S({dim}): dimensions count from 0")
    if rows is not None:
        raise NotImplementedError(f"S({dim}, rows={rows!r}): only even parts can cross yet")
    return Sbp(f"S({dim})")


I = Sbp("I")
"""Invariant: every rank holds the whole and uses it identically; gradients arrive identical."""

B = Sbp("B")
"""Broadcast: every rank holds the whole for a purpose of its own; gradients arrive partial."""

P = Sbp("P")
"""Partial: the ranks' values add up to the whole."""
