"""The digits model on two layouts beside the same model in one process, step by step."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import digits_data
import torch
import torch.distributed as dist
from digits_model import Config, DigitsModel
from digits_parallel import place, placement, shard
from torch import nn

import mimo

BATCH_SIZE = 8


def small_config(heads: int = 2) -> Config:
    """Sizes that run in milliseconds."""
    return Config(width=16, heads=heads, vision_blocks=1, language_blocks=1)


@dataclass(frozen=True)
class Run:
    """How the model is trained.

    Attributes:
        vision: the encoder's axes.
        language: the language model's axes.
        steps: SGD steps.
        microbatches: how many each rank's part of the batch is cut into.
        fsdp: parameters are sharded by FSDP2; else gradients are summed by hand.
        config: the model's sizes.
    """

    vision: str
    language: str
    steps: int = 5
    microbatches: int = 1
    fsdp: bool = True
    config: Config = field(default_factory=small_config)


def global_batch(step: int, size: int) -> digits_data.Batch:
    """A batch whose parts have unlike numbers of valid tokens, in step 2 none in the first half."""
    batch = digits_data.training_batch(step, size, seed=0)
    if step == 2:
        batch.labels[: size // 2] = digits_data.IGNORED
    if step == 3:
        batch.labels[:] = digits_data.IGNORED
    return batch


def difference(ours: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference, relative to the largest right value where that is above 1."""
    assert ours.shape == right.shape
    return ((ours - right).abs().max() / right.abs().max().clamp(min=1)).item()


def _sum_by_hand(child: nn.Module, placed: mimo.Placement) -> None:
    if placed.size("dp") > 1:
        for parameter in child.parameters():
            gradient = parameter.grad
            local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            dist.all_reduce(local, group=placed.device_mesh["dp"].get_group())


def largest_difference(run: Run) -> float:
    """On every rank: the largest difference of losses and gradients over the steps."""
    torch.manual_seed(0)
    right = DigitsModel(run.config).double()
    model = copy.deepcopy(right)
    vision, language = placement("vision", run.vision), placement("language", run.language)
    place(model, vision, language)
    shard(model, vision, language, fsdp=run.fsdp)
    mimo.attach(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, right)]
    size = BATCH_SIZE * run.microbatches
    rows = size // language.size("dp")
    first = language.coordinate("dp") * rows
    largest = 0.0
    for step in range(run.steps):
        batch = global_batch(step, size)
        mine = batch.rows(first, first + rows)
        tokens = mimo.count_tokens(mine.labels, language)
        total = torch.zeros((), dtype=torch.float64)
        for k in range(run.microbatches):
            each = rows // run.microbatches
            part = mine.rows(k * each, (k + 1) * each)
            logits = model(part.tokens, part.images.double())
            loss = mimo.token_loss(logits, part.labels, language, tokens=tokens)
            loss.backward()
            total += loss.detach()
        if not run.fsdp:
            _sum_by_hand(model.visual, vision)
            _sum_by_hand(model.language, language)
        logits = right(batch.tokens, batch.images.double())
        right_loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), reduction="sum"
        ) / max(1, int((batch.labels != digits_data.IGNORED).sum()))
        right_loss.backward()
        dist.all_reduce(total)
        largest = max(largest, difference(total / language.size("tp"), right_loss.detach()))
        pairs = zip(model.named_parameters(), right.named_parameters(), strict=True)
        for (name, ours), (right_name, theirs) in pairs:
            assert name == right_name
            gradient = ours.grad.full_tensor() if hasattr(ours.grad, "full_tensor") else ours.grad
            largest = max(largest, difference(gradient, theirs.grad))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return largest
