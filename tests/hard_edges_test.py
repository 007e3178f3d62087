"""Edges on which a communicator that trusts sizes alone is silently wrong: planned or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mimo

CASES = [
    case
    for case in json.loads((Path(__file__).parent / "cases" / "hard_edges.json").read_text())[
        "cases"
    ]
    if "edge" in case and "source_rows" in case
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_hard_edges_are_planned_or_refused(case: dict[str, Any]) -> None:
    try:
        plan = mimo.Plan(case["edge"], [case["rows"]])
    except NotImplementedError as error:
        assert case["edge"].split(" -> ")[0].partition("{")[0] in str(error)
        assert case["source_rows"] != case["destination_rows"]
        return
    assert plan.kind == "all-gather"
    for rank, (start, stop) in enumerate(case["destination_rows"]):
        gathered = [case["source_rows"][member] for member in plan.group(rank)]
        ends = [start, *(each[1] for each in gathered)]
        assert [each[0] for each in gathered] == ends[:-1]
        assert ends[-1] == stop


def test_the_control_is_planned() -> None:
    control = next(case for case in CASES if case["name"].startswith("control"))
    assert mimo.Plan(control["edge"], [control["rows"]]).kind == "all-gather"
