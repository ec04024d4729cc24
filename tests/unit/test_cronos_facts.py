"""Cron expressions in both dialects against the facts of Cronos' test suite.

tests/conformance/disputed.md lists the facts on which quartzpy differs, with the reasons; `DIFFERENT` has its
own answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronExpression, CrontabExpression
from quartzpy.errors import InvalidCronError
from tests.unit.cronos_facts import BY_ZONE, INVALID, UNREACHABLE

JUST_BEFORE = timedelta(microseconds=1)
NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

GAP = "2016-03-13 01:59:00-05:00"
DIFFERENT = {
    ("0 */30 2 * * *", GAP): "2016-03-14 02:00:00-04:00",
    ("0 */30 */2 * * *", GAP): "2016-03-13 04:00:00-04:00",
    ("0 1-58 */2 * * *", GAP): "2016-03-13 04:01:00-04:00",
    ("0 0 */2 * * *", GAP): "2016-03-13 04:00:00-04:00",
    ("0 30 0-23/2 * * *", GAP): "2016-03-13 04:30:00-04:00",
    ("0 30 * * 3 SUN#2", GAP): "2016-03-13 03:30:00-04:00",
}
"""By expression and instant: the answer of quartzpy where Cronos answers otherwise."""
ACCEPTED = {"* * * * * SUNDAY"}
"""Expressions that Cronos refuses and quartzpy accepts."""


def crontab(line: str, zone: str) -> CrontabExpression:
    """Cronos always requires both day fields to match."""
    return CrontabExpression(line, zone, day_or=False)


def quartz(line: str, zone: str) -> CronExpression:
    """Write a line in Quartz's dialect: "?" in the day field that restricts nothing, and days of the week from 1 on."""
    *times, day, month, weekday = line.split()
    weekday = re.sub(r"(?<![/#\d])0?(\d|[a-zA-Z]{3})(?!\d)", lambda found: str(_number(found[1]) + 1), weekday)
    if weekday in "*?":
        weekday, day = "?", "*" if day == "?" else day
    elif day in "*?":
        day = "?"
    both = "?" not in (day, weekday)
    return CronExpression(" ".join([*times, day, month, weekday]), zone, day_or=False if both else None)


def _number(weekday: str) -> int:
    return int(weekday) % 7 if weekday.isdigit() else NAMES.index(weekday.upper())


def instant(text: str, zone: str) -> datetime:
    found = datetime.fromisoformat(text if "-" in text[:5] else f"2016-12-09 {text}")
    return (found if found.tzinfo else found.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def facts() -> Iterator[tuple[str, str, str, str]]:
    for zone, tables in BY_ZONE.items():
        for table in tables:
            for line, pairs in table.items():
                for pair in pairs:
                    asked, answer = pair.split(" > ")
                    yield zone, line, asked, DIFFERENT.get((line, asked), answer)


def lines(table: str) -> list[str]:
    return [line for row in table.splitlines() for line in row.split("|")]


def test_the_table_is_wide_and_every_difference_is_in_it() -> None:
    rows = list(facts())
    assert len(rows) >= 250
    assert len(rows) == len(set(rows))
    assert {(line, asked) for _, line, asked, _ in rows} >= DIFFERENT.keys()
    assert set(lines(INVALID)) >= ACCEPTED


@pytest.mark.parametrize("dialect", [crontab, quartz])
def test_the_answers_are_those_of_cronos(dialect: type[CronExpression] | type[CrontabExpression]) -> None:
    wrong = []
    for zone, line, asked, answer in facts():
        found = dialect(line, zone).next_after(instant(asked, zone) - JUST_BEFORE)
        if found != instant(answer, zone):
            shown = found and found.astimezone(ZoneInfo(zone)).isoformat(" ")
            wrong.append(f"{line!r} at {asked} in {zone}: {shown} (expected {answer})")
    assert wrong == []


def test_what_cronos_refuses_is_refused() -> None:
    accepted = set()
    for line in lines(INVALID):
        try:
            crontab(line, "UTC")
        except InvalidCronError:
            continue
        accepted.add(line)
    assert accepted == ACCEPTED


def test_a_crontab_line_that_matches_no_day_is_refused() -> None:
    """Cronos accepts such expressions and finds no time; here they are an error when they are written."""
    for line in lines(UNREACHABLE):
        with pytest.raises(InvalidCronError, match="no day"):
            crontab(line, "America/New_York")


def test_an_expression_in_quartz_dialect_that_matches_no_day_has_no_time() -> None:
    for line in lines(UNREACHABLE):
        assert quartz(line, "America/New_York").next_after(datetime(1970, 1, 1, tzinfo=UTC)) is None
