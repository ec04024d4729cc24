"""What surrounds executions, and what jobs find in the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.jobs.context import Middleware
from quartzpy.states import Outcome
from tests.facade import jobs

SOON = timedelta(seconds=30)
Make = Callable[..., Scheduler]


def noting(notes: list[str], name: str) -> Middleware:
    @contextmanager
    def around(context: JobExecutionContext) -> Iterator[None]:
        notes.append(f"{name} in {context.job_key.name}")
        try:
            yield
        except BaseException as error:
            notes.append(f"{name} saw {type(error).__name__}")
            raise
        notes.append(f"{name} out {context.result}")

    return around


@contextmanager
def refusing(context: JobExecutionContext) -> Iterator[None]:
    raise PermissionError("not now")
    yield


def run(make: Make, job: JobDetail, *middleware: Middleware) -> tuple[Outcome | None, str]:
    scheduler = make(middleware=middleware)
    scheduler.start()
    scheduler.schedule_job(job, SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    [record] = scheduler.executions()
    return record.outcome, record.error or ""


@pytest.mark.parametrize("kind", [jobs.Recorded, jobs.RecordedAsync])
def test_the_first_is_the_outermost_and_all_see_the_result(make_scheduler: Make, kind: type[Any]) -> None:
    notes: list[str] = []
    outcome, _ = run(make_scheduler, JobDetail(kind, "job"), noting(notes, "a"), noting(notes, "b"))
    result = jobs.next_run().result
    assert outcome is Outcome.SUCCEEDED
    assert notes == ["a in job", "b in job", f"b out {result}", f"a out {result}"]


@pytest.mark.parametrize("kind", [jobs.Raising, jobs.RaisingAsync])
def test_they_see_what_the_job_raises(make_scheduler: Make, kind: type[Any]) -> None:
    notes: list[str] = []
    job = JobDetail(kind, "job", data={"what": "Exception"})
    outcome, error = run(make_scheduler, job, noting(notes, "a"), noting(notes, "b"))
    assert (outcome, notes[2:]) == (Outcome.FAILED, ["b saw ValueError", "a saw ValueError"])
    assert error.endswith("ValueError: wrong")


def test_one_that_raises_at_first_fails_the_execution_without_a_run(make_scheduler: Make) -> None:
    notes: list[str] = []
    outcome, error = run(make_scheduler, JobDetail(jobs.Recorded, "job"), noting(notes, "a"), refusing)
    assert outcome is Outcome.FAILED
    assert error.endswith("PermissionError: not now")
    assert notes == ["a in job", "a saw PermissionError"]
    assert jobs.nothing_ran(0)


def test_an_exception_that_a_middleware_suppresses_is_no_failure(make_scheduler: Make) -> None:
    job = JobDetail(jobs.Raising, "job", data={"what": "Exception"})
    outcome, _ = run(make_scheduler, job, lambda context: suppress(ValueError))
    assert outcome is Outcome.SUCCEEDED


def test_each_refire_is_surrounded(make_scheduler: Make) -> None:
    notes: list[str] = []
    run(make_scheduler, JobDetail(jobs.Asking, "job", data={"flag": "refire_immediately"}), noting(notes, "a"))
    assert notes == ["a in job", "a saw JobExecutionError"] * 3 + ["a in job", "a out None"]


def test_jobs_find_what_the_program_gave_the_scheduler(make_scheduler: Make) -> None:
    given = {"limit": 3}
    scheduler = make_scheduler(context=given)
    given["limit"] = 4
    scheduler.context["more"] = "of it"
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert jobs.next_run().scheduler.context == {"limit": 3, "more": "of it"}
