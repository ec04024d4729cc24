"""The errors of jobs in child processes: their types, their texts and their instructions."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from quartzpy import JobDetail, RetryPolicy
from quartzpy.errors import (
    JobCancelledError,
    JobExecutionError,
    RemoteJobError,
)
from quartzpy.node.engines.runs import EngineRuns
from quartzpy.node.workers.error_handling import MAX_ERROR_LENGTH
from quartzpy.states import CompletionInstruction, Outcome
from tests.node import process_jobs as jobs
from tests.node.processes import ended, execution_of


@pytest.mark.parametrize("name", jobs.ERRORS)
def test_an_error_keeps_its_type_and_text(shared: EngineRuns, name: str) -> None:
    original = jobs.ERRORS[name]
    found = ended(shared, execution_of(jobs.Raises, error=name))
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, RemoteJobError)
    assert str(found.error) == str(original)
    assert found.error.error_type.endswith(type(original).__qualname__)
    assert isinstance(found.error, JobCancelledError) == isinstance(original, JobCancelledError)
    told = found.completion.error
    assert told is not None
    assert len(told) <= MAX_ERROR_LENGTH + 5
    if name != "long":
        assert told.count("process_jobs.py") == 1
        assert "In the worker process:" in told


@pytest.mark.parametrize("name", ["value", "key", "own", "cancelled"])
@pytest.mark.parametrize(
    "listed",
    [
        (),
        (ValueError,),
        ("ValueError",),
        ("builtins.ValueError",),
        (OSError,),
        (LookupError, "OwnError"),
        (jobs.OwnError,),
        (JobCancelledError,),
        ("quartzpy.errors.QuartzpyError",),
        (RemoteJobError,),
        (Exception,),
    ],
)
def test_a_retry_policy_sees_the_original_error(
    shared: EngineRuns, name: str, listed: tuple[type[BaseException] | str, ...]
) -> None:
    error = ended(shared, execution_of(jobs.Raises, error=name)).error
    for policy in (RetryPolicy(on=listed), RetryPolicy(not_on=listed)):
        assert policy.delay_after(1, error) == policy.delay_after(1, jobs.ERRORS[name])


def test_a_retry_policy_may_name_the_type_of_an_error(shared: EngineRuns) -> None:
    def retried(policy: RetryPolicy) -> timedelta | None:
        detail = JobDetail(jobs.Raises, "job", data={"error": "own"}, retry=policy)
        return ended(shared, execution_of(detail)).completion.retry_after

    assert retried(RetryPolicy(delay=timedelta(seconds=7), on=["ConnectionError"])) == timedelta(seconds=7)
    assert retried(RetryPolicy(not_on=[jobs.OwnError])) is None


def test_a_job_may_request_an_immediate_refire(shared: EngineRuns) -> None:
    assert ended(shared, execution_of(jobs.Refires)).result == 2


def test_a_refire_in_a_child_gets_the_data_as_the_job_left_it(shared: EngineRuns) -> None:
    assert ended(shared, execution_of(jobs.Mends, number=0)).result == 3


@pytest.mark.parametrize(
    ("flag", "instruction"),
    [
        ("unschedule_firing_trigger", CompletionInstruction.SET_TRIGGER_COMPLETE),
        ("unschedule_all_triggers", CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE),
        ("delete_trigger", CompletionInstruction.DELETE_TRIGGER),
        ("set_trigger_error", CompletionInstruction.SET_TRIGGER_ERROR),
    ],
)
def test_the_instruction_of_a_job_execution_error_is_followed(
    shared: EngineRuns, flag: str, instruction: CompletionInstruction
) -> None:
    found = ended(shared, execution_of(jobs.Unschedules, **{flag: True}))
    assert found.completion.instruction is instruction


def test_the_cause_of_a_job_execution_error_decides_whether_it_is_tried_again(shared: EngineRuns) -> None:
    found = ended(shared, execution_of(JobDetail(jobs.Unschedules, "job", retry=RetryPolicy(on=[jobs.OwnError]))))
    assert isinstance(found.error, JobExecutionError)
    assert isinstance(found.error, RemoteJobError)
    assert found.error.error_type == f"{jobs.__name__}.OwnRequest"
    assert str(found.error.__cause__) == "its own words"
    assert found.completion.retry_after is not None
    assert found.completion.error is not None
    assert found.completion.error.count("raise OwnError") == 1


def test_a_cancelled_error_stays_a_cancelled_error(shared: EngineRuns) -> None:
    found = ended(shared, execution_of(jobs.RaisesCancelled))
    assert type(found.error) is asyncio.CancelledError
    assert found.completion.outcome is Outcome.FAILED


def test_a_result_that_was_set_before_an_error_is_kept(shared: EngineRuns) -> None:
    found = ended(shared, execution_of(jobs.KeepsResult))
    assert found.completion.outcome is Outcome.FAILED
    assert found.told.context.result == "kept"
