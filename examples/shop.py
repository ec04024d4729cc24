"""The jobs of a shop, for pictures and tests of the dashboard: quick and slow, failing, blocked, paused and late ones.

`quartzpy node --app examples.shop:make_scheduler` runs a node that knows them; `open_shop` schedules them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.demo.jobs import DSN_VARIABLE, INSTANCE_VARIABLE
from quartzpy.errors import JobExecutionError
from quartzpy.factory import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail, disallow_concurrent_execution
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

SETTINGS: dict[str, Any] = {
    "name": "shop",
    "workers": 6,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "4s",
    "misfire_threshold": "30s",
}
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


class SyncStock(Job):
    """Takes about half a second."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(random.uniform(0.2, 0.9))
        context.result = {"articles": random.randrange(40, 900)}


class ChargeCards(Job):
    """Fails at every third first attempt; its retry succeeds."""

    def execute(self, context: JobExecutionContext) -> None:
        context.log.info("charging %d cards", random.randrange(3, 40))
        context.wait_cancelled(random.uniform(0.1, 0.5))
        if context.attempt == 1 and random.random() < 0.34:
            context.log.warning("the payment provider answered 503")
            raise ConnectionError("the payment provider answered 503 Service Unavailable")
        context.log.info("all charged")


class ImportFeed(Job):
    """Always fails, and has no retry."""

    def execute(self, context: JobExecutionContext) -> None:
        line = random.randrange(2, 4_000)
        raise ValueError(f"feed.csv, line {line}: the column 'price' is not a number (got 'n/a')")


@disallow_concurrent_execution
class RebuildIndex(Job):
    """Runs for a minute, reports its progress and logs. Its executions do not overlap."""

    def execute(self, context: JobExecutionContext) -> None:
        for step in range(120):
            context.progress(step, 120, f"{step * 1_250:,} of 150,000 articles")
            if step % 4 == 0:
                context.log.info("shelf %d: %d articles are indexed", step // 4 + 1, step * 1_250)
            if context.wait_cancelled(0.5):
                context.raise_if_cancelled()


class CloseBooks(Job):
    """Puts its trigger into ERROR."""

    def execute(self, context: JobExecutionContext) -> None:
        raise JobExecutionError("the ledger of October is locked by an auditor", set_trigger_error=True)


class Quick(Job):
    """Takes no time."""

    def execute(self, context: JobExecutionContext) -> None: ...


def open_shop(scheduler: BaseScheduler, now: datetime) -> None:
    """Schedule the jobs of the shop. They begin a second after `now`."""
    holidays = {
        date(year, *day) for year in (now.year, now.year + 1) for day in ((1, 1), (5, 1), (10, 3), (12, 25), (12, 26))
    }
    weekend = WeeklyCalendar(time_zone=BERLIN)
    scheduler.add_calendar("weekend", weekend, replace=True)
    scheduler.add_calendar("business-days", HolidayCalendar(holidays, time_zone=BERLIN, base=weekend), replace=True)
    scheduler.schedule_jobs([*_busy_jobs(now + timedelta(seconds=1)), *_jobs_by_the_clock()], replace=True)
    scheduler.pause(TriggerKey("tuesday-thursday", "mail"), reason="The template is being translated.", by="ann")
    scheduler.add_job(JobDetail(Quick, "resend-receipts", "mail", durable=True), replace=True)
    scheduler.trigger_job(JobKey("resend-receipts", "mail"))


def _busy_jobs(start: datetime) -> Iterator[tuple[JobDetail, list[Trigger]]]:
    """Yield the jobs that run at intervals from `start` on, and which have something to show."""

    def every(seconds: float, name: str, group: str, **options: Any) -> Trigger:
        return SimpleTrigger(
            name, group, interval=timedelta(seconds=seconds), repeat_count=None, start_time=start, **options
        )

    yield (
        JobDetail(SyncStock, "sync-stock", "warehouse", description="Reads the stock of all suppliers."),
        [every(3, "every-3s", "warehouse"), every(5, "every-5s", "warehouse")],
    )
    charge_cards = JobDetail(
        ChargeCards,
        "charge-cards",
        "billing",
        data={"provider": "pay.example", "currency": "EUR", "api_token": "sk_live_0123"},
        retry=RetryPolicy(attempts=3, delay=timedelta(seconds=2)),
        capture_logs="INFO",
        description="Charges the cards of open orders.",
    )
    yield charge_cards, [every(4, "every-4s", "billing")]
    yield (
        JobDetail(ImportFeed, "import-feed", "warehouse", description="Imports the feed of Contoso."),
        [every(20, "every-20s", "warehouse")],
    )
    yield (
        JobDetail(
            RebuildIndex, "rebuild-index", "search", description="Rebuilds the search index.", capture_logs="INFO"
        ),
        [
            every(180, "every-3m", "search"),
            every(30, "after-import", "search", description="Waits while the other trigger runs."),
        ],
    )
    yield (
        JobDetail(CloseBooks, "close-books", "billing", description="Closes the books of the month."),
        [every(3_600, "monthly-close", "billing")],
    )
    yield (
        JobDetail("shop.legacy.Cleanup", "legacy-cleanup", "ops", description="No node knows its type."),
        [every(600, "every-10m", "ops")],
    )


def _jobs_by_the_clock() -> Iterator[tuple[JobDetail, list[Trigger]]]:
    """Yield the jobs with cron triggers, in several time zones."""
    yield (
        JobDetail(Quick, "send-newsletter", "mail", display_name="Newsletter (German)"),
        [CronTrigger("0 30 9 ? * TUE,THU", "tuesday-thursday", "mail", time_zone=BERLIN)],
    )
    yield (
        JobDetail(Quick, "daily-report", "billing", requests_recovery=True),
        [
            CronTrigger("0 0 6 * * ?", "berlin-6", "billing", time_zone=BERLIN, calendar="business-days"),
            CronTrigger("0 30 2 * * ?", "new-york-2-30", "billing", time_zone=NEW_YORK),
        ],
    )
    yield (
        JobDetail(Quick, "heartbeat", "ops"),
        [CronTrigger("0/10 * * * * ?", "every-10s", "ops", time_zone="UTC")],
    )
    yield (
        JobDetail(Quick, "refresh-caches", "ops", description="Refreshes the caches of the web shop."),
        [CronTrigger(f"{s} {m}/10 * * * ?", f"cache-{s}-{m}", "ops") for s in (0, 30) for m in range(0, 10, 3)],
    )


def make_scheduler() -> Scheduler:
    """The scheduler of a node of the shop."""
    return Scheduler(os.environ[DSN_VARIABLE], instance_id=os.environ.get(INSTANCE_VARIABLE, "AUTO"), **SETTINGS)
