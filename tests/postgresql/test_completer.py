"""The completer against a database that refuses, or holds, one of many completions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.clock import SystemClock
from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.jobs.job import JobDetail
from quartzpy.node import completer as module
from quartzpy.node.completer import Completer
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.execution import Execution
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, JobEntry, Node
from quartzpy.store.queries import HISTORY
from quartzpy.store.store_time import StoreTime
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.contract.harness import stored_job
from tests.postgresql.conftest import register

CLOCK = SystemClock()
MINUTE = timedelta(minutes=1)
JOBS = 5


def fired(store: SqlJobStore, node: Node, **values: Any) -> list[FiredTrigger]:
    now = datetime.now(UTC)
    for number in range(JOBS):
        job = JobDetail("work", f"job{number}", durable=True, **values)
        trigger = SimpleTrigger(f"t{number}", job_key=job.key, start_time=now - timedelta(seconds=1))
        store.store_jobs([JobEntry(job, [prepare(trigger, now, None)])], replace=False)
    opening = AvailableSlots(workers=JOBS)
    found = store.acquire(node, [opening], limit=JOBS, look_ahead=MINUTE, misfire_threshold=MINUTE).fired
    assert len(found) == JOBS
    return sorted(found, key=lambda one: one.job_name)


def completer_of(store: SqlJobStore) -> Completer:
    return Completer(
        "completer",
        store=store,
        clock=CLOCK,
        store_time=StoreTime(CLOCK),
        unblocked=lambda earliest: None,
        takes_more=lambda: True,
    )


def put(completer: Completer, node: Node, fires: list[FiredTrigger], poison: dict[str, Any], number: int = 2) -> None:
    epoch = Epoch(node, CLOCK, 3_600, CLOCK.monotonic())
    no_runner: Any = None  # The completer does not run it.
    now = datetime.now(UTC)
    for one in fires:
        values = poison if one.job_name == f"job{number}" else {}
        completer.put(
            Execution(no_runner, one, epoch), Completion(one, now, now, **{"outcome": Outcome.SUCCEEDED, **values})
        )


def recorded(store: SqlJobStore) -> dict[str, str]:
    return {one.job_key.name: str(one.outcome) for one in store.find(HISTORY, 99)}


@pytest.mark.parametrize(
    "poison",
    [
        {"error": "a NUL: \0", "outcome": Outcome.FAILED},
        {"error": "a surrogate: \ud800", "outcome": Outcome.FAILED},
        {"result": "no JSON"},
        {"result": '"\\u0000"'},
        {"job_data": '{"a": "\\u0000"}'},
        {"retry_after": timedelta.max, "outcome": Outcome.FAILED},
    ],
)
def test_a_refused_completion_is_recorded_as_failed_and_does_not_affect_others(
    store: SqlJobStore, poison: dict[str, Any]
) -> None:
    node = register(store)
    fires = fired(store, node, persist_data=True)
    completer = completer_of(store)
    put(completer, node, fires, poison)
    completer.run_once()
    assert completer.backlog() == 0
    assert recorded(store) == {f"job{n}": "FAILED" if n == 2 else "SUCCEEDED" for n in range(JOBS)}
    errors = [one.error for one in store.find(HISTORY, 99) if one.error]
    assert "but its completion could not be recorded" in errors[0]
    assert store.list_running() == []


def test_a_completion_that_is_always_refused_is_retried_and_blocks_nothing(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = register(store)
    fires = fired(store, node)
    completer = completer_of(store)
    monkeypatch.setattr(module, "REFUSED_REST", 0.0)
    put(completer, node, fires, {})
    complete, refuses = store.complete, [True]

    def refusing(by: Node, completions: Any, **how: Any) -> Any:
        if refuses[0] and any(one.fired.job_name == "job2" for one in completions):
            raise ValueError("not this one")
        return complete(by, completions, **how)

    monkeypatch.setattr(store, "complete", refusing)
    completer.run_once()
    assert completer.backlog() == 1
    assert sorted(recorded(store)) == ["job0", "job1", "job3", "job4"]
    refuses[0] = False
    completer.run_once()
    assert completer.backlog() == 0
    assert recorded(store)["job2"] == "SUCCEEDED"
    assert completer.recorded == JOBS


@pytest.mark.parametrize("error", [StoreUnavailableError, SchemaError, MemoryError])
def test_trouble_of_the_store_is_no_completions_fault(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    node = register(store)
    completer = completer_of(store)
    put(completer, node, fired(store, node), {})

    def fails(by: Node, completions: Any, **how: Any) -> Any:
        raise error("not now")

    with monkeypatch.context() as failing:
        failing.setattr(store, "complete", fails)
        with pytest.raises(error):
            completer.run_once()
    assert completer.backlog() == JOBS
    completer.run_once()
    assert completer.backlog() == 0
    assert set(recorded(store).values()) == {"SUCCEEDED"}


def test_a_locked_row_blocks_no_other_completion(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCKED_ROW_REST", 0.0)
    node = register(store)
    completer = completer_of(store)
    fires = fired(store, node, persist_data=True)
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE qrtz_job_details SET owner = 'held' WHERE job_name = 'job2'")
    put(completer, node, fires, {"job_data": '{"n": 1}'})
    completer.run_once()
    assert completer.backlog() == 1
    assert sorted(recorded(store)) == ["job0", "job1", "job3", "job4"]
    other.execute("COMMIT")
    completer.run_once()
    assert completer.backlog() == 0
    assert stored_job(store, fires[2].job_key).data == {"n": 1}
