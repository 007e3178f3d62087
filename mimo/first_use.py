"""What is checked once: ranks declare, load and send the same, and send back the same.

Compiled programs skip these checks: run one eager step first.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from mimo import groups
from mimo.declaration import Arguments, prefixes
from mimo.placement import Placement
from mimo.structure import take_apart_call

# Largest difference between replicas, relative to the largest gradient.
TOLERANCE = 1e-3
LOW_PRECISION_TOLERANCE = 3e-2


def check_same_program(words: Sequence[str], failure: Exception | None) -> None:
    """A collective call of all ranks of the job: all have the same borders and placements.

    Args:
        words: this rank's, one text each.
        failure: why this rank has none, if it failed.

    Raises:
        Exception: `failure`, on the rank that has it.
        ValueError: on every other rank where one failed, or on all, naming the first that
            differs.
    """
    reason = None if failure is None else f"{type(failure).__name__}: {failure}"
    by_rank = groups.gather_objects((list(words), reason), None, "mimo.attach")
    if failure is not None:
        raise failure
    for rank, (_, theirs) in enumerate(by_rank):
        if theirs is not None:
            raise ValueError(f"mimo.attach: rank {rank} failed: {theirs}")
    first = by_rank[0][0]
    for rank, (theirs, _) in enumerate(by_rank):
        if theirs == first:
            continue
        pairs = zip([*first, "nothing"], [*theirs, "nothing"], strict=False)
        right, other = next((a, b) for a, b in pairs if a != b)
        raise ValueError(
            f"mimo.attach: rank {rank} has {other} where rank 0 has {right}. Every rank must place "
            "the same modules in the same way"
        )


class Sent(NamedTuple):
    """What one rank takes over a border, as far as the others must have the same."""

    edge: str
    shape: list[int]
    dtype: str
    requires_grad: bool

    @property
    def kind(self) -> Sent:
        """All but the shape."""
        return self._replace(shape=[])

    def __str__(self) -> str:
        words = " that needs a gradient" if self.requires_grad else ""
        return f"{self.dtype.removeprefix('torch.')} {self.shape}{words} over {self.edge}"


def check_same_tensors(
    border: str,
    ranks: Sequence[int],
    sent: Mapping[str, Sent],
    exchanges: Mapping[str, Sequence[Sequence[int]]],
) -> None:
    """A collective call of all ranks of a border: all take the same tensors over it.

    Args:
        border: the border's name.
        ranks: its ranks.
        sent: this rank's tensors, by path.
        exchanges: by path, the groups of ranks whose parts must have the same shape.

    Raises:
        ValueError: on every rank alike, naming the border, two ranks and what each has.
        RuntimeError: ranks were waited for in vain.
    """
    edges = "; ".join(dict.fromkeys(each.edge for each in sent.values())) or "no edge"
    by_rank = _by_rank(ranks, dict(sent), f"{border}: first call, over {edges}")
    first = ranks[0]
    # Everyone has the same tensors; those who exchange one have parts of one shape.
    for rank in ranks:
        for path in by_rank[first] | by_rank[rank]:
            here, there = by_rank[first].get(path), by_rank[rank].get(path)
            if here is None or there is None or here.kind != there.kind:
                raise ValueError(
                    f"{border}: {path or 'the tensor'} is {here or 'not there'} on rank {first} "
                    f"but {there or 'not there'} on rank {rank}: every rank must pass the same"
                )
    for path, sets in exchanges.items():
        for peers in sets:
            for rank in peers:
                here, there = by_rank[peers[0]][path], by_rank[rank][path]
                if here.shape != there.shape:
                    raise ValueError(
                        f"{border}: {path or 'the tensor'} is {here} on rank {peers[0]} but "
                        f"{there.shape} on rank {rank}: only parts of equal shapes can cross yet"
                    )


class SampleCheck:
    """A pre-forward hook: at the first call, ranks that should hold the same samples do.

    Ranks of the outer placement with the same place on `dp` load the same samples.

    Args:
        model: the whole model.
        placement: the outer placement.
        own: the paths of arguments that each rank has for itself.
    """

    def __init__(self, model: nn.Module, placement: Placement, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._arguments = Arguments(model)
        self._placement = placement
        self._is_done = False

    def __call__(
        self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Raises ValueError on every rank of the placement, naming ranks and arguments."""
        if self._is_done or torch.compiler.is_compiling():
            return
        names = self._arguments.positional(len(arguments))
        call = take_apart_call(names, arguments, named)
        hashes = {
            path: _hash(value)
            for path, value in zip(call.paths, call.values, strict=True)
            if isinstance(value, torch.Tensor) and not self._own.intersection(prefixes(path))
        }
        by_rank = _by_rank(self._placement.ranks, hashes, f"{self._placement}: first call")
        others = [axis for axis in self._placement.axes if axis != "dp"]
        for peers in self._placement.groups_along(others):
            for rank in peers[1:]:
                if by_rank[rank] != by_rank[peers[0]]:
                    keys = sorted(by_rank[rank].keys() | by_rank[peers[0]].keys())
                    unlike = [
                        key for key in keys if by_rank[rank].get(key) != by_rank[peers[0]].get(key)
                    ]
                    raise ValueError(
                        f"{self._placement}: ranks {peers[0]} and {rank} differ on axis "
                        f"{' or '.join(others)} only, so they must load the same samples, but "
                        f"{' and '.join(unlike)} do not agree. If each rank has its own for a "
                        f'module with inputs="own": mimo.place(model, ..., inputs={{'
                        f'"{unlike[0]}": "own"}})'
                    )
        # Only now: whoever goes on after an error is checked again.
        self._is_done = True


