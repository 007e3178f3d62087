"""One crossing of a module's inputs or outputs, carried out by the boxing ops."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from mimo.crossing import Crossing
from mimo.declaration import Arguments, Declaration, flatten, prefixes
from mimo.first_use import Sent, check_same_tensors
from mimo.layout import S
from mimo.placement import Placement
from mimo.structure import Structure, holds_tensors, take_apart, take_apart_call


class Border:
    """The border on one side of a placed module; as a hook it takes the module's tensors across.

    Args:
        path: the module's path in the attached model.
        module: the module.
        side: "input" or "output".
        source: where the tensors come from.
        destination: where they go.
        declaration: what each tensor's edge is, by name; see `mimo.place`.

    Attributes:
        path: as given.
        side: as given.
        crossings: by declared path, what its tensors do; the default crossing is under None.

    Raises:
        ValueError: a declared edge is no text of an edge between the two placements.
        NotImplementedError: there is no plan for an edge or for its gradients.
    """

    def __init__(
        self,
        path: str,
        module: nn.Module,
        side: str,
        *,
        source: Placement,
        destination: Placement,
        declaration: Declaration,
    ) -> None:
        self.path = path
        self.side = side
        self._arguments = Arguments(module)
        self._source = source
        self._destination = destination
        self._by_path: dict[str, Crossing | None] = {}
        self._is_first = True
        self.crossings: dict[str | None, Crossing] = {}
        if declaration is not None:
            for below, declared in flatten(declaration):
                self.crossings[below] = self._crossing(declared, is_default=False)
        self._is_declared = bool(self.crossings)
        try:
            self.crossings[None] = self._crossing(S(0), is_default=True)
        except NotImplementedError:
            # Where every tensor is declared nobody takes the default.
            if not self.crossings:
                raise

    @property
    def name(self) -> str:
        """The border's name in tables and errors, e.g. `visual.output`."""
        return f"{self.path}.{self.side}"

    @property
    def acts(self) -> bool:
        """Whether a tensor may have to change, or its gradient to be watched."""
        return any(each.moves or each.replicas is not None for each in self.crossings.values())

    def _crossing(self, declared: Declaration, *, is_default: bool) -> Crossing:
        return Crossing.declared(
            self.name, declared, self._source, self._destination, is_default=is_default
        )

    def rank_sets(self) -> list[list[int]]:
        """The groups of ranks that the border needs, the same on every rank of the job."""
        return [ranks for each in self.crossings.values() for ranks in each.rank_sets]

    def describe(self) -> str:
        """The border's name, placements and edges, for comparing ranks."""
        edges = ", ".join(
            each.edge if path is None else f"{path or 'all'}: {each.edge}"
            for path, each in self.crossings.items()
        )
        return f"{self.name} ({edges})"

    def _declared(self, path: str) -> Crossing | None:
        """What is declared for the tensor at `path`, there or above it."""
        if path not in self._by_path:
            above = (self.crossings[each] for each in prefixes(path) if each in self.crossings)
            self._by_path[path] = next(above, None)
        return self._by_path[path]

    def _crossing_of(
        self, path: str, tensor: torch.Tensor, *, beside_others: bool
    ) -> Crossing | None:
        """What the tensor at `path` does; None where there is nothing to do."""
        if tensor.dim() == 0:
            return None
        crossing = self._declared(path)
        if crossing is None:
            crossing = self.crossings.get(None)
            if crossing is None or crossing.moves:
                self._check_default(path, tensor, beside_others)
        return crossing

    def _check_default(self, path: str, tensor: torch.Tensor, beside_others: bool) -> None:
        """Only a lone floating-point tensor, with no declarations beside it, takes the default."""
        default = self.crossings.get(None)
        if self._is_declared or beside_others or not tensor.is_floating_point() or default is None:
            declared = ", ".join(each for each in self.crossings if each)
            edge = default.edge if default else f"{self._source} -> {self._destination}"
            raise ValueError(
                f"{self.name}: {path or 'the only tensor'} ({tensor.dtype} {list(tensor.shape)}) "
                f"would move over {edge}, so it must be declared. If its rows are split as the "
                f"samples are: {self._line(path, 'S(0)')}; if every rank holds the whole: "
                f"{self._line(path, 'I')}. Declared is: {declared or 'nothing'}"
            )

    def _line(self, path: str, entry: str) -> str:
        """The line of Python that declares the tensor at `path`."""
        words = self.path.split(".")
        dotted = all(word.isidentifier() for word in words)
        module = f"model.{self.path}" if dotted else f'model.get_submodule("{self.path}")'
        written = f'{{"{path}": mimo.{entry}}}' if path else f"mimo.{entry}"
        return f"mimo.place({module}, ..., {self.side}s={written})"

    def __call__(self, module: nn.Module, *call: Any) -> Any:  # noqa: ANN401  a hook's type
        """The hook: `(module, args, kwargs)` before the forward, `(module, args, output)` after.

        Raises:
            ValueError: a tensor that would move is not declared, does not fit its edge or, at the
                first call, differs between ranks.
            TypeError: tensors lie where torch's pytree cannot look.
            NotImplementedError: there is no plan for an edge and these sizes.
            RuntimeError: others did not come within the time limit, or the border is entered again
                in a backward.
        """
        # The task's number is -1 while no backward runs.
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            raise RuntimeError(
                f"{self.name}: the border is entered again by a recomputation in the backward; "
                "put activation checkpointing inside the placed module, not around it"
            )
        if self.side == "output":
            output = call[-1]
            if isinstance(output, torch.Tensor):
                return self._cross_lone("", output)
            return self._cross_structure(take_apart(output))
        arguments, named = call
        names = self._arguments.positional(len(arguments))
        if not named and len(arguments) == 1 and isinstance(arguments[0], torch.Tensor):
            return (self._cross_lone(names[0], arguments[0]),), named
        return self._cross_structure(take_apart_call(names, arguments, named))

    def _cross_lone(self, path: str, tensor: torch.Tensor) -> torch.Tensor:
        """One tensor on its own: the same as `_cross_values`, with less for the host to do."""
        if self._is_first:
            return self._cross_values([path], [tensor])[0]
        crossing = self._crossing_of(path, tensor, beside_others=False)
        if crossing is None:
            return tensor
        if not crossing.moves:
            return crossing.stay(tensor)
        (crossed,) = self.call([tensor], [crossing])
        if crossing.replicas is not None:
            crossing.replicas.watch(crossed)
        return crossed

    def _cross_structure(self, structure: Structure) -> Any:  # noqa: ANN401  any structure
        for path, value in zip(structure.paths, structure.values, strict=True):
            if not isinstance(value, torch.Tensor):
                self._check_no_tensors_inside(path, value)
        return structure.rebuild(self._cross_values(structure.paths, structure.values))

    def _check_no_tensors_inside(self, path: str, value: Any) -> None:  # noqa: ANN401
        """What torch cannot look into may not hold tensors that have to move."""
        crossing = self._declared(path)
        if (crossing is None or crossing.moves) and holds_tensors(value):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise TypeError(
                f"{self.name}: {path or 'the only value'} is a {kind} with tensors inside, which "
                "torch's pytree cannot look into: register the type with "
                "torch.utils._pytree.register_pytree_node, pass a dict or a dataclass, or, if "
                f"every rank holds the whole, declare it: {self._line(path, 'I')}"
            )

    def _cross_values(self, paths: list[str], values: list[Any]) -> list[Any]:
        tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        others = len(tensors) > 1 and sum(values[i].dim() > 0 for i in tensors) > 1
        moved, crossings = [], []
        checked = {}
        values = list(values)
        for i in tensors:
            crossing = self._crossing_of(paths[i], values[i], beside_others=others)
            if crossing is None:
                continue
            checked[paths[i]] = (values[i], crossing)
            if crossing.moves:
                moved.append(i)
                crossings.append(crossing)
        if self._is_first and not torch.compiler.is_compiling():
            self._warn_of_unmatched(paths)
            self._check_same(checked)
            # Only now: whoever goes on after an error is checked again.
            self._is_first = False
        for i in tensors:
            crossing = checked.get(paths[i], (None, None))[1]
            if crossing is not None and not crossing.moves:
                values[i] = crossing.stay(values[i])
        crossed = self._cross([values[i] for i in moved], crossings)
        for i, crossing, tensor in zip(moved, crossings, crossed, strict=True):
            if crossing.replicas is not None:
                crossing.replicas.watch(tensor)
            values[i] = tensor
        return values

    def _warn_of_unmatched(self, paths: list[str]) -> None:
        """A declaration below an argument that is there, or of an output, should meet something."""
        present = {each for path in paths for each in prefixes(path)}
        for declared in self.crossings:
            argument = (declared or "").partition(".")[0]
            is_expected = self.side == "output" or argument in present
            if declared is not None and declared not in present and is_expected:
                warnings.warn(
                    f"{self.name}: {declared} is declared but is not there; there are "
                    f"{', '.join(paths) or 'no values'}",
                    stacklevel=2,
                )

    def _check_same(self, checked: dict[str, tuple[torch.Tensor, Crossing]]) -> None:
        sent = {}
        for path, (tensor, crossing) in checked.items():
            differentiable = tensor.requires_grad and torch.is_grad_enabled()
            shape = list(tensor.shape)
            sent[path] = Sent(crossing.edge, shape, str(tensor.dtype), differentiable)
        exchanges = {path: crossing.plan.groups() for path, (_, crossing) in checked.items()}
        check_same_tensors(self.name, self._destination.ranks, sent, exchanges)

    def _cross(
        self, tensors: Sequence[torch.Tensor], crossings: Sequence[Crossing]
    ) -> list[torch.Tensor]:
        """Takes this rank's parts of tensors over the border, in one op a group."""
        calls: dict[tuple[torch._ops.OpOverload, str | None], list[int]] = {}
        for i, crossing in enumerate(crossings):
            calls.setdefault((crossing.op, crossing.group), []).append(i)
        outputs: list[torch.Tensor] = list(tensors)
        for indices in calls.values():
            results = self.call([tensors[i] for i in indices], [crossings[i] for i in indices])
            for i, result in zip(indices, results, strict=True):
                outputs[i] = result
        return outputs

    def call(
        self, tensors: Sequence[torch.Tensor], crossings: Sequence[Crossing]
    ) -> list[torch.Tensor]:
        """One op for tensors that share it and the group.

        Args:
            tensors: the parts in their source layouts, of equal shapes on all ranks of the group.
            crossings: what each does; all of them move.

        Returns:
            The parts in their destination layouts, fresh tensors.

        Raises:
            ValueError: a tensor has too few dimensions for its edge.
            NotImplementedError: there is no plan for an edge and these sizes.
            RuntimeError: others did not come within the time limit, or failed.
        """
        sizes, edges = [], []
        for tensor, crossing in zip(tensors, crossings, strict=True):
            try:
                sizes += crossing.logical_sizes(tensor)
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}") from None
            edges.append(crossing.edge)
        return crossings[0].op(tensors, edges, sizes, [], crossings[0].group)
