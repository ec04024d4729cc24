"""Triggers made of triggers, and jitter."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.errors import InvalidTriggerError
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import MAX_NESTED, AllOf, AnyOf, Jitter
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.trigger import Trigger
from tests.fire_times import first_fire_times
from tests.unit.instants import instants

HOUR = timedelta(hours=1)
START = datetime(2026, 5, 15, tzinfo=UTC)  # a Friday


def every(interval: int, unit: str = "minute", **more: Any) -> CalendarIntervalTrigger:
    return CalendarIntervalTrigger(interval=interval, unit=unit, **more)


def minutes(times: list[datetime]) -> list[int]:
    return [int((at - START).total_seconds()) // 60 for at in times]


def test_any_of_fires_with_each_and_once_where_they_meet() -> None:
    trigger = AnyOf(triggers=(every(6), every(10)), start_time=START)
    assert minutes(first_fire_times(trigger, 8)) == [0, 6, 10, 12, 18, 20, 24, 30]


def test_all_of_fires_where_all_meet() -> None:
    trigger = AllOf(triggers=(every(6), every(10)), start_time=START)
    assert minutes(first_fire_times(trigger, 4)) == [0, 30, 60, 90]


def test_all_of_fires_when_the_last_agrees_within_the_threshold() -> None:
    trigger = AllOf(triggers=(every(6), every(10)), start_time=START, threshold=timedelta(minutes=2))
    assert minutes(first_fire_times(trigger, 6)) == [0, 12, 20, 30, 42, 50]


def test_all_of_triggers_that_never_agree_ends_the_search() -> None:
    apart = every(2, start_time=START + timedelta(minutes=1))
    assert first_fire_times(AllOf(triggers=(every(2), apart), start_time=START), 1) == []
    assert first_fire_times(AllOf(triggers=(every(2), every(2, end_time=START)), start_time=START), 1) == []


def test_each_part_keeps_its_own_bounds_and_the_whole_bounds_them_all() -> None:
    early = every(10, end_time=START + timedelta(minutes=20))
    late = every(10, start_time=START + timedelta(minutes=45))
    trigger = AnyOf(triggers=(early, late), start_time=START, end_time=START + timedelta(minutes=65))
    assert minutes(first_fire_times(trigger, 9)) == [0, 10, 45, 55, 65]


def test_a_calendar_and_misfires_belong_to_the_whole() -> None:
    at_noon = DailyTimeIntervalTrigger(interval=24, unit="hour", start_time_of_day=time(12), end_time_of_day=time(12))
    trigger = AnyOf(triggers=(at_noon, every(1, "month")), start_time=START, misfire="do_nothing")
    assert [at.day for at in first_fire_times(trigger, 4, calendar=WeeklyCalendar())] == [15, 15, 18, 19]
    progress = trigger.started()
    assert trigger.after_misfire(progress, now=START + timedelta(hours=13))[1].next_fire_time == datetime(
        2026, 5, 16, 12, tzinfo=UTC
    )


def test_jitter_differs_by_key_and_instant_and_never_changes() -> None:
    def spread(name: str) -> list[datetime]:
        spread_out = Jitter(name, trigger=every(1, "hour"), up_to=timedelta(minutes=5), start_time=START)
        return first_fire_times(spread_out, 20)

    assert spread("a") == spread("a")
    assert spread("a") != spread("b")
    delays = {at - (START + timedelta(hours=number)) for number, at in enumerate(spread("a"))}
    assert len(delays) > 10
    assert all(timedelta() <= delay < timedelta(minutes=5) for delay in delays)
    # Kept from one release to the next: all nodes of a cluster must agree while one is upgraded.
    assert spread("a")[0] == START + timedelta(milliseconds=176480)


PARTS = st.builds(
    CalendarIntervalTrigger,
    interval=st.integers(1, 90),
    unit=st.sampled_from(["second", "minute", "hour", "day", "month"]),
    start_time=st.none() | instants(2026, 2027),
    end_time=st.none() | instants(2027, 2028),
)
SEVERAL = st.lists(PARTS, min_size=2, max_size=3)
WHOLES = st.one_of(
    st.builds(AnyOf, st.just("whole"), triggers=SEVERAL, start_time=st.just(START)),
    st.builds(
        AllOf,
        st.just("whole"),
        triggers=SEVERAL,
        start_time=st.just(START),
        threshold=st.timedeltas(timedelta(), timedelta(hours=1)),
    ),
    st.builds(
        Jitter,
        st.just("whole"),
        trigger=PARTS,
        start_time=st.just(START),
        up_to=st.timedeltas(timedelta(milliseconds=1), timedelta(days=40)),
    ),
)
INSTANTS = instants(2025, 2028)


@given(WHOLES, INSTANTS)
def test_the_next_fire_is_later_and_none_lies_between(trigger: Trigger, instant: datetime) -> None:
    following = trigger.next_after(instant)
    if following is not None:
        assert following > instant
        assert following >= START
        assert trigger.next_after(following - timedelta.resolution) == following
        afterwards = trigger.next_after(following)
        assert afterwards is None or afterwards > following
        assert trigger.next_after(instant + (following - instant) / 2) in {following, afterwards}


@given(PARTS, st.timedeltas(timedelta(milliseconds=1), timedelta(days=40)))
def test_jitter_keeps_the_number_and_order_of_fires(part: CalendarIntervalTrigger, up_to: timedelta) -> None:
    anchored = part.anchored(START)
    plain = first_fire_times(anchored, 6)
    moved = first_fire_times(Jitter("spread", trigger=part, up_to=up_to, start_time=anchored.anchor), 6)
    assert len(moved) == len(plain)
    for index, (at, later) in enumerate(zip(plain, moved, strict=True)):
        assert at <= later < at + up_to
        assert index + 1 == len(plain) or later < plain[index + 1]


@given(WHOLES)
def test_a_combination_comes_back_from_its_schedule_as_it_was(trigger: Trigger) -> None:
    schedule = json.loads(json.dumps(trigger.schedule()))
    again = type(trigger).from_schedule(schedule, name=trigger.name, start_time=trigger.start_time)
    assert again == trigger


def test_combinations_nest() -> None:
    either = AnyOf(triggers=(every(6), every(10)))
    both = AllOf(triggers=(either, every(15)))
    trigger = Jitter("n", trigger=both, up_to=timedelta(seconds=9), start_time=START)
    assert minutes(first_fire_times(trigger, 3)) == [0, 30, 60]
    assert Jitter.from_schedule(trigger.schedule(), name="n", start_time=START) == trigger
    for _ in range(MAX_NESTED - 3):
        trigger = Jitter(trigger=trigger, up_to=timedelta(seconds=9))
    with pytest.raises(InvalidTriggerError, match="nested more than"):
        Jitter(trigger=trigger, up_to=timedelta(seconds=9))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AnyOf(triggers=(every(1),)), "at least two"),
        (lambda: AnyOf(triggers=every(1)), "several"),
        (lambda: AnyOf(triggers=("noon", "midnight")), "must be triggers"),
        (lambda: AnyOf(triggers=(every(1), every(2, calendar="holidays"))), "calendar: belongs"),
        (lambda: AnyOf(triggers=(every(1), every(2, misfire="ignore"))), "misfire: belongs"),
        (lambda: AnyOf(triggers=(every(1), every(2, data={"a": 1}))), "data: belongs"),
        (
            lambda: Jitter(trigger=DailyTimeIntervalTrigger(interval=1, unit="hour", repeat_count=3), up_to=HOUR),
            "repeat_count",
        ),
        (lambda: AllOf(triggers=(every(1), every(2)), threshold=timedelta(-1)), "threshold"),
        (lambda: Jitter(trigger=every(1), up_to=timedelta()), "up_to"),
        (lambda: Jitter(trigger=every(1), up_to="soon"), "up_to"),
    ],
)
def test_a_wrong_value_is_named(make, words: str) -> None:
    with pytest.raises(InvalidTriggerError, match=words):
        make()
