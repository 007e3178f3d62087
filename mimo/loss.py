"""One mean over all tokens of the global batch, whatever the layouts."""

from __future__ import annotations

import warnings
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from mimo import groups
from mimo.layout import I
from mimo.placement import Placement
from mimo.plan import Plan


def count_tokens(
    labels: torch.Tensor, placement: Placement | None = None, *, ignore_index: int = -100
) -> torch.Tensor:
    """The number of valid labels of the global batch, each token counted once.

    A collective call where the placement splits the batch: tokens add up over the ranks that hold
    different ones (its `dp` axis), not over those that hold the same.

    Args:
        labels: this rank's labels, any shape, integers.
        placement: where the labels lie; None for one process. If it is of no attached model, the
            first call makes its groups, which all ranks of the job must take part in.
        ignore_index: the label that does not count.

    Returns:
        A 0-d int64 tensor on the labels' device.
    """
    tokens = (labels != ignore_index).sum(dtype=torch.int64)
    if placement is None and dist.is_initialized() and dist.get_world_size() > 1:
        warnings.warn(
            f"mimo: tokens are counted on one of {dist.get_world_size()} ranks only; give the "
            "placement on which the labels lie",
            stacklevel=3,
        )
    if placement is not None:
        plan = token_plan(placement)
        if plan.kind != "identity":
            peers = plan.group(dist.get_rank())
            if not groups.exists(peers):
                groups.make(plan.groups(), placement.timeout)
            with groups.waiting(groups.get(peers), f"mimo.count_tokens over {placement}"):
                dist.all_reduce(tokens, group=groups.get(peers))
    return tokens


def token_plan(placement: Placement) -> Plan:
    """The plan that brings all tokens together: its groups are those over which counts add up."""
    whole = placement.layout([I] * len(placement.axes))
    return Plan.of_smallest(f"{placement.layout()} -> {whole}")


def token_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    placement: Placement | None = None,
    *,
    ignore_index: int = -100,
    tokens: torch.Tensor | None = None,
) -> torch.Tensor:
    """This rank's share of the mean cross entropy over all valid tokens of the global batch.

    The shares of the ranks that hold different tokens add up to the mean, so every module's
    gradients are right when each is summed over its own replicas: see `sum_gradients`. No valid
    token anywhere gives a loss and gradients of zero.

    Args:
        logits: [..., vocabulary], this rank's part; low precisions are computed in float32.
        labels: [...], integers.
        placement: where both lie; None for one process.
        ignore_index: the label that does not count.
        tokens: the number to divide by, 0-d, where it is not that of these labels alone: the
            `count_tokens` of all microbatches of a step.

    Returns:
        A 0-d tensor: this rank's summed cross entropy over `max(1, tokens)`.

    Raises:
        ValueError: labels are not one for each row of logits, or `tokens` is not 0-d.
    """
    if labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"mimo.token_loss: labels {list(labels.shape)} are not one for each row of logits "
            f"{list(logits.shape)}, whose last dimension is the vocabulary"
        )
    if tokens is not None and tokens.dim() != 0:
        raise ValueError(f"mimo.token_loss: tokens {list(tokens.shape)} is not one 0-d count")
    if tokens is None:
        tokens = count_tokens(labels, placement, ignore_index=ignore_index)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    total = nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        ignore_index=ignore_index,
        reduction="sum",
    )
    return total / tokens.clamp(min=1)


_summed: WeakSet[nn.Module] = WeakSet()


def sum_gradients(model: nn.Module) -> None:
    """Makes the data-parallel wrappers in `model` add gradients up instead of averaging them.

    Raises:
        ValueError: a module is wrapped by DistributedDataParallel, which always averages.
    """
    for module in _sharded(model, "mimo.sum_gradients").values():
        module.set_gradient_divide_factor(1.0)
        # Gloo has no reduction that multiplies, which a factor would otherwise ask for.
        module.set_force_sum_reduction_for_comms(True)
        _summed.add(module)


def check_gradients_are_sums(model: nn.Module) -> None:
    """Warns of sharded modules that `sum_gradients` has not seen: they average.

    Raises:
        ValueError: a module is wrapped by DistributedDataParallel, which always averages.
    """
    for path, module in _sharded(model, "mimo.attach").items():
        if module not in _summed:
            warnings.warn(
                f"mimo.attach: {path or 'the model'} is sharded by fully_shard, which averages "
                "gradients: call mimo.sum_gradients(model)",
                stacklevel=4,
            )


def _sharded(model: nn.Module, caller: str) -> dict[str, FSDPModule]:
    sharded = {}
    for path, module in model.named_modules():
        if isinstance(module, DistributedDataParallel):
            raise ValueError(
                f"{caller}: {path or 'the model'} is wrapped by DistributedDataParallel, which "
                "averages gradients: use fully_shard"
            )
        if isinstance(module, FSDPModule):
            sharded[path] = module
    return sharded
