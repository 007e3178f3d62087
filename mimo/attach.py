"""Placing modules, and turning the borders between placements into boxing ops."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn

from mimo import groups
from mimo.border import Border
from mimo.declaration import Arguments, Declaration, flatten
from mimo.first_use import SampleCheck, check_same_program
from mimo.loss import check_gradients_are_sums, token_plan
from mimo.placement import Placement


@dataclass
class _Placed:
    """What `place` was told of one module."""

    placement: Placement
    inputs: Declaration
    outputs: Declaration


_placed: WeakKeyDictionary[nn.Module, _Placed] = WeakKeyDictionary()
_attached: WeakKeyDictionary[nn.Module, list[Border]] = WeakKeyDictionary()


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
        inputs: by argument name or, in a tuple, by position: how each tensor lies on both sides of
            the border: `mimo.S(dim)` (split over `dp` along a dimension), `mimo.I` or None (every
            rank holds the whole), or an edge in the direction in which the tensor goes, such as
            `"[S(0),I] -> [S(0)]"`. What is declared for an argument holds for every tensor in it;
            `"pixels.0"` or a nested dict or tuple reaches inside. `"own"`: the inputs come in the
            module's own layout; an argument of the whole model that each rank has for itself is
            declared `{"wave": "own"}` there. None instead of all this declares nothing, an entry
            or an edge alone holds for all arguments.
        outputs: the same for what it returns, by key, field or position; alone for a lone tensor.

    Raises:
        ValueError: the module has no argument of a declared name, or one is declared twice.
        TypeError: a declaration is none of these, or the placement is no `Placement`.
    """
    if not isinstance(placement, Placement):
        raise TypeError(
            f"mimo.place: {type(module).__name__} on a {type(placement).__name__}: expected a "
            "mimo.Placement"
        )
    try:
        if inputs != "own":
            inputs = Arguments(module).declared(inputs)
            list(flatten(inputs))
    except (TypeError, ValueError) as error:
        raise type(error)(f"mimo.place: {type(module).__name__}, inputs: {error}") from None
    try:
        list(flatten(outputs))
    except TypeError as error:
        raise TypeError(f"mimo.place: {type(module).__name__}, outputs: {error}") from None
    _placed[module] = _Placed(placement, inputs, outputs)


class _Crossed(NamedTuple):
    """A placed descendant, what was said of it and where it is called from."""

    path: str
    module: nn.Module
    placed: _Placed
    caller: Placement


def _crossed(model: nn.Module) -> Iterator[_Crossed]:
    """The placed descendants of a placed model, parents first."""
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
                yield _Crossed(path, module, placed, caller)
        outer[path] = placed.placement if placed is not None else outer[parent]


def _check_root(model: nn.Module) -> Placement:
    """The model's own placement, on ranks of this job."""
    if model not in _placed:
        raise ValueError(
            "mimo.attach: the model itself is not placed, so its callers' layout is unknown: "
            "mimo.place(model, placement)"
        )
    _check_whole("mimo.attach", model)
    check_gradients_are_sums(model)
    root = _placed[model].placement
    _check_in_job("the model", root)
    return root


def _check_in_job(path: str, placement: Placement) -> None:
    world = dist.get_world_size()
    # The number first: the ranks of a mesh that is far too large cannot even be listed.
    if placement.num_ranks > world or max(placement.ranks) >= world:
        raise ValueError(
            f"mimo.attach: {path} is placed on {placement}, on more ranks than the {world} of this "
            "job"
        )


def _check_whole(caller: str, model: nn.Module) -> None:
    """Borders of an attached model are not changed from a part of it."""
    for other in _attached:
        if other is not model and any(part is model for part in other.modules()):
            raise ValueError(
                f"{caller}: this {type(model).__name__} is part of an attached "
                f"{type(other).__name__}: attach or detach that one"
            )


def _check_ranks(path: str, inner: Placement, outer: Placement) -> None:
    relation = inner.relation(outer)
    if relation != "colocated":
        ranks = sorted({*inner.ranks, *outer.ranks})
        alone = {
            placement: [rank for rank in ranks if outer.role(inner, rank) == role]
            for placement, role in ((outer, "source"), (inner, "destination"))
        }
        words = " and ".join(f"{only} only in {each}" for each, only in alone.items() if only)
        raise ValueError(
            f"mimo.attach: {path} is placed on {inner} but called from {outer}; these are "
            f"{relation} (ranks {words}), and a forward call needs both on the same ranks. Other "
            "ranks cannot be reached yet: that is for mimo.reshard and pipeline schedules to come"
        )
    for placement in (inner, outer):
        strides = placement.strides
        if placement.size("dp") > 1 and placement.size("tp") > 1 and strides["dp"] < strides["tp"]:
            warnings.warn(
                f"{placement}: dp (stride {strides['dp']}) lies inside tp (stride "
                f"{strides['tp']}), so tensor-parallel peers are far apart",
                stacklevel=4,
            )


