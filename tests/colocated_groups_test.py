"""Cases of colocated_groups.json over Gloo processes, bit for bit, in three dimension orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import mimo
from tests.support import ranks

CASES = json.loads((Path(__file__).parent / "cases" / "colocated_groups.json").read_text())["cases"]
SEQUENCE, HIDDEN = 3, 2


class Child(nn.Module):
    """Hands its input on, so that both of its borders can be seen."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.seen = features
        return features


class Parent(nn.Module):
    """Calls the child as the outer module of a border."""

    def __init__(self) -> None:
        super().__init__()
        self.child = Child()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.child(features)


def labelled(batch: int, order: str) -> torch.Tensor:
    """A global tensor in which every number is another one."""
    sizes = {
        "b,s,h": (batch, SEQUENCE, HIDDEN),
        "s,b,h": (SEQUENCE, batch, HIDDEN),
        "b*s,h": (batch * SEQUENCE, HIDDEN),
    }[order]
    return torch.arange(batch * SEQUENCE * HIDDEN, dtype=torch.float64).view(sizes)


def part(values: torch.Tensor, rows: list[int], order: str) -> torch.Tensor:
    """The samples [rows[0], rows[1]) of a global tensor."""
    if order == "s,b,h":
        return values[:, rows[0] : rows[1]]
    unit = SEQUENCE if order == "b*s,h" else 1
    return values[rows[0] * unit : rows[1] * unit]


def check_case(case: dict[str, Any], order: str, offset: int = 0) -> list[str]:
    """On every rank: both borders forward and backward; returns the plans' kinds.

    The model lives in the destination's layout and its child in the source's, so the input border
    goes back from destination to source and the output border is the case's edge.
    """
    model = Parent()
    batch_dim = mimo.S(1 if order == "s,b,h" else 0)
    language = mimo.Placement("language", offset=offset, **case["destination"])
    mimo.place(model, language)
    vision = mimo.Placement("vision", offset=offset, **case["source"])
    mimo.place(model.child, vision, inputs={"features": batch_dim}, outputs=batch_dim)
    mimo.attach(model)
    declared = [
        crossing
        for border in mimo.borders(model)
        for path, crossing in border.crossings.items()
        if path is not None
    ]
    for edge in declared:
        groups = sorted(sorted(rank - offset for rank in each) for each in edge.plan.groups())
        if edge.plan.kind != "identity":
            assert groups == sorted(map(sorted, case["gather_groups"])), case["name"]
        if edge.plan.kind == "all-gather":
            assert {tuple(each) for each in edge.plan.groups()} == {
                tuple(rank + offset for rank in each) for each in case["gather_groups"]
            }
    if dist.get_rank() in language.ranks:
        rank = dist.get_rank() - offset
        values = labelled(case["batch"], order)
        mine = part(values, case["destination_rows"][rank], order)
        theirs = part(values, case["source_rows"][rank], order)
        features = mine.clone().requires_grad_()
        output = model(features)
        assert torch.equal(model.child.seen, theirs)
        assert torch.equal(output, mine)
        (gradient,) = torch.autograd.grad(output, features, mine + 1000)
        assert torch.equal(gradient, mine + 1000)
    return [edge.plan.kind for edge in declared]


def equal_case(num_ranks: int) -> dict[str, Any]:
    """Both sides on the same layout: nothing moves, and there is nobody to gather with."""
    axes = {"dp": num_ranks // 2, "tp": 2}
    rows = [[rank // 2, rank // 2 + 1] for rank in range(num_ranks)]
    return {
        "name": "equal",
        "source": axes,
        "destination": axes,
        "gather_groups": [],
        "batch": num_ranks // 2,
        "source_rows": rows,
        "destination_rows": rows,
    }


def check_all() -> dict[str, list[str]]:
    """On each of eight ranks: every case in every order, those of four ranks behind an offset."""
    kinds = {}
    for case in [*CASES, equal_case(8), equal_case(4)]:
        num_ranks = len(case["source_rows"])
        for order in ("b,s,h", "s,b,h", "b*s,h") if num_ranks == 8 else ("b,s,h",):
            name = f"{case['name']}, {num_ranks} ranks, {order}"
            kinds[name] = check_case(case, order, offset=8 - num_ranks)
    mimo.destroy()
    mimo.destroy()
    return kinds


def test_labelled_rows_arrive_over_eight_ranks() -> None:
    kinds = ranks.run(check_all, 8)
    on_four = sum(len(case["source_rows"]) == 4 for case in CASES)
    assert len(kinds) == 3 * (len(CASES) - on_four + 1) + on_four + 1
    for name, pair in kinds.items():
        expected = {"fan-in": ["slice", "all-gather"], "fan-out": ["all-gather", "slice"]}
        assert pair == expected.get(name.split(" ")[0], ["identity", "identity"]), name
