"""Cron expressions, and how often they fire in a week. (Quartz's example 3.)"""

from collections import Counter
from datetime import UTC, datetime, timedelta

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext
from quartzpy.testing import SchedulerHarness

EXPRESSIONS = {
    "every-20-minutes": "0 0/20 * * * ?",
    "even-hours-at-15": "0 15 0/2 * * ?",
    "every-two-minutes-from-8-to-17": "0 0/2 8-17 * * ?",
    "at-ten-on-the-1st-and-15th": "0 0 10 1,15 * ?",
    "every-half-hour-on-weekdays": "0 0,30 * ? * MON-FRI",
    "every-half-hour-on-weekends": "0 0,30 * ? * SAT,SUN",
    "last-friday-of-the-month": "0 0 18 ? * 6L",
}


class Quick(Job):
    """Does nothing."""

    def execute(self, context: JobExecutionContext) -> None: ...


def main() -> None:
    scheduler = SchedulerHarness(datetime(2026, 1, 26, tzinfo=UTC))  # a Monday
    for name, expression in EXPRESSIONS.items():
        scheduler.schedule_job(JobDetail(Quick, name), CronTrigger(expression, name, time_zone="UTC"))
    fires = Counter(execution.job_key.name for execution in scheduler.advance(timedelta(days=7, seconds=-1)))
    for name, expression in EXPRESSIONS.items():
        print(f"{expression:22} {fires[name]:4} times a week  {name}")


if __name__ == "__main__":
    main()
