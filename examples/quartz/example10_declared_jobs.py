"""Jobs and triggers in a file: `jobs.toml` beside this program. (Quartz's example 10, which reads XML.)"""

from datetime import timedelta
from pathlib import Path

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.plugins.declared_jobs import DeclaredJobs

FILE = Path(__file__).with_name("jobs.toml")


class Hello(Job, type_name="example10.hello"):
    """Prints what the file says."""

    def execute(self, context: JobExecutionContext) -> None:
        print(context.job_data["greeting"])


def main() -> None:
    with Scheduler("memory://", plugins=[DeclaredJobs(FILE)]) as scheduler:
        scheduler.wait_until_recorded(3, timedelta(seconds=10))


if __name__ == "__main__":
    main()
