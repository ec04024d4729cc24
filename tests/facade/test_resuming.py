"""A resumed trigger that is late waits for the misfire step, so resuming starts that step at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from tests.facade import jobs

SOON = 20.0
LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def begun(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set at each beginning of a misfire step. The steps follow each other only after 15 seconds by themselves."""
    event, step = threading.Event(), scheduler._store.recover_misfires

    def recover_misfires(*arguments: Any, **options: Any) -> Any:
        event.set()
        return step(*arguments, **options)

    monkeypatch.setattr(scheduler._store, "recover_misfires", recover_misfires)
    return event


@pytest.mark.parametrize(
    "resume",
    [
        lambda scheduler: scheduler.resume_trigger("t"),
        lambda scheduler: scheduler.resume_job("job"),
        lambda scheduler: scheduler.resume_trigger_group("DEFAULT"),
        lambda scheduler: scheduler.resume_job_group("DEFAULT"),
        lambda scheduler: scheduler.resume_all(),
    ],
    ids=["trigger", "job", "trigger group", "job group", "all"],
)
@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_resuming_starts_the_misfire_step(
    scheduler: Scheduler, begun: threading.Event, resume: Callable[[Scheduler], object]
) -> None:
    # Storing a trigger that is not late wakes only the scheduler thread.
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", start_time=LATER))
    scheduler.pause_job("job")
    begun.clear()
    resume(scheduler)
    assert begun.wait(SOON / 2)
