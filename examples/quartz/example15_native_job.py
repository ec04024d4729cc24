"""A job that runs a program of the operating system. (Quartz's example 15.)

Quartz has a class for it. In Python it is a few lines, and this one stops the program when it is asked to stop.
"""

import subprocess
import sys
from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger


class Native(Job):
    """Runs a command, and fails where that does; what it prints is the job's result."""

    def execute(self, context: JobExecutionContext) -> str:
        process = subprocess.Popen(context.job_data["command"], stdout=subprocess.PIPE, text=True)
        while True:
            try:
                output, _ = process.communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                if context.cancelled:
                    process.terminate()
                continue
            context.raise_if_cancelled()
            if process.returncode:
                raise RuntimeError(f"the command ended with status {process.returncode}")
            return output.strip()


def main() -> None:
    commands = {"hello": "print('hello from a process')", "failing": "raise SystemExit(3)"}
    with Scheduler("memory://") as scheduler:
        for name, program in commands.items():
            job = JobDetail(Native, name, data={"command": [sys.executable, "-c", program]})
            scheduler.schedule_job(job, SimpleTrigger(name, repeat_count=0))
        scheduler.wait_until_recorded(2, timedelta(seconds=20))
        for execution in sorted(scheduler.executions(), key=lambda one: one.job_key):
            print(f"{execution.job_key.name}: {execution.outcome} {execution.result or ''}".rstrip())


if __name__ == "__main__":
    main()