def _by_rank(ranks: Sequence[int], value: Any, waiting: str) -> dict[int, Any]:  # noqa: ANN401
    """What each of the ranks has for `value`. A collective call of them."""
    values = groups.gather_objects(value, groups.get(ranks), waiting)
    return dict(zip(sorted(ranks), values, strict=True))


def _hash(tensor: torch.Tensor) -> str:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    data = local.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return f"{tensor.dtype} {list(tensor.shape)} {hashlib.sha256(data).hexdigest()}"


class ReplicaCheck:
    """Sees whether gradients at an invariant axis agree, in the first backward that is not zero.

    Backwards whose gradients are not finite prove nothing and are passed over.

    Args:
        border: the border's name.
        edge: the edge whose destination the ranks hold invariantly.
        axes: the names of those axes.
        ranks: this rank's peers along them, itself included.
    """

    def __init__(self, border: str, edge: str, axes: Sequence[str], ranks: Sequence[int]) -> None:
        self._border = border
        self._edge = edge
        self._axes = axes
        self._ranks = sorted(ranks)
        self._is_done = False

    def wants(self, tensor: torch.Tensor) -> bool:
        """Whether there is a gradient yet to be seen."""
        differentiable = tensor.requires_grad and torch.is_grad_enabled()
        return not self._is_done and differentiable and not torch.compiler.is_compiling()

    def watch(self, tensor: torch.Tensor) -> None:
        """Looks at the tensor's gradient, if it will have one."""
        if self.wants(tensor):
            none = functools.partial(
                torch.zeros, tensor.shape, dtype=tensor.dtype, device=tensor.device
            )
            tensor.register_hook(lambda gradient: self._check(gradient, none))

    def _check(self, gradient: torch.Tensor | None, none: Callable[[], torch.Tensor]) -> None:
        """A collective call of the peers.

        Args:
            gradient: this rank's, or None where nobody used the tensor: that counts as zeros.
            none: makes those zeros.

        Raises:
            RuntimeError: on all peers, naming the border and how far they are apart.
        """
        if self._is_done:
            return
        waiting = f"{self._border}: first gradient over {self._edge}"
        mine = none() if gradient is None else gradient.detach().contiguous()
        by_rank = groups.gather_tensors(mine, groups.get(self._ranks), waiting)
        largest = [each.abs().max().item() for each in by_rank if each.numel()]
        if not all(map(math.isfinite, largest)) or not any(largest):
            return
        scale = max(largest)
        self._is_done = True
        low = mine.dtype in (torch.float16, torch.bfloat16)
        tolerance = LOW_PRECISION_TOLERANCE if low else TOLERANCE
        for rank, theirs in zip(self._ranks, by_rank, strict=True):
            apart = (theirs - by_rank[0]).abs().max().item()
            if not apart <= tolerance * scale:
                raise RuntimeError(
                    f"{self._border}: gradients differ along {', '.join(self._axes)} where "
                    f"{self._edge} says I: ranks {self._ranks[0]} and {rank} are {apart:.3g} "
                    f"apart, the largest is {scale:.3g}. Each rank uses the tensor for a purpose "
                    "of its own, which is B instead of I; B has no plan yet, so add the gradients "
                    "up over that axis before they reach the border"
                )
