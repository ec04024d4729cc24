"""A listener that schedules a second job when the first one has ended. (Quartz's example 9.)"""

from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, JobListener, KeyMatcher, SimpleTrigger
from quartzpy.events import events
from quartzpy.testing import SchedulerHarness


class First(Job):
    """Is heard by the listener."""

    def execute(self, context: JobExecutionContext) -> None:
        print("first")


class Second(Job):
    """Follows the first one."""

    def execute(self, context: JobExecutionContext) -> None:
        print("second")


class FollowUp(JobListener):
    """Schedules the second job, to run at once."""

    def job_was_executed(self, event: events.JobWasExecuted) -> None:
        print(f"{event.job_key.name} has {event.outcome}")
        scheduler = event.context.scheduler
        scheduler.schedule_job(JobDetail(Second, "second"), SimpleTrigger("second", repeat_count=0))


def main() -> None:
    scheduler = SchedulerHarness()
    scheduler.listeners.add_job_listener(FollowUp(), KeyMatcher.key(JobKey("first")))
    scheduler.schedule_job(JobDetail(First, "first"), SimpleTrigger("first", repeat_count=0))
    scheduler.advance(timedelta(seconds=5))


if __name__ == "__main__":
    main()
