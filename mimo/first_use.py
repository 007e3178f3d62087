"""What is checked once: ranks declared the same, loaded the same and send back the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from mimo import groups
from mimo.declaration import argument_names, leaves_with_paths, positional_names
from mimo.placement import Placement

# Largest difference between replicas, relative to the largest gradient.
TOLERANCE = 1e-3
LOW_PRECISION_TOLERANCE = 3e-2


def check_same_borders(borders: Sequence[str]) -> None:
    """A collective call of all ranks of the job: everyone has the same borders in the same order.

    Raises:
        ValueError: on every rank alike, naming the first border that differs.
    """
    by_rank = groups.gather_objects(list(borders))
    for rank, theirs in enumerate(by_rank):
        if theirs == by_rank[0]:
            continue
        pairs = zip([*by_rank[0], "no border"], [*theirs, "no border"], strict=False)
        first, other = next((a, b) for a, b in pairs if a != b)
        raise ValueError(
            f"mimo.attach: rank {rank} has other borders than rank 0: {other} where rank 0 has "
            f"{first}. Every rank must place the same modules in the same way"
        )


class SampleCheck:
    """A pre-forward hook: at the first call, ranks that should hold the same samples do.

    Ranks of the outer placement with the same place on `dp` load the same samples.
    """

    def __init__(self, model: nn.Module, placement: Placement) -> None:
        self._positional = positional_names(model)
        self._placement = placement
        self._is_done = False

    def __call__(
        self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Raises ValueError on every rank of the placement, naming ranks and arguments."""
        if self._is_done or torch.compiler.is_compiling():
            return
        self._is_done = True
        tree = (
            dict(zip(argument_names(self._positional, len(arguments)), arguments, strict=True))
            | named
        )
        paths, leaves, _ = leaves_with_paths(tree)
        hashes = {
            path: _hash(leaf)
            for path, leaf in zip(paths, leaves, strict=True)
            if isinstance(leaf, torch.Tensor)
        }
        by_rank = dict(
            zip(
                sorted(self._placement.ranks),
                groups.gather_objects(hashes, groups.get(self._placement.ranks)),
                strict=True,
            )
        )
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
                        f"{', '.join(unlike)} differs"
                    )


def _hash(tensor: torch.Tensor) -> str:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    data = local.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return f"{tensor.dtype} {list(tensor.shape)} {hashlib.sha256(data).hexdigest()}"


class ReplicaCheck:
    """Sees whether gradients at an invariant axis agree, in the first backward that is not zero.

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
        self.is_done = False

    def watch(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same tensor; its gradient is looked at."""
        return _Watch.apply(tensor, self)

    def check(self, gradient: torch.Tensor) -> None:
        """A collective call of the peers.

        Raises:
            RuntimeError: on all peers, naming the border and how far they are apart.
        """
        group = groups.get(self._ranks)
        if self.is_done or dist.get_backend(group) == "fake":
            return
        mine = gradient.detach().contiguous()
        by_rank = [torch.empty_like(mine) for _ in self._ranks]
        dist.all_gather(by_rank, mine, group=group)
        scale = max(each.abs().max().item() if each.numel() else 0.0 for each in by_rank)
        if scale == 0:
            return
        self.is_done = True
        low = gradient.dtype in (torch.float16, torch.bfloat16)
        tolerance = LOW_PRECISION_TOLERANCE if low else TOLERANCE
        for rank, theirs in zip(self._ranks, by_rank, strict=True):
            apart = (theirs - by_rank[0]).abs().max().item()
            if not apart <= tolerance * scale:
                raise RuntimeError(
                    f"{self._border}: gradients differ along {', '.join(self._axes)} where "
                    f"{self._edge} says I: ranks {self._ranks[0]} and {rank} are {apart:.3g} "
                    f"apart, the largest is {scale:.3g}. If each rank uses the tensor for a "
                    "purpose of its own, declare that axis B instead of I"
                )


class _Watch(torch.autograd.Function):
    @staticmethod
    def forward(
        context: torch.autograd.function.FunctionCtx, tensor: torch.Tensor, check: ReplicaCheck
    ) -> torch.Tensor:
        context.check = check
        return tensor.view_as(tensor)

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        context.check.check(gradient)
        return gradient, None
