"""Counts the test cases of a run of `bazel test` from its events: `N passed, N failed`.

    count_tests.py EVENTS STATUS

EVENTS is what --build_event_json_file wrote, STATUS bazel's exit status.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


def _outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped") is not None or case.get("status") == "notrun"
    return "skipped" if skipped else "passed"


def _count_target(result: dict[str, Any]) -> Counter[str]:
    """The outcomes of one test target's cases; one that wrote no report is a case itself."""
    reports = [
        Path(urllib.parse.urlparse(output["uri"]).path)
        for output in result.get("testActionOutput", [])
        if output["name"] == "test.xml"
    ]
    counts: Counter[str] = Counter()
    for report in reports:
        if report.exists() and report.stat().st_size:
            counts.update(map(_outcome, ElementTree.parse(report).iter("testcase")))
    has_passed = result.get("status") == "PASSED"
    if not has_passed and not counts["failed"]:
        counts["failed"] += 1
    elif has_passed and not counts:
        counts["passed"] += 1
    return counts


def count(events: str, status: int) -> Counter[str]:
    """The outcomes of all test cases.

    Args:
        events: the event file's text, one JSON object a line.
        status: bazel's exit status; where it failed without a failed test, that is a failed case.
    """
    counts: Counter[str] = Counter()
    for line in events.splitlines():
        event = json.loads(line)
        if "testResult" in event.get("id", {}):
            counts += _count_target(event.get("testResult", {}))
    if status and not counts["failed"]:
        counts["failed"] += 1
    return counts


def main(events: str, status: str) -> int:
    """Prints the counts and returns the exit status of the whole."""
    counts = count(Path(events).read_text(), int(status))
    if counts["skipped"]:
        print(f"{counts['skipped']} skipped")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
