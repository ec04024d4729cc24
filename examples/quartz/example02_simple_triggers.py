"""Triggers that fire once, several times, or for ever; a job by hand; a new schedule. (Quartz's example 2.)"""

from datetime import UTC, datetime, timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, SimpleTrigger, TriggerKey
from quartzpy.testing import SchedulerHarness

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Simple(Job):
    """Says when it was fired, in seconds after nine o'clock."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"{(context.scheduled_fire_time - START).total_seconds():4.0f} s  {context.job_key.name}")


def main() -> None:
    scheduler = SchedulerHarness(START)
    soon = START + 15 * SECOND
    scheduler.schedule_job(JobDetail(Simple, "once"), SimpleTrigger("once", start_time=soon, repeat_count=0))
    three_times = SimpleTrigger("three-times", start_time=soon, interval=10 * SECOND, repeat_count=2)
    scheduler.schedule_job(JobDetail(Simple, "three-times"), three_times)
    for_ever = SimpleTrigger("for-ever", start_time=soon, interval=40 * SECOND, repeat_count=None)
    scheduler.schedule_job(JobDetail(Simple, "for-ever"), for_ever)
    # A job without a trigger must be durable, or it would be deleted at once.
    scheduler.add_job(JobDetail(Simple, "by-hand", durable=True))
    scheduler.trigger_job(JobKey("by-hand"))
    scheduler.advance(2 * 60 * SECOND)

    print("now for-ever comes every 30 s")
    scheduler.reschedule_job(
        TriggerKey("for-ever"),
        SimpleTrigger("for-ever", start_time=scheduler.now, interval=30 * SECOND, repeat_count=None),
    )
    scheduler.advance(60 * SECOND)


if __name__ == "__main__":
    main()
