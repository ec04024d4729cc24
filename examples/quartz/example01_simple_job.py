"""A job that runs once, at the next full second. (Quartz's example 1.)"""

from datetime import UTC, datetime, timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger


class Hello(Job):
    """Says hello."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"Hello from {context.job_key}, fired by {context.trigger_key}")


def main() -> None:
    next_second = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    with Scheduler("memory://") as scheduler:
        scheduler.schedule_job(JobDetail(Hello, "hello"), SimpleTrigger("once", start_time=next_second, repeat_count=0))
        scheduler.wait_until_recorded(1, timedelta(seconds=10))


if __name__ == "__main__":
    main()
