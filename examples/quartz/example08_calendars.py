"""Holidays on which a schedule rests. (Quartz's example 8.)"""

from datetime import UTC, date, datetime, timedelta

from quartzpy import AnnualCalendar, CronTrigger, HolidayCalendar, Job, JobDetail, JobExecutionContext
from quartzpy.testing import SchedulerHarness


class Opening(Job):
    """Says on which day it ran."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"{context.job_key.name} on {context.scheduled_fire_time:%a %d %b}")


def main() -> None:
    scheduler = SchedulerHarness(datetime(2026, 12, 22, tzinfo=UTC))
    # The same days of every year, and days of one year.
    scheduler.add_calendar("feasts", AnnualCalendar(excluded_days=frozenset({(12, 25), (12, 26), (1, 1)})))
    scheduler.add_calendar("bridge-days", HolidayCalendar(excluded_dates=frozenset({date(2026, 12, 28)})))
    for name in ("feasts", "bridge-days"):
        trigger = CronTrigger("0 0 9 ? * MON-FRI", name, time_zone="UTC", calendar=name)
        scheduler.schedule_job(JobDetail(Opening, f"open-but-for-{name}"), trigger)
    scheduler.advance(timedelta(days=8))


if __name__ == "__main__":
    main()
