"""The digits model on two layouts against one process: losses and gradients in fp64."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

import torch

import mimo
from mimo.border import Border
from mimo.crossing import Crossing
from tests.support import ranks
from tests.support.parity import Run, largest_difference, small_config

TOLERANCE = 1e-10

# Default of the main job, and one that fans out; on four ranks.
FAN_IN, FAN_OUT = Run("dp=4", "dp=2,tp=2"), Run("dp=2,tp=2", "dp=4")
SEVERAL_MICROBATCHES = [
    replace(FAN_IN, microbatches=4),
    replace(FAN_OUT, microbatches=4, fsdp=False),
]

ON_EIGHT_RANKS = {
    "fan-in": ("dp=4,tp=2", "dp=2,tp=4"),
    "fan-out": ("dp=2,tp=4", "dp=4,tp=2"),
    "equal": ("dp=4,tp=2", "dp=4,tp=2"),
    "tp only": ("tp=8", "tp=8"),
    "dp only": ("dp=8", "dp=8"),
    "dp to tp": ("dp=8", "tp=8"),
    "tp to dp": ("tp=8", "dp=8"),
}


class ChangedBackward(torch.autograd.Function):
    """Hands a tensor on; `change` is made to its gradient."""

    @staticmethod
    def forward(
        context: torch.autograd.function.FunctionCtx,
        tensor: torch.Tensor,
        change: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        context.change = change
        return tensor.clone()

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        return context.change(gradient), None


def drop_sibling(tensor: torch.Tensor) -> torch.Tensor:
    """What a gather that leaves its second sibling out would give."""
    half = len(tensor) // 2
    return torch.cat([tensor[:half], torch.zeros_like(tensor[half:])])


def swap_slots(tensor: torch.Tensor) -> torch.Tensor:
    """What a gather with its two slots the wrong way round would give."""
    half = len(tensor) // 2
    return torch.cat([tensor[half:], tensor[:half]])


FAULTS = {"sibling dropped": drop_sibling, "slots swapped": swap_slots, "doubled": lambda t: 2 * t}


@contextlib.contextmanager
def planted(change: Callable[[torch.Tensor], torch.Tensor], backward: bool) -> Iterator[None]:
    """Changes what a border hands on: forward what is gathered, or backward all that is."""
    call = Border.call

    def wrong(
        border: Border, tensors: list[torch.Tensor], crossings: list[Crossing]
    ) -> list[torch.Tensor]:
        if backward:
            tensors = [
                ChangedBackward.apply(tensor, change)
                if crossing.plan.kind == "slice" and tensor.requires_grad
                else tensor
                for tensor, crossing in zip(tensors, crossings, strict=True)
            ]
            return call(border, tensors, crossings)
        return [
            change(output) if crossing.plan.kind == "all-gather" else output
            for output, crossing in zip(call(border, tensors, crossings), crossings, strict=True)
        ]

    with mock.patch.object(Border, "call", wrong):
        yield


def check_faults() -> dict[str, dict[str, float]]:
    """On every rank: the largest difference of runs as they are, and with each fault planted."""
    right = {str(run): largest_difference(run) for run in (FAN_IN, FAN_OUT, *SEVERAL_MICROBATCHES)}
    wrong = {}
    for name, run in (("fan-in", FAN_IN), ("fan-out", FAN_OUT)):
        for fault, change in FAULTS.items():
            with planted(change, backward=False):
                wrong[f"{name}, {fault}"] = largest_difference(replace(run, steps=1))
            if run is FAN_OUT:
                with planted(change, backward=True):
                    wrong[f"{name}, {fault} back"] = largest_difference(replace(run, steps=1))
    mimo.destroy()
    return {"right": right, "wrong": wrong}


def check_pairs() -> dict[str, float]:
    """On each of eight ranks: the largest difference of every pair, with FSDP2 and without."""
    config = small_config(heads=8)
    runs = [
        Run(*pair, fsdp=i % 2 == 0, config=config) for i, pair in enumerate(ON_EIGHT_RANKS.values())
    ]
    differences = {f"{run}": largest_difference(run) for run in runs}
    mimo.destroy()
    return differences


def test_losses_and_gradients_equal_one_process_and_faults_show() -> None:
    differences = ranks.run(check_faults, 4)
    right, wrong = differences["right"], differences["wrong"]
    assert len(right) == 4
    assert all(found <= TOLERANCE for found in right.values()), right
    assert len(wrong) == 3 * len(FAULTS)
    assert all(found > 1e-4 for found in wrong.values()), wrong


def test_every_pair_of_layouts_equals_one_process() -> None:
    differences = ranks.run(check_pairs, 8)
    assert len(differences) == len(ON_EIGHT_RANKS)
    assert all(found <= TOLERANCE for found in differences.values()), differences
