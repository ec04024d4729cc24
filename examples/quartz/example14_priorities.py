"""One worker, and three triggers of the same instant: the highest priority goes first. (Quartz's example 14.)"""

from datetime import UTC, datetime, timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger


class Echo(Job):
    """Says by which trigger it was fired."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"{context.trigger_key.name}, priority {context.trigger.priority}")


def main() -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=300)
    with Scheduler("memory://", workers=1) as scheduler:
        triggers = [
            SimpleTrigger(name, start_time=soon, repeat_count=0, priority=priority)
            for name, priority in (("low", 1), ("high", 10), ("middle", 5))
        ]
        scheduler.schedule_job(JobDetail(Echo, "echo"), triggers)
        scheduler.wait_until_recorded(3, timedelta(seconds=10))


if __name__ == "__main__":
    main()
