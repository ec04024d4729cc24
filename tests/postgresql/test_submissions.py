"""The submissions of executions to engines, and what a worker does with the rows of its executions."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from quartzpy.errors import LeaseLostError
from quartzpy.jobs.context import Progress
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import Ticket, WorkerReport, WorkerStore
from quartzpy.store.protocol import Submitted
from tests.postgresql.conftest import NAME, register
from tests.postgresql.submitting import ROWS, executing, forget, many_submitted, saved, saving, submitted


def test_a_submission_has_a_number_a_worker_and_an_ending(store: SqlJobStore, worker: WorkerStore) -> None:
    node = register(store)
    [fire_id] = executing(store, node)
    assert store.submitted(node, [fire_id]) == {}
    number = store.submit(node, {fire_id: False})[fire_id]
    assert store.submitted(node, [fire_id, 1]) == {fire_id: Submitted(fire_id, number, None, None, None)}
    assert store.submit(node, {fire_id: True, 1: False}) == {fire_id: number + 1}
    ticket = Ticket(NAME, fire_id, number + 1)
    assert not worker.end(ticket, "{}"), "nobody has taken it"
    assert not worker.take(ticket._replace(submission=number), "gpu:1")
    assert not worker.take(ticket._replace(scheduler="another"), "gpu:1")
    assert worker.take(ticket, "gpu:1")
    assert not worker.take(ticket, "gpu:1")
    assert store.submit(node, {fire_id: False}, refires=[fire_id]) == {}, "somebody runs it"
    [row] = store.submitted(node, [fire_id]).values()
    assert row.worker is not None
    assert row.worker.startswith("gpu:1:")
    assert row.silent_for is not None
    assert 0 <= row.silent_for < 20
    assert worker.touch({ticket: WorkerReport()}) == {ticket: False}
    store.request_cancel(fire_id)
    half = {ticket: WorkerReport(Progress(0.5, "half"), "a line"), ticket._replace(fire_id=1): WorkerReport()}
    assert worker.touch(half) == {ticket: True}
    assert worker.touch({ticket: WorkerReport(log="two lines")}) == {ticket: True}
    [running] = store.list_running()
    assert (running.progress, running.progress_message) == (0.5, "half")
    assert worker.end(ticket, '{"outcome": "SUCCEEDED"}')
    assert worker.end(ticket, '{"outcome": "SUCCEEDED"}'), "its answer may have been lost"
    assert not worker.end(ticket, '{"outcome": "FAILED"}')
    assert worker.touch({ticket: WorkerReport()}) == {}
    assert store.settle(node, {fire_id: number + 1, 1: 1}) == {fire_id: '{"outcome": "SUCCEEDED"}'}
    assert store.settle(node, {fire_id: number}) == {fire_id: None}, "the later one has ended"
    assert store.submit(node, {fire_id: False}) == {}, "it has run, and was not lost"
    again = store.submit(node, {fire_id: False}, refires=[fire_id])
    assert again == {fire_id: number + 2}, "the job runs again in the same attempt"
    assert store.submitted(node, [fire_id])[fire_id] == Submitted(fire_id, number + 2, None, None, None)


def test_the_submissions_of_two_databases_have_different_numbers(store: SqlJobStore) -> None:
    node = register(store)
    assert len({ticket.submission for ticket in many_submitted(store, node, 20)}) == 20


def test_a_void_submission_can_do_nothing_and_is_not_submitted_again(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    saving(worker, ticket)
    assert store.settle(node, {ticket.fire_id: ticket.submission}) == {ticket.fire_id: None}
    assert worker.touch({ticket: WorkerReport()}) == {}
    assert not worker.end(ticket, "{}")
    for ending in ("{}", None):
        with pytest.raises(LeaseLostError, match="is no longer this worker's: its transaction was rolled back"):
            saving(worker, ticket, ending)
    assert saved(other) == 1
    [row] = store.submitted(node, [ticket.fire_id]).values()
    assert (row.submission, row.worker is not None, row.ending) == (ticket.submission + 1, True, None)
    assert store.submit(node, {ticket.fire_id: False}) == {}, "it may have run to its end"
    assert store.settle(node, {ticket.fire_id: ticket.submission}) == {ticket.fire_id: None}, "its answer may be lost"
    assert store.submitted(node, [ticket.fire_id])[ticket.fire_id].submission == ticket.submission + 1


def test_a_submission_that_nobody_took_is_void_and_can_be_submitted_again(
    store: SqlJobStore, worker: WorkerStore
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert store.settle(node, {ticket.fire_id: ticket.submission}) == {ticket.fire_id: None}
    assert not worker.take(ticket, "gpu:1")
    assert store.submit(node, {ticket.fire_id: False}) == {ticket.fire_id: ticket.submission + 2}
    assert store.settle(node, {ticket.fire_id: ticket.submission}) == {ticket.fire_id: None}, "there is a later one"


def test_each_step_is_refused_by_a_dead_epoch_and_changes_nothing(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    before = other.execute(ROWS).fetchall()
    forget(other, node)
    with pytest.raises(LeaseLostError):
        store.submit(node, {ticket.fire_id: False})
    with pytest.raises(LeaseLostError):
        store.settle(node, {ticket.fire_id: ticket.submission})
    assert not worker.take(ticket, "gpu:1")
    assert other.execute(ROWS).fetchall() == before


def test_what_a_worker_does_needs_the_epoch_unless_the_execution_outlives_it(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    forget(other, node)
    assert worker.touch({ticket: WorkerReport()}) == {}
    assert not worker.end(ticket, "{}")
    with pytest.raises(LeaseLostError):
        saving(worker, ticket)
    other.execute("UPDATE qrtz_fired_triggers SET outlives_node = true")
    assert worker.touch({ticket: WorkerReport()}) == {ticket: False}
    saving(worker, ticket)
    assert worker.end(ticket, "{}")


def test_a_transaction_stores_the_ending_with_the_work_of_the_job(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    with pytest.raises(ProgrammingError), worker.transaction(ticket, lambda: "{}") as connection:
        connection.execute(text("INSERT INTO saved VALUES (1); SELECT FROM nothing"))
    assert (saved(other), store.submitted(node, [ticket.fire_id])[ticket.fire_id].ending) == (0, None)
    saving(worker, ticket, "x" * 500_000)
    assert (saved(other), store.settle(node, {ticket.fire_id: ticket.submission})) == (
        1,
        {ticket.fire_id: "x" * 500_000},
    )
    with pytest.raises(LeaseLostError):
        saving(worker, ticket)
    assert saved(other) == 1
