"""What the documentation writes passes a strict type checker, and what is wrong does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

RIGHT = """
from datetime import UTC, date, datetime, time, timedelta

from quartzpy import (
    AnnualCalendar, DailyTimeIntervalTrigger, CalendarIntervalTrigger, HolidayCalendar, Jitter, JobDetail,
    MonthlyCalendar, RetryPolicy, SchedulerConfig, SimpleTrigger, WeeklyCalendar, at, every,
)

HolidayCalendar({date(2026, 12, 25)})
AnnualCalendar({(12, 25)})
MonthlyCalendar([1, 15])
WeeklyCalendar({1, 7})
DailyTimeIntervalTrigger(interval=15, unit="minute", days_of_week=range(2, 7))
CalendarIntervalTrigger(interval=1, unit="month")
every("10s", priority=3)
at(datetime(2026, 1, 1, tzinfo=UTC), misfire_threshold="5m")
Jitter(trigger=every(minutes=5), up_to=30)
RetryPolicy(delay="5s", max_delay=60)
JobDetail("a:b", timeout="1h30m")
SchedulerConfig(checkin_interval="5s", history_retention=None)
span: timedelta = SimpleTrigger(interval="5s").interval
dates: frozenset[date] = HolidayCalendar([]).excluded_dates
"""
WRONG = ['SimpleTrigger(interval=b"5s")', 'HolidayCalendar("2026-12-25")', "every(minutes='5')", "every(prio=5)"]


def test_strict_typing(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(RIGHT + "\n".join(WRONG) + "\n")
    options = ["--strict", "--config-file=", f"--python-executable={sys.executable}", "--follow-imports=silent"]
    output, _, status = api.run([*options, "--cache-dir=/dev/null", str(tmp_path)])
    assert status == 1
    assert "right.py" not in output
    assert len(WRONG) == sum(": error: " in line for line in output.splitlines()), output
