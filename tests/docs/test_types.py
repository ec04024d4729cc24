"""The code of the documentation and the examples passes `mypy --strict`, as a user's program has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs import comparison
from tests.docs.code_blocks import ROOT, blocks

CONFIG = """
[mypy]
strict = true
untyped_calls_exclude = distributed
python_version = 3.11
namespace_packages = true
explicit_package_bases = true
cache_dir = {root}/.mypy_cache
mypy_path = {root}:{root}/examples/service

# These bring no types.
[mypy-django.*,celery.*]
ignore_missing_imports = true

# The contract tests are ours: a block that builds on them is checked, and they are not.
[mypy-tests.*]
follow_imports = silent

[mypy-mysite.*]
disallow_subclassing_any = false
disallow_untyped_decorators = false
"""
RIGHT = """
from datetime import UTC, date, datetime, time, timedelta

from dataclasses import dataclass
from typing import Any

from quartzpy import (
    AnnualCalendar,
    AsyncScheduler,
    CronMisfire,
    CronTrigger,
    DailyTimeIntervalTrigger,
    CalendarIntervalTrigger,
    HolidayCalendar,
    Jitter,
    Job,
    JobDetail,
    JobExecutionContext,
    MonthlyCalendar,
    OverlapPolicy,
    RetryPolicy,
    Scheduler,
    SchedulerConfig,
    SchedulingMethods,
    SimpleTrigger,
    WeeklyCalendar,
    at,
    cron,
    every,
    job,
)
from quartzpy.records import ExecutionRecord
from quartzpy.testing import SchedulerHarness

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


@dataclass
class ReportData:
    region: str


class Report(Job, data_type=ReportData):
    def execute(self, context: JobExecutionContext) -> None: ...


@job
def report(pages: int) -> None: ...


outside: dict[str, Any] = {"workers": 5}
scheduler = Scheduler("memory://", name="x", idle_wait="5s", role="worker", labels=["eu"])
Scheduler("memory://", **outside)
Scheduler.from_config(url="memory://", name="x")
AsyncScheduler("memory://", name="x")
harness = SchedulerHarness(misfire_threshold="1m")
AsyncScheduler(harness)
JobDetail(Report, data=ReportData("eu"), overlap_policy=OverlapPolicy.SKIP)
JobDetail(Report, data={"region": "eu"}, overlap_policy="skip")
CronTrigger("0 0 2 * * ?", misfire=CronMisfire.DO_NOTHING)
cron.daily_at(2, 30, time_zone="Europe/Berlin", misfire="do_nothing")
report.detail("a", args=[1], timeout="5m")
handle = scheduler.schedule_job(report, every("10s"), args=[1], replace=True, max_concurrent=3)
scheduler.schedule_job(Report, data=ReportData("eu"))
scheduler.trigger_job("report", ReportData("us"))
handle.modify(timeout="1h", data={"args": [2]})


def longest(scheduler: SchedulingMethods) -> ExecutionRecord | None:
    return scheduler.executions().first()


longest(harness)
longest(scheduler)
"""
WRONG = [
    'SimpleTrigger(interval=b"5s")',
    'HolidayCalendar("2026-12-25")',
    "every(minutes='5')",
    "every(prio=5)",
    'Scheduler("memory://", nam="x")',
    'Scheduler("memory://", workers="many")',
    'Scheduler("memory://", role="boss")',
    'Scheduler.from_config(nam="x")',
    'AsyncScheduler("memory://", nam="x")',
    'SchedulerHarness(nam="x")',
    'scheduler.schedule_job(report, every("10s"), replce=True)',
    'scheduler.schedule_job(report, every("10s"), timeout=object())',
    "scheduler.schedule_job(Report, data=5)",
    'scheduler.scheduled_job("@daily", replce=True)',
    'scheduler.trigger_job("report", 5)',
    'scheduler.modify_job("report", timout="1h")',
    'handle.modify(timout="1h")',
    'report.detail("a", agrs=[1])',
    'report.detail("a", data=5)',
    "JobDetail(Report, data=5)",
    'JobDetail(Report, overlap_policy="nope")',
    "job(data_tpe=ReportData)",
    'CronTrigger("0 0 2 * * ?", misfire="nope")',
    'SimpleTrigger(misfire="nope")',
    'every("10s", misfire="nope")',
    'cron.daily_at(2, 30, time_zon="Europe/Berlin")',
]


def test_documented_code_passes_mypy_strict_and_what_is_wrong_does_not(tmp_path: Path) -> None:
    files = tmp_path / "code"
    files.mkdir()
    titles: dict[str, str] = {}
    for block in blocks():
        if block.title is not None:
            assert block.title not in titles, f"{block.id} and {titles[block.title]} write one file"
            titles[block.title] = block.id
        path = files / (block.title or f"{block.module_name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code)
    (files / "compared.py").write_text(comparison.whole_program())
    (files / "right.py").write_text(RIGHT)
    (files / "wrong.py").write_text(RIGHT + "\n".join(WRONG) + "\n")
    (tmp_path / "mypy.ini").write_text(CONFIG.format(root=ROOT))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", ".", ROOT / "examples" / "service"],
        cwd=files,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    begin = RIGHT.count("\n") + 1
    expected = [f"wrong.py:{number}" for number in range(begin, begin + len(WRONG))]
    assert [error.partition(": ")[0] for error in errors] == expected, checked.stdout + checked.stderr
