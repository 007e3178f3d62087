"""Which tensor of a module's inputs or outputs takes which edge, as declared in `place`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from torch import nn
from torch.utils import _pytree as pytree

from mimo.layout import Sbp

Declaration = Union[Sbp, str, None, Mapping[Any, "Declaration"], Sequence["Declaration"]]  # noqa: UP007


def flatten(declaration: Declaration, path: str = "") -> Iterator[tuple[str, Sbp | str | None]]:
    """Each declared path, e.g. `features.0`, and what is declared for all tensors below it.

    Raises:
        TypeError: a leaf is neither an sbp entry, nor an edge's text, nor None.
    """
    if isinstance(declaration, Sbp | str | None):
        yield path, declaration
    elif isinstance(declaration, Mapping):
        for key, below in declaration.items():
            yield from flatten(below, join(path, str(key)))
    elif isinstance(declaration, Sequence):
        for i, below in enumerate(declaration):
            yield from flatten(below, join(path, str(i)))
    else:
        raise TypeError(
            f"{path or 'the declaration'} is {declaration!r}: expected mimo.S(dim), mimo.I, an "
            'edge such as "[S(0)] -> [S(0),B]", None, or a dict or tuple of these'
        )


def join(path: str, key: str) -> str:
    """The path of `key` below `path`."""
    return f"{path}.{key}" if path else key


def prefixes(path: str) -> Iterator[str]:
    """The path itself, then those above it, last the empty one."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _key(entry: Any) -> str:  # noqa: ANN401  pytree's keys have no common type
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def _register_dataclasses(tree: Any) -> None:  # noqa: ANN401  any structure
    """Lets pytree look into dataclasses that it does not know yet."""
    for leaf in pytree.tree_leaves(tree):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            pytree.register_dataclass(type(leaf))
            _register_dataclasses(leaf)


def leaves_with_paths(tree: Any) -> tuple[list[str], list[Any], pytree.TreeSpec]:  # noqa: ANN401
    """The leaves of nested dicts, tuples, lists and dataclasses, their paths and the structure."""
    _register_dataclasses(tree)
    pairs, spec = pytree.tree_flatten_with_path(tree)
    return [".".join(map(_key, path)) for path, _ in pairs], [leaf for _, leaf in pairs], spec


def positional_names(module: nn.Module) -> list[str]:
    """The names of the positional arguments of a module's forward."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def argument_names(positional: Sequence[str], count: int) -> list[str]:
    """The names of a call's first `count` arguments; their numbers behind the named ones."""
    return [positional[i] if i < len(positional) else str(i) for i in range(count)]
