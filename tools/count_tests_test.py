"""Counting test cases from bazel's events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.count_tests import count

REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>
<testcase name="d" status="run"/><testcase name="e" status="notrun"/>
</testsuite></testsuites>"""


def event(status: str, report: Path | None) -> str:
    outputs = [] if report is None else [{"name": "test.xml", "uri": f"file://{report}"}]
    result = {"status": status, "testActionOutput": outputs}
    return json.dumps({"id": {"testResult": {"label": "//a:b"}}, "testResult": result})


def test_cases_are_counted_by_outcome(tmp_path: Path) -> None:
    report = tmp_path / "test.xml"
    report.write_text(REPORT)
    lines = [json.dumps({"id": {"started": {}}}), event("FAILED", report)]
    assert count("\n".join(lines), 3) == {"passed": 2, "failed": 1, "skipped": 2}


@pytest.mark.parametrize(
    ("lines", "status", "counts"),
    [
        ([event("PASSED", None)], 0, {"passed": 1}),
        ([event("TIMEOUT", None)], 3, {"failed": 1}),
        ([event("PASSED", None)], 1, {"passed": 1, "failed": 1}),
        ([], 1, {"failed": 1}),
    ],
)
def test_what_wrote_no_report_counts(lines: list[str], status: int, counts: dict[str, int]) -> None:
    assert count("\n".join(lines), status) == counts


def test_a_crash_after_passing_cases_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "test.xml"
    report.write_text('<testsuite><testcase name="a"/></testsuite>')
    assert count(event("FAILED", report), 3) == {"passed": 1, "failed": 1}
