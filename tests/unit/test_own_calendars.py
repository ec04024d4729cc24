"""Calendars of an application: how they are derived, stored and read back, and which errors they raise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Self

import pytest

from quartzpy import BaseCalendar, WeeklyCalendar, WholeDayCalendar, every
from quartzpy.calendars.calendar import CALENDAR_KINDS
from quartzpy.calendars.registry import calendar_from_json, storable_json
from quartzpy.errors import InvalidCalendarError, UnsupportedKindError

START = datetime(2026, 6, 28, 22, tzinfo=UTC)


@dataclass(frozen=True)
class ClosingCalendar(WholeDayCalendar):
    """Excludes the last days of each quarter."""

    kind: ClassVar[str] = "test-closing"

    days: int = 2

    def excludes_day(self, day: date) -> bool:
        later = day + timedelta(days=self.days)
        return day.month % 3 == 0 and later.month != day.month


@dataclass(frozen=True)
class MaintenanceCalendar(BaseCalendar):
    """Excludes one span of wall-clock time; its field has a type that JSON lacks."""

    kind: ClassVar[str] = "test-maintenance"

    start: datetime
    length: timedelta

    def next_wall_time(self, wall: datetime) -> datetime | None:
        begin = self.start.replace(tzinfo=None)
        return begin + self.length if begin <= wall < begin + self.length else wall


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[BaseCalendar]]:
    """The register of kinds, which the test may change."""
    for name, known in list(CALENDAR_KINDS.items()):
        monkeypatch.setitem(CALENDAR_KINDS, name, known)
    return CALENDAR_KINDS


def test_an_application_excludes_days_by_one_method() -> None:
    hourly = every(hours=1, start_time=START)
    assert [at.isoformat() for at in hourly.upcoming(3, START, ClosingCalendar())] == [
        "2026-06-28T23:00:00+00:00",
        "2026-07-01T00:00:00+00:00",
        "2026-07-01T01:00:00+00:00",
    ]


def test_a_calendar_of_an_application_chains_with_others() -> None:
    calendar = ClosingCalendar(base=WeeklyCalendar())
    assert calendar.next_included(START) == datetime(2026, 7, 1, tzinfo=UTC)  # The 28th is a Sunday.
    assert WeeklyCalendar(base=ClosingCalendar()).next_included(START) == datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "calendar",
    [
        ClosingCalendar(),
        ClosingCalendar(5, time_zone="Asia/Tokyo", description="month-end close"),
        ClosingCalendar(1, base=WeeklyCalendar()),
        WeeklyCalendar(base=ClosingCalendar(1)),
        MaintenanceCalendar(START, timedelta(hours=3)),
    ],
)
def test_a_calendar_of_an_application_is_read_back_as_it_was(calendar: BaseCalendar) -> None:
    assert calendar_from_json(json.loads(json.dumps(storable_json(calendar)))) == calendar


def test_a_process_that_has_not_defined_the_class_says_what_is_missing(kinds: dict[str, type[BaseCalendar]]) -> None:
    written = storable_json(ClosingCalendar())
    del kinds["test-closing"]
    message = "no class of the kind 'test-closing' is defined in this process; import the module that defines it"
    with pytest.raises(UnsupportedKindError, match=message):
        calendar_from_json(written)


def test_a_class_without_a_kind_of_its_own_is_refused() -> None:
    @dataclass(frozen=True)
    class Nameless(ClosingCalendar):
        pass

    with pytest.raises(InvalidCalendarError, match=r"Nameless cannot be stored.*add kind: ClassVar\[str\]"):
        storable_json(Nameless())


def test_a_kind_names_one_class() -> None:
    with pytest.raises(InvalidCalendarError, match=r"'weekly' is already the kind of quartzpy.*:WeeklyCalendar"):

        class Weekly(ClosingCalendar):
            kind: ClassVar[str] = "weekly"

    with pytest.raises(InvalidCalendarError, match=r"kind of .*Numbered: must be a name \(got 5\)"):

        class Numbered(ClosingCalendar):
            kind: ClassVar[str] = 5  # type: ignore[assignment]


def test_a_reloaded_class_replaces_the_earlier_one(kinds: dict[str, type[BaseCalendar]]) -> None:
    def define() -> type[BaseCalendar]:
        @dataclass(frozen=True)
        class Reloaded(ClosingCalendar):
            kind: ClassVar[str] = "test-reloaded"

        return Reloaded

    define()
    again = define()
    assert kinds["test-reloaded"] is again
    assert type(calendar_from_json(storable_json(again()))) is again


def test_a_field_that_cannot_be_stored_is_named(kinds: dict[str, type[BaseCalendar]]) -> None:
    @dataclass(frozen=True)
    class Ticket(ClosingCalendar):
        kind: ClassVar[str] = "test-ticket"
        names: frozenset[str] = frozenset("a")

    with pytest.raises(InvalidCalendarError, match=r"test-ticket\['names'\]: frozenset cannot be stored.*rules\(\)"):
        storable_json(Ticket())
    assert kinds["test-ticket"] is Ticket


def test_rules_that_lose_a_value_are_refused_before_they_are_stored(kinds: dict[str, type[BaseCalendar]]) -> None:
    @dataclass(frozen=True)
    class Forgetful(ClosingCalendar):
        kind: ClassVar[str] = "test-forgetful"
        seen: list[int] = field(default_factory=list)

        def rules(self) -> dict[str, Any]:
            return {"days": self.days}

        @classmethod
        def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
            return cls(rules["days"], **common)

    assert storable_json(Forgetful(3))["days"] == 3
    with pytest.raises(InvalidCalendarError, match=r"cannot be stored, because its rules\(\) read back as"):
        storable_json(Forgetful(3, [1]))
    assert kinds["test-forgetful"] is Forgetful


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda wall: wall - timedelta(days=1), "must not return a time before"),
        (lambda wall: wall + timedelta(microseconds=1), "the calendar excludes times that its next_wall_time returned"),
        (lambda wall: wall.replace(tzinfo=UTC), "must return a datetime without a time zone"),
        (lambda wall: wall.date(), "must return a datetime without a time zone"),
    ],
)
def test_a_calendar_that_contradicts_itself_ends_the_search_with_an_error(answer: Any, message: str) -> None:
    class Wrong(BaseCalendar):
        def next_wall_time(self, wall: datetime) -> datetime | None:
            found: datetime = answer(wall)
            return found

    with pytest.raises(InvalidCalendarError, match=message):
        Wrong().next_included(START)


def test_a_calendar_that_excludes_all_days_ends_the_search() -> None:
    class Never(WholeDayCalendar):
        def excludes_day(self, day: date) -> bool:
            return True

    assert Never().next_included(START) is None
