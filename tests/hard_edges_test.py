"""Edges on which a communicator that trusts sizes alone is silently wrong: planned or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mimo

FILE = Path(__file__).parent / "cases" / "hard_edges.json"
CASES = {case["name"]: case for case in json.loads(FILE.read_text())["cases"]}

# What differs, in the words of the refusal: each step of a digit moves a part.
REFUSED = {
    "same dp size, other rank order": (
        "2 ranks of stride 2 go from S(0) by 8 rows to S(0) by 16 rows"
    ),
    "fan-in, other rank order": "2 ranks of stride 1 go from I to S(0) by 16 rows",
}
GATHERED = ["control: eight parts gathered"]


def test_every_case_with_an_edge_and_its_rows_is_looked_at() -> None:
    planned = {name for name, case in CASES.items() if "edge" in case and "source_rows" in case}
    assert planned == {*REFUSED, *GATHERED}


@pytest.mark.parametrize("name", REFUSED)
def test_other_rank_orders_are_refused_in_words(name: str) -> None:
    case: dict[str, Any] = CASES[name]
    # A pass-through would be wrong: some rank needs rows that it does not hold.
    assert any(
        there != here
        for here, there in zip(case["source_rows"], case["destination_rows"], strict=True)
    )
    with pytest.raises(NotImplementedError) as error:
        mimo.Plan(case["edge"], [case["rows"]])
    canonical = "vision{dp:4,tp:2}[S(0),I] -> language{dp:"
    assert str(error.value).startswith(canonical)
    assert REFUSED[name] in str(error.value)


@pytest.mark.parametrize("name", GATHERED)
def test_gathered_parts_are_each_rows_once_and_in_order(name: str) -> None:
    case: dict[str, Any] = CASES[name]
    plan = mimo.Plan(case["edge"], [case["rows"]])
    assert plan.kind == "all-gather"
    for rank, (start, stop) in enumerate(case["destination_rows"]):
        rows = [row for member in plan.group(rank) for row in range(*case["source_rows"][member])]
        assert rows == list(range(start, stop))
