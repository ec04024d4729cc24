"""A job that repairs its data and runs again at once, and one that unschedules itself. (Quartz's example 6.)"""

from datetime import timedelta

from quartzpy import (
    Job,
    JobDetail,
    JobExecutionContext,
    JobExecutionError,
    SimpleTrigger,
    TriggerKey,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.testing import SchedulerHarness


@persist_job_data_after_execution
@disallow_concurrent_execution
class Mending(Job):
    """Divides by zero, repairs its data, and asks to be fired again at once."""

    def execute(self, context: JobExecutionContext) -> None:
        data = context.job_detail_data
        try:
            print(f"repairing: {4815 // data['denominator']} at try {context.refire_count + 1}")
        except ZeroDivisionError as error:
            data["denominator"] = 1
            # There is no limit to refires: a job has to set one.
            raise JobExecutionError("repaired the data", refire_immediately=context.refire_count < 3) from error


class Hopeless(Job):
    """Gives up for good."""

    def execute(self, context: JobExecutionContext) -> None:
        print("hopeless: never again")
        raise JobExecutionError("nothing can be done", unschedule_all_triggers=True)


def main() -> None:
    scheduler = SchedulerHarness()
    for job, data in ((Mending, {"denominator": 0}), (Hopeless, {})):
        name = job.__name__.lower()
        trigger = SimpleTrigger(name, interval=timedelta(seconds=10), repeat_count=None)
        scheduler.schedule_job(JobDetail(job, name, data=data), trigger)
    scheduler.advance(timedelta(seconds=25))
    print("hopeless is", scheduler.trigger_state(TriggerKey("hopeless")))


if __name__ == "__main__":
    main()
