"""Five hundred jobs that are due at once, on twenty workers. (Quartz's example 11.)"""

import random
import time
from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger

JOBS = 500


class Brief(Job):
    """Waits for some milliseconds."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(random.uniform(0.001, 0.010))


def main() -> None:
    with Scheduler("memory://", workers=20) as scheduler:
        began = time.monotonic()
        scheduler.schedule_jobs(
            [(JobDetail(Brief, f"job-{n}"), [SimpleTrigger(f"once-{n}", repeat_count=0)]) for n in range(JOBS)]
        )
        done = scheduler.wait_until_recorded(JOBS, timedelta(seconds=60))
        print(f"all {JOBS} jobs ran: {done}; it took {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
