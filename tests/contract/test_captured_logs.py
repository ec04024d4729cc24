"""Tests of the log lines that are stored with an execution."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy.errors import InvalidValueError
from quartzpy.jobs.context import Progress
from quartzpy.states import Outcome
from tests.contract.harness import Harness, every, job, job_key, once

LINES = "first\n[3 lines are left out here]\nlast: ü \\0 \\ud800"


def log_of(store: Harness, fire_id: int) -> str | None:
    found = store.store.execution(fire_id)
    assert found is not None
    return found.log


def test_the_level_comes_with_each_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job("plain"), once("plain", priority=6))
    store.schedule(job("captured", capture_logs="WARNING"), once("captured"))
    assert [fired.capture_logs for fired in store.fire_due(node)] == [None, "WARNING"]


def test_the_level_can_be_changed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(capture_logs="INFO"), every(10))
    store.store.modify_job(job_key(), lambda one: one.with_values({"capture_logs": "DEBUG"}), keeps_data=True)
    assert store.fire_one(node).capture_logs == "DEBUG"


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED])
def test_the_lines_are_stored_with_the_outcome(store: Harness, outcome: Outcome) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    assert log_of(store, fired.fire_id) is None, "its node has not stored any lines yet"
    assert not store.complete(node, fired, outcome=outcome, log=LINES).fenced
    assert log_of(store, fired.fire_id) == LINES


def test_executions_with_and_without_lines_end_in_one_step(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("one", priority=6), once("two"))
    [one, two] = store.fire_due(node)
    store.store.complete(node, [store.ended(one), store.ended(two, log=LINES)])
    assert (log_of(store, one.fire_id), log_of(store, two.fire_id)) == (None, LINES)


def test_a_page_of_executions_does_not_read_the_lines(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.complete(node, store.fire_one(node), log=LINES)
    [record] = store.history()
    assert (record.log_text, record.log_is_read) == (None, False)
    with pytest.raises(InvalidValueError, match=r"scheduler\.execution_log\(record\) reads them"):
        record.log  # noqa: B018


def test_each_attempt_has_its_own_lines(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    first = store.fire_one(node)
    store.complete(node, first, outcome=Outcome.FAILED, retry_after=timedelta(), log="attempt 1")
    second = store.fire_one(node)
    store.complete(node, second, log="attempt 2")
    assert [log_of(store, one.fire_id) for one in (first, second)] == ["attempt 1", "attempt 2"]


def test_a_fenced_completion_stores_no_lines(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.complete(node, fired, log="once")
    store.complete(node, fired, log="twice")
    other = store.node("other")
    assert store.complete(other, fired, log="other").fenced
    assert log_of(store, fired.fire_id) == "once"


def test_the_last_lines_of_a_running_execution_can_be_read(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("one", priority=6), once("two"))
    [one, two] = store.fire_due(node)
    report = store.store.report_progress
    assert set(report(node, {one.fire_id: Progress(0.5, "half")}, {two.fire_id: "first"})) == {one.fire_id, two.fire_id}
    assert (log_of(store, one.fire_id), log_of(store, two.fire_id)) == (None, "first")
    assert set(report(node, {two.fire_id: Progress(0.1)}, {one.fire_id: LINES})) == {one.fire_id, two.fire_id}
    assert (log_of(store, one.fire_id), log_of(store, two.fire_id)) == (LINES, "first")
    progress = {row.fire_id: (row.progress, row.progress_message) for row in store.running()}
    assert progress == {one.fire_id: (0.5, "half"), two.fire_id: (0.1, None)}
    store.complete(node, one, log="all lines")
    store.complete(node, two)
    assert log_of(store, one.fire_id) == "all lines"


def test_another_epoch_stores_no_lines(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once())
    fired = store.fire_one(a)
    assert not store.store.report_progress(b, {}, {fired.fire_id: "other"})
    assert log_of(store, fired.fire_id) is None


def test_the_last_lines_of_an_execution_whose_node_died_are_kept(store: Harness) -> None:
    dead, alive = store.node("dead"), store.node("alive")
    store.schedule(job(durable=True), once())
    fired = store.fire_one(dead)
    store.store.report_progress(dead, {}, {fired.fire_id: LINES})
    store.recover(alive, dead)
    assert [record.outcome for record in store.history()] == [Outcome.TERMINATED]
    assert log_of(store, fired.fire_id) == LINES
