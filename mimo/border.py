"""One crossing of a module's inputs or outputs, carried out by the boxing ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from mimo import groups
from mimo.declaration import (
    Declaration,
    argument_names,
    flatten,
    leaves_with_paths,
    positional_names,
    prefixes,
)
from mimo.first_use import ReplicaCheck
from mimo.layout import B, I, P, S, Sbp
from mimo.placement import Placement
from mimo.plan import Plan


@dataclass
class Crossing:
    """The way that some of a border's tensors take.

    Attributes:
        edge: the edge's canonical text.
        plan: its plan for the smallest sizes that both layouts divide: any that fit have its kind.
        op: the operator that carries it out.
        parts: how many parts the source cuts each dimension into, as far as the edge splits any.
        group: the name of this rank's group, or None where nothing has to move.
        replicas: what watches the gradients of ranks that hold the result invariantly, if any.
        sizes: the logical sizes of the last tensor that took it in eager mode, or None.
        dtype: that tensor's dtype, or None.
    """

    edge: str
    plan: Plan
    op: torch._ops.OpOverload
    parts: list[int]
    group: str | None
    replicas: ReplicaCheck | None
    sizes: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None

    @property
    def moves(self) -> bool:
        """Whether a tensor has to change."""
        return self.group is not None

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


class Border:
    """The border on one side of a placed module; as a hook it takes the module's tensors across.

    Args:
        path: the module's path in the attached model.
        module: the module.
        side: "input" or "output".
        source: where the tensors come from.
        destination: where they go.
        declaration: what each tensor's edge is, see `mimo.place`.

    Attributes:
        crossings: by declared path, what its tensors do; the default crossing is under None.

    Raises:
        ValueError: a declared edge is no text of an edge between the two placements.
        NotImplementedError: there is no plan for an edge or for its gradients.
    """

    def __init__(
        self,
        path: str,
        module: torch.nn.Module,
        side: str,
        *,
        source: Placement,
        destination: Placement,
        declaration: Declaration,
    ) -> None:
        self.module = path
        self.side = side
        self._positional = positional_names(module)
        self._source = source
        self._destination = destination
        self._by_path: dict[str, Crossing | None] = {}
        self.crossings: dict[str | None, Crossing] = {}
        if declaration is not None:
            self.crossings |= {key: self._crossing(each) for key, each in flatten(declaration)}
        try:
            self.crossings[None] = self._crossing(S(0))
        except NotImplementedError:
            # Where every tensor is declared nobody takes the default.
            if not self.crossings:
                raise

    @property
    def name(self) -> str:
        """The border's name in tables and errors, e.g. `visual.output`."""
        return f"{self.module}.{self.side}"

    @property
    def moves(self) -> bool:
        """Whether any tensor may have to change."""
        return any(crossing.moves for crossing in self.crossings.values())

    def _crossing(self, declared: Sbp | str | None) -> Crossing:
        if declared in (B, P):
            raise ValueError(
                f"{self.name}: {declared} alone does not say what lies on the other side: declare "
                f'the whole edge, such as "[S(0)] -> [S(0),{declared}]"'
            )
        if isinstance(declared, str):
            before, arrow, after = declared.partition("->")
            if not arrow:
                raise ValueError(
                    f'{self.name}: "{declared}" is no edge: expected two layouts and an arrow, '
                    'such as "[S(0)] -> [S(0),B]"'
                )
            layouts = [
                f"{placement.name}{placement.mesh_text}{entries.strip()}"
                for placement, entries in ((self._source, before), (self._destination, after))
            ]
        else:
            entry = I if declared is None else declared
            layouts = [
                placement.layout([entry if axis == "dp" else I for axis in placement.axes])
                for placement in (self._source, self._destination)
            ]
        try:
            plan = Plan.of_smallest(" -> ".join(layouts))
            plan.adjoint()
        except (ValueError, NotImplementedError) as error:
            raise type(error)(f"{self.name}: {error}") from None
        moves = plan.kind != "identity" and dist.get_rank() in self._destination.ranks
        group = groups.name_of(plan.group(dist.get_rank())) if moves else None
        op = torch.ops.mimo.fan_out if plan.kind == "slice" else torch.ops.mimo.fan_in
        parts = torch.ops.mimo.source_parts(plan.edge)
        replicas = self._replicas(plan.edge) if moves else None
        return Crossing(plan.edge, plan, op.default, parts, group, replicas)

    def _replicas(self, edge: str) -> ReplicaCheck | None:
        axes = torch.ops.mimo.invariant_axes(edge)
        for peers in self._destination.groups_along(axes):
            if axes and dist.get_rank() in peers:
                return ReplicaCheck(self.name, edge, axes, peers)
        return None

    def rank_sets(self) -> list[list[int]]:
        """The groups of ranks that the border needs, the same on every rank of the job."""
        sets: list[list[int]] = []
        for crossing in self.crossings.values():
            if crossing.plan.kind != "identity":
                sets += crossing.plan.groups()
                sets += self._destination.groups_along(torch.ops.mimo.invariant_axes(crossing.edge))
        return [ranks for ranks in sets if len(ranks) > 1]

    def describe(self) -> str:
        """The border's name, placements and edges, for comparing ranks."""
        edges = ", ".join(f"{path}: {each.edge}" for path, each in self.crossings.items())
        return f"{self.name} ({edges})"

    def _declared(self, path: str) -> Crossing | None:
        """What is declared for the tensor at `path`, there or above it."""
        if path not in self._by_path:
            above = (self.crossings[each] for each in prefixes(path) if each in self.crossings)
            self._by_path[path] = next(above, None)
        return self._by_path[path]

    def _of(self, path: str, others: bool, tensor: torch.Tensor) -> Crossing | None:
        """What the tensor at `path` does; None where it stays as it is."""
        crossing = self._declared(path)
        if crossing is None:
            crossing = self.crossings.get(None)
            if tensor.dim() == 0:
                return None
            if crossing is None or crossing.moves:
                self._check_default(path, others, tensor)
        return crossing if crossing is not None and crossing.moves else None

    def _check_default(self, path: str, others: bool, tensor: torch.Tensor) -> None:
        """Only a floating-point tensor with no others beside it takes the default edge."""
        default = self.crossings.get(None)
        if default is not None and not others and tensor.is_floating_point():
            return
        edge = default.edge if default else f"{self._source} -> {self._destination}"
        written = f'{{"{path}": mimo.%s}}' if path else "mimo.%s"
        place = f"mimo.place(model.{self.module}, ..., {self.side}s="
        raise ValueError(
            f"{self.name}: {path or 'the only tensor'} ({tensor.dtype} {list(tensor.shape)}) "
            f"would move over {edge}, so it must be declared. If its rows are split "
            f"as the samples are: {place}{written % 'S(0)'}); if every rank holds the whole: "
            f"{place}{written % 'I'})"
        )

    def __call__(self, module: torch.nn.Module, *call: Any) -> Any:  # noqa: ANN401  a hook's type
        """The hook: `(module, args, kwargs)` before the forward, `(module, args, output)` after."""
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            raise RuntimeError(
                f"{self.name}: the border is entered again by a recomputation in the backward; "
                "put activation checkpointing inside the placed module, not around it"
            )
        if self.side == "output":
            output = call[-1]
            if isinstance(output, torch.Tensor):
                return self._cross_leaves([""], [output])[0]
            return self._cross_tree(output)
        arguments, named = call
        names = argument_names(self._positional, len(arguments))
        if not named and all(isinstance(argument, torch.Tensor) for argument in arguments):
            return tuple(self._cross_leaves(names, list(arguments))), named
        crossed = self._cross_tree(dict(zip(names, arguments, strict=True)) | named)
        return tuple(crossed[name] for name in names), {name: crossed[name] for name in named}

    def _cross_tree(self, tree: Any) -> Any:  # noqa: ANN401  any structure
        paths, leaves, spec = leaves_with_paths(tree)
        return pytree.tree_unflatten(self._cross_leaves(paths, leaves), spec)

    def _cross_leaves(self, paths: list[str], leaves: list[Any]) -> list[Any]:
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        others = len(tensors) > 1 and sum(leaves[i].dim() > 0 for i in tensors) > 1
        moved, crossings = [], []
        for i in tensors:
            crossing = self._of(paths[i], others, leaves[i])
            if crossing is not None:
                moved.append(i)
                crossings.append(crossing)
        crossed = self.cross([leaves[i] for i in moved], crossings)
        for i, crossing, tensor in zip(moved, crossings, crossed, strict=True):
            watch = crossing.replicas
            if watch is None or watch.is_done or not tensor.requires_grad:
                leaves[i] = tensor
            else:
                leaves[i] = tensor if torch.compiler.is_compiling() else watch.watch(tensor)
        return leaves

    def cross(
        self, tensors: Sequence[torch.Tensor], crossings: Sequence[Crossing]
    ) -> list[torch.Tensor]:
        """Takes this rank's parts of tensors over the border, in one op a group.

        Args:
            tensors: the parts in their source layouts; all ranks' parts have the same shapes.
            crossings: what each does; all of them move.

        Returns:
            The parts in their destination layouts, fresh tensors.

        Raises:
            ValueError: a tensor has too few dimensions for its edge.
            NotImplementedError: there is no plan for an edge and these sizes.
        """
        calls: dict[tuple[torch._ops.OpOverload, str | None], list[int]] = {}
        for i, crossing in enumerate(crossings):
            calls.setdefault((crossing.op, crossing.group), []).append(i)
        outputs: list[torch.Tensor] = list(tensors)
        for (op, group), indices in calls.items():
            parts = [tensors[i] for i in indices]
            edges = [crossings[i].edge for i in indices]
            try:
                sizes = [n for i in indices for n in crossings[i].logical_sizes(tensors[i])]
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}") from None
            for i, result in zip(indices, op(parts, edges, sizes, [], group), strict=True):
                outputs[i] = result
        return outputs
