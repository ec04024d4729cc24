"""A job of every 100 ms misses no fire while another one, with very many triggers, is paused, resumed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text

from quartzpy import JobDetail, JobKey, Scheduler, SimpleTrigger
from quartzpy.errors import JobNotFoundError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.states import Outcome, TriggerState
from tests.facade import jobs
from tests.waiting import wait_until

MANY, TICK = JobKey("many"), JobKey("tick")
INTERVAL = timedelta(milliseconds=100)
# The first trigger is stored by the scheduler, and the others are copies of it.
COPY = """
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type, kind,
    schedule, trigger_state, next_fire_time, start_time, priority, misfire_instruction, upcoming)
SELECT t.sched_name, nextval('qrtz_fire_ids'), t.trigger_group, t.trigger_name || n, t.job_group, t.job_name,
       t.job_type, t.kind, t.schedule, 'WAITING', t.next_fire_time + n * interval '1 ms', t.start_time, t.priority,
       t.misfire_instruction, t.upcoming
  FROM qrtz_triggers t CROSS JOIN generate_series(1, :count) AS n WHERE t.job_name = 'many'
"""


def to_the_end(change: Callable[[JobKey], object]) -> None:
    """Change the many triggers.

    The server ends a transaction that stands still for the lock timeout, here a second, as it may on a machine that has
    no time for it. The same call goes on from there.
    """
    while True:
        try:
            change(MANY)
        except (StoreUnavailableError, OutcomeUnknownError):
            continue
        except JobNotFoundError:
            # It was deleted by the call whose answer was lost.
            return
        else:
            return


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_job_of_every_100_ms_misses_no_fire(
    scheduler: Scheduler, engine: Engine, request: pytest.FixtureRequest
) -> None:
    count = 100_000 if request.config.getoption("long", default=False) else 5_000
    later = datetime.now(UTC) + timedelta(hours=1)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "many", durable=True), SimpleTrigger("many", start_time=later))
    with engine.begin() as connection:
        connection.execute(text(COPY), {"count": count - 1})
    scheduler.schedule_job(
        JobDetail(jobs.Recorded, "tick"), SimpleTrigger("tick", interval=INTERVAL, repeat_count=None)
    )
    ticks = scheduler.executions(job=TICK, state=Outcome.SUCCEEDED)

    def fires() -> list[datetime]:
        return sorted(record.scheduled_fire_time for record in ticks)

    wait_until(lambda: len(fires()) >= 3)
    began = max(fires())
    to_the_end(scheduler.pause_job)
    assert scheduler.triggers(job=MANY, state=TriggerState.PAUSED).count() == count
    to_the_end(scheduler.resume_job)
    assert scheduler.triggers(job=MANY, state=TriggerState.WAITING).count() == count
    to_the_end(scheduler.delete_job)
    assert scheduler.triggers(job=MANY).count() == 0
    ended = datetime.now(UTC)

    # Executions end in any order.
    due = {began + number * INTERVAL for number in range((ended - began) // INTERVAL + 1)}
    wait_until(lambda: due <= {*fires()}, seen=lambda: sorted(due - {*fires()}))
