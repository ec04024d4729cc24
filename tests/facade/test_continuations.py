"""Jobs that run after others, through the facade."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Continuation, JobDetail, JobKey, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidJobDataError, InvalidJobError, InvalidKeyError
from quartzpy.jobs.continuation import Predecessor
from quartzpy.states import Outcome
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

Links = dict[str, Sequence[Continuation | JobKey | str]]


def harness(links: Links) -> SchedulerHarness:
    made = SchedulerHarness()
    for name in ("recorded", "then", "last"):
        made.add_job(JobDetail(jobs.Recorded, name, durable=True, continuations=links.get(name, ())))
    failing = JobDetail(
        jobs.FailingUntil,
        "failing",
        data={"attempt": 3},
        durable=True,
        retry=RetryPolicy(attempts=3),
        continuations=links.get("failing", ()),
    )
    made.add_job(failing)
    return made


def names(harness: SchedulerHarness, first: str) -> list[tuple[str, str]]:
    harness.trigger_job(JobKey(first))
    done = [*harness.run_pending(), *harness.advance(timedelta(hours=1))]
    return [(record.job_key.name, str(record.outcome)) for record in done]


def test_a_job_follows_another_and_is_followed_itself() -> None:
    made = harness({"recorded": [Continuation("then", data={"n": 1})], "then": ["last"]})
    jobs.reset()
    assert names(made, "recorded") == [(name, "SUCCEEDED") for name in ("recorded", "then", "last")]
    first, then, last = (jobs.next_run() for _ in range(3))
    assert first.predecessor is None
    assert then.predecessor == Predecessor(first.job_key, first.fire_id, Outcome.SUCCEEDED, "a result")
    assert then.job_data["n"] == 1
    assert last.predecessor is not None
    assert last.predecessor.job_key == then.job_key
    assert "n" not in last.job_data


def test_a_failure_that_is_retried_is_no_end_yet() -> None:
    made = harness({"failing": [Continuation("then", ["FAILED"]), "last"]})
    assert names(made, "failing") == [("failing", "FAILED")] * 2 + [("failing", "SUCCEEDED"), ("last", "SUCCEEDED")]


def test_only_the_chosen_outcomes_are_continued() -> None:
    made = harness({"failing": ["then", Continuation("last", ["FAILED", "TERMINATED"])]})
    made.modify_job(JobKey("failing"), retry=None)
    assert names(made, "failing") == [("failing", "FAILED"), ("last", "SUCCEEDED")]


def test_a_follower_runs_at_once_on_a_running_node_and_is_given_the_result(scheduler: Scheduler) -> None:
    jobs.reset()
    scheduler.add_job(JobDetail(jobs.Recorded, "then", durable=True))
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "first", continuations=["then"]), SimpleTrigger("t"))
    first, then = jobs.next_run(), jobs.next_run()
    assert then.job_key == JobKey("then")
    assert then.predecessor == Predecessor(JobKey("first"), first.fire_id, Outcome.SUCCEEDED, "a result")


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"outcomes": ()}, InvalidJobError, "outcomes must be some of SUCCEEDED, FAILED"),
        ({"outcomes": ["WAITING"]}, InvalidJobError, "outcomes must be some of"),
        ({"outcomes": ["SUCCEEDED", "succeeded"]}, InvalidJobError, "outcomes must be some of"),
        ({"outcomes": ["SKIPPED"]}, InvalidJobError, "outcomes must be some of"),
        ({"outcomes": "FAILED"}, InvalidJobError, "outcomes must be a sequence"),
        ({"job": 7}, InvalidJobError, "job must be a JobKey or a name"),
        ({"job": ""}, InvalidKeyError, "job name"),
        ({"data": {"x": object()}}, InvalidJobDataError, "x"),
    ],
)
def test_a_wrong_continuation_is_refused(how: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Continuation(**{"job": "then", **how})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("load", "a sequence of jobs"),
        (JobKey("load"), "a sequence of jobs"),
        (["load", Continuation("load", ["FAILED", "SUCCEEDED"])], "given twice for the outcome SUCCEEDED"),
    ],
)
def test_wrong_continuations_of_a_job_are_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidJobError, match=says):
        JobDetail(jobs.Recorded, continuations=given)
