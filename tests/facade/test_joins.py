"""Jobs that run after several others, and batches, through the facade."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Batch, Jitter, JobDetail, JobKey, Join, NoOpJob, SimpleTrigger, every
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.forms import TOML, FileForm
from quartzpy.definitions.plain import plain_value
from quartzpy.definitions.reader import read_record
from quartzpy.errors import (
    InvalidJobError,
    InvalidKeyError,
    InvalidTriggerError,
    JobNotFoundError,
    UnknownTimeZoneError,
)
from quartzpy.jobs.job import job_types
from quartzpy.jobs.join import join_as_text, join_from_text
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
    values = written if isinstance(written, dict) else {"jobs": written}
    assert read_record(Join, values, FileForm(TOML, job_types), Faults(), ()) == join


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


def reasons(harness: SchedulerHarness, name: str = "report") -> list[str]:
    return harness.why(JobKey(name))


def test_what_cannot_come_is_said() -> None:
    harness = SchedulerHarness()
    for name in ("a", "gone", "by-hand", "paused", "chained"):
        harness.schedule_job(
            JobDetail(NoOpJob, name, durable=True), every(60) if name in ("a", "gone", "paused") else ()
        )
    harness.schedule_job(JobDetail(NoOpJob, "jittered"), Jitter(trigger=every(60), up_to="30s"))
    harness.schedule_job(JobDetail(NoOpJob, "joined", after=["a"]))
    after = ["a", "gone", "by-hand", "paused", "jittered", "joined"]
    harness.schedule_job(JobDetail(NoOpJob, "report", after=after))
    harness.delete_job(JobKey("gone"))
    harness.pause_job(JobKey("paused"))
    expected = [
        "gone is not stored: nothing ends until it is stored again.",
        "by-hand has no trigger that will fire: it runs only after another job, or by hand.",
        "paused does not run: its triggers are paused.",
        "The triggers of jittered have jitter, so each of its executions has an instant of its own, which those of"
        ' other jobs do not share: per="day" joins the executions of a day.',
    ]
    assert reasons(harness)[1:] == expected
    harness.advance(timedelta(seconds=1))
    assert reasons(harness)[-4:] == expected
    after.remove("gone")
    harness.modify_job(JobKey("report"), after=Join(after, per="day"))
    harness.advance(timedelta(seconds=60))
    assert reasons(harness)[-1] == expected[-2]


def test_a_changed_definition_is_the_reason_of_what_is_not_met() -> None:
    harness = SchedulerHarness()
    for name in "ab":
        harness.schedule_job(JobDetail(NoOpJob, name), "0 0 2 * * ?")
    harness.schedule_job(JobDetail(NoOpJob, "report", after=["a", "b"]))
    harness.trigger_job("a")
    harness.run_pending()
    harness.modify_job(JobKey("report"), after=["b"])
    assert any(
        sentence.endswith("a (SUCCEEDED) has ended; it was not started, because its definition has changed since then.")
        for sentence in reasons(harness)
    )
    harness.modify_job(JobKey("report"), after=None)
    assert any("the job does not run after others any more" in sentence for sentence in reasons(harness))


def test_a_circle_is_refused_with_its_jobs() -> None:
    harness = SchedulerHarness()
    harness.schedule_job(JobDetail(NoOpJob, "a"), every(60))
    harness.schedule_job(JobDetail(NoOpJob, "b", after=["a"]))
    with pytest.raises(
        InvalidJobError, match=r"job DEFAULT\.a cannot run after DEFAULT\.b, which runs after DEFAULT\.a"
    ):
        harness.modify_job(JobKey("a"), after=["b"])
    assert harness.why(JobKey("a")) == ["Job DEFAULT.a does not run after other jobs; its triggers say when it runs."]


def test_a_continuation_has_the_nominal_fire_time_of_what_it_follows() -> None:
    harness = SchedulerHarness()
    jobs.reset()
    harness.schedule_job(JobDetail(jobs.Recorded, "b", durable=True))
    harness.schedule_job(JobDetail(jobs.Recorded, "a", continuations=["b"]), every(60))
    harness.schedule_job(JobDetail(jobs.Recorded, "c", after=["a", "b"]))
    start = harness.now
    harness.advance(timedelta(seconds=1))
    contexts = [jobs.next_run() for _ in range(3)]
    assert {context.nominal_fire_time for context in contexts} == {start}
    assert len({context.execution_key for context in contexts}) == 3
