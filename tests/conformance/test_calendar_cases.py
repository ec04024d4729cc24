"""What Quartz answered about calendars."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.conformance.calendar_builder import calendar_from_case
from tests.conformance.loading import Comparison, at, demanded, family, shown

# These two look strictly later, and so do those that have one for their base; the others look at or after.
STRICT = {"daily", "cron"}
MILLISECOND = timedelta(milliseconds=1)


def looks_strictly_later(described: Mapping[str, Any] | None) -> bool:
    return described is not None and (described["type"] in STRICT or looks_strictly_later(described.get("base")))


def test_calendars_include_what_quartz_includes(conformance_dir: Path) -> None:
    comparison = Comparison("calendars")
    for case in family(conformance_dir, "calendars"):
        calendar = calendar_from_case(case["calendar"])
        assert calendar is not None
        kind = case["calendar"]["type"]
        for answer in demanded(case["included"]):
            comparison.equal(
                case, f"included {kind} {answer['at']}", calendar.is_included(at(answer["at"])), answer["value"]
            )
        for answer in demanded(case["next_included"]):
            after = at(answer["after"]) + (MILLISECOND if looks_strictly_later(case["calendar"]) else timedelta())
            got = shown(calendar.next_included(after))
            comparison.equal(case, f"next_included {kind} {answer['after']}", got, answer["value"])
    comparison.conclude()
