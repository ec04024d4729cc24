"""The difference that a calendar from elsewhere makes, and how it is taken."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from quartzpy import HolidayCalendar, SpanCalendar, WeeklyCalendar
from quartzpy.errors import InvalidValueError
from quartzpy.operations.actions.calendar_changes import change_of, refreshed

WEEKENDS = WeeklyCalendar()
NIGHT = (datetime(2026, 3, 1, 22, tzinfo=UTC), datetime(2026, 3, 2, 2, tzinfo=UTC))
LATER = (datetime(2027, 3, 1, 22, tzinfo=UTC), datetime(2027, 3, 2, 2, tzinfo=UTC))


def test_only_the_years_of_the_source_are_replaced() -> None:
    stored = HolidayCalendar(
        {date(2026, 1, 1), date(2026, 5, 1), date(2027, 1, 1)},
        base=SpanCalendar([NIGHT, LATER], base=WEEKENDS),
        description="Closings",
    )
    source = HolidayCalendar({date(2026, 1, 1), date(2026, 12, 25)})
    calendar = refreshed(stored, source, [2026])
    assert calendar == HolidayCalendar(
        {date(2026, 1, 1), date(2026, 12, 25), date(2027, 1, 1)},
        base=SpanCalendar([LATER], base=WEEKENDS),
        description="Closings",
    )
    change = change_of(stored, calendar)
    assert change.text == "1 added, 2 removed"
    assert change.added == ["2026-12-25"]
    assert change.removed == ["2026-05-01", "2026-03-01T22:00:00+00:00/2026-03-02T02:00:00+00:00"]


def test_a_new_calendar_is_the_source() -> None:
    source = HolidayCalendar({date(2026, 1, 1)}, base=SpanCalendar([NIGHT]))
    assert refreshed(None, source, [2026]) is source
    assert refreshed(HolidayCalendar(base=WEEKENDS), source, [2026]) == HolidayCalendar(
        {date(2026, 1, 1)}, base=SpanCalendar([NIGHT], base=WEEKENDS)
    )


def test_a_calendar_without_dates_is_not_refreshed() -> None:
    with pytest.raises(InvalidValueError, match="its first layer has no dates to refresh"):
        refreshed(WEEKENDS, HolidayCalendar(), [2026])


def test_many_dates_are_cut_in_the_audit_log() -> None:
    days = {date(2026, month, day) for month in range(1, 13) for day in range(1, 29)}
    change = change_of(None, HolidayCalendar(days))
    assert len(change.added) == 101
    assert change.added[-1] == "and 236 more"
