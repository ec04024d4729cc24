"""Tests of the history of executions: its order, and its purge with the triggers that have ended."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.store.queries import HISTORY, ExecutionQuery
from tests.contract.harness import (
    HOUR,
    SECOND,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
    stored_job,
)
from tests.contract.test_instructions import TRIGGER_COMPLETE


def test_the_history_comes_latest_first_and_no_longer_than_asked(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(5):
        store.complete(node, store.fire_one(node))
        store.clock.advance(SECOND)
    times = [record.scheduled_fire_time for record in store.store.find(HISTORY, 3)]
    assert times == [at(4), at(3), at(2)]


def test_old_history_is_purged_in_slices(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(6):
        store.complete(node, store.fire_one(node))
        store.clock.advance(SECOND)
    older = timedelta(seconds=3.5)  # it is second 6: those of 0, 1 and 2
    assert store.store.purge_history(older, limit=2).rows == 2
    assert store.store.purge_history(older, limit=2).rows == 1
    assert store.store.purge_history(older, limit=2).rows == 0
    assert sorted(record.ended_at for record in store.history() if record.ended_at) == [at(3), at(4), at(5)]


def test_the_history_keeps_the_latest_executions(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(6):
        store.complete(node, store.fire_one(node))
        store.clock.advance(SECOND)
    assert store.store.purge_history(None, limit=0, most=6).before is None
    cutoff = store.store.purge_history(None, limit=0, most=4).before
    assert store.store.purge_history(None, limit=1, before=cutoff).rows == 1
    assert store.store.purge_history(HOUR, limit=10, before=cutoff).rows == 1
    assert store.store.purge_history(HOUR, limit=10, before=cutoff).rows == 0
    assert sorted(record.ended_at for record in store.history() if record.ended_at) == [at(2), at(3), at(4), at(5)]
    assert store.store.purge_history(None, limit=0, most=4).before is None


def test_a_late_trigger_that_was_blocked_fires_at_once_when_it_is_released(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.clock.advance(30 * SECOND)
    assert not store.fire_due(node)
    store.complete(node, fired)
    assert names([store.fire_one(node)]) == ["every"]


def test_ended_triggers_are_purged_with_the_history(store: Harness) -> None:
    node = store.node()
    store.schedule(job("ended"), every(10, "ended"))
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    store.schedule(job("declared"), every(10, "declared"))
    store.store.own("somebody", [], [key("declared")])
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    store.schedule(job("running"), once("running"))
    store.fire_one(node)
    store.store.purge_history(HOUR, limit=100)
    assert store.states("ended", "declared", "running") == ["COMPLETE"] * 3
    store.clock.advance(2 * HOUR)
    store.store.purge_history(HOUR, limit=100)
    assert store.states("ended", "declared", "running") == ["gone", "COMPLETE", "COMPLETE"]
    assert stored_job(store.store, job_key("ended")) is None
    assert stored_job(store.store, job_key("declared")) is not None


def test_ended_triggers_are_purged_even_if_the_history_is_kept_for_ever(store: Harness) -> None:
    node = store.node()
    store.schedule(job("ended"), every(10, "ended"))
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    store.clock.advance(2 * HOUR)
    assert store.store.purge_history(None, limit=100).rows == 0
    assert store.states("ended") == ["COMPLETE"]
    assert store.store.purge_history(None, limit=100, ended_triggers=HOUR).rows == 0
    assert store.states("ended") == ["gone"]
    assert len(store.store.find(ExecutionQuery(), 10)) == 1
