"""Previews of fire times, the comparison of schedules, and searches that end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import islice

import pytest

from quartzpy import (
    AllOf,
    AnyOf,
    CalendarIntervalTrigger,
    CronCalendar,
    CronTrigger,
    DailyTimeIntervalTrigger,
    Jitter,
    MonthlyCalendar,
    RecurrenceTrigger,
    SimpleTrigger,
    Trigger,
    WeeklyCalendar,
    every,
)
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidTriggerError
from quartzpy.triggers.registry import stored_schedule
from quartzpy.triggers.upcoming import look_ahead, refill

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NEVER = MonthlyCalendar(frozenset(range(1, 32)))

KINDS: list[Trigger] = [
    every("1h"),
    CronTrigger("0 0 * * * ?"),
    CalendarIntervalTrigger(interval=1, unit="day"),
    DailyTimeIntervalTrigger(interval=90, unit="minute", days_of_week=range(2, 7)),
    RecurrenceTrigger(rule="FREQ=DAILY;BYHOUR=3"),
    AnyOf(triggers=(every("5h"), CronTrigger("0 0 2 * * ?"))),
    Jitter(trigger=every("1h"), up_to="10m"),
]


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger.kind)
def test_an_unstarted_trigger_shows_what_comes_next_from_now_or_from_a_start(trigger: Trigger) -> None:
    before = datetime.now(UTC)
    assert len(trigger.upcoming(5)) == len(trigger.anchored(START).upcoming(5)) == 5
    assert before <= trigger.upcoming(5)[0]
    assert before < trigger.anchored(START).upcoming(5)[0], "what lies in the past is not upcoming"
    assert trigger.upcoming(5, START) == list(islice(trigger.anchored(START).fire_times(), 5))
    later = START + 30 * DAY
    anchored = trigger.anchored(START)
    assert anchored.upcoming(3, later) == list(islice((at for at in anchored.fire_times() if at > later), 3))


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger.kind)
@pytest.mark.parametrize("end", [None, START + 4 * DAY, START + 4 * DAY + timedelta(hours=2)])
@pytest.mark.parametrize("calendar", [None, WeeklyCalendar()])
def test_several_fire_times_at_once_are_those_found_one_by_one(
    trigger: Trigger, end: datetime | None, calendar: Calendar | None
) -> None:
    anchored = replace(trigger, end_time=end).anchored(START)
    progress = anchored.started(calendar)
    for late in (progress, replace(progress, next_fire_time=START - DAY), replace(progress, next_fire_time=None)):
        assert anchored.following(late, calendar, 9) == Trigger.following(anchored, late, calendar, 9)


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger.kind)
def test_fire_times_between_include_both_ends_and_honour_the_calendar(trigger: Trigger) -> None:
    anchored = trigger.anchored(START)
    some = list(islice(anchored.fire_times(), 40))
    assert list(anchored.fire_times(some[3], some[30])) == some[3:31]
    weekdays = [at for at in some if at.isoweekday() < 6]
    assert list(anchored.fire_times(end=some[-1], calendar=WeeklyCalendar())) == weekdays


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger.kind)
@pytest.mark.parametrize("count", [1, 7])
def test_the_end_time_that_allows_a_number_of_fires(trigger: Trigger, count: int) -> None:
    ended = trigger.anchored(START).ending_after(count)
    assert len(list(ended.fire_times())) == count
    assert (
        len(
            list(trigger.anchored(START).ending_after(count, WeeklyCalendar()).fire_times(None, None, WeeklyCalendar()))
        )
        == count
    )


def test_an_end_time_for_more_fires_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidTriggerError, match=r"fires fewer than 4 times"):
        every("1h", repeat_count=2, start_time=START).ending_after(4)
    with pytest.raises(InvalidTriggerError, match=r"count: must be an integer of at least 1 \(got 0\)"):
        every("1h", start_time=START).ending_after(0)


@pytest.mark.parametrize("calendar", [NEVER, CronCalendar("* * * * * ?")], ids=["all days", "all"])
@pytest.mark.parametrize(
    "trigger", [CronTrigger("0/2 * * * * ?"), every("2s"), CalendarIntervalTrigger(interval=2, unit="second")]
)
def test_every_search_ends_where_the_calendar_excludes_all_fire_times(trigger: Trigger, calendar: CronCalendar) -> None:
    assert trigger.upcoming(1, START, calendar) == []
    assert trigger.anchored(START).upcoming(1, START, calendar) == []
    assert trigger.anchored(START).started(calendar).next_fire_time is None


@pytest.mark.parametrize("trigger", [CronTrigger("0/2 * * * * ?"), every("2s")])
def test_the_search_ends_if_trigger_and_calendar_never_agree(trigger: Trigger) -> None:
    assert trigger.anchored(START).started(CronCalendar("0/2 * * * * ?")).next_fire_time is None


def test_the_repeat_count_of_a_daily_trigger_holds_for_the_stored_fire_times() -> None:
    trigger = DailyTimeIntervalTrigger(
        interval=1, unit="hour", repeat_count=2, start_time=START, end_time=START + 2 * DAY
    )
    progress = trigger.started()
    ahead = look_ahead(trigger, progress, None)
    assert (ahead.instants, ahead.is_complete) == ((START + DAY / 24, START + DAY / 12), True)
    long = replace(trigger, repeat_count=11)
    fired, upcoming = [long.started().next_fire_time], look_ahead(long, long.started(), None)
    while upcoming.instants:
        fired.append(upcoming.instants[0])
        upcoming = replace(upcoming, instants=upcoming.instants[1:])
        more = refill(long, fired[-1], upcoming, len(fired) - 1, None)
        if more is not None:
            upcoming = replace(more, instants=upcoming.instants + more.instants)
    assert len(fired) == 12


def test_a_daily_interval_begins_at_its_hour_again_after_the_gap_from_wherever_one_asks() -> None:
    trigger = DailyTimeIntervalTrigger(
        interval=1,
        unit="hour",
        start_time_of_day=time(2, 30),
        end_time_of_day=time(4, 30),
        days_of_week=[1],
        time_zone="Europe/Warsaw",
        start_time=datetime(2018, 3, 1, tzinfo=UTC),
    )
    april = [datetime(2018, 4, 1, hour, 30, tzinfo=UTC) for hour in (0, 1, 2)]
    for asked_from in (
        datetime(2018, 3, 20, tzinfo=UTC),
        datetime(2018, 3, 25, 12, tzinfo=UTC),
        datetime(2018, 3, 31, tzinfo=UTC),
    ):
        assert [at for at in trigger.upcoming(8, asked_from) if at.month == 4][:3] == april


def test_an_interval_of_a_day_fires_once_on_the_day_of_25_hours() -> None:
    trigger = DailyTimeIntervalTrigger(
        interval=24, unit="hour", time_zone="Europe/Berlin", start_time=datetime(2026, 10, 24, tzinfo=UTC)
    )
    assert [f"{at:%d %H:%M}" for at in islice(trigger.fire_times(), 3)] == [
        "24 22:00",
        "25 23:00",
        "26 23:00",
    ]


def test_the_quartz_way_of_a_daily_trigger_begins_on_the_second_pass() -> None:
    def first(dst: str) -> datetime:
        trigger = DailyTimeIntervalTrigger(
            interval=1, unit="hour", start_time_of_day=time(2, 30), end_time_of_day=time(2, 59), dst=dst,
            time_zone="Europe/Berlin", start_time=datetime(2026, 10, 25, tzinfo=UTC),
        )  # fmt: skip
        return next(trigger.fire_times())

    assert (first("once").hour, first("quartz").hour) == (0, 1)
    with pytest.raises(InvalidTriggerError, match=r"dst: must be one of once, quartz \(got 'nonsense'\)"):
        first("nonsense")


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger.kind)
def test_what_does_not_belong_to_the_schedule_does_not_change_it(trigger: Trigger) -> None:
    stored = stored_schedule(trigger.kind, trigger.anchored(START).schedule(), start_time=START)
    assert trigger.same_schedule(stored)
    assert stored.same_schedule(trigger)
    assert replace(trigger, description="d", data={"a": 1}, priority=9).same_schedule(stored)
    assert trigger.same_schedule(replace(stored, misfire_threshold="5m"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (every("1h"), every("2h")),
        (every("1h"), every("1h", repeat_count=5)),
        (every("1h"), CalendarIntervalTrigger(interval=1, unit="hour")),
        (every("1h", start_time=START), every("1h", start_time=START + DAY)),
        (every("1h"), every("1h", end_time=START)),
        (every("1h"), every("1h", calendar="holidays")),
        (CronTrigger("0 0 * * * ?"), CronTrigger("0 0 * * * ?", time_zone="Europe/Berlin")),
        (AnyOf(triggers=(every(1), every(2))), AnyOf(triggers=(every(1), every(3)))),
        (AnyOf(triggers=(every(1), every(2))), AnyOf(triggers=(every(1), every(2), every(3)))),
        (AllOf(triggers=(every(1), every(2))), AllOf(triggers=(every(1), every(2)), threshold=9)),
        (Jitter(trigger=every("1h"), up_to=1), Jitter(trigger=every("1h"), up_to=2)),
    ],
)
def test_another_schedule_is_another(one: Trigger, other: Trigger) -> None:
    assert not one.same_schedule(other)
    assert not other.same_schedule(one)


def test_a_trigger_that_a_misfire_restarted_still_has_its_schedule() -> None:
    given = every("10s", repeat_count=9, start_time=START)
    for moved_by in ("smart", "fire_now"):
        stored = replace(given, misfire=moved_by)
        for late in (25, 55):
            stored, _ = stored.after_misfire(stored.started(), now=START + late * timedelta(seconds=1))
            stored = stored_schedule("simple", stored.schedule(), start_time=stored.start_time)
            assert isinstance(stored, SimpleTrigger)
            assert stored.start_time != START
            assert given.same_schedule(stored)
            assert not every("10s", repeat_count=8, start_time=START).same_schedule(stored)


@pytest.mark.parametrize("made", [lambda: every("1h").upcoming(1, datetime(2026, 1, 1))])
def test_a_start_without_a_zone_is_refused(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidTriggerError, match="start: needs a time zone"):
        made()
