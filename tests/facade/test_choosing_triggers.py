"""Triggers of the user's own that choose the instruction at the end of an execution, with a real node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from quartzpy import (
    AnyOf,
    JobDetail,
    JobExecutionContext,
    JobExecutionError,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    Trigger,
)
from quartzpy.events import events
from quartzpy.jobs.job import Job
from quartzpy.states import CompletionInstruction, Outcome, PublicState
from quartzpy.triggers import trigger as kinds
from quartzpy.triggers.trigger import CompletedExecution
from tests.facade.test_listeners import heard

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
seen: list[CompletedExecution] = []


def due() -> datetime:
    """Return an instant that is due now, and not yet misfired."""
    return datetime.now(UTC) - SECOND


class Told(Job):
    """Fails if its data says so; else returns what its data has."""

    def execute(self, context: JobExecutionContext) -> Any:
        if "fails" in context.job_data:
            raise JobExecutionError("told to fail", **context.job_data["fails"])
        if context.job_data.get("commits"):
            with context.transaction():
                pass
        return context.job_data.get("returns")


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define kinds of triggers for one test."""
    seen.clear()
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    monkeypatch.setattr(kinds, "_CHOOSING", set(kinds._CHOOSING))


def choosing(choice: Any) -> SimpleTrigger:
    """Return a trigger of a kind of its own that makes this choice."""

    @dataclass(frozen=True)
    class Choosing(SimpleTrigger):
        kind: ClassVar[str] = "choosing"

        def execution_complete(self, execution: CompletedExecution) -> CompletionInstruction:
            seen.append(execution)
            if isinstance(choice, Exception):
                raise choice
            return execution.instruction if choice is None else choice

    return Choosing("t", start_time=due(), interval=HOUR, repeat_count=None)


def run(scheduler: Scheduler, trigger: Trigger, data: dict[str, Any] | None = None, **options: Any) -> None:
    other = SimpleTrigger("other", start_time=due() + HOUR)
    scheduler.schedule_job(JobDetail(Told, "job", data=data, durable=True, **options), [trigger, other])
    assert scheduler.wait_until_recorded(1, 60 * SECOND)


def states(scheduler: Scheduler) -> list[PublicState]:
    return [scheduler.trigger_state(name) for name in ("t", "other")]


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (None, ["NORMAL", "NORMAL"]),
        ("SET_TRIGGER_COMPLETE", ["COMPLETE", "NORMAL"]),
        ("DELETE_TRIGGER", ["NONE", "NORMAL"]),
        ("SET_TRIGGER_ERROR", ["ERROR", "NORMAL"]),
        ("SET_ALL_JOB_TRIGGERS_COMPLETE", ["COMPLETE", "COMPLETE"]),
        ("SET_ALL_JOB_TRIGGERS_ERROR", ["ERROR", "ERROR"]),
    ],
)
def test_a_trigger_chooses_its_instruction(scheduler: Scheduler, choice: str | None, left: list[str]) -> None:
    told = heard(scheduler, events.TriggerComplete)
    run(scheduler, choosing(choice), {"returns": 42})
    assert states(scheduler) == left
    [execution] = seen
    assert (execution.outcome, execution.error, execution.result) == (Outcome.SUCCEEDED, None, 42)
    assert (execution.times_triggered, execution.next_fire_time) == (1, execution.scheduled_fire_time + HOUR)
    assert execution.instruction is CompletionInstruction.NOOP
    assert [event.instruction for event in told] == [choice or "NOOP"]


def test_a_trigger_sees_the_error_and_overrides_the_instruction_of_its_job(scheduler: Scheduler) -> None:
    run(scheduler, choosing(CompletionInstruction.NOOP), {"fails": {"unschedule_all_triggers": True}})
    assert states(scheduler) == [PublicState.NORMAL] * 2
    [execution] = seen
    assert execution.outcome is Outcome.FAILED
    assert str(execution.error) == "told to fail"
    assert execution.instruction is CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE


def test_a_failure_is_not_retried_if_the_trigger_gives_an_instruction(scheduler: Scheduler) -> None:
    run(scheduler, choosing("DELETE_TRIGGER"), {"fails": {}}, retry=RetryPolicy(attempts=3, delay=HOUR))
    assert [execution.retry_at for execution in scheduler.executions()] == [None]
    assert states(scheduler) == [PublicState.NONE, PublicState.NORMAL]


@pytest.mark.parametrize("choice", [RuntimeError("a bug"), "END_THE_WORLD"])
def test_a_choice_that_fails_changes_nothing(
    scheduler: Scheduler, choice: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run(scheduler, choosing(choice))
    assert states(scheduler) == [PublicState.NORMAL] * 2
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]
    assert "trigger DEFAULT.t: its execution_complete failed; NOOP remains the instruction" in caplog.text


def test_a_part_of_a_combination_chooses(scheduler: Scheduler) -> None:
    part = replace(choosing("SET_TRIGGER_COMPLETE"), start_time=None, name=None)
    either = AnyOf("t", start_time=due(), triggers=[part, SimpleTrigger(interval=2 * HOUR)])
    run(scheduler, either)
    assert states(scheduler) == [PublicState.COMPLETE, PublicState.NORMAL]
    [execution] = seen
    assert execution.coalesced_fire_times == (execution.scheduled_fire_time,)


def test_triggers_are_not_read_at_the_end_while_no_kind_chooses() -> None:
    assert not kinds.any_kind_chooses()
    choosing(None)
    assert kinds.any_kind_chooses()
