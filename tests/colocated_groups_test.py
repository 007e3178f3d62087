"""Cases of colocated_groups.json over Gloo processes, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mimo
from tests.support import ranks

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parent / "cases" / "colocated_groups.json").read_text())[
        "cases"
    ]
}


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


def check_case(name: str) -> list[str]:
    """On every rank: output border forward and backward of one case; returns the plans' kinds.

    The model lives in the destination's layout and its child in the source's, so the input border
    goes back from destination to source and the output border is the case's edge.
    """
    case = CASES[name]
    rank, batch = dist.get_rank(), case["batch"]
    model = Parent()
    mimo.place(model, mimo.Placement("language", **case["destination"]))
    mimo.place(model.child, mimo.Placement("vision", **case["source"]))
    mimo.attach(model)
    for border in mimo.borders(model):
        groups = sorted(sorted(group) for group in border.crossings[None].plan.groups())
        assert groups == sorted(map(sorted, case["gather_groups"]))
    values = torch.arange(batch * 3 * 2, dtype=torch.float64).view(batch, 3, 2)
    here, there = slice(*case["destination_rows"][rank]), slice(*case["source_rows"][rank])
    features = values[here].clone().requires_grad_()
    output = model(features)
    assert torch.equal(model.child.seen, values[there])
    assert torch.equal(output, values[here])
    (gradient,) = torch.autograd.grad(output, features, values[here] + 1000)
    assert torch.equal(gradient, values[here] + 1000)
    return [border.crossings[None].plan.kind for border in mimo.borders(model)]


def check_sequence_first(name: str) -> None:
    """On every rank: the same edge with the batch in dimension 1, through the op itself."""
    case = CASES[name]
    rank, batch = dist.get_rank(), case["batch"]
    entries = [mimo.S(1), mimo.I]
    source = mimo.Placement("vision", **case["source"]).layout(entries)
    destination = mimo.Placement("language", **case["destination"]).layout(entries)
    edge = f"{source} -> {destination}"
    sizes = [3, batch, 2]
    plan = mimo.Plan(edge, sizes)
    values = torch.arange(3 * batch * 2, dtype=torch.float64).view(sizes)
    here, there = slice(*case["source_rows"][rank]), slice(*case["destination_rows"][rank])
    part = values[:, here].clone().requires_grad_()
    op = torch.ops.mimo.fan_out if plan.kind == "slice" else torch.ops.mimo.fan_in
    name_of_group = torch.ops.mimo.group_name(plan.group(rank))
    (output,) = op([part], [edge], sizes, [], name_of_group)
    assert torch.equal(output, values[:, there])
    (gradient,) = torch.autograd.grad(output, part, values[:, there] + 1000)
    assert torch.equal(gradient, values[:, here] + 1000)


def check_both(name: str) -> list[str]:
    """Both dimension orders of one case in one job."""
    kinds = check_case(name)
    check_sequence_first(name)
    mimo.destroy()
    mimo.destroy()
    return kinds


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("fan-in 2x, 4 ranks", ["slice", "all-gather"]),
        ("fan-out 2x, 4 ranks", ["all-gather", "slice"]),
    ],
)
def test_labelled_rows_arrive_over_gloo(name: str, kinds: list[str]) -> None:
    assert ranks.run(check_both, 4, name) == kinds
