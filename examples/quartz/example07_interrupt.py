"""A job that is asked to stop, and does. (Quartz's example 7.)"""

from datetime import timedelta
from threading import Event

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger

began = Event()


class Long(Job):
    """Would take a minute; looks ten times a second whether it was asked to stop."""

    def execute(self, context: JobExecutionContext) -> None:
        began.set()
        for _ in range(600):
            context.wait_cancelled(0.1)
            context.raise_if_cancelled()


def main() -> None:
    with Scheduler("memory://") as scheduler:
        scheduler.schedule_job(JobDetail(Long, "long"), SimpleTrigger("once", repeat_count=0))
        began.wait(10)
        print("asked to stop:", bool(scheduler.interrupt(JobKey("long"))))
        scheduler.wait_until_recorded(1, timedelta(seconds=10))
        for execution in scheduler.executions():
            print(f"{execution.job_key.name} is {execution.outcome}")


if __name__ == "__main__":
    main()
