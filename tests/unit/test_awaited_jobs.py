"""The memory of ends for which something waited lately."""

from __future__ import annotations

from quartzpy.keys import JobKey
from quartzpy.store.postgresql.connection.awaited_jobs import MOST, SECONDS, AwaitedJobs

JOB, OTHER = JobKey("a"), JobKey("b")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_job_is_awaited_for_a_moment_after_something_waited_for_it() -> None:
    clock = Clock()
    jobs = AwaitedJobs(clock)
    assert JOB not in jobs
    jobs.note([JOB])
    assert JOB in jobs
    assert OTHER not in jobs
    clock.now += SECONDS
    assert JOB not in jobs


def test_all_jobs_are_awaited_for_a_moment_after_a_step_in_vain() -> None:
    clock = Clock()
    jobs = AwaitedJobs(clock)
    jobs.note_all()
    assert JOB in jobs
    assert OTHER in jobs
    clock.now += SECONDS
    assert JOB not in jobs


def test_it_forgets_what_is_over_and_keeps_no_more_than_its_number() -> None:
    clock = Clock()
    jobs = AwaitedJobs(clock)
    jobs.note(JobKey(f"early-{number}") for number in range(MOST))
    jobs.note([JOB])
    assert JOB not in jobs
    clock.now += SECONDS
    jobs.note([JOB])
    assert JOB in jobs
