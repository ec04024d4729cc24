"""Plain schedules: every so often, and once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from quartzpy import DateTrigger, IntervalTrigger, SimpleTrigger, Trigger, at, every
from quartzpy.errors import InvalidTriggerError
from quartzpy.triggers.registry import stored_schedule
from tests.fire_times import first_fire_times

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "trigger",
    [
        every("5m"),
        every(300),
        every(minutes=5),
        every(minutes=4, seconds=60.0),
        every(timedelta(minutes=5)),
        IntervalTrigger(minutes=5),
        IntervalTrigger("5m"),
        SimpleTrigger(interval=timedelta(minutes=5)),
        SimpleTrigger(interval="5m", repeat_count=None),
    ],
)
def test_an_interval_in_any_form_repeats_without_end(trigger: Trigger) -> None:
    assert trigger == every("5m")
    anchored = trigger.anchored(START)
    assert first_fire_times(anchored, 1000)[-1] == START + 999 * timedelta(minutes=5)
    assert stored_schedule("simple", anchored.schedule(), start_time=START) == anchored


def test_a_repeat_count_ends_it_and_no_interval_fires_once() -> None:
    assert len(first_fire_times(every("5m", repeat_count=2, start_time=START), 9)) == 3
    assert first_fire_times(SimpleTrigger(start_time=START), 9) == [START]
    assert SimpleTrigger().repeat_count == 0


def test_the_options_of_every_trigger_are_taken() -> None:
    trigger = every("5m", "often", "billing", start_time=START, priority=7, calendar="holidays", data={"a": 1})
    assert trigger == SimpleTrigger(
        "often", "billing", "5m", None, start_time=START, priority=7, calendar="holidays", data={"a": 1}
    )


@pytest.mark.parametrize(
    "trigger",
    [
        at(START),
        at(run_date=START),
        DateTrigger(START),
        DateTrigger(run_date=START.astimezone(timezone(timedelta(hours=5)))),
        at("2026-01-01T00:00Z"),
        at("2026-01-01 01:00+01:00"),
    ],
)
def test_at_fires_once_at_its_instant(trigger: Trigger) -> None:
    assert trigger == SimpleTrigger(start_time=START)
    assert first_fire_times(trigger, 5) == [START]


def test_at_without_an_instant_fires_when_it_is_scheduled() -> None:
    assert first_fire_times(at().anchored(START), 5) == [START]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: every(), "interval: give it either as a length of time, every"),
        (lambda: every("5m", minutes=5), "interval: give it either"),
        (lambda: every(0), "interval: must be above zero"),
        (lambda: every(minutes=-5), "interval: must be above zero"),
        (lambda: every("5 apples"), "interval: must be a length of time"),
        (lambda: every(timedelta(microseconds=5)), "interval: must be at least 1 ms"),
        (lambda: every(minutes="5"), "minutes: must be a number"),
        (lambda: every(seconds=True), "seconds: must be a number"),
        (lambda: every(weeks=10**30), "interval: must be at most 36525 days"),
        (lambda: every(seconds=float("nan")), "interval: must be at most"),
        (lambda: at(datetime(2026, 1, 1)), "run_date: needs a time zone"),
        (lambda: at("2026-01-01"), "run_date: needs a time zone"),
        (lambda: at("tomorrow"), "run_date: must be a datetime, or a text such as"),
        (lambda: at(5), "run_date: must be a datetime"),
    ],
)
def test_what_is_wrong_is_named(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidTriggerError, match=message):
        made()
