"""Tables that fit the terminal, and schedules in a few words."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from quartzpy import (
    AnyOf,
    CalendarIntervalTrigger,
    CronTrigger,
    DailyTimeIntervalTrigger,
    Jitter,
    RecurrenceTrigger,
    SimpleTrigger,
)
from quartzpy.instants import short
from quartzpy.operations.render import local_zone, table
from quartzpy.operations.views.schedules import zone_text
from quartzpy.triggers.trigger import Trigger

COLUMNS = ("name", "state", "note", "error")
ROWS = [("a" * 30, "WAITING", "n" * 30, "e" * 90), ("b", "ERROR", "short", None)]


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


def test_a_table_without_a_width_limit_is_as_wide_as_it_needs() -> None:
    text = table(COLUMNS, ROWS)
    assert "e" * 90 in text
    assert text.splitlines()[2].split() == ["b", "ERROR", "short", "-"]


def test_wide_cells_are_cut_before_a_column_is_left_out() -> None:
    text = table(COLUMNS, ROWS, width=110, droppable=("note",))
    assert widest(text) <= 110
    assert "NOTE" in text
    assert "a" * 30 in text, "the widest is cut first"
    assert "…" in text


def test_columns_are_left_out_in_order_and_named() -> None:
    text = table(COLUMNS, ROWS, width=55, droppable=("note", "error"))
    assert widest(text) <= 55
    assert "NOTE" not in text
    assert "ERROR" in text.splitlines()[0]
    assert text.splitlines()[-1] == "(omitted: note; use a wider terminal or --json)"


def test_a_very_narrow_terminal_cuts_no_cell_beyond_reading() -> None:
    text = table(COLUMNS, ROWS, width=10)
    assert all(len(cell) >= 5 for cell in text.splitlines()[1].split())


def test_the_time_zone_of_the_machine_has_a_name() -> None:
    assert local_zone()


@pytest.mark.parametrize(
    ("trigger", "schedule", "zone"),
    [
        (CronTrigger("0 0 2 * * ?", time_zone="Europe/Berlin"), "0 0 2 * * ?", "Europe/Berlin"),
        (SimpleTrigger("t", repeat_count=0), "once", None),
        (SimpleTrigger("t", interval=timedelta(seconds=90), repeat_count=None), "every 1m30s", None),
        (SimpleTrigger("t", interval=timedelta(hours=2), repeat_count=4), "every 2h, 5 times", None),
        (CalendarIntervalTrigger("t", interval=3, unit="month"), "every 3 months", "UTC"),
        (CalendarIntervalTrigger("t", interval=1, unit="day"), "every day", "UTC"),
        (
            DailyTimeIntervalTrigger(
                "t", interval=15, unit="minute", start_time_of_day=time(9), end_time_of_day=time(17)
            ),
            "every 15 minutes, 09:00-17:00",
            "UTC",
        ),
        (
            RecurrenceTrigger("t", rule="FREQ=DAILY;COUNT=3", start_time=datetime(2026, 1, 1, tzinfo=UTC)),
            "FREQ=DAILY;COUNT=3",
            "UTC",
        ),
        (
            AnyOf(
                "t",
                triggers=(
                    CronTrigger("0 0 2 * * ?", "a", time_zone="Europe/Berlin"),
                    CronTrigger("0 0 3 * * ?", "b", time_zone="UTC"),
                ),
            ),
            "0 0 2 * * ? or 0 0 3 * * ?",
            "Europe/Berlin, UTC",
        ),
        (
            Jitter("t", trigger=CronTrigger("0 0 2 * * ?", "a"), up_to=timedelta(minutes=2)),
            "0 0 2 * * ? (up to 2m later)",
            "UTC",
        ),
    ],
)
def test_a_schedule_in_a_few_words(trigger: Trigger, schedule: str, zone: str | None) -> None:
    assert (trigger.text, zone_text(trigger)) == (schedule, zone)


@pytest.mark.parametrize(
    ("span", "text"),
    [(timedelta(), "0s"), (timedelta(days=1, seconds=1.5), "1d1.5s"), (timedelta(seconds=-90), "-1m30s")],
)
def test_spans_are_written_as_settings_are(span: timedelta, text: str) -> None:
    assert short(span) == text
