"""Taking nested values apart and putting them together again."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies
from torch.utils import _pytree as pytree

from mimo.structure import holds_tensors, take_apart, take_apart_call

Point = namedtuple("Point", ["x", "y"])


@dataclass
class Counted:
    """Counts how often it is made, and keeps what is no argument of its constructor."""

    rows: Any
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.rows = [self.rows]
        self.total += 1
        self.note = "kept"


@dataclass(frozen=True, slots=True)
class Frozen:
    left: Any
    right: Any


class Output(OrderedDict):
    """Known to pytree without the names of its values, as Hugging Face's outputs are."""


pytree.register_pytree_node(
    Output,
    lambda node: (list(node.values()), list(node)),
    lambda values, keys: Output(zip(keys, values, strict=True)),
)


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (1, ["at"]),
        ((1, [2, {"a": 3}]), ["at.0", "at.1.0", "at.1.1.a"]),
        ({1: 2, "b": None}, ["at.1", "at.b"]),
        (Point(1, (2,)), ["at.x", "at.y.0"]),
        (Frozen(1, Frozen(2, 3)), ["at.left", "at.right.left", "at.right.right"]),
        (Output(hidden=1, more=(2,)), ["at.hidden", "at.more.0"]),
        ([], []),
    ],
)
def test_values_have_paths_and_go_back(tree: Any, paths: list[str]) -> None:  # noqa: ANN401
    structure = take_apart(tree, "at")
    assert structure.paths == paths
    assert structure.rebuild(structure.values) is tree
    again = take_apart(tree, "at").rebuild([str(value) for value in structure.values])
    assert take_apart(again, "at").paths == paths
    assert take_apart(again, "at").values == [str(value) for value in structure.values]


TREES = strategies.recursive(
    strategies.integers(),
    lambda below: (
        strategies.lists(below)
        | strategies.tuples(below, below)
        | strategies.dictionaries(strategies.sampled_from("abc"), below)
        | strategies.builds(Frozen, below, below)
        | strategies.builds(Output, strategies.dictionaries(strategies.sampled_from("xyz"), below))
    ),
)


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREES)
def test_any_tree_goes_back_with_its_values_in_their_places(tree: Any) -> None:  # noqa: ANN401
    structure = take_apart(tree)
    assert len(set(structure.paths)) == len(structure.paths) == len(structure.values)
    assert structure.rebuild(structure.values) is tree
    doubled = structure.rebuild([2 * value for value in structure.values])
    assert take_apart(doubled).paths == structure.paths
    assert take_apart(doubled).values == [2 * value for value in structure.values]
    assert take_apart(doubled).rebuild(structure.values) == tree


def test_dataclasses_are_copied_not_made_anew() -> None:
    before = Counted("rows")
    structure = take_apart(before)
    assert structure.paths == ["rows.0", "total"]
    after = structure.rebuild(["others", 5])
    assert (after.rows, after.total, after.note) == (["others"], 5, "kept")
    assert (before.rows, before.total) == (["rows"], 1)


def test_what_has_not_changed_stays_the_same_object() -> None:
    kept = {"mask": torch.ones(2)}
    moved = [torch.zeros(2)]
    structure = take_apart((moved, kept))
    after = structure.rebuild([torch.ones(2), structure.values[1]])
    assert after[1] is kept
    assert after[0] is not moved


def test_calls_keep_positions_and_names_apart() -> None:
    call = take_apart_call(["x"], (1,), {"x": (2, 3)})
    assert call.paths == ["x", "x.0", "x.1"]
    assert call.rebuild([4, 5, 6]) == ((4,), {"x": (5, 6)})


class Holder:
    def __init__(self, value: Any) -> None:  # noqa: ANN401
        self.value = value


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (UserDict(rows=torch.ones(1)), True),
        (Holder([Holder(torch.ones(1))]), True),
        ({torch.ones(1)}, True),
        (Holder({"a": 1}), False),
        ("text", False),
        (torch.nn.Linear(1, 1), False),
        (torch.float32, False),
    ],
)
def test_tensors_inside_other_objects_are_found(value: Any, holds: bool) -> None:  # noqa: ANN401
    assert holds_tensors(value) == holds