def _sides(crossed: _Crossed) -> Iterator[tuple[nn.Module, Border]]:
    """The borders of one placed module."""
    path, module, placed, caller = crossed
    inner = placed.placement
    _check_in_job(path, inner)
    _check_ranks(path, inner, caller)
    if placed.inputs != "own":
        yield (
            module,
            Border(
                path,
                module,
                "input",
                source=caller,
                destination=inner,
                declaration=placed.inputs,
            ),
        )
    yield (
        module,
        Border(
            path, module, "output", source=inner, destination=caller, declaration=placed.outputs
        ),
    )


def attach(model: nn.Module) -> None:
    """Turns every border between placements inside `model` into boxing ops.

    A collective call: all ranks of the job attach the same model. Order: parallelize, fully_shard,
    attach. Attaching again starts over from the placements as they are now; if that fails, the
    borders stay as they were. Borders at which nothing has to move cost nothing.

    Args:
        model: a placed module; its placed descendants get the borders.

    Raises:
        ValueError: the model itself is not placed, is part of an attached one, has ranks beyond
            the job's or a part wrapped by DistributedDataParallel; a module runs on other ranks
            than its caller; a declaration does not fit; ranks have placed differently, or another
            rank failed.
        NotImplementedError: there is no plan for an edge or for its gradients.
        RuntimeError: torch.distributed is not initialised, or other ranks did not come.
    """
    if not dist.is_initialized():
        raise RuntimeError("mimo.attach: call torch.distributed.init_process_group first")
    sides: list[tuple[nn.Module, Border]] = []
    placements: list[Placement] = []
    failure = None
    try:
        placements.append(_check_root(model))
        for crossed in _crossed(model):
            sides += _sides(crossed)
            placements.append(crossed.placed.placement)
    except Exception as error:
        # The others must not wait for a rank that has failed.
        failure = error
    borders = [border for _, border in sides]
    words = [border.describe() for border in borders] + [each.describe() for each in placements]
    check_same_program(words, failure)
    _make_groups(placements, borders)
    detach(model)
    if any(border.acts for border in borders):
        own = [path for path, declared in flatten(_placed[model].inputs) if declared == "own"]
        check = SampleCheck(model, placements[0], own)
        model.register_forward_pre_hook(check, with_kwargs=True)
    for module, border in sides:
        if not border.acts:
            continue
        if border.side == "input":
            module.register_forward_pre_hook(border, with_kwargs=True)
        else:
            module.register_forward_hook(border)
    _attached[model] = borders
    _reset_dynamo()


def _make_groups(placements: list[Placement], borders: list[Border]) -> None:
    """All groups that the borders, their checks and the placements' losses need."""
    for placement in placements:
        if placement.given_mesh is not None:
            groups.adopt(placement.given_mesh)
    rank_sets = [placements[0].ranks]
    rank_sets += [ranks for border in borders for ranks in border.rank_sets()]
    rank_sets += [ranks for each in placements for ranks in token_plan(each).groups()]
    timeout = min(placement.timeout for placement in placements)
    groups.make(rank_sets, timeout)


def detach(model: nn.Module) -> None:
    """Takes the borders out again, also those of a copy. Does nothing on a model that has none.

    Raises:
        ValueError: the model is part of an attached one.
    """
    _check_whole("mimo.detach", model)
    removed = 0
    # A copy has the hooks too, but nobody has handles of them.
    for module in model.modules():
        _attached.pop(module, None)
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [
                key for key, hook in hooks.items() if isinstance(hook, Border | SampleCheck)
            ]:
                del hooks[key]
                module._forward_pre_hooks_with_kwargs.pop(key, None)
                removed += 1
    if removed:
        _reset_dynamo()


def _reset_dynamo() -> None:
    # Compiled code does not look whether a module's hooks have changed.
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def placements(model: nn.Module) -> list[Placement]:
    """The placements of a placed model and of its descendants, each once, parents first."""
    placed = [_placed[each].placement for each in model.modules() if each in _placed]
    return list({str(each): each for each in placed}.values())


def borders(model: nn.Module) -> list[Border]:
    """The borders of an attached model, in the order of its modules.

    Raises:
        ValueError: the model is not attached.
    """
    if model not in _attached:
        raise ValueError("the model is not attached: call mimo.attach(model)")
    return list(_attached[model])
