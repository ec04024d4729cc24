"""Cron expressions against a brute-force reading of their rules, over the odd days of all zones."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.cron_expressions.schedule import DaylightSaving

SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


# --- a second, slow reading of the documentation: one wall-clock second, yes or no


def field_matches(field: str, value: int, low: int, high: int, names: list[str] | None = None) -> bool:
    def number(text: str) -> int:
        return names.index(text) + low if names and text in names else int(text)

    for item in field.split(","):
        body, _, step_text = item.partition("/")
        step = int(step_text or 1)
        if body in ("*", ""):
            first, last = low, high
        elif "-" in body:
            first, last = (number(part) for part in body.split("-"))
        else:
            first, last = number(body), high if step_text else number(body)
        span = range(first, (last if last >= first else last + high - low + 1) + 1, step)
        if value in {(each - low) % (high - low + 1) + low for each in span}:
            return True
    return False


def day_matches(day_of_month: str, day_of_week: str, at: datetime) -> bool:
    last = calendar.monthrange(at.year, at.month)[1]
    if day_of_week == "?":
        if day_of_month == "L":
            return at.day == last
        if day_of_month.startswith("L-"):
            return at.day == last - int(day_of_month[2:])
        if day_of_month == "LW":
            workdays = [d for d in range(1, last + 1) if datetime(at.year, at.month, d).weekday() < 5]
            return at.day == workdays[-1]
        if day_of_month.endswith("W"):
            wanted = int(day_of_month[:-1])
            if wanted > last:
                return False
            workdays = [d for d in range(1, last + 1) if datetime(at.year, at.month, d).weekday() < 5]
            return at.day == min(workdays, key=lambda d: abs(d - wanted))
        return field_matches(day_of_month, at.day, 1, 31)
    weekday = (at.weekday() + 1) % 7 + 1
    if "#" in day_of_week:
        day, nth = map(int, day_of_week.split("#"))
        return weekday == day and (at.day - 1) // 7 + 1 == nth
    if day_of_week.endswith("L") and len(day_of_week) > 1:
        return weekday == int(day_of_week[:-1]) and at.day + 7 > last
    return field_matches(day_of_week, weekday, 1, 7)


def wall_matches(text: str, at: datetime) -> bool:
    seconds, minutes, hours, day_of_month, months, day_of_week, *years = text.split()
    return (
        field_matches(seconds, at.second, 0, 59)
        and field_matches(minutes, at.minute, 0, 59)
        and field_matches(hours, at.hour, 0, 23)
        and field_matches(months, at.month, 1, 12, MONTHS)
        and day_matches(day_of_month, day_of_week, at)
        and (not years or field_matches(years[0], at.year, 1970, 2199))
    )


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high).map(str)
    span = st.tuples(value, value).map("-".join)
    stepped = st.tuples(st.one_of(st.just("*"), value, span), st.integers(1, high - low)).map(
        lambda t: f"{t[0]}/{t[1]}"
    )
    return st.one_of(st.just("*"), st.lists(st.one_of(value, span, stepped), min_size=1, max_size=3).map(",".join))


days = st.one_of(
    st.tuples(numbers(1, 31), st.just("?")),
    st.tuples(st.sampled_from(["L", "LW", "L-3", "1W", "15W", "31W"]), st.just("?")),
    st.tuples(st.just("?"), numbers(1, 7)),
    st.tuples(st.just("?"), st.sampled_from(["6#3", "2#5", "1L", "7L"])),
)
expressions = st.tuples(numbers(0, 59), numbers(0, 59), numbers(0, 23), days, numbers(1, 12)).map(
    lambda t: f"{t[0]} {t[1]} {t[2]} {t[3][0]} {t[4]} {t[3][1]}"
)
instants = st.integers(0, 60 * 365 * 86400).map(lambda seconds: EPOCH + seconds * SECOND)
policies = st.sampled_from(list(DaylightSaving))


@cache
def odd_instants(zone: str) -> tuple[datetime, ...]:
    """Where the clocks of a zone are changed, found by looking at every fifth day and halving."""
    info = ZoneInfo(zone)
    found: list[datetime] = []
    at, step = datetime(2005, 1, 1, tzinfo=UTC), timedelta(days=5)
    while at.year < 2030:
        if at.astimezone(info).utcoffset() != (at + step).astimezone(info).utcoffset():
            low, high = at, at + step
            while high - low > SECOND:
                middle = (low + (high - low) / 2).replace(microsecond=0)
                if low.astimezone(info).utcoffset() == middle.astimezone(info).utcoffset():
                    low = middle
                else:
                    high = middle
            found.append(high)
        at += step
    return tuple(found)


# --- properties


@given(expressions, st.sampled_from(ZONES), instants, policies)
@settings(max_examples=120)
def test_next_after_is_later_satisfies_and_is_inverted_by_previous_before(
    text: str, zone: str, start: datetime, policy: DaylightSaving
) -> None:
    expression = CronExpression(text, zone, policy)
    found = expression.next_after(start)
    if found is None:
        return
    assert found > start
    assert expression.is_satisfied_by(found)
    assert expression.previous_before(found + SECOND) == found
    earlier = expression.previous_before(found)
    assert earlier is None or earlier <= start
    following = expression.next_after(found)
    assert following is None or following > found
    assert expression.upcoming(start, 2) == [at for at in (found, following) if at is not None]


weekday_names = st.lists(st.sampled_from(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]), min_size=1, max_size=3)


@given(numbers(0, 59), numbers(0, 23), numbers(1, 31), numbers(1, 12), weekday_names, st.data())
@settings(max_examples=80)
def test_both_dialects_have_the_same_fire_times_in_all_zones_and_policies(
    minutes: str, hours: str, month_days: str, months: str, weekdays: list[str], data: st.DataObject
) -> None:
    zone, policy = data.draw(st.sampled_from(ZONES)), data.draw(policies)
    changes = odd_instants(zone)
    start = data.draw(st.sampled_from(changes) if changes else instants) - timedelta(hours=30)
    by_name = ",".join(weekdays)
    for quartz, line, day_or in [
        (f"0 {minutes} {hours} ? {months} {by_name}", f"{minutes} {hours} * {months} {by_name}", None),
        (f"0 {minutes} {hours} {month_days} * ?", f"{minutes} {hours} {month_days} * *", None),
        (f"0 {minutes} {hours} {month_days} * {by_name}", f"{minutes} {hours} {month_days} * {by_name}", False),
    ]:
        ours = CronExpression(quartz, zone, policy, day_or)
        same = CrontabExpression(line, zone, policy, day_or is None)
        assert ours.upcoming(start, 12) == same.upcoming(start, 12), line
        assert ours.previous_before(start) == same.previous_before(start), line
        assert ours.describe() == same.describe()


@given(expressions, instants)
@settings(max_examples=60)
def test_in_utc_nothing_matches_between_two_answers_and_the_answers_do(text: str, start: datetime) -> None:
    expression = CronExpression(text)
    at = start
    for _ in range(900):
        at += SECOND
        assert expression.is_satisfied_by(at) == wall_matches(text, at.replace(tzinfo=None)), at
    found = expression.next_after(start)
    assert found is None or wall_matches(text, found.replace(tzinfo=None))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
@given(data=st.data())
@settings(max_examples=40)
def test_around_a_change_quartz_fires_at_the_wall_clock_times_that_are_shown_last(
    zone: str, data: st.DataObject
) -> None:
    """A wall-clock time that comes twice counts on its second pass; one that does not come is left out."""
    change = data.draw(st.sampled_from(odd_instants(zone)))
    text = f"0 {data.draw(numbers(0, 59))} {data.draw(st.sampled_from(['*', '0-4', '1,2,3', '*/2']))} * * ?"
    expression = CronExpression(text, zone, DaylightSaving.QUARTZ)
    info = ZoneInfo(zone)
    start = change - timedelta(hours=4)
    expected = []
    for minute in range(8 * 60):
        at = start.replace(second=0) + minute * timedelta(minutes=1)
        local = at.astimezone(info)
        comes_again = local.replace(fold=1).astimezone(UTC) > local.replace(fold=0).astimezone(UTC) and local.fold == 0
        if at > start and not comes_again and wall_matches(text, local.replace(tzinfo=None)):
            expected.append(at)
    found = [at for at in expression.upcoming(start, 600) if at < start.replace(second=0) + timedelta(hours=8)]
    assert found == expected


@given(st.data())
@settings(max_examples=100)
def test_a_fixed_time_fires_exactly_once_on_every_day_of_every_zone(data: st.DataObject) -> None:
    zone = data.draw(st.sampled_from(ZONES))
    changes = odd_instants(zone)
    if not changes:
        return
    change = data.draw(st.sampled_from(changes))
    hour, minute = data.draw(st.integers(0, 23)), data.draw(st.sampled_from([0, 15, 30, 59]))
    expression = CronExpression(f"0 {minute} {hour} * * ?", zone)
    info = ZoneInfo(zone)
    times = expression.upcoming(change - timedelta(days=4), 8)
    if not is_skipped_day(info, change):
        first = datetime.combine((change - timedelta(days=5)).astimezone(info).date(), time(hour, minute))
        daily = [shown_first(first + timedelta(days=day), info) for day in range(12)]
        assert times == [at for at in daily if at > change - timedelta(days=4)][:8]
    for at in times:
        local = at.astimezone(info)
        assert (local.hour, local.minute) == (hour, minute) or at == change, "moved only to the end of a gap"
        assert local.fold == 0 or not is_ambiguous(local), "the first pass"
    for earlier, later in pairwise(times):
        assert timedelta(hours=20) < later - earlier < timedelta(hours=28) or is_skipped_day(info, change)


def shown_first(wall: datetime, info: ZoneInfo) -> datetime:
    """The first instant at which a clock on the wall shows this; where none does, the end of the gap."""
    at = wall.replace(tzinfo=info).astimezone(UTC)
    if at.astimezone(info).replace(tzinfo=None) == wall:
        return at
    low, high = at - timedelta(days=1), at + timedelta(days=1)
    while high - low > SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle.astimezone(info).replace(tzinfo=None) < wall:
            low = middle
        else:
            high = middle
    return high


def is_ambiguous(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() > local.replace(fold=1).utcoffset()  # type: ignore[operator]


def is_skipped_day(info: ZoneInfo, change: datetime) -> bool:
    """A zone that crossed the date line: a whole day was left out, or came twice."""
    before, after = (change - SECOND).astimezone(info).utcoffset(), change.astimezone(info).utcoffset()
    assert before is not None
    assert after is not None
    return abs(after - before) > timedelta(hours=4)


def test_a_repeating_expression_continues_through_both_passes_in_all_zones() -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tehran"):
        for change in odd_instants(zone)[-4:]:
            expression = CronExpression("0 0/10 * * * ?", zone)
            times = expression.upcoming(change - timedelta(hours=3), 36)
            assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(minutes=10)}


def test_every_zone_of_the_database_can_be_asked_over_its_changes() -> None:
    for zone in ZONES:
        expression = CronExpression("0 30 0/3 * * ?", zone)
        for change in odd_instants(zone)[-2:]:
            times = expression.upcoming(change - timedelta(hours=9), 6)
            assert times == sorted(set(times)), zone
            assert all(expression.is_satisfied_by(at) for at in times), zone
            assert [expression.previous_before(at + SECOND) for at in times] == times, zone


@pytest.mark.parametrize("text", ["0 0 0 30 2 ?", "0 0 0 31 4,6,9,11 ?", "0 0 0 ? 2 1#5 2100", "0 0 0 1 1 ? 1999"])
def test_a_trigger_that_never_fires_is_explained(text: str) -> None:
    assert CronExpression(text).next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None
