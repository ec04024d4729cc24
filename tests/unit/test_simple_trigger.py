"""Simple triggers by the thousand: several fire times at once, and similar triggers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quartzpy.errors import InvalidKeyError
from quartzpy.keys import JobKey
from quartzpy.store.postgresql.schema.rows import TriggerColumns
from quartzpy.store.postgresql.steps.misfire import _trigger
from quartzpy.triggers.simple import SimpleTrigger, similar
from quartzpy.triggers.trigger import Trigger, TriggerProgress

START = datetime(2026, 1, 1, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@given(
    interval=st.sampled_from([timedelta(milliseconds=1), timedelta(microseconds=7777), timedelta(days=1000)]),
    repeat_count=st.none() | st.integers(0, 20),
    near_the_end_of_time=st.booleans(),
    end_after=st.none() | st.tuples(st.integers(0, 12), st.integers(-1, 1)),
    passed=st.integers(0, 10),
    beside=st.integers(-2, 2),
    times=st.integers(0, 12),
    count=st.integers(1, 9),
)
def test_several_fire_times_at_once_are_those_found_one_by_one(
    interval: timedelta,
    repeat_count: int | None,
    near_the_end_of_time: bool,
    end_after: tuple[int, int] | None,
    passed: int,
    beside: int,
    times: int,
    count: int,
) -> None:
    start = LAST - 13 * interval if near_the_end_of_time else START
    end = None if end_after is None else start + end_after[0] * interval + end_after[1] * MICROSECOND
    assume(end is None or end >= start)
    trigger = SimpleTrigger("t", start_time=start, end_time=end, interval=interval, repeat_count=repeat_count)
    progress = TriggerProgress(start + passed * interval + beside * MICROSECOND, None, times)
    assert trigger.following(progress, None, count) == Trigger.following(trigger, progress, None, count)


def test_a_similar_trigger_equals_one_that_is_validated_from_scratch() -> None:
    values: dict[str, Any] = {"interval": "1h", "repeat_count": 7, "priority": 9, "misfire": "fire_now", "group": "g"}
    pattern = SimpleTrigger("first", start_time=START, job_key=JobKey("j"), **values)
    later = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    found = similar(pattern, "second", later)
    assert found == SimpleTrigger("second", start_time=later, job_key=JobKey("j"), **values)
    assert found.anchor.tzinfo is UTC
    assert pattern.key.name == "first"
    with pytest.raises(InvalidKeyError, match="control character"):
        similar(pattern, "\n", later)


def test_similar_late_rows_are_read_as_each_by_itself_would_be() -> None:
    often, thrice = '{"interval_us": 1000000, "repeat_count": null}', '{"interval_us": 1000000, "repeat_count": 3}'
    late: list[tuple[str, str, datetime | None, int]] = [
        ("a", often, None, 5),
        ("b", often, None, 5),
        ("c", thrice, None, 5),
        ("d", often, LAST, 5),
        ("e", often, None, 1),
        ("f", often, None, 5),
    ]
    patterns: dict[tuple[Any, ...], SimpleTrigger] = {}
    for number, (name, schedule, end, priority) in enumerate(late):
        columns = TriggerColumns(
            trigger_name=name,
            trigger_group="g",
            job_group="job group",
            job_name="job",
            kind="simple",
            schedule=schedule,
            description=None,
            start_time=START + number * MICROSECOND,
            end_time=end,
            priority=priority,
            misfire_instruction="smart",
            misfire_threshold=None,
            calendar_name=None,
            trigger_data=None,
        )
        assert _trigger(columns, patterns) == columns.trigger()
    assert sorted(pattern.key.name for pattern in patterns.values()) == ["a", "c", "e"]
