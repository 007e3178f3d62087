"""Which tensor of a module's inputs or outputs takes which edge, as declared in `place`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from torch import nn

from mimo.layout import Sbp

Declaration = Union[Sbp, str, None, Mapping[Any, "Declaration"], Sequence["Declaration"]]  # noqa: UP007


def join(path: str, key: str) -> str:
    """The path of `key` below `path`, e.g. `features.0`."""
    return f"{path}.{key}" if path and key else path or key


def prefixes(path: str) -> Iterator[str]:
    """The path itself, then those above it, last the empty one."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def flatten(declaration: Declaration, path: str = "") -> Iterator[tuple[str, Sbp | str | None]]:
    """Each declared path and what is declared for all tensors below it.

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
            'edge such as "[S(0)] -> [dp=S(0),tp=I]", None, or a dict or tuple of these'
        )


class Arguments:
    """The names of a module's arguments, as its forward has them now."""

    def __init__(self, module: nn.Module) -> None:
        parameters = inspect.signature(module.forward).parameters.values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        kinds = {each.kind for each in parameters}
        self._positional = [each.name for each in parameters if each.kind in positional]
        self._named = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
        self._takes_more = inspect.Parameter.VAR_POSITIONAL in kinds
        self._takes_any_name = inspect.Parameter.VAR_KEYWORD in kinds

    def positional(self, count: int) -> list[str]:
        """The names of a call's first `count` arguments; their numbers behind the named ones."""
        return [*self._positional[:count], *map(str, range(len(self._positional), count))]

    def declared(self, inputs: Declaration) -> Declaration:
        """What is declared for inputs, by name: a tuple or a number counts arguments.

        Raises:
            ValueError: there is no such argument (the message names those there are), or one is
                declared twice.
        """
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            inputs = dict(enumerate(inputs))
        if not isinstance(inputs, Mapping):
            return inputs
        by_name = {}
        for key, below in inputs.items():
            name = self.positional(key + 1)[-1] if isinstance(key, int) and key >= 0 else str(key)
            self._check(name.partition(".")[0])
            if name in by_name:
                raise ValueError(f"{name} is declared twice, by name and as argument {key}")
            by_name[name] = below
        return by_name

    def _check(self, name: str) -> None:
        known = [*self._positional, *self._named]
        is_later = name.isdecimal() and int(name) >= len(self._positional)
        if name in known or (is_later and self._takes_more):
            return
        if name.isidentifier() and self._takes_any_name:
            return
        raise ValueError(f'no argument "{name}", only {", ".join(known) or "none"}')
