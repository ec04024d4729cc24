"""The misfires after ten minutes in which no node was up. (Quartz's example 5.)"""

from datetime import timedelta

from quartzpy import Job, JobDetail, JobExecutionContext, SimpleTrigger
from quartzpy.testing import SchedulerHarness

MINUTE = timedelta(minutes=1)


class Quick(Job):
    """Says how many instants it runs for."""

    def execute(self, context: JobExecutionContext) -> None:
        print(f"  {context.job_key.name}: one run for {len(context.coalesced_fire_times)} instants")


def main() -> None:
    scheduler = SchedulerHarness()
    for instruction, most in (("fire_now", None), ("reschedule_next_with_existing_count", None), ("fire_all", 4)):
        trigger = SimpleTrigger(instruction, interval=MINUTE, repeat_count=None, misfire=instruction, catch_up_max=most)
        scheduler.schedule_job(JobDetail(Quick, instruction), trigger)
    print("the first fires")
    scheduler.run_pending()
    scheduler.advance(10 * MINUTE + timedelta(seconds=30), running=False)
    print("no node was up for ten minutes")
    late = scheduler.run_pending()
    print(f"{len(late)} late executions")
    for misfire in scheduler.misfires():
        print(
            f"  {misfire.trigger_key.name}: {misfire.action}, {len(misfire.missed)} instants without a run of their own"
        )


if __name__ == "__main__":
    main()
