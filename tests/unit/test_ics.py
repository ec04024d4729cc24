"""Calendars from iCalendar files, those of people and those of enemies."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from time import process_time
from typing import Any

import pytest

from quartzpy import HolidayCalendar, SpanCalendar, WeeklyCalendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json, storable_json
from quartzpy.errors import InvalidCalendarError
from quartzpy.ics import MAX_CHARACTERS, MAX_EVENTS, MAX_RULES, calendar_from_ics


def ics(*events: str) -> str:
    body = "\r\n".join(
        "\r\n".join(["BEGIN:VEVENT", *(line.strip() for line in event.strip().splitlines()), "END:VEVENT"])
        for event in events
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{body}\r\nEND:VCALENDAR\r\n"


def days(*events: str, years: Any = 2026, **more: Any) -> list[str]:
    return [f"{day:%m-%d}" for day in sorted(calendar_from_ics(ics(*events), years=years, **more).excluded_dates)]


def spans(*events: str, **more: Any) -> list[str]:
    calendar = calendar_from_ics(ics(*events), **{"years": 2026, **more})
    layers = [layer for layer in calendar.chain() if isinstance(layer, SpanCalendar)]
    return [f"{start:%m-%d %H:%M} to {end:%m-%d %H:%M}" for layer in layers for start, end in layer.excluded_spans]


def test_whole_days_are_excluded_up_to_their_end() -> None:
    assert days("DTSTART;VALUE=DATE:20261225") == ["12-25"]
    assert days("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227") == ["12-25", "12-26"]
    assert days("DTSTART;VALUE=DATE:20261225\nDURATION:P3D") == ["12-25", "12-26", "12-27"]
    assert days("DTSTART;VALUE=DATE:20261230\nDTEND;VALUE=DATE:20270105") == ["12-30", "12-31"]
    assert days("DTSTART;VALUE=DATE:20251230\nDTEND;VALUE=DATE:20260103") == ["01-01", "01-02"]
    assert days("DTSTART;VALUE=DATE:20261225", years=[2025, 2027]) == []


def test_timed_events_exclude_spans() -> None:
    assert spans("DTSTART:20260301T220000Z\nDTEND:20260302T020000Z") == ["03-01 22:00 to 03-02 02:00"]
    assert spans('DTSTART;TZID="Europe/Berlin":20260701T220000\nDURATION:PT1H30M') == ["07-01 20:00 to 07-01 21:30"]
    assert spans("DTSTART:20260701T220000\nDURATION:PT1H", time_zone="Asia/Tokyo") == ["07-01 13:00 to 07-01 14:00"]
    assert spans("DTSTART:20260701T220000Z") == []
    windows = {"W. Europe Standard Time": "Europe/Berlin"}
    timed = "DTSTART;TZID=W. Europe Standard Time:20260701T220000\nDURATION:PT1H"
    assert spans(timed, zones=windows) == ["07-01 20:00 to 07-01 21:00"]
    assert spans(timed.replace("W. Europe Standard Time", "/example.org/Europe/Berlin")) == spans(timed, zones=windows)


def test_recurrences_exceptions_and_replacements() -> None:
    christmas = "UID:a\nDTSTART;VALUE=DATE:20001225\nRRULE:FREQ=YEARLY"
    assert days(christmas, years=[2026, 2027]) == ["12-25", "12-25"]
    monthly = "UID:b\nDTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=4\nEXDATE;VALUE=DATE:20260228"
    assert days(monthly) == ["01-31", "03-31", "04-30"]
    moved = "UID:b\nRECURRENCE-ID;VALUE=DATE:20260331\nDTSTART;VALUE=DATE:20260401"
    assert days(monthly, moved) == ["01-31", "04-01", "04-30"]
    assert days(monthly, f"{moved}\nSTATUS:CANCELLED") == ["01-31", "04-30"]
    assert days("DTSTART;VALUE=DATE:20260501\nRDATE;VALUE=DATE:20260601,20260701") == ["05-01", "06-01", "07-01"]
    nightly = (
        "DTSTART;TZID=Europe/Berlin:20260327T233000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4\n"
        "EXDATE;TZID=Europe/Berlin:20260328T233000"
    )
    assert spans(nightly) == ["03-27 22:30 to 03-27 23:30", "03-29 21:30 to 03-29 22:30", "03-30 21:30 to 03-30 22:30"]
    assert spans(nightly.replace("EXDATE;TZID=Europe/Berlin:20260328T233000", "EXDATE:20260328T223000Z")) == spans(
        nightly
    )


def test_what_is_no_event_of_the_calendar_is_passed_over() -> None:
    text = (
        "\ufeffBEGIN:VCALENDAR\nX-WR-CALNAME:Holidays; and: more\nBEGIN:VTIMEZONE\nTZID:Here\nBEGIN:STANDARD\n"
        "DTSTART:19701025T030000\nRRULE:FREQ=YEARLY\nEND:STANDARD\nEND:VTIMEZONE\nBEGIN:VEVENT\n"
        "SUMMARY:A long one\\, which\n  is folded\nDTSTART;VALUE=DA\n TE:20261225\nTRANSP:TRANSPARENT\nBEGIN:VALARM\n"
        "TRIGGER:-PT1H\nDURATION:PT5M\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    calendar = calendar_from_ics(text.encode(), years=2026)
    assert calendar == HolidayCalendar({date(2026, 12, 25)})


def test_the_calendar_is_data_that_can_be_stored() -> None:
    base = WeeklyCalendar(time_zone="Europe/Berlin")
    events = ("DTSTART;VALUE=DATE:20261225", "DTSTART:20260301T220000Z\nDTEND:20260302T020000Z")
    calendar = calendar_from_ics(ics(*events), years=2026, time_zone="Europe/Berlin", base=base, description="Closings")
    assert [layer.kind for layer in calendar.chain()] == ["holiday", "spans", "weekly"]
    assert calendar_from_json(storable_json(calendar)) == calendar
    assert calendar_to_json(calendar)["description"] == "Closings"
    monday = datetime(2026, 3, 2, 1, tzinfo=UTC)
    assert not calendar.is_included(monday)
    assert calendar.next_included(monday) == datetime(2026, 3, 2, 2, tzinfo=UTC)


def test_spans_are_joined_and_checked() -> None:
    first = datetime(2026, 3, 1, tzinfo=UTC)
    hour = timedelta(hours=1)
    calendar = SpanCalendar(
        [(first + hour, first + 2 * hour), (first, first + hour), (first + 5 * hour, first + 6 * hour)]
    )
    assert calendar.excluded_spans == ((first, first + 2 * hour), (first + 5 * hour, first + 6 * hour))
    assert [calendar.is_included(first + number * hour) for number in range(7)] == [
        False,
        False,
        True,
        True,
        True,
        False,
        True,
    ]
    for spans, message in [
        ([(first, first)], "is not after start"),
        ([first], "each is a start and an end"),
        ("spans", "pairs of instants"),
        ([(first.replace(tzinfo=None), first)], "excluded_spans"),
    ]:
        with pytest.raises(InvalidCalendarError, match=message):
            SpanCalendar(spans)  # type: ignore[arg-type]
    with pytest.raises(InvalidCalendarError, match="time_zone: the spans are instants"):
        SpanCalendar([], time_zone="Europe/Berlin")


FLOOD = "DTSTART:20260101T000000Z\nDURATION:PT1S\nRRULE:FREQ=SECONDLY"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DTSTART:20261225", "line 1: a file begins with BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nnonsense", "line 2: a property such as"),
        ("BEGIN:VCALENDAR\n", "'VCALENDAR' is not ended"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "line 2: END:'VEVENT' ends no component"),
        ("BEGIN:A\n" * 9, "line 9: components are nested more than 8 deep"),
        (ics("SUMMARY:x"), "line 3: the event has no DTSTART"),
        (ics("DTSTART:2026"), "line 4: DTSTART: such as 20261225"),
        (ics("DTSTART:00010101"), "DTSTART: such as"),
        (ics("DTSTART:20261325"), "DTSTART: such as"),
        (ics("DTSTART:20261225\nDTSTART:20261226"), "line 5: DTSTART is given twice"),
        (ics("DTSTART:20261225\nDTEND:20261224"), "DTEND is before DTSTART"),
        (ics("DTSTART:20261225\nDTEND:20261226T000000Z"), "both dates, or both times"),
        (ics("DTSTART:20261225\nDURATION:P"), "DURATION: such as"),
        (ics("DTSTART;TZID=Nowhere:20261225T000000\nDURATION:PT1H"), "there is no time zone 'Nowhere'"),
        (ics("DTSTART:20261225\nRRULE:FREQ=OFTEN"), "line 3: .*FREQ: one of"),
        (ics("DTSTART:20261225\nRDATE;VALUE=PERIOD:20261226T000000Z/PT1H"), "write an event of its own"),
        (ics(FLOOD), "more than 100,000 occurrences"),
        (ics(*[f"{FLOOD};COUNT=60000"] * 2), "the rules count more than 100,000 occurrences"),
        (ics(*["DTSTART:20261225\nRRULE:FREQ=YEARLY"] * (MAX_RULES + 1)), "more than 500 recurrence rules"),
        (ics(*["DTSTART:20261225"] * (MAX_EVENTS + 1)), "more than 20,000 events"),
        ("X" * (MAX_CHARACTERS + 1), "at most 4,000,000 characters"),
        (b"\xff\xfe", "in UTF-16"),
    ],
)
def test_what_cannot_be_read_is_refused_within_its_limits(text: str | bytes, message: str) -> None:
    began = process_time()
    with pytest.raises(InvalidCalendarError, match=message):
        calendar_from_ics(text, years=2026)
    assert process_time() - began < 20


@pytest.mark.parametrize(
    "text",
    [
        ics(*["DTSTART:20260101T000000Z\nDURATION:PT1S\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"] * 20),
        ics("DTSTART:18000101T000000Z\nDURATION:P99999W\nRRULE:FREQ=DAILY;INTERVAL=1000"),
        ics("DTSTART:20260101\nRRULE:FREQ=DAILY;UNTIL=20251231"),
        "BEGIN:VCALENDAR\nX:" + " \n " * 300_000 + "\nEND:VCALENDAR",
        'BEGIN:VCALENDAR\nX;A="' + ";" * 1_000_000 + '":y\nEND:VCALENDAR',
    ],
    ids=["never", "long", "ended", "folds", "quotes"],
)
def test_what_is_odd_ends_soon(text: str) -> None:
    began = process_time()
    calendar_from_ics(text, years=2026)
    assert process_time() - began < 20


@pytest.mark.parametrize("years", [[], 1969, [2026, 2080], "2026", [True]])
def test_years_are_checked(years: Any) -> None:
    with pytest.raises(InvalidCalendarError, match="years: "):
        calendar_from_ics(ics(), years=years)
