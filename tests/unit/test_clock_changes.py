"""All kinds of triggers around unusual clock changes, asked at each quarter of an hour, against a slow oracle.

Samoa skipped 30 December 2011. The Chatham Islands are 12:45 ahead of UTC, and change their clocks at 2:45 and 3:45.
Greenland's clocks skip the last hour of a day. The oracle walks through all minutes of some days and knows nothing
but the wall-clock time of each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CalendarIntervalTrigger, CronTrigger, DailyTimeIntervalTrigger, DayOfWeek
from quartzpy.triggers.trigger import Trigger

MINUTE, QUARTER, DAY = timedelta(minutes=1), timedelta(minutes=15), timedelta(days=1)


@dataclass(frozen=True)
class Change:
    """A change of the clock, and the days of a zone around it that are walked through."""

    zone: str
    day: date

    @property
    def dates(self) -> list[date]:
        """Some dates before and after the change, also one that the zone has skipped."""
        return [self.day + number * DAY for number in range(-9, 10)]

    @cached_property
    def walked(self) -> list[tuple[datetime, datetime]]:
        """The minutes of two more days at each end, with the wall-clock time of each."""
        start = datetime.combine(self.dates[0] - 2 * DAY, time(), UTC)
        instants = [start + number * MINUTE for number in range((len(self.dates) + 4) * 24 * 60)]
        zone = ZoneInfo(self.zone)
        return [(instant, instant.astimezone(zone).replace(tzinfo=None)) for instant in instants]

    @cached_property
    def first_shown(self) -> dict[datetime, datetime]:
        return {wall: instant for instant, wall in reversed(self.walked)}

    @cached_property
    def gaps(self) -> list[tuple[datetime, datetime, datetime]]:
        """The last wall-clock time before each gap, the first one after it, and its instant."""
        pairs = pairwise(self.walked)
        return [(before, after, instant) for (_, before), (instant, after) in pairs if after - before > MINUTE]

    def end_of_gap(self, wall: datetime) -> datetime:
        """Return the first instant with a wall-clock time, or the end of the gap that has it."""
        if wall in self.first_shown:
            return self.first_shown[wall]
        [instant] = [instant for before, after, instant in self.gaps if before < wall < after]
        return instant

    def moved(self, wall: datetime) -> datetime:
        """Return the first instant with a wall-clock time; one in a gap is later by the length of the gap."""
        if wall in self.first_shown:
            return self.first_shown[wall]
        [moved] = [instant + (wall - before - MINUTE) for before, after, instant in self.gaps if before < wall < after]
        return moved

    @cached_property
    def existing(self) -> set[date]:
        return {wall.date() for _, wall in self.walked}


APIA = Change("Pacific/Apia", date(2011, 12, 30))
CHATHAM_FORWARD = Change("Pacific/Chatham", date(2026, 9, 27))
CHATHAM_BACK = Change("Pacific/Chatham", date(2026, 4, 5))
NUUK = Change("America/Nuuk", date(2025, 3, 29))
CHANGES = pytest.mark.parametrize(
    "change", [APIA, CHATHAM_FORWARD, CHATHAM_BACK, NUUK], ids=["Apia", "Chatham forward", "Chatham back", "Nuuk"]
)
EVERY_DAY = frozenset(range(7))
TIMES = [time(0), time(2, 30), time(2, 45), time(3, 0), time(3, 30), time(12), time(23, 30)]
"""Before, at, within and after the gaps and the repeated hours."""


def quarters(change: Change) -> list[datetime]:
    start = datetime.combine(change.day - 3 * DAY, time(), UTC)
    return [start + number * QUARTER for number in range(6 * 96)]


def agree(trigger: Trigger, change: Change, fires: set[datetime]) -> None:
    """Ask from each quarter of an hour for the next fire, and compare it with a list of all fires."""
    ordered = sorted(fires)
    wrong = []
    for asked in quarters(change):
        expected = ordered[bisect_right(ordered, asked)]
        if (found := trigger.next_after(asked)) != expected:
            wrong.append(f"after {_local(asked, change)}: {_local(found, change)}, not {_local(expected, change)}")
    assert wrong == []


def agree_backwards(trigger: CronTrigger, change: Change, fires: set[datetime]) -> None:
    ordered = sorted(fires)
    for asked in quarters(change):
        assert trigger.previous_before(asked) == ordered[bisect_left(ordered, asked) - 1], _local(asked, change)


def _local(instant: datetime | None, change: Change) -> str:
    return "none" if instant is None else instant.astimezone(ZoneInfo(change.zone)).isoformat(" ", "minutes")


def weekday_of(day: date) -> int:
    """Return the day of the week as a crontab line counts it: 0 is Sunday."""
    return day.isoweekday() % 7


def quartz(at: time, days: frozenset[int]) -> str:
    weekdays = ",".join(str(day + 1) for day in sorted(days))
    return f"0 {at.minute} {at.hour} ? * {weekdays if days != EVERY_DAY else '*'}"


def crontab(at: time, days: frozenset[int]) -> str:
    return f"{at.minute} {at.hour} * * {','.join(map(str, sorted(days))) if days != EVERY_DAY else '*'}"


DAYS = [lambda day: EVERY_DAY, lambda day: frozenset({weekday_of(day)}), lambda day: frozenset({weekday_of(day + DAY)})]
ON_DAYS = pytest.mark.parametrize("days_around", DAYS, ids=["every day", "that weekday", "the weekday after it"])


@CHANGES
@ON_DAYS
@pytest.mark.parametrize("dialect", [quartz, crontab])
def test_fixed_times_of_cron_fire_once_on_each_day_also_at_the_end_of_a_gap(
    change: Change, days_around: Callable[[date], frozenset[int]], dialect: Callable[[time, frozenset[int]], str]
) -> None:
    days = days_around(change.day)
    for at in TIMES:
        matches = [datetime.combine(day, at) for day in change.dates if weekday_of(day) in days]
        fires = {change.end_of_gap(wall) for wall in matches}
        trigger = CronTrigger(dialect(at, days), time_zone=change.zone, start_time=min(fires))
        agree(trigger, change, fires)
        agree_backwards(trigger, change, fires)


@CHANGES
@pytest.mark.parametrize("text", ["0 0/15 * * * ?", "*/15 * * * *", "0 45 * * * ?", "30 */2 * * *", "0 0/20 2-3 * * ?"])
def test_a_rhythm_of_cron_follows_the_wall_clock_through_gaps_and_both_passes(change: Change, text: str) -> None:
    minutes, hours = {
        "0 0/15 * * * ?": ({0, 15, 30, 45}, set(range(24))),
        "*/15 * * * *": ({0, 15, 30, 45}, set(range(24))),
        "0 45 * * * ?": ({45}, set(range(24))),
        "30 */2 * * *": ({30}, set(range(0, 24, 2))),
        "0 0/20 2-3 * * ?": ({0, 20, 40}, {2, 3}),
    }[text]
    fires = {instant for instant, wall in change.walked if wall.minute in minutes and wall.hour in hours}
    trigger = CronTrigger(text, time_zone=change.zone, start_time=min(fires))
    agree(trigger, change, fires)
    agree_backwards(trigger, change, fires)


@CHANGES
@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("interval", [1, 2, 3])
@pytest.mark.parametrize("skips", [False, True])
def test_intervals_of_days_keep_the_time_of_day(change: Change, at: time, interval: int, skips: bool) -> None:
    day = change.day - 6 * DAY
    start, fires = change.moved(datetime.combine(day, at)), set()
    while day <= change.dates[-1]:
        if not skips and day not in change.existing:
            day += DAY  # The series has the next day instead and continues from that.
        wall = datetime.combine(day, at)
        if wall in change.first_shown or not skips:
            fires.add(change.moved(wall))
        day += interval * DAY
    trigger = CalendarIntervalTrigger(
        interval=interval,
        unit="day",
        time_zone=change.zone,
        start_time=start,
        skip_day_if_hour_does_not_exist=skips,
    )
    agree(trigger, change, fires)


@CHANGES
@ON_DAYS
@pytest.mark.parametrize(("begin", "end"), [(time(2, 30), time(4)), (time(9), time(17)), (time(23, 30), time(23, 45))])
@pytest.mark.parametrize("minutes", [15, 40, 24 * 60])
def test_intervals_within_a_day_begin_on_each_day_that_exists(
    change: Change, days_around: Callable[[date], frozenset[int]], begin: time, end: time, minutes: int
) -> None:
    days = days_around(change.day)
    fires = set()
    for day in change.dates:
        if weekday_of(day) in days and day in change.existing:
            fire, last = change.moved(datetime.combine(day, begin)), change.moved(datetime.combine(day, end))
            while fire <= last:
                fires.add(fire)
                fire += minutes * MINUTE
                if minutes == 24 * 60:
                    break
    trigger = DailyTimeIntervalTrigger(
        interval=minutes,
        unit="minute",
        start_time_of_day=begin,
        end_time_of_day=end,
        days_of_week={DayOfWeek(day + 1) for day in days},
        time_zone=change.zone,
        start_time=min(fires),
    )
    agree(trigger, change, fires)
