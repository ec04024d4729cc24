"""One program schedules, another one executes. (Quartz's example 12, which uses RMI for it.)

Both know the same database and nothing of each other: a scheduler that is not started is a client.
"""

import os
from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger


class Hello(Job, type_name="example12.hello"):
    """Says what the client told it."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"the server runs: {context.job_data['message']}")


def client(url: str) -> None:
    """Schedule a job, and run nothing."""
    scheduler = Scheduler(url, name="example12")
    job = JobDetail(Hello, "hello", data={"message": "hello from the client"})
    scheduler.schedule_job(job, SimpleTrigger("once", repeat_count=0), replace=True)
    scheduler.shutdown()
    print("the client has gone")


def server(url: str) -> None:
    """Run what is scheduled."""
    with Scheduler(url, name="example12") as scheduler:
        scheduler.wait_until_recorded(1, timedelta(seconds=20))


def main() -> None:
    url = os.environ["QUARTZPY_URL"]
    client(url)
    server(url)


if __name__ == "__main__":
    main()
