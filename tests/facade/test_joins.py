"""Jobs that run after several others, and batches, through the facade."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Batch, JobDetail, JobKey, Join, SimpleTrigger, every
from quartzpy.errors import (
    InvalidJobError,
    InvalidKeyError,
    InvalidTriggerError,
    JobNotFoundError,
    UnknownTimeZoneError,
)
from quartzpy.jobs.join import join_as_text, join_from_text
from quartzpy.scheduler.declarations import read_join
from quartzpy.scheduler.exporting import plain_value
from quartzpy.states import JoinState
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs


def test_a_job_runs_after_two_others_and_says_what_it_waits_for() -> None:
    harness = SchedulerHarness()
    jobs.reset()
    for name, span in (("a", 60), ("b", 120)):
        harness.schedule_job(JobDetail(jobs.Recorded, name), every(span))
    harness.schedule_job(JobDetail(jobs.Recorded, "report", after=["a", "b"]))
    report = JobKey("report")
    assert harness.why(report) == [
        "It runs after a and b (all must succeed, at the same instant); none of their executions has ended yet."
    ]
    done = harness.advance(timedelta(seconds=60))
    assert [record.job_key.name for record in done] == ["a", "b", "report", "a"]
    [latest, first] = harness.joins(job=report)
    assert (latest.state, first.state) == (JoinState.WAITING, JoinState.FIRED)
    minute = latest.occasion[:16]
    assert harness.why(report)[0] == (
        f"It waits for b of {minute}Z (all must succeed, at the same instant); a (SUCCEEDED) has ended."
    )
    assert harness.why(report)[1].endswith("it was started after a (SUCCEEDED) and b (SUCCEEDED) had ended.")
    contexts = [jobs.next_run() for _ in range(3)]
    assert contexts[0].joined is None
    assert contexts[2].joined is not None
    assert contexts[2].joined.predecessors[JobKey("a")].result == "a result"
    assert harness.why(JobKey("a")) == ["Job DEFAULT.a does not run after other jobs; its triggers say when it runs."]
    with pytest.raises(JobNotFoundError):
        harness.why(JobKey("nowhere"))


def test_a_batch_of_one_call_starts_its_job_once_with_the_numbers() -> None:
    harness = SchedulerHarness()
    jobs.reset()
    harness.add_job(JobDetail(jobs.Recorded, "part", durable=True))
    harness.add_job(JobDetail(jobs.Recorded, "end", durable=True))
    triggers = [SimpleTrigger(job_key=JobKey("part")) for _ in range(20)]
    harness.schedule(triggers, batch=Batch(then="end", name="first"))
    harness.schedule(triggers, batch=Batch(then="end"))
    assert harness.why(JobKey("end"))[-1] == "It waits for the rest: 0 of 20 triggers of batch 'first' have ended."
    assert [record.job_key.name for record in harness.run_pending()].count("end") == 2
    assert [join.state for join in harness.joins(job="end", state="FIRED")] == [JoinState.FIRED] * 2


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"jobs": "a"}, InvalidJobError, "a sequence of jobs"),
        ({"jobs": []}, InvalidJobError, "a sequence of jobs"),
        ({"jobs": [7]}, InvalidJobError, "each of the jobs must be a JobKey or a name"),
        ({"jobs": [""]}, InvalidKeyError, "job name"),
        ({"jobs": ["a", JobKey("a")]}, InvalidJobError, "job DEFAULT.a is given twice"),
        ({"jobs": [f"j{n}" for n in range(101)]}, InvalidJobError, "at most 100 jobs"),
        ({"need": 3}, InvalidJobError, "a number from 1 to 2"),
        ({"need": True}, InvalidJobError, "need must be"),
        ({"on": "SUCCEEDED"}, InvalidJobError, "on must be one of success, failure, end"),
        ({"per": "hour"}, InvalidJobError, "per must be"),
        ({"time_zone": "Mars/Olympus"}, UnknownTimeZoneError, "Mars/Olympus"),
        ({"time_zone": "+02:00"}, InvalidJobError, "no offset"),
    ],
)
def test_a_wrong_join_is_refused(how: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Join(**{"jobs": ["a", "b"], **how})


def test_a_job_cannot_run_after_itself() -> None:
    with pytest.raises(InvalidJobError, match="cannot run after itself"):
        JobDetail(jobs.Recorded, "a", after=["a"])


@pytest.mark.parametrize(
    "join",
    [
        Join(["a", "b"]),
        Join([JobKey("a", "eu"), "b"], need="any", on="end"),
        Join(["a", "b", "c"], need=2, on="failure", per="day", time_zone="Europe/Berlin"),
    ],
)
def test_a_join_survives_the_store_and_a_file(join: Join) -> None:
    assert join_from_text(join_as_text(join)) == join
    written = plain_value(join)
    assert read_join(written if isinstance(written, dict) else {"jobs": written}) == join


def test_a_wrong_batch_is_refused() -> None:
    harness = SchedulerHarness()
    harness.add_job(JobDetail(jobs.Recorded, "part", durable=True))
    once = SimpleTrigger(job_key=JobKey("part"))
    with pytest.raises(JobNotFoundError, match=r"no job DEFAULT\.end is stored, which is to run when all have ended"):
        harness.schedule(once, batch=Batch(then="end"))
    with pytest.raises(InvalidTriggerError, match="must fire exactly once"):
        harness.schedule(SimpleTrigger(job_key=JobKey("part"), interval=5), batch=Batch(then="part"))
    with pytest.raises(InvalidJobError, match="replace=True is not possible"):
        harness.schedule(once, replace=True, batch=Batch(then="part"))
    with pytest.raises(InvalidJobError, match="it has no trigger"):
        harness.schedule([], batch=Batch(then="part"))
    with pytest.raises(InvalidJobError, match="on must be one of"):
        Batch(then="part", on="always")  # type: ignore[arg-type]
    with pytest.raises(InvalidJobError, match="then must be a JobKey or a name"):
        Batch(then=7)  # type: ignore[arg-type]
