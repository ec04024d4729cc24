"""The observers of a node: they see each step, and nothing that they do disturbs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.clock import SystemClock
from quartzpy.errors import StoreUnavailableError
from quartzpy.node.observers import STEPS, Observer, Observers
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Completion, JobStore
from tests.waiting import wait_until


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Noting(Observer):
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.completions: list[Completion] = []
        self.has_stopped = threading.Event()

    def stepped(self, step: str, seconds: float, answer: Any) -> None:
        assert seconds >= 0
        self.steps.append(step)

    def failed(self, step: str, seconds: float, error: BaseException) -> None:
        self.failures.append((step, error))

    def recorded(self, completions: Sequence[Completion]) -> None:
        self.completions += completions

    def stopped(self) -> None:
        self.has_stopped.set()


class Raising(Observer):
    def stepped(self, step: str, seconds: float, answer: Any) -> None:
        raise ValueError("on purpose")

    recorded = stopped = stepped  # type: ignore[assignment]


def test_the_steps_of_a_node_are_observed_and_errors_of_observers_have_no_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler, noting = Scheduler("memory://"), Noting()
    scheduler.observers.add(Raising())
    scheduler.observers.add(noting)
    with scheduler:
        scheduler.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t"))
        wait_until(lambda: {"acquire", "complete", "check_in"} <= set(noting.steps))
    assert noting.has_stopped.wait(30)
    [completion] = noting.completions
    assert completion.fired.job_name == "job"
    assert "an observer of the node failed" in caplog.text


def test_a_step_that_fails_is_observed_and_raised() -> None:
    observers, noting = Observers(), Noting()
    store = RamJobStore(SystemClock())
    watched = observers.watched(store)
    observers.add(noting)

    def refuse() -> None:
        raise StoreUnavailableError("an outage")

    store.repair = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(StoreUnavailableError, match="an outage"):
        watched.repair()
    [(step, error)] = noting.failures
    assert (step, str(error)) == ("repair", "an outage")


def test_all_observed_steps_are_methods_of_a_store() -> None:
    assert not {name for name in STEPS if not hasattr(JobStore, name)}
    assert len(set(STEPS.values())) == len(STEPS)


def test_a_scheduler_that_was_never_started_tells_its_observers_of_its_end() -> None:
    scheduler, noting = Scheduler("memory://"), Noting()
    scheduler.observers.add(noting)
    scheduler.shutdown()
    assert noting.has_stopped.is_set()


def test_a_store_that_is_observed_describes_itself_as_before() -> None:
    store = RamJobStore(SystemClock())
    watched = Observers().watched(store)
    assert (str(watched), repr(watched), f"{watched}") == (str(store), repr(store), f"{store}")
