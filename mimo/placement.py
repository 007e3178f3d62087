"""Where a module lives: a named mesh of ranks."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from mimo.layout import I, S, Sbp


class Placement:
    """The ranks a module runs on, as a mesh of named axes.

    Axes are given from slowest to fastest: `Placement("language", dp=2, tp=4)` has ranks 0 to 3 in
    its first data-parallel part. The same module in the text form: `language{dp:2,tp:4}`.

    Args:
        name: what messages, edges and pictures call it.
        offset: the first rank.
        **sizes: the size of each axis, e.g. `dp=4, tp=2`.

    Raises:
        ValueError: for bad names and sizes; the message names the axis and its value.
    """

    def __init__(self, name: str, *, offset: int = 0, **sizes: int) -> None:
        axes = ",".join(f"{axis}:{size}" for axis, size in sizes.items())
        self._init(name, f"{{{axes}}}+{offset}")

    @classmethod
    def parse(cls, text: str) -> Placement:
        """A placement from its text, e.g. `vision{dp:4@2,tp:2@1}+8`, strides and offset free."""
        name, brace, rest = text.partition("{")
        placement = cls.__new__(cls)
        placement._init(name.strip(), brace + rest)
        return placement

    def _init(self, name: str, mesh: str) -> None:
        self.name = name
        try:
            self._mesh = torch.classes.mimo.Mesh(mesh)
            torch.ops.mimo.check_placement_name(name)
        except ValueError as error:
            raise ValueError(f"placement {name}: {error}") from None

    @property
    def mesh_text(self) -> str:
        """The mesh's canonical text, e.g. `{dp:4,tp:2}`."""
        return self._mesh.text()

    @property
    def ranks(self) -> list[int]:
        """All ranks in the order of their numbering, the last axis fastest."""
        return self._mesh.ranks()

    @property
    def num_ranks(self) -> int:
        """How many ranks the placement has."""
        return len(self.ranks)

    @property
    def axes(self) -> dict[str, int]:
        """The size of each axis, slowest first."""
        return dict(zip(self._mesh.names(), self._mesh.sizes(), strict=True))

    def size(self, axis: str) -> int:
        """The size of an axis; 1 for one the placement does not have."""
        return self.axes.get(axis, 1)

    def coordinate(self, axis: str, rank: int | None = None) -> int:
        """Where a rank (this process's by default) lies on an axis; 0 for an absent axis.

        Raises:
            ValueError: the rank is not in the placement.
        """
        rank = dist.get_rank() if rank is None else rank
        coordinates = self._mesh.coordinates_of(rank)
        if not coordinates:
            raise ValueError(f"rank {rank} is not in {self}")
        return dict(zip(self.axes, coordinates, strict=True)).get(axis, 0)

    def layout(self, entries: Sequence[Sbp] | None = None) -> str:
        """The text of a layout on this mesh.

        Args:
            entries: one for each axis; by default dimension 0 is split over `dp` and every other
                axis holds it invariant.
        """
        if entries is None:
            entries = [S(0) if axis == "dp" else I for axis in self.axes]
        return f"{self.name}{self.mesh_text}[{','.join(map(str, entries))}]"

    @functools.cached_property
    def device_mesh(self) -> DeviceMesh:
        """The same mesh for torch's FSDP2, DDP and tensor parallelism, made at first use.

        A collective call: all ranks of the job must ask for it, in the same order.
        """
        backend = dist.get_backend()
        device = "cuda" if "nccl" in backend else "cpu"
        return DeviceMesh(
            device,
            torch.tensor(self.ranks).reshape(list(self.axes.values())),
            mesh_dim_names=tuple(self.axes),
        )

    def __str__(self) -> str:
        return f"{self.name}{self.mesh_text}"

    def __repr__(self) -> str:
        return f"Placement.parse({str(self)!r})"
