"""Two nodes share a schedule; one of them leaves, and each instant still fires once. (Quartz's example 13.)

`quartzpy demo` shows the same with three processes, one of which is killed.
"""

import os
import time
from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger

FIRES = 6


class Tick(Job, type_name="example13.tick"):
    """Does nothing."""

    def execute(self, context: JobExecutionContext) -> None: ...


def main() -> None:
    url = os.environ["QUARTZPY_URL"]
    first = Scheduler(url, name="example13", instance_id="first")
    second = Scheduler(url, name="example13", instance_id="second")
    first.start()
    second.start()
    trigger = SimpleTrigger("ticks", interval=timedelta(milliseconds=200), repeat_count=FIRES - 1)
    first.schedule_job(JobDetail(Tick, "tick"), trigger, replace=True)
    first.shutdown()
    deadline = time.monotonic() + 20
    while len(executions := list(second.executions())) < FIRES and time.monotonic() < deadline:
        second.wait_until_shut_down(timedelta(milliseconds=50))
    instants = {execution.scheduled_fire_time for execution in executions}
    print(f"{len(executions)} executions of {len(instants)} instants")
    second.shutdown()


if __name__ == "__main__":
    main()
