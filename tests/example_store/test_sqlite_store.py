"""The example store keeps the whole contract, outlives its process, and runs a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.clock import SystemClock
from quartzpy.keys import TriggerKey
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.testing.store import Harness, ManualClock
from quartzpy.testing.store.contract import *
from quartzpy.testing.store.harness import every, job, key
from tests.example_store.sqlite_store import SqliteJobStore
from tests.facade import jobs


class SqliteHarness(Harness):
    store: SqliteJobStore

    def __init__(self, path: Path) -> None:
        clock = ManualClock()
        super().__init__(SqliteJobStore(path, clock, survives_power_loss=False), clock)
        self.store.open()

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        def overwrite() -> None:
            tables = self.store._ram._tables
            fire_id = -1 if state is TriggerState.COMPLETE else None
            tables.move(tables.triggers[trigger], state, fire_id=fire_id)

        self.store._change(overwrite)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Harness]:
    harness = SqliteHarness(tmp_path / "quartzpy.sqlite")
    yield harness
    harness.close()


def test_it_is_a_store(store: Harness) -> None:
    assert isinstance(store.store, JobStore)


def test_what_is_stored_outlives_the_store_object(tmp_path: Path) -> None:
    first = SqliteHarness(tmp_path / "file")
    first.schedule(job(), every(10))
    node = first.node()
    fired = first.fire_one(node)
    second = SqliteHarness(tmp_path / "file")
    second.clock.set(first.clock.now())
    assert second.state("every") == first.state("every")
    second.complete(node, fired)
    assert [record.outcome for record in first.history()] == [Outcome.SUCCEEDED]
    assert first.node("b").epoch > node.epoch


def test_a_call_that_fails_leaves_no_trace(store: Harness) -> None:
    def fails(inside: JobStore) -> None:
        inside.pause_all()
        raise ZeroDivisionError

    store.schedule(job(), every(10))
    with pytest.raises(ZeroDivisionError):
        store.store.exclusively(fails)
    assert not store.store.all_paused()
    assert store.state(key("every").name) == "WAITING"


def test_a_scheduler_runs_on_it(tmp_path: Path) -> None:
    own = SqliteJobStore(tmp_path / "quartzpy.sqlite", SystemClock())
    own.open()
    scheduler = Scheduler(own)
    scheduler.start()
    try:
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, timedelta(seconds=20))
        assert [record.outcome for record in scheduler.executions()] == [Outcome.SUCCEEDED]
    finally:
        scheduler.shutdown()
