"""Placing modules, and turning the borders between placements into boxing ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch import nn
from torch.utils.hooks import RemovableHandle

from mimo import groups
from mimo.border import Border
from mimo.placement import Placement


@dataclass
class _Attachment:
    """What `attach` did to one model."""

    borders: list[Border] = field(default_factory=list)
    handles: list[RemovableHandle] = field(default_factory=list)


_placements: WeakKeyDictionary[nn.Module, Placement] = WeakKeyDictionary()
_attachments: WeakKeyDictionary[nn.Module, _Attachment] = WeakKeyDictionary()


def place(module: nn.Module, placement: Placement) -> None:
    """Says where a module and everything in it lives, but for children placed elsewhere.

    The module takes one floating-point tensor and returns one; dimension 0 of both is split over
    the placement's `dp` axis, every other axis holds them invariant. Takes effect with `attach`.
    """
    _placements[module] = placement


def _crossings(model: nn.Module) -> Iterator[tuple[str, nn.Module, Placement, Placement]]:
    """Each placed descendant with its path, its placement and the one it is called from."""
    outer: dict[str, Placement] = {}
    for path, module in model.named_modules():
        parent = path.rpartition(".")[0]
        here = _placements.get(module)
        if path and here is not None:
            yield path, module, here, outer[parent]
        outer[path] = here if here is not None else outer[parent]


def attach(model: nn.Module) -> None:
    """Turns every border between placements inside `model` into boxing ops.

    A collective call: all ranks attach the same model. Order: parallelize, fully_shard, attach.
    Attaching again starts over from the placements as they are now. Borders at which nothing has
    to move cost nothing.

    Args:
        model: a placed module; its placed descendants get the borders.

    Raises:
        ValueError: the model itself is not placed, or a module runs on other ranks than its caller.
        NotImplementedError: there is no plan for an edge or for its gradients.
        RuntimeError: torch.distributed is not initialised.
    """
    if not dist.is_initialized():
        raise RuntimeError("mimo.attach: call torch.distributed.init_process_group first")
    if model not in _placements:
        raise ValueError(
            "mimo.attach: the model itself is not placed, so its callers' layout is unknown: "
            "mimo.place(model, placement)"
        )
    detach(model)
    crossings = []
    for path, module, inner, outer in _crossings(model):
        if set(inner.ranks) != set(outer.ranks):
            raise ValueError(
                f"mimo.attach: {path} is placed on {inner} but called from {outer}: both must have "
                f"the same ranks, here {inner.num_ranks} and {outer.num_ranks}"
            )
        for side, edge in (
            ("input", f"{outer.layout()} -> {inner.layout()}"),
            ("output", f"{inner.layout()} -> {outer.layout()}"),
        ):
            border = Border(path, side, edge)
            border.plan.adjoint()
            crossings.append((module, border))
    groups.make(
        group for _, border in crossings for group in border.plan.groups() if len(group) > 1
    )
    attachment = _Attachment()
    for module, border in crossings:
        attachment.borders.append(border)
        if border.plan.kind == "identity":
            continue
        if border.side == "input":
            handle = module.register_forward_pre_hook(border, with_kwargs=True)
        else:
            handle = module.register_forward_hook(border)
        attachment.handles.append(handle)
    _attachments[model] = attachment


def detach(model: nn.Module) -> None:
    """Takes the borders out again. Does nothing on a model that has none."""
    attachment = _attachments.pop(model, None)
    if attachment is not None:
        for handle in attachment.handles:
            handle.remove()


def borders(model: nn.Module) -> list[Border]:
    """The borders of an attached model, in the order of its modules.

    Raises:
        ValueError: the model is not attached.
    """
    if model not in _attachments:
        raise ValueError("the model is not attached: call mimo.attach(model)")
    return list(_attachments[model].borders)
