"""What becomes of a late trigger: what is made up for, what is let go, what is remembered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.calendars.times import CronCalendar
from quartzpy.errors import InvalidTriggerError
from quartzpy.states import MisfireAction
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from quartzpy.triggers.combined import AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.misfire import MAX_MISSED, misfired
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from tests.fire_times import first_fire_times

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def minutely(**values: Any) -> CronTrigger:
    return CronTrigger("0 * * * * ?", "t", start_time=START, **{"misfire": "fire_all", **values})


def test_a_node_down_for_two_hours_catches_up_on_the_last_ten_minutes() -> None:
    trigger = minutely(catch_up_max=10)
    missed = first_fire_times(trigger, 120)
    misfire = misfired(trigger, trigger.started(), None, now=START + 2 * HOUR - SECOND)
    assert (misfire.action, misfire.caught_up, misfire.has_more) == (MisfireAction.CATCHING_UP, 10, False)
    assert misfire.to.progress.next_fire_time == missed[110]
    assert misfire.missed == tuple(missed[:110])
    assert misfire.to.upcoming.instants == tuple(missed[111:119])


@pytest.mark.parametrize(
    ("bounds", "first", "caught_up"),
    [
        ({"catch_up_max": 1}, 4, 1),
        ({"catch_up_max": 4}, 1, 4),
        ({"catch_up_max": 5}, 0, 5),
        ({"catch_up_max": 99}, 0, 5),
        ({"catch_up_within": 90 * SECOND}, 3, 2),
        ({"catch_up_within": 150 * SECOND}, 2, 3),
        ({"catch_up_within": 150 * SECOND - SECOND}, 3, 2),
        ({"catch_up_within": DAY}, 0, 5),
        ({"catch_up_within": 29 * SECOND}, 5, 0),
        ({"catch_up_max": 1, "catch_up_within": 29 * SECOND}, 5, 0),
        ({"catch_up_max": 2, "catch_up_within": 200 * SECOND}, 3, 2),
        ({"catch_up_max": 4, "catch_up_within": 90 * SECOND}, 3, 2),
    ],
)
def test_both_bounds_hold(bounds: dict[str, Any], first: int, caught_up: int) -> None:
    """Late since 4.5 minutes: five instants were missed, the sixth is to come."""
    trigger = minutely(**bounds)
    instants = first_fire_times(trigger, 6)
    misfire = misfired(trigger, trigger.started(), None, now=START + 270 * SECOND)
    assert (misfire.to.progress.next_fire_time, misfire.caught_up) == (instants[first], caught_up)
    assert misfire.missed == tuple(instants[:first])
    assert misfire.action == ("CATCHING_UP" if caught_up else "SKIPPED")


def test_a_fire_due_right_now_is_caught_up() -> None:
    trigger = minutely(catch_up_max=1)
    now = START + 5 * MINUTE
    misfire = misfired(trigger, trigger.started(), None, now=now)
    assert (misfire.to.progress.next_fire_time, misfire.action, misfire.caught_up) == (now, "CATCHING_UP", 1)
    assert not misfire.coalesces


def test_one_whose_schedule_is_over_may_end() -> None:
    trigger = minutely(catch_up_within=MINUTE, end_time=START + 3 * MINUTE)
    misfire = misfired(trigger, trigger.started(), None, now=START + HOUR)
    assert (misfire.to.progress.next_fire_time, misfire.action, len(misfire.missed)) == (None, "ENDED", 4)


def test_a_fire_time_that_a_new_calendar_does_not_include_is_a_missed_one_still() -> None:
    trigger = minutely(catch_up_max=3)
    no_noon = CronCalendar("* * 12 * * ?")
    misfire = misfired(trigger, TriggerProgress(START), no_noon, now=START + HOUR + MINUTE)
    assert (misfire.to.progress.next_fire_time, misfire.caught_up) == (START, 3)


def test_a_simple_trigger_counts_what_it_lets_go() -> None:
    trigger = SimpleTrigger("t", start_time=START, interval=MINUTE, repeat_count=9, misfire="fire_all", catch_up_max=2)
    misfire = misfired(trigger, trigger.started(), None, now=START + 5 * MINUTE)
    progress = misfire.to.progress
    assert (progress.next_fire_time, progress.times_triggered, misfire.caught_up) == (START + 4 * MINUTE, 4, 2)
    assert trigger.following(progress, None, 20) == [START + n * MINUTE for n in range(5, 10)]


@pytest.mark.parametrize(("age", "action"), [(HOUR, "CATCHING_UP"), (HOUR + SECOND, "ENDED")])
def test_one_that_fires_once_runs_late_or_not_at_all(age: timedelta, action: str) -> None:
    trigger = SimpleTrigger("t", start_time=START, misfire="fire_all", catch_up_within=HOUR)
    misfire = misfired(trigger, trigger.started(), None, now=START + age)
    assert misfire.action == action
    assert misfire.missed == (() if action == "CATCHING_UP" else (START,))


def test_the_cost_does_not_follow_from_the_length_of_the_outage() -> None:
    asked = 0

    class Counting(SimpleTrigger):
        def included_from(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
            nonlocal asked
            asked += 1
            return super().included_from(instant, calendar)

    trigger = Counting("t", start_time=START, interval=SECOND, repeat_count=None, misfire="fire_all", catch_up_max=10)
    misfire = misfired(trigger, trigger.started(), None, now=START + 365 * DAY)
    assert misfire.to.progress.next_fire_time == START + 365 * DAY - 9 * SECOND
    assert asked < 200
    assert (len(misfire.missed), misfire.has_more) == (MAX_MISSED, True)


# --- the other instructions


@pytest.mark.parametrize(
    ("trigger", "action", "coalesces"),
    [
        (minutely(misfire="fire_once_now"), "FIRED_ONCE", True),
        (minutely(misfire="do_nothing"), "SKIPPED", False),
        (minutely(misfire="do_nothing", end_time=START + MINUTE), "ENDED", False),
        (SimpleTrigger("t", start_time=START), "FIRED_ONCE", True),
        (SimpleTrigger("t", start_time=START, interval=MINUTE, repeat_count=9), "RESCHEDULED", True),
        (SimpleTrigger("t", start_time=START, interval=MINUTE, repeat_count=None), "SKIPPED", False),
        (
            SimpleTrigger(
                "t",
                start_time=START,
                interval=MINUTE,
                repeat_count=2,
                misfire="reschedule_next_with_remaining_count",
            ),
            "ENDED",
            False,
        ),
    ],
)
def test_what_was_missed_is_remembered_whatever_the_instruction(trigger: Trigger, action: str, coalesces: bool) -> None:
    misfire = misfired(trigger, trigger.started(), None, now=START + 4 * MINUTE + SECOND)
    assert (misfire.action, misfire.coalesces) == (action, coalesces)
    assert misfire.missed == tuple(first_fire_times(trigger, 5))
    assert (misfire.caught_up, misfire.has_more) == (0, False)


def test_exactly_as_many_as_are_remembered_are_no_more() -> None:
    trigger = SimpleTrigger("t", start_time=START, interval=SECOND, repeat_count=MAX_MISSED - 1)
    misfire = misfired(trigger, trigger.started(), None, now=START + HOUR)
    assert (len(misfire.missed), misfire.has_more) == (MAX_MISSED, False)


def test_a_coalescing_fire_is_no_missed_fire() -> None:
    trigger = minutely(misfire="fire_once_now")
    late = TriggerProgress(START + 90 * SECOND)
    misfire = misfired(trigger, late, None, now=START + 200 * SECOND, coalesced=True)
    assert misfire.missed == (START + 2 * MINUTE, START + 3 * MINUTE)


# --- any schedule, any bounds

TRIGGERS: list[Any] = [
    lambda **v: CronTrigger("0 0/7 * * * ?", "t", start_time=START, time_zone="Europe/Berlin", **v),
    lambda **v: CronTrigger("0 30 2,3 ? * MON-SAT", "t", start_time=START, time_zone="Europe/Berlin", **v),
    lambda **v: CronTrigger.from_crontab("*/20 8-17 * * *", "t", start_time=START, **v),
    lambda **v: CalendarIntervalTrigger("t", interval=5, unit=IntervalUnit.HOUR, start_time=START, **v),
    lambda **v: CalendarIntervalTrigger("t", interval=1, unit=IntervalUnit.WEEK, start_time=START, **v),
    lambda **v: DailyTimeIntervalTrigger(
        "t", interval=40, unit=IntervalUnit.MINUTE, days_of_week=frozenset({2, 4}), start_time=START, **v
    ),
    lambda **v: AnyOf(
        "t", triggers=(CronTrigger("0 0 8 * * ?"), SimpleTrigger(interval=7 * HOUR, repeat_count=None)),
        start_time=START, **v,
    ),
    lambda **v: Jitter("t", trigger=CronTrigger("0 0 * * * ?"), up_to=20 * MINUTE, start_time=START, **v),
    lambda **v: SimpleTrigger("t", start_time=START, interval=13 * MINUTE, repeat_count=None, **v),
    lambda **v: SimpleTrigger("t", start_time=START, interval=3 * HOUR, repeat_count=40, **v),
    lambda **v: SimpleTrigger("t", start_time=START, **v),
]  # fmt: skip
CALENDARS = [None, WeeklyCalendar(time_zone="UTC"), CronCalendar("* * 4-11 * * ?")]
SPANS = st.timedeltas(min_value=SECOND, max_value=9 * DAY)


@given(
    make=st.sampled_from(TRIGGERS),
    calendar=st.sampled_from(CALENDARS),
    most=st.none() | st.integers(1, 60),
    within=st.none() | SPANS,
    outage=SPANS,
    fires_before=st.integers(0, 3),
)
def test_every_missed_fire_is_either_kept_or_skipped(
    make: Any,
    calendar: Calendar | None,
    most: int | None,
    within: timedelta | None,
    outage: timedelta,
    fires_before: int,
) -> None:
    if most is None and within is None:
        most = 1
    trigger = make(misfire="fire_all", catch_up_max=most, catch_up_within=within)
    late = trigger.started(calendar)
    for _ in range(fires_before):
        late = trigger.triggered(late, calendar)
    if late.next_fire_time is None:
        return
    now = late.next_fire_time + outage
    series: list[datetime] = []
    ahead = late
    while ahead.next_fire_time is not None and sum(at > now for at in series[-6:]) < 6:
        series.append(ahead.next_fire_time)
        ahead = trigger.triggered(ahead, calendar)
    missed = [at for at in series if at <= now]
    wanted = [at for at in missed if within is None or at >= now - within]
    kept = wanted[-most:] if most is not None else wanted

    misfire = misfired(trigger, late, calendar, now=now)

    let_go = missed[: len(missed) - len(kept)]
    assert list(misfire.missed) == let_go[:MAX_MISSED]
    assert misfire.has_more == (len(let_go) > MAX_MISSED)
    assert misfire.caught_up == len(kept)
    # From there on its schedule is as it was: what is kept, in order, then what is to come.
    rest = series[len(let_go) :]
    going = [misfire.to.progress.next_fire_time, *trigger.following(misfire.to.progress, calendar, len(rest))]
    assert going[: len(rest)] == rest
    assert all(one < other for one, other in pairwise(rest))


# --- what may be said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"misfire": "fire_all"}, "misfire: fire_all needs catch_up_max, catch_up_within or both"),
        (
            {"misfire": "fire_all", "catch_up_max": 0},
            r"catch_up_max: must be an integer of 32 bits, at least 1 \(got 0\)",
        ),
        ({"misfire": "fire_all", "catch_up_max": True}, "catch_up_max: must be an integer"),
        ({"misfire": "fire_all", "catch_up_max": 2.0}, r"catch_up_max: .* \(got 2.0\)"),
        ({"misfire": "fire_all", "catch_up_max": 2**31}, "catch_up_max: .* 32 bits"),
        ({"misfire": "fire_all", "catch_up_within": timedelta()}, "catch_up_within: must be above zero"),
        ({"misfire": "fire_all", "catch_up_within": "soon"}, r"catch_up_within: .* \(got .soon.\)"),
        ({"misfire": "fire_all", "catch_up_within": timedelta.max}, "catch_up_within: .* at most 36525 days"),
        ({"catch_up_max": 3}, r"catch_up_max: only with misfire='fire_all' \(got catch_up_max=3, misfire='smart'\)"),
        ({"misfire": "ignore", "catch_up_within": HOUR}, "catch_up_within: only with misfire='fire_all'"),
    ],
)
@pytest.mark.parametrize(
    "make", [lambda **v: CronTrigger("0 * * * * ?", "t", **v), lambda **v: SimpleTrigger("t", **v)]
)
def test_bounds_that_make_no_sense_are_refused(make: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTriggerError, match=message):
        make(**values)


def test_the_bounds_belong_to_the_whole() -> None:
    with pytest.raises(InvalidTriggerError, match="belongs to the jitter trigger"):
        Jitter("t", trigger=minutely(catch_up_max=3), up_to=MINUTE)
