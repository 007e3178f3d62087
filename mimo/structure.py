"""The values in nested arguments and results, their paths, and the way back."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from mimo.declaration import join

# How far `holds_tensors` looks into objects, and which it need not look into.
DEPTH = 4
PLAIN = (int, float, complex, str, bytes, range, type(None), type, nn.Module)


@dataclasses.dataclass
class Structure:
    """What nested dicts, tuples, lists, dataclasses and torch's other pytrees are made of.

    Attributes:
        paths: where each value lies, e.g. `features.0`.
        values: the values.
        rebuild: the same structure around other values, in the order of `values`. What has not
            changed comes back as the same object.
    """

    paths: list[str]
    values: list[Any]
    rebuild: Callable[[Sequence[Any]], Any]


def take_apart(tree: Any, path: str = "") -> Structure:  # noqa: ANN401  any structure
    """The structure of one value, whose own path is `path`."""
    children = None if isinstance(tree, torch.Tensor) else _children(tree)
    if children is None:
        return Structure([path], [tree], lambda values: values[0])
    names, below, put_together = children

    def rebuild(changed: list[Any]) -> Any:  # noqa: ANN401
        same = all(new is old for new, old in zip(changed, below, strict=True))
        return tree if same else put_together(changed)

    parts = [take_apart(each, join(path, name)) for name, each in zip(names, below, strict=True)]
    return _joined(parts, rebuild)


def take_apart_call(
    names: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> Structure:
    """The structure of a call, whose positional arguments are called `names`.

    Rebuilt it is the pair of positional and keyword arguments.
    """
    parts = [take_apart(each, name) for name, each in zip(names, arguments, strict=True)]
    parts += [take_apart(each, name) for name, each in named.items()]

    def rebuild(changed: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        count = len(arguments)
        return tuple(changed[:count]), dict(zip(named, changed[count:], strict=True))

    return _joined(parts, rebuild)


def holds_tensors(value: Any, depth: int = DEPTH) -> bool:  # noqa: ANN401  any object
    """Whether a tensor lies in a container or object that `take_apart` cannot look into.

    Looks `depth` levels deep, into containers' values and objects' `__dict__`.
    """
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, PLAIN):
        return False
    if isinstance(value, Mapping):
        below = value.values()
    elif isinstance(value, Sequence | Set):
        below = value
    else:
        below = getattr(value, "__dict__", {}).values()
    return any(holds_tensors(each, depth - 1) for each in below)


def _joined(parts: list[Structure], rebuild: Callable[[list[Any]], Any]) -> Structure:
    def rebuild_parts(values: Sequence[Any]) -> Any:  # noqa: ANN401
        changed, first = [], 0
        for part in parts:
            last = first + len(part.values)
            changed.append(part.rebuild(values[first:last]))
            first = last
        return rebuild(changed)

    paths = [path for part in parts for path in part.paths]
    return Structure(paths, [value for part in parts for value in part.values], rebuild_parts)


def _children(
    node: Any,  # noqa: ANN401
) -> tuple[list[str], list[Any], Callable[[list[Any]], Any]] | None:
    """Names and values below a node, and what makes a node of others; None for a leaf."""
    kind = pytree.SUPPORTED_NODES.get(pytree._get_node_type(node))
    if kind is not None:
        below, context = kind.flatten_fn(node)
        if kind.flatten_with_keys_fn is not None:
            names = [_key(key) for key, _ in kind.flatten_with_keys_fn(node)[0]]
        elif isinstance(node, Mapping):
            names = [str(key) for key in node]
        else:
            names = [str(i) for i in range(len(below))]
        return names, list(below), lambda changed: kind.unflatten_fn(changed, context)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        names = [each.name for each in dataclasses.fields(node) if hasattr(node, each.name)]

        def with_fields(changed: list[Any]) -> Any:  # noqa: ANN401
            # A copy keeps what is no field; a constructor could compute the fields anew.
            other = copy.copy(node)
            for name, value in zip(names, changed, strict=True):
                object.__setattr__(other, name, value)
            return other

        return names, [getattr(node, name) for name in names], with_fields
    return None


def _key(entry: Any) -> str:  # noqa: ANN401  pytree's keys have no common type
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)
