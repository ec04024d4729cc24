"""Parameters of a job, and data that it keeps from one execution to the next. (Quartz's example 4.)"""

from datetime import timedelta

from quartzpy import (
    Job,
    JobDetail,
    JobExecutionContext,
    SimpleTrigger,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.testing import SchedulerHarness


@persist_job_data_after_execution
@disallow_concurrent_execution
class Colour(Job):
    """Counts its executions twice: in its data, and in an attribute, which starts anew with each instance."""

    def __init__(self) -> None:
        self.count = 0

    def execute(self, context: JobExecutionContext) -> None:
        self.count += 1
        data = context.job_detail_data
        data["count"] += 1
        print(f"{context.job_key.name}: {data['colour']}, data {data['count']}, attribute {self.count}")


def main() -> None:
    scheduler = SchedulerHarness()
    for name, colour in (("first", "green"), ("second", "red")):
        job = JobDetail(Colour, name, data={"colour": colour, "count": 0})
        scheduler.schedule_job(job, SimpleTrigger(name, interval=timedelta(seconds=10), repeat_count=4))
    scheduler.advance(timedelta(minutes=1))


if __name__ == "__main__":
    main()
