"""The digits model on two layouts against one process: losses and gradients in fp64."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from unittest import mock

import digits_data
import pytest
import torch
import torch.distributed as dist
from digits_model import Config, DigitsModel
from digits_parallel import distribute, placement

import mimo
from mimo.border import Border
from tests.support import ranks

STEPS = 5
BATCH_SIZE = 8
TOLERANCE = 1e-10
WIDTHS = Config(width=16, heads=2, vision_blocks=1, language_blocks=1)

# Default of the main job, and one that fans out.
PAIRS = [("dp=4", "dp=2,tp=2"), ("dp=2,tp=2", "dp=4")]


def global_batch(step: int) -> digits_data.Batch:
    """A batch whose parts have unlike numbers of valid tokens, on step 2 none in the first half."""
    batch = digits_data.training_batch(step, BATCH_SIZE, seed=0)
    if step == 2:
        batch.labels[: BATCH_SIZE // 2] = digits_data.IGNORED
    if step == 3:
        batch.labels[:] = digits_data.IGNORED
    return batch


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def difference(ours: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference, relative to the largest right value where that is above 1."""
    assert ours.shape == right.shape
    return ((ours - right).abs().max() / right.abs().max().clamp(min=1)).item()


def largest_difference(vision: str, language: str, steps: int) -> float:
    """On every rank: trains the model on layouts and in one process, and compares each step."""
    torch.manual_seed(0)
    right = DigitsModel(WIDTHS).double()
    model = copy.deepcopy(right)
    outer = placement("language", language)
    distribute(model, placement("vision", vision), outer)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, right)]
    rows = BATCH_SIZE // outer.size("dp")
    part = outer.coordinate("dp")
    largest = 0.0
    for step in range(steps):
        batch = global_batch(step)
        mine = batch.rows(part * rows, (part + 1) * rows)
        loss = mimo.token_loss(model(mine.tokens, mine.images.double()), mine.labels, outer)
        loss.backward()
        logits = right(batch.tokens, batch.images.double())
        right_loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), reduction="sum"
        ) / max(1, int((batch.labels != digits_data.IGNORED).sum()))
        right_loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        largest = max(largest, difference(total / outer.size("tp"), right_loss.detach()))
        for (name, ours), (right_name, theirs) in zip(
            model.named_parameters(), right.named_parameters(), strict=True
        ):
            assert name == right_name
            largest = max(largest, difference(whole(ours.grad), theirs.grad))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return largest


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
    cross = Border.cross

    def wrong(border: Border, tensor: torch.Tensor) -> torch.Tensor:
        if backward:
            gathers = border.plan.kind == "slice" and tensor.requires_grad
            tensor = ChangedBackward.apply(tensor, change) if gathers else tensor
            return cross(border, tensor)
        output = cross(border, tensor)
        return change(output) if border.plan.kind == "all-gather" else output

    with mock.patch.object(Border, "cross", wrong):
        yield


def check(vision: str, language: str) -> dict[str, float]:
    """On every rank: the largest difference as it is, and with each fault planted."""
    differences = {"none": largest_difference(vision, language, STEPS)}
    for fault, change in FAULTS.items():
        with planted(change, backward=False):
            differences[fault] = largest_difference(vision, language, 1)
        if language.startswith("dp=4"):
            with planted(change, backward=True):
                differences[f"{fault} in the gradient"] = largest_difference(vision, language, 1)
    mimo.destroy()
    return differences


@pytest.mark.parametrize(("vision", "language"), PAIRS)
def test_losses_and_gradients_equal_one_process(vision: str, language: str) -> None:
    differences = ranks.run(check, 4, vision, language)
    assert differences.pop("none") <= TOLERANCE
    assert len(differences) >= len(FAULTS)
    assert all(found > 1e-4 for found in differences.values()), differences
