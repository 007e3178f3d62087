"""The way that some of a border's tensors take over it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.distributed as dist

from mimo import groups
from mimo.first_use import ReplicaCheck
from mimo.layout import B, I, P, Sbp
from mimo.placement import Placement
from mimo.plan import Plan


@dataclass
class Crossing:
    """An edge between two placements, and how this rank carries it out.

    Attributes:
        edge: the edge's canonical text.
        plan: its plan for the smallest sizes that both layouts divide: any that fit have its kind.
        op: the operator that carries it out.
        parts: how many parts the source cuts each dimension into, as far as the edge splits any.
        rank_sets: the groups of ranks that it needs, the same on every rank of the job.
        group: the name of this rank's group, or None where nothing has to move.
        replicas: what watches the gradients of ranks that hold the result invariantly, if any.
        sizes: the logical sizes of the last tensor that took it in eager mode, or None.
        dtype: that tensor's dtype, or None.
    """

    edge: str
    plan: Plan
    op: torch._ops.OpOverload
    parts: list[int]
    rank_sets: list[list[int]]
    group: str | None
    replicas: ReplicaCheck | None
    sizes: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None

    @classmethod
    def declared(
        cls,
        border: str,
        declared: Sbp | str | None,
        source: Placement,
        destination: Placement,
        *,
        is_default: bool = False,
    ) -> Crossing:
        """What a declaration means between two placements.

        Args:
            border: the border's name.
            declared: the entry of the `dp` axis on both sides, all others I; None for I; or the
                text of both sides' entries, such as `[S(0)] -> [S(0),B]`.
            source: where tensors come from.
            destination: where they go.
            is_default: nobody declared it: where nothing moves, nothing is watched either.

        Raises:
            ValueError: the text is no edge between the placements; the message names the border.
            NotImplementedError: there is no plan for the edge or for its gradients.
        """
        try:
            plan = Plan.of_smallest(_edge(declared, source, destination))
            plan.adjoint()
        except (ValueError, NotImplementedError) as error:
            raise type(error)(f"{border}: {error}") from None
        replicas = None
        group = None
        moves = plan.kind != "identity"
        axes = torch.ops.mimo.invariant_axes(plan.edge) if moves or not is_default else []
        if dist.get_rank() in destination.ranks:
            group = groups.name_of(plan.group(dist.get_rank())) if moves else None
            if axes:
                replicas = ReplicaCheck(border, plan.edge, axes, _peers(destination, axes))
        op = torch.ops.mimo.fan_out if plan.kind == "slice" else torch.ops.mimo.fan_in
        parts = torch.ops.mimo.source_parts(plan.edge)
        rank_sets = (plan.groups() if moves else []) + (
            destination.groups_along(axes) if axes else []
        )
        return cls(plan.edge, plan, op.default, parts, rank_sets, group, replicas)

    @property
    def moves(self) -> bool:
        """Whether a tensor has to change."""
        return self.group is not None

    def stay(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that does not move: itself, or a view while its gradient is to be watched."""
        if self.replicas is None or not self.replicas.wants(tensor):
            return tensor
        view = tensor.view_as(tensor)
        self.replicas.watch(view)
        return view

    def logical_sizes(self, tensor: torch.Tensor) -> list[int]:
        """The sizes of the whole of which this rank holds `tensor`; they are noted for `explain`.

        Raises:
            ValueError: the tensor has too few dimensions.
        """
        sizes = list(tensor.shape)
        if len(sizes) < len(self.parts):
            raise ValueError(
                f"{self.edge} splits dimension {len(self.parts) - 1} of a tensor of shape {sizes}"
            )
        for dim, parts in enumerate(self.parts):
            sizes[dim] = sizes[dim] * parts
        if not torch.compiler.is_compiling():
            self.sizes, self.dtype = tuple(sizes), tensor.dtype
        return sizes


def _edge(declared: Sbp | str | None, source: Placement, destination: Placement) -> str:
    """The text of the whole edge."""
    if declared in (B, P):
        raise ValueError(
            f"{declared} alone does not say what lies on the other side: declare the whole edge, "
            f'such as "[S(0)] -> [dp=S(0),tp={declared}]"'
        )
    if isinstance(declared, str):
        before, arrow, after = declared.partition("->")
        if not arrow:
            raise ValueError(
                f'"{declared}" is no edge: expected mimo.S(dim), mimo.I, or two layouts and an '
                'arrow, such as "[S(0)] -> [dp=S(0),tp=I]"; "own" stands alone, for all inputs'
            )
        return f"{source}{before.strip()} -> {destination}{after.strip()}"
    entry = I if declared is None else declared
    layouts = [
        placement.layout([entry if axis == "dp" else I for axis in placement.axes])
        for placement in (source, destination)
    ]
    return " -> ".join(layouts)


def _peers(placement: Placement, axes: Collection[str]) -> list[int]:
    """The ranks that differ from this one on these axes only, itself included."""
    rank = dist.get_rank()
    return next(peers for peers in placement.groups_along(axes) if rank in peers)
