"""Placements: from sizes, text, rank lists and meshes, and what they say of each other."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mimo


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    """Rank 0 of four, whose collectives return without peers."""
    dist.init_process_group("fake", rank=0, world_size=4)
    yield
    mimo.destroy()
    dist.destroy_process_group()


def test_placement_has_axes_from_slowest_to_fastest() -> None:
    placement = mimo.Placement("language", dp=2, tp=4)
    assert str(placement) == "language{dp:2,tp:4}"
    assert placement.axes == {"dp": 2, "tp": 4}
    assert placement.num_ranks == 8
    assert (placement.coordinate("dp", 5), placement.coordinate("tp", 5)) == (1, 1)
    assert (placement.size("cp"), placement.coordinate("cp", 5)) == (1, 0)
    assert placement.layout() == "language{dp:2,tp:4}[S(0),I]"
    assert placement.layout([mimo.S(1), mimo.B]) == "language{dp:2,tp:4}[S(1),B]"


def test_placement_from_text_has_strides_and_offset() -> None:
    placement = mimo.Placement.parse("vision{dp:4@1,tp:2@4}+8")
    assert str(placement) == "vision{dp:4@1,tp:2@4}+8"
    assert placement.ranks == [8, 12, 9, 13, 10, 14, 11, 15]
    assert placement.strided_text == str(placement)
    assert str(mimo.Placement("vision", offset=4, dp=2)) == "vision{dp:2}+4"
    assert mimo.Placement("vision", offset=4, dp=2, tp=2).strided_text == "vision{dp:2@2,tp:2@1}+4"


def test_placement_makes_torchs_device_mesh() -> None:
    mesh = mimo.Placement.parse("vision{dp:2@1,tp:2@2}").device_mesh
    assert mesh.mesh_dim_names == ("dp", "tp")
    assert mesh.mesh.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mimo.Placement("vision", dp=0), "placement vision: axis dp has size 0"),
        (lambda: mimo.Placement("vision"), "placement vision: .*expected an axis name"),
        (lambda: mimo.Placement("vision", offset=-1, dp=2), "expected a rank offset"),
        (lambda: mimo.Placement.parse("{dp:2}"), '"" is no placement name'),
        (lambda: mimo.Placement("two words", dp=2), '"two words" is no placement name'),
        (lambda: mimo.Placement.parse("v{dp:2@1,tp:2@1}"), "rank 1 is named twice"),
        (lambda: mimo.Placement("vision", dp=2).coordinate("dp", 7), "rank 7 is not in vision"),
        (lambda: mimo.Placement("vision", dp=2**63), "expected a size below 2\\^63"),
        (lambda: mimo.Placement.parse("v\0{dp:2}"), r'"v\\000" is no placement name'),
    ],
)
def test_bad_placements_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mimo.Placement(None, dp=2), "placement None: a name is text"),
        (lambda: mimo.Placement("v", dp="2"), "placement v: dp='2' is no whole number"),
        (lambda: mimo.Placement("v", dp=2.0), "placement v: dp=2.0 is no whole number"),
        (lambda: mimo.Placement("v", offset=None, dp=2), "placement v: offset=None is no"),
        (lambda: mimo.Placement.from_ranks("v", [0, 1], dp=True), "placement v: dp=True is no"),
        (lambda: mimo.place(nn.Linear(2, 2), "dp=2"), "Linear on a str: expected a mimo.Placement"),
        (lambda: mimo.S("0"), "S\\('0'\\): a dimension is a whole number"),
    ],
)
def test_wrong_types_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_dimensions_count_from_the_front() -> None:
    with pytest.raises(ValueError, match="S\\(-1\\): dimensions count from 0"):
        mimo.S(-1)


def test_copies_and_pickles_are_the_same_placement() -> None:
    placement = mimo.Placement.parse(
        "vision{dp:4@1,tp:2@4}+8", timeout=datetime.timedelta(seconds=7)
    )
    assert copy.deepcopy(placement) is placement
    other = pickle.loads(pickle.dumps(placement))
    assert str(other) == str(placement)
    assert other.timeout == placement.timeout


def test_more_ranks_than_the_job_has_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    for placement in (
        mimo.Placement("huge", dp=2**40),
        mimo.Placement("late", offset=2, dp=4),
        mimo.Placement("wide", dp=8),
    ):
        mimo.place(model[0], placement)
        for outer, path in ((placement, "the model"), (mimo.Placement("outer", dp=4), "0")):
            mimo.place(model, outer)
            with pytest.raises(ValueError) as error:
                mimo.attach(model)
            assert f"{path} is placed on {placement}, on more ranks than the 4" in str(error.value)


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (mimo.Placement.from_ranks("v", [0, 1, 2, 3], dp=2, tp=2), "v{dp:2,tp:2}"),
        (mimo.Placement.from_ranks("v", [4, 6, 5, 7], dp=2, tp=2), "v{dp:2@1,tp:2@2}+4"),
        (mimo.Placement.from_ranks("v", [0, 2, 4], dp=3, tp=1), "v{dp:3@2,tp:1}"),
    ],
)
def test_placements_from_rank_lists(placement: mimo.Placement, text: str) -> None:
    assert str(placement) == text


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (
            [0, 1, 3, 2],
            r"the ranks \[0, 1, 3, 2\] are not evenly spaced, upwards, along each axis of",
        ),
        ([3, 2, 1, 0], r"the ranks \[3, 2, 1, 0\] are not evenly spaced"),
        ([0, 0, 1, 1], r"the ranks \[0, 0, 1, 1\] are not evenly spaced"),
        ([0, 1, 2], r"3 ranks \[0, 1, 2\] for the 4 places of dp=2,tp=2"),
        ([], r"0 ranks \[\] for the 4 places of dp=2,tp=2"),
    ],
)
def test_uneven_rank_lists_are_refused(ranks: list[int], message: str) -> None:
    with pytest.raises(ValueError, match="placement v: " + message):
        mimo.Placement.from_ranks("v", ranks, dp=2, tp=2)


def test_placements_from_device_meshes() -> None:
    mesh = dist.device_mesh.DeviceMesh(
        "cpu", torch.arange(4).view(2, 2).T, mesh_dim_names=("dp", "tp")
    )
    placement = mimo.Placement.from_device_mesh("v", mesh)
    assert str(placement) == "v{dp:2@1,tp:2@2}"
    assert placement.device_mesh is mesh
    bare = dist.device_mesh.DeviceMesh("cpu", torch.arange(4))
    with pytest.raises(ValueError, match="placement v: the DeviceMesh has no mesh_dim_names"):
        mimo.Placement.from_device_mesh("v", bare)


def test_relations_of_placements() -> None:
    first, second = mimo.Placement("a", dp=4), mimo.Placement("b", dp=2, tp=2)
    later = mimo.Placement("c", offset=2, dp=4)
    apart = mimo.Placement("d", offset=4, dp=4)
    assert first.relation(second) == "colocated"
    assert first.relation(later) == "overlapping"
    assert first.relation(apart) == "disjoint"
    assert [first.role(later, rank) for rank in (0, 2, 5, 6)] == [
        "source",
        "both",
        "destination",
        "neither",
    ]
    assert second.groups_along(["tp"]) == [[0, 1], [2, 3]]
    assert second.groups_along(["dp"]) == [[0, 2], [1, 3]]
