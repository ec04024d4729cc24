"""The fire times of simple triggers, computed one by one and several at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from quartzpy.triggers.simple import SimpleTrigger
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
