"""Where a module lives: a named mesh of ranks."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from mimo.layout import I, S, Sbp

DEFAULT_TIMEOUT = datetime.timedelta(minutes=10)


class Placement:
    """The ranks a module runs on, as a mesh of named axes.

    Axes are given from slowest to fastest: `Placement("language", dp=2, tp=4)` has ranks 0 to 3 in
    its first data-parallel part. The same module in the text form: `language{dp:2,tp:4}`.

    Args:
        name: what messages, edges and pictures call it.
        offset: the first rank.
        timeout: how long a rank waits for the others at a border; of a model's placements the
            smallest counts. Groups that exist already keep theirs.
        **sizes: the size of each axis, e.g. `dp=4, tp=2`.

    Attributes:
        name: as given.
        timeout: as given.
        given_mesh: the mesh it was made from, if any; borders use that mesh's groups.

    Raises:
        ValueError: for bad names and sizes; the message names the axis and its value.
        TypeError: the name is no text or a size no whole number.
    """

    def __init__(
        self,
        name: str,
        *,
        offset: int = 0,
        timeout: datetime.timedelta = DEFAULT_TIMEOUT,
        **sizes: int,
    ) -> None:
        _check_types(name, sizes | {"offset": offset})
        axes = ",".join(f"{axis}:{size}" for axis, size in sizes.items())
        self._init(name, f"{{{axes}}}+{offset}", timeout)

    @classmethod
    def parse(cls, text: str, *, timeout: datetime.timedelta = DEFAULT_TIMEOUT) -> Placement:
        """A placement from its text, e.g. `vision{dp:4@2,tp:2@1}+8`, strides and offset free.

        Raises:
            ValueError: bad text, names or values.
        """
        name, brace, rest = text.partition("{")
        placement = cls.__new__(cls)
        placement._init(name.strip(), brace + rest, timeout)
        return placement

    @classmethod
    def from_ranks(
        cls,
        name: str,
        ranks: Sequence[int],
        *,
        timeout: datetime.timedelta = DEFAULT_TIMEOUT,
        **sizes: int,
    ) -> Placement:
        """A placement on listed ranks, the last axis fastest, e.g. `[0, 2, 1, 3], dp=2, tp=2`.

        Raises:
            TypeError: as for `Placement`.
            ValueError: the list has not one rank for each place, or its ranks are not evenly spaced
                along every axis.
        """
        _check_types(name, sizes)
        places = math.prod(sizes.values())
        words = ",".join(f"{axis}={size}" for axis, size in sizes.items())
        if places != len(ranks) or not ranks:
            raise ValueError(
                f"placement {name}: {len(ranks)} ranks {list(ranks)} for the {places} places of "
                f"{words}"
            )
        strides, step = {}, len(ranks)
        for axis, size in sizes.items():
            step //= max(1, size)
            strides[axis] = ranks[step] - ranks[0] if size > 1 and step < len(ranks) else 1
        if min(strides.values()) > 0:
            axes = ",".join(f"{axis}:{sizes[axis]}@{strides[axis]}" for axis in sizes)
            placement = cls.parse(f"{name}{{{axes}}}+{ranks[0]}", timeout=timeout)
            if placement.ranks == list(ranks):
                return placement
        raise ValueError(
            f"placement {name}: the ranks {list(ranks)} are not evenly spaced, upwards, along each "
            f"axis of {words}"
        )

    @classmethod
    def from_device_mesh(
        cls, name: str, mesh: DeviceMesh, *, timeout: datetime.timedelta = DEFAULT_TIMEOUT
    ) -> Placement:
        """A placement on an existing mesh with named dimensions; its groups are used, not remade.

        Args:
            name: what messages, edges and pictures call it.
            mesh: the mesh.
            timeout: the time limit of groups that the mesh has not; its own keep theirs.

        Raises:
            ValueError: the mesh has no dimension names, or ranks that are not evenly spaced.
        """
        if mesh.mesh_dim_names is None:
            raise ValueError(f"placement {name}: the DeviceMesh has no mesh_dim_names")
        sizes = dict(zip(mesh.mesh_dim_names, mesh.mesh.shape, strict=True))
        placement = cls.from_ranks(name, mesh.mesh.flatten().tolist(), timeout=timeout, **sizes)
        placement.given_mesh = mesh
        return placement

    def _init(self, name: str, mesh: str, timeout: datetime.timedelta) -> None:
        self.name = name
        self.timeout = timeout
        self.given_mesh: DeviceMesh | None = None
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
        return math.prod(self.axes.values())

    @property
    def axes(self) -> dict[str, int]:
        """The size of each axis, slowest first."""
        return dict(zip(self._mesh.names(), self._mesh.sizes(), strict=True))

    @property
    def strides(self) -> dict[str, int]:
        """How far apart neighbours on each axis are in rank numbers."""
        return dict(zip(self._mesh.names(), self._mesh.strides(), strict=True))

    @property
    def strided_text(self) -> str:
        """The placement with all strides that mean something, e.g. `language{dp:2@2,tp:2@1}`."""
        axes = ",".join(
            f"{axis}:{size}@{self.strides[axis]}" if size > 1 else f"{axis}:{size}"
            for axis, size in self.axes.items()
        )
        offset = min(self.ranks)
        return f"{self.name}{{{axes}}}" + (f"+{offset}" if offset else "")

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

    def groups_along(self, axes: Collection[str]) -> list[list[int]]:
        """The groups of ranks that differ on these axes only, each in their order there."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in self.ranks:
            where = dict(zip(self.axes, self._mesh.coordinates_of(rank), strict=True))
            rest = tuple(place for axis, place in where.items() if axis not in axes)
            groups.setdefault(rest, []).append(rank)
        return list(groups.values())

    def relation(self, other: Placement) -> str:
        """How two placements share ranks: `colocated` (all), `overlapping` or `disjoint`."""
        mine, theirs = set(self.ranks), set(other.ranks)
        if mine == theirs:
            return "colocated"
        return "overlapping" if mine & theirs else "disjoint"

    def describe(self) -> str:
        """The placement, its time limit and where its groups come from, for comparing ranks."""
        given = "" if self.given_mesh is None else " on a given mesh"
        return f"{self}{given} with a time limit of {self.timeout}"

    def role(self, destination: Placement, rank: int | None = None) -> str:
        """What a rank (this process's by default) does on the way from here to `destination`.

        Returns:
            `source`, `destination`, `both` or `neither`.
        """
        rank = dist.get_rank() if rank is None else rank
        sends, receives = rank in self.ranks, rank in destination.ranks
        if sends and receives:
            return "both"
        return "source" if sends else "destination" if receives else "neither"

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
        if self.given_mesh is not None:
            return self.given_mesh
        backend = dist.get_backend()
        device = "cuda" if "nccl" in backend else "cpu"
        return DeviceMesh(
            device,
            torch.tensor(self.ranks).reshape(list(self.axes.values())),
            mesh_dim_names=tuple(self.axes),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A mesh of torch's belongs to its job: a pickled placement makes its own.
        return functools.partial(Placement.parse, timeout=self.timeout), (str(self),)

    def __deepcopy__(self, memo: dict[int, object]) -> Placement:
        return self

    def __str__(self) -> str:
        return f"{self.name}{self.mesh_text}"

    def __repr__(self) -> str:
        return f"Placement.parse({str(self)!r})"


def _check_types(name: str, values: Mapping[str, int]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"placement {name!r}: a name is text, e.g. vision")
    for key, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"placement {name}: {key}={value!r} is no whole number")
