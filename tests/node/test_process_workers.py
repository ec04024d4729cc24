"""Process workers: the context, the result and the instance of a job that runs in a child process."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from quartzpy import AnnualCalendar, CronTrigger, JobDetail, JobExecutionContext, RetryPolicy
from quartzpy.errors import (
    InvalidValueError,
)
from quartzpy.job_data import ORIGINAL_NAME, decode
from quartzpy.jobs.internal_entries import RecoveredExecution, recovery_data
from quartzpy.jobs.job import job_types, new_instance
from quartzpy.keys import RECOVERING_JOBS, TriggerKey
from quartzpy.node.engines.runs import EngineRuns
from quartzpy.states import CompletionInstruction, Outcome
from tests.node import process_jobs as jobs
from tests.node.process_calendars import OddHoursCalendar
from tests.node.processes import START, ended, execution_of, workers

# --- the context and the result of a job


def test_a_job_has_its_own_process_which_the_next_one_uses_again(shared: EngineRuns) -> None:
    first = ended(shared, execution_of(jobs.Pid))
    assert first.completion.outcome is Outcome.SUCCEEDED
    assert first.result != os.getpid()
    assert ended(shared, execution_of(jobs.Pid)).result == first.result
    assert ended(shared, execution_of(jobs.ReturnsAsync)).result == first.result


def test_the_context_in_the_child_equals_that_of_the_node(shared: EngineRuns) -> None:
    calendar = AnnualCalendar([(12, 25)], time_zone="Europe/Berlin")
    original = recovery_data(RecoveredExecution(TriggerKey("first"), START, START))
    execution = execution_of(
        JobDetail(
            jobs.Told,
            "told",
            "group",
            description="tells",
            data={"a": 1, "amount": Decimal("1.50"), **original},
            retry=RetryPolicy(on=[OSError]),
            timeout=timedelta(minutes=1),
            max_concurrent=3,
            overlap_policy="skip",
        ),
        trigger=CronTrigger(
            "0 0 2 ? * MON-FRI",
            "nightly",
            RECOVERING_JOBS,
            time_zone="Europe/Berlin",
            start_time=START,
            calendar="holidays",
            dst="once",
            data={"a": 2},
            misfire_threshold=timedelta(seconds=5),
        ),
        calendar=calendar,
        stored={"attempt": 2, "coalesced": (START, START + timedelta(hours=1)), "previous_fire_time": START},
    )
    here = jobs.Told().execute(
        JobExecutionContext(
            execution.fired,
            execution,
            scheduler=None,
            job_instance=jobs.Told(),
            data_type=None,
            refire_count=0,
        )
    )
    # In the node, the job detail has the class or its stored name; in the child it has the class.
    here["job_detail"] = here["job_detail"].replace(str(jobs.Told), repr(jobs.Told.type_name))
    there = ended(shared, execution).result
    assert there == here
    assert there["recovering"] == "True"


def test_a_child_imports_the_class_of_an_applications_calendar(shared: EngineRuns) -> None:
    calendar = AnnualCalendar(base=OddHoursCalendar(1))
    told = ended(shared, execution_of(JobDetail(jobs.Told, "told"), calendar=calendar)).result
    assert told["calendar"] == str(calendar)


def test_data_of_a_type_is_built_in_the_child_and_for_listeners_in_the_node(shared: EngineRuns) -> None:
    done = ended(shared, execution_of(jobs.Typed, number=7, **{ORIGINAL_NAME: "first"}))
    assert done.result == done.told.context.data == jobs.Order(7, jobs.Color.RED)


def test_data_that_does_not_fit_its_type_fails_the_execution_in_the_child(shared: EngineRuns) -> None:
    done = ended(shared, execution_of(jobs.Typed, numbr=7))
    assert done.completion.outcome is Outcome.FAILED
    assert str(done.error) == (
        "job DEFAULT.job, trigger DEFAULT.once: the data does not fit Order:"
        " missing: number; unknown: 'numbr' (did you mean number?)"
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [1, 2.5, True, None, {"a": {"b": []}}],
        {"$datetime": "no date"},
        datetime(2026, 3, 2, 12, tzinfo=UTC),
        date(2026, 3, 2),
        timedelta(days=1),
        Decimal("1.50"),
        UUID(int=7),
        b"\x00\xff",
        (1, (2,)),
        jobs.Color.RED,
        "x" * 1_000_000,
    ],
    ids=lambda value: str(value)[:20],
)
def test_results_keep_their_types(shared: EngineRuns, value: Any) -> None:
    assert ended(shared, execution_of(jobs.Echo, value=value)).result == value


def test_a_function_is_a_job_too_and_what_it_prints_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    own = workers()
    detail = jobs.added.detail("added", args=[2, timedelta(seconds=3)])
    assert ended(own, execution_of(detail)).result == timedelta(seconds=6)
    assert capfd.readouterr().out == "printed in the child\n"
    own.close(5)


def test_a_result_that_cannot_be_kept_is_said_and_fails_no_job_that_has_ended(shared: EngineRuns) -> None:
    found = ended(shared, execution_of(jobs.ReturnsSet))
    assert found.completion.outcome is Outcome.SUCCEEDED
    assert found.completion.result is None
    assert str(found.completion.error).startswith("result not kept: result: set cannot be stored; use JSON values")


@pytest.mark.parametrize(
    ("how", "stored", "outcome"),
    [
        ("appends", {"how": "appends", "list": [1, jobs.Color.RED]}, Outcome.SUCCEEDED),
        ("empties", {}, Outcome.SUCCEEDED),
        ("leaves", None, Outcome.SUCCEEDED),
        ("fails", {"how": "fails", "list": [2]}, Outcome.FAILED),
        ("spoils", None, Outcome.FAILED),
    ],
)
def test_changed_data_is_stored(shared: EngineRuns, how: str, stored: dict[str, Any] | None, outcome: Outcome) -> None:
    detail = JobDetail(jobs.ChangesData, "job", data={"how": how, "list": [1]}, persist_data=True)
    found = ended(shared, execution_of(detail))
    assert found.completion.outcome is outcome
    written = found.completion.job_data
    assert (None if written is None else decode(written)) == stored


def test_changed_data_is_not_stored_without_the_decorator(shared: EngineRuns) -> None:
    found = ended(shared, execution_of(jobs.ChangesData, how="spoils", list=[1]))
    assert found.completion.outcome is Outcome.SUCCEEDED
    assert found.told.context.job_detail_data["list"] == [1]


def test_the_scheduler_and_transactions_are_unavailable_in_a_child(shared: EngineRuns) -> None:
    scheduler, transaction = ended(shared, execution_of(jobs.Tries)).result
    assert "context.scheduler.trigger_job: a process worker has no scheduler" in scheduler
    assert "context.transaction(): a process worker has no connection" in transaction


def test_a_child_imports_no_database_library(shared: EngineRuns) -> None:
    imported = ended(shared, execution_of(jobs.Modules)).result
    assert "quartzpy" in imported
    assert not {"sqlalchemy", "psycopg", "alembic", "click"} & set(imported)


# --- job instances


def test_the_job_factory_runs_in_the_child() -> None:
    own = workers(job_factory=jobs.made_with_seven)
    assert ended(own, execution_of(jobs.Needs)).result == 7
    failed = ended(own, execution_of(jobs.Pid))
    assert failed.completion.outcome is Outcome.FAILED
    assert failed.completion.instruction is CompletionInstruction.NOOP
    assert str(failed.error) == "the factory makes nothing else"
    own.close(5)


def test_a_factory_that_cannot_be_pickled_is_refused_at_once() -> None:
    with pytest.raises(InvalidValueError, match="job_factory: with process workers it must be picklable"):
        workers(job_factory=lambda job_class: new_instance(job_class))


def test_a_job_type_that_cannot_be_imported_fails_with_the_reason(shared: EngineRuns) -> None:
    made_here = type("MadeHere", (jobs.Pid,), {"__module__": jobs.__name__})
    found = ended(shared, execution_of(made_here))
    assert found.completion.outcome is Outcome.FAILED
    assert f"is not defined by {jobs.__name__} when a process worker imports it" in str(found.error)
    nowhere = type("Nowhere", (jobs.Pid,), {"__module__": "no_such_module"})
    assert str(ended(shared, execution_of(nowhere)).error) == "No module named 'no_such_module'"


def test_what_stands_for_an_instance_is_not_a_registered_job_type(shared: EngineRuns) -> None:
    told = ended(shared, execution_of(jobs.Pid)).told.context.job_instance
    assert type(told).type_name not in job_types
