"""How an edge is carried out: the plan that the C++ planner finds."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch


class Plan:
    """The plan of an edge for a tensor of given logical sizes. Needs no running job.

    Args:
        edge: the edge's text, e.g. `vision{dp:4}[S(0)] -> language{dp:2,tp:2}[S(0),I]`.
        sizes: the logical sizes of the tensor: of the whole, not of one rank's part.

    Raises:
        ValueError: bad text, or sizes that do not fit the layouts.
        NotImplementedError: no plan for this edge yet; the message names what differs.
    """

    def __init__(self, edge: str, sizes: Sequence[int]) -> None:
        for size in sizes:
            if not 0 <= size < 2**63:
                raise ValueError(
                    f"{edge}: logical size {size} of {list(sizes)} is not in [0, 2^63)"
                )
        self._plan = torch.classes.mimo.Plan(edge, list(sizes))

    def __reduce__(self) -> tuple[type[Plan], tuple[str, list[int]]]:
        # Copies and pickles plan anew: models that hold borders can be copied.
        return Plan, (self.edge, self.sizes)

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def of_smallest(cls, edge: str) -> Plan:
        """The plan for the smallest sizes that both of the edge's layouts divide."""
        source = torch.ops.mimo.source_parts(edge)
        destination = torch.ops.mimo.destination_parts(edge)
        return cls(edge, [math.lcm(*parts) for parts in zip(source, destination, strict=True)])

    @property
    def kind(self) -> str:
        """`identity`, `slice` or `all-gather`."""
        return self._plan.kind()

    @property
    def edge(self) -> str:
        """The edge's canonical text."""
        return self._plan.edge()

    @property
    def sizes(self) -> list[int]:
        """The logical sizes."""
        return self._plan.sizes()

    @property
    def group_axes(self) -> list[tuple[int, int]]:
        """(size, stride) of each axis of the groups that gather, slowest slot first."""
        return [(size, stride) for size, stride in self._plan.group_axes()]

    def group(self, rank: int) -> list[int]:
        """The ranks that gather with `rank`, in slot order: as their parts lie in the whole."""
        return self._plan.group(rank)

    def groups(self) -> list[list[int]]:
        """All groups, in the order of their smallest ranks."""
        return self._plan.groups()

    def bytes_received(self, dtype: torch.dtype) -> int:
        """Bytes that each rank gets from others; it sends as many."""
        return self._plan.elements_received() * dtype.itemsize

    def adjoint(self) -> Plan:
        """The plan that gradients take back."""
        return Plan(torch.ops.mimo.adjoint_edge(self.edge), self.sizes)
