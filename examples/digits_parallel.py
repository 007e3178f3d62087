"""Where the model's two halves live, and how each is sharded there."""

from __future__ import annotations

from digits_model import DigitsModel
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

import mimo


def placement(name: str, sizes: str) -> mimo.Placement:
    """A placement from a flag.

    Args:
        name: what the placement is called.
        sizes: axes from slowest to fastest, e.g. "dp=2,tp=2"; `dp` and `tp` are known here.

    Raises:
        ValueError: the flag is no such text.
    """
    axes: dict[str, int] = {}
    for axis in sizes.split(","):
        key, _, size = axis.partition("=")
        if key not in ("dp", "tp") or key in axes or not size.isdecimal():
            raise ValueError(f"--{name} {sizes}: expected dp=N, tp=N or both, e.g. dp=2,tp=2")
        axes[key] = int(size)
    return mimo.Placement(name, **axes)


def distribute(model: DigitsModel, vision: mimo.Placement, language: mimo.Placement) -> None:
    """Places the encoder on one layout and the rest on another, and shards both.

    Tensor parallelism over `tp` and FSDP2 over `dp` are PyTorch's own; the borders are mimo's.

    Args:
        model: built alike on every rank; changed in place.
        vision: where the encoder lives.
        language: where the rest lives; it also loads the data.
    """
    place(model, vision, language)
    shard(model, vision, language)
    mimo.attach(model)


def place(model: DigitsModel, vision: mimo.Placement, language: mimo.Placement) -> None:
    """Says where the two halves live."""
    mimo.place(model, language)
    mimo.place(model.visual, vision)


def shard(
    model: DigitsModel, vision: mimo.Placement, language: mimo.Placement, *, fsdp: bool = True
) -> None:
    """Cuts the parameters over `tp`, and with `fsdp` also over `dp`."""
    for child, placed in ((model.visual, vision), (model.language, language)):
        mesh = placed.device_mesh
        if placed.size("tp") > 1:
            parallelize_module(child, mesh["tp"], _tensor_parallel_plan(child))
        if fsdp and placed.size("dp") > 1:
            fully_shard(child, mesh=mesh["dp"])
    mimo.sum_gradients(model)


def _tensor_parallel_plan(child: nn.Module) -> dict[str, ParallelStyle]:
    columns = ("attention.query", "attention.key", "attention.value", "mlp.up")
    rows = ("attention.out", "mlp.down")
    plan: dict[str, ParallelStyle] = {f"blocks.*.{name}": ColwiseParallel() for name in columns}
    plan |= {f"blocks.*.{name}": RowwiseParallel() for name in rows}
    if hasattr(child, "projector"):
        plan |= {"projector.up": ColwiseParallel(), "projector.down": RowwiseParallel()}
    return plan
