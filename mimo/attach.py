"""Placing modules, and turning the borders between placements into boxing ops."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.hooks import RemovableHandle

from mimo import groups
from mimo.border import Border
from mimo.declaration import Declaration, flatten
from mimo.first_use import SampleCheck, check_same_borders
from mimo.placement import Placement


@dataclass
class _Placed:
    """What `place` was told of one module."""

    placement: Placement
    inputs: Declaration
    outputs: Declaration


@dataclass
class _Attachment:
    """What `attach` did to one model."""

    borders: list[Border] = field(default_factory=list)
    handles: list[RemovableHandle] = field(default_factory=list)


_placed: WeakKeyDictionary[nn.Module, _Placed] = WeakKeyDictionary()
_attachments: WeakKeyDictionary[nn.Module, _Attachment] = WeakKeyDictionary()


def place(
    module: nn.Module,
    placement: Placement,
    *,
    inputs: Declaration | Literal["own"] = None,
    outputs: Declaration = None,
) -> None:
    """Says where a module and everything in it lives, but for children placed elsewhere.

    A module with one floating-point tensor in and one out needs no declaration: dimension 0 of both
    is split over `dp`, every other axis holds them invariant. Of more tensors each that would move
    must be declared; 0-d tensors never move. Takes effect with `attach`.

    Args:
        module: the module.
        placement: where it lives.
        inputs: by argument name, how each tensor lies on both sides of the border: `mimo.S(dim)`
            (split over `dp` along a dimension), `mimo.I` or None (every rank holds the whole), or
            an edge in the direction in which the tensor goes, such as `"[S(0),I] -> [S(0)]"`. What
            is declared for an argument holds for every tensor in it; `"pixels.0"` or a nested dict
            or tuple reaches inside. `"own"`: the inputs come in the module's own layout.
        outputs: the same for what it returns, by key, field or position; alone for a lone tensor.

    Raises:
        ValueError: the module has no argument of a declared name.
        TypeError: a declaration is none of these.
    """
    declared = () if isinstance(inputs, str) and inputs == "own" else flatten(inputs)
    parameters = inspect.signature(type(module).forward).parameters
    takes_any = any(each.kind == inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    for path, _ in declared:
        name = path.partition(".")[0]
        if name and not name.isdecimal() and name not in parameters and not takes_any:
            known = ", ".join(list(parameters)[1:])
            raise ValueError(
                f'mimo.place: {type(module).__name__} has no argument "{name}", only {known}'
            )
    list(flatten(outputs))
    _placed[module] = _Placed(placement, inputs, outputs)


def _crossings(model: nn.Module) -> Iterator[tuple[str, nn.Module, _Placed, Placement]]:
    """Each placed descendant with its path, what was said of it and where it is called from."""
    outer: dict[str, Placement] = {}
    seen: dict[nn.Module, tuple[str, Placement]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        parent = path.rpartition(".")[0]
        placed = _placed.get(module)
        if path and placed is not None:
            first, caller = seen.setdefault(module, (path, outer[parent]))
            if str(caller) != str(outer[parent]):
                raise ValueError(
                    f"mimo.attach: {first} and {path} are the same module, called from {caller} "
                    f"and from {outer[parent]}: a shared module has one caller's placement"
                )
            if first == path:
                yield path, module, placed, outer[parent]
        outer[path] = placed.placement if placed is not None else outer[parent]


def _check_ranks(path: str, inner: Placement, outer: Placement) -> None:
    relation = inner.relation(outer)
    if relation != "colocated":
        missing = sorted(set(inner.ranks) ^ set(outer.ranks))
        raise ValueError(
            f"mimo.attach: {path} is placed on {inner} but called from {outer}; these are "
            f"{relation} ({inner.num_ranks} and {outer.num_ranks} ranks, not shared: {missing}), "
            "and a forward call needs both on the same ranks. Other ranks are reached by "
            "mimo.reshard or a pipeline schedule"
        )
    for placement in (inner, outer):
        strides = placement.strides
        if placement.size("dp") > 1 and placement.size("tp") > 1 and strides["dp"] < strides["tp"]:
            warnings.warn(
                f"{placement}: dp (stride {strides['dp']}) lies inside tp (stride "
                f"{strides['tp']}), so tensor-parallel peers are far apart",
                stacklevel=3,
            )


def attach(model: nn.Module) -> None:
    """Turns every border between placements inside `model` into boxing ops.

    A collective call: all ranks of the job attach the same model. Order: parallelize, fully_shard,
    attach. Attaching again starts over from the placements as they are now. Borders at which
    nothing has to move cost nothing.

    Args:
        model: a placed module; its placed descendants get the borders.

    Raises:
        ValueError: the model itself is not placed, a module runs on other ranks than its caller, a
            declaration does not fit, or ranks have placed differently.
        NotImplementedError: there is no plan for an edge or for its gradients.
        RuntimeError: torch.distributed is not initialised.
    """
    if not dist.is_initialized():
        raise RuntimeError("mimo.attach: call torch.distributed.init_process_group first")
    if model not in _placed:
        raise ValueError(
            "mimo.attach: the model itself is not placed, so its callers' layout is unknown: "
            "mimo.place(model, placement)"
        )
    detach(model)
    root = _placed[model].placement
    timeout = root.timeout
    crossings: list[tuple[nn.Module, Border]] = []
    for path, module, placed, outer in _crossings(model):
        inner = placed.placement
        _check_ranks(path, inner, outer)
        timeout = min(timeout, inner.timeout)
        if not isinstance(placed.inputs, str) or placed.inputs != "own":
            crossings.append(
                (
                    module,
                    Border(
                        path,
                        module,
                        "input",
                        source=outer,
                        destination=inner,
                        declaration=placed.inputs,
                    ),
                )
            )
        crossings.append(
            (
                module,
                Border(
                    path,
                    module,
                    "output",
                    source=inner,
                    destination=outer,
                    declaration=placed.outputs,
                ),
            )
        )
    borders = [border for _, border in crossings]
    check_same_borders([border.describe() for border in borders])
    groups.make([root.ranks, *(ranks for each in borders for ranks in each.rank_sets())], timeout)
    attachment = _Attachment(borders)
    if any(border.moves for border in borders):
        check = SampleCheck(model, root)
        attachment.handles.append(model.register_forward_pre_hook(check, with_kwargs=True))
    for module, border in crossings:
        if not border.moves:
            continue
        if border.side == "input":
            handle = module.register_forward_pre_hook(border, with_kwargs=True)
        else:
            handle = module.register_forward_hook(border)
        attachment.handles.append(handle)
    _attachments[model] = attachment
    _reset_dynamo()


def detach(model: nn.Module) -> None:
    """Takes the borders out again. Does nothing on a model that has none."""
    attachment = _attachments.pop(model, None)
    if attachment is not None:
        for handle in attachment.handles:
            handle.remove()
        _reset_dynamo()


def _reset_dynamo() -> None:
    # Compiled code does not look whether a module's hooks have changed.
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def borders(model: nn.Module) -> list[Border]:
    """The borders of an attached model, in the order of its modules.

    Raises:
        ValueError: the model is not attached.
    """
    if model not in _attachments:
        raise ValueError("the model is not attached: call mimo.attach(model)")
    return list(_attachments[model].borders)
