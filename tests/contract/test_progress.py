"""Tests of the progress that running executions report."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.jobs.context import Progress
from tests.contract.harness import Harness, every, job, once


def progress_of(store: Harness) -> dict[int, tuple[float | None, str | None]]:
    return {row.fire_id: (row.progress, row.progress_message) for row in store.running()}


def test_the_last_reported_progress_is_kept_with_the_execution(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("one", priority=6), once("two"))
    [one, two] = store.fire_due(node)
    assert progress_of(store) == {one.fire_id: (None, None), two.fire_id: (None, None)}
    reports = {one.fire_id: Progress(0.1, "reading"), two.fire_id: Progress(1.0)}
    assert set(store.store.report_progress(node, reports)) == {one.fire_id, two.fire_id}
    assert progress_of(store) == {one.fire_id: (0.1, "reading"), two.fire_id: (1.0, None)}
    assert set(store.store.report_progress(node, {one.fire_id: Progress(0.4)})) == {one.fire_id}
    assert progress_of(store) == {one.fire_id: (0.4, None), two.fire_id: (1.0, None)}


def test_another_epoch_and_an_ended_execution_report_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once("one", priority=6), once("two"))
    [one, two] = store.fire_due(a)
    assert not store.store.report_progress(b, {one.fire_id: Progress(0.5)})
    store.complete(a, one)
    reports = {one.fire_id: Progress(0.5), two.fire_id: Progress(0.7), 10**15: Progress(0.9)}
    assert set(store.store.report_progress(a, reports)) == {two.fire_id}
    assert progress_of(store) == {two.fire_id: (0.7, None)}


def test_progress_affects_neither_the_completion_nor_the_next_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=1), every(10))
    first = store.fire_one(node)
    store.store.report_progress(node, {first.fire_id: Progress(0.5, "half")})
    assert not store.complete(node, first).fenced
    store.clock.advance(timedelta(seconds=10))
    second = store.fire_one(node)
    assert progress_of(store) == {second.fire_id: (None, None)}


def test_progress_of_a_dead_node_is_not_that_of_the_recovery(store: Harness) -> None:
    dead, alive = store.node("dead"), store.node("alive")
    store.schedule(job(requests_recovery=True), once())
    lost = store.fire_one(dead)
    store.store.report_progress(dead, {lost.fire_id: Progress(0.5)})
    store.recover(alive, dead)
    again = store.fire_one(alive)
    assert not store.store.report_progress(dead, {lost.fire_id: Progress(0.6), again.fire_id: Progress(0.6)})
    assert progress_of(store) == {again.fire_id: (None, None)}
