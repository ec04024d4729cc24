"""Of all who may want an execution of an engine, one has it: races for tickets, and fenced work of workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import WorkerReport, WorkerStore
from tests.database import waiting_sessions
from tests.pooler import Pooler
from tests.postgresql.conftest import NAME, register
from tests.postgresql.submitting import (
    SLOW_TO_COMMIT,
    Connect,
    forget,
    many_submitted,
    saved,
    saving,
    submitted,
    until_one_waits,
)
from tests.proxy import Proxy
from tests.waiting import wait_until


def test_of_two_who_take_a_ticket_at_once_one_has_it(
    store: SqlJobStore, worker: WorkerStore, postgres_dsn: str
) -> None:
    node = register(store)
    tickets = many_submitted(store, node, 20)
    others = [WorkerStore(postgres_dsn) for _ in range(3)]
    with ThreadPoolExecutor(8) as pool:
        for ticket in tickets:
            taken = list(pool.map(lambda who, of=ticket: who.take(of, "gpu:1"), [worker, *others] * 2))
            assert taken.count(True) == 1
    for other in others:
        other.close()


def test_a_ticket_whose_answer_was_lost_is_ones_own(
    store: SqlJobStore, worker: WorkerStore, postgres_dsn: str, proxy: Proxy
) -> None:
    node = register(store)
    tickets = many_submitted(store, node, 2)
    far = WorkerStore(proxy.through(postgres_dsn))
    assert far.touch({}) == {}
    proxy.cut_after = b"COMMIT"
    with pytest.raises(StoreUnavailableError, match="during the commit"):
        far.take(tickets[0], "gpu:1")
    assert store.submitted(node, [tickets[0].fire_id])[tickets[0].fire_id].worker is not None
    assert not worker.take(tickets[0], "gpu:1"), "another call of the same process, which the engine has repeated"
    assert far.take(tickets[0], "gpu:1")
    assert not far.take(tickets[0], "gpu:1")
    proxy.cut_after = b"COMMIT"
    with pytest.raises(StoreUnavailableError):
        far.end(tickets[0], "{}")
    assert far.end(tickets[0], "{}")
    far.close()


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_worker_that_takes_a_ticket_waits_for_a_recovery(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any], ends: str
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    other.execute("BEGIN")
    other.execute("DELETE FROM qrtz_fired_triggers WHERE fire_id = %s", [ticket.fire_id])
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(worker.take, ticket, "gpu:1")
        until_one_waits(other, taking)
        other.execute(ends)
        assert taking.result(20) is (ends == "ROLLBACK")


def test_a_ticket_is_taken_before_or_after_it_is_void(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    first, second = many_submitted(store, node, 2)
    with ThreadPoolExecutor(1) as pool:
        for ticket, waits, voids in (
            (first, lambda: worker.take(first, "gpu:1"), "submission = submission + 1"),
            (second, lambda: store.settle(node, {second.fire_id: second.submission}), "worker = 'gpu:1'"),
        ):
            other.execute("BEGIN")
            other.execute(f"UPDATE qrtz_fired_triggers SET {voids} WHERE fire_id = {ticket.fire_id}".encode())
            call = pool.submit(waits)
            until_one_waits(other, call)
            other.execute("COMMIT")
            assert call.result(20) == (False if ticket is first else {second.fire_id: None})


def test_an_ending_is_written_before_or_after_a_submission_is_void(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    void, ending = many_submitted(store, node, 2)
    for ticket in (void, ending):
        assert worker.take(ticket, "gpu:1")
    with ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        other.execute("UPDATE qrtz_fired_triggers SET submission = submission + 1 WHERE fire_id = %s", [void.fire_id])
        end = pool.submit(worker.end, void, "{}")
        until_one_waits(other, end)
        other.execute("COMMIT")
        assert not end.result(20)
        other.execute("BEGIN")
        other.execute("UPDATE qrtz_fired_triggers SET ending = '{}' WHERE fire_id = %s", [ending.fire_id])
        both = {ticket.fire_id: ticket.submission for ticket in (void, ending)}
        settle = pool.submit(store.settle, node, both)
        until_one_waits(other, settle)
        other.execute("COMMIT")
        assert settle.result(20) == {void.fire_id: None, ending.fire_id: "{}"}


def test_a_row_that_is_held_for_long_is_waited_for_in_vain_and_nothing_changes(
    make_store: Callable[..., SqlJobStore], other: psycopg.Connection[Any]
) -> None:
    store = make_store(lock_timeout="200ms")
    node = register(store)
    held, free = many_submitted(store, node, 2)
    other.execute("BEGIN")
    other.execute("SELECT FROM qrtz_fired_triggers WHERE fire_id = %s FOR UPDATE", [held.fire_id])
    both = {ticket.fire_id: ticket.submission for ticket in (held, free)}
    with pytest.raises(StoreUnavailableError):
        store.settle(node, both)
    with pytest.raises(StoreUnavailableError):
        store.submit(node, dict.fromkeys(both, False))
    assert {row.fire_id: row.submission for row in store.submitted(node, both).values()} == both
    other.execute("ROLLBACK")
    assert store.settle(node, both) == dict.fromkeys(both)


@pytest.mark.parametrize("ending", [None, "{}"], ids=["fenced", "with the end"])
def test_who_settles_waits_for_a_commit_that_came_first(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any], connect: Connect, ending: str | None
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    other.execute(SLOW_TO_COMMIT)
    watching = connect()
    other.execute("SELECT pg_advisory_lock(1)")
    with ThreadPoolExecutor(2) as pool:
        commit = pool.submit(saving, worker, ticket, ending)
        until_one_waits(watching, commit)
        settle = pool.submit(store.settle, node, {ticket.fire_id: ticket.submission})
        wait_until(lambda: waiting_sessions(watching) == 2)
        # A recovery passes over it, and comes again.
        forget(watching, node)
        again = register(store, "other")
        assert not store.recover(again, []).changed_anything
        watching.execute("UPDATE qrtz_scheduler_state SET instance_id = 'node', epoch = %s", [node.epoch])
        other.execute("SELECT pg_advisory_unlock(1)")
        commit.result(20)
        assert settle.result(20) == {ticket.fire_id: ending}
    assert saved(other) == 1


@pytest.mark.parametrize("comes_first", ["settle", "recovery"])
def test_a_commit_that_comes_after_a_verdict_is_refused(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any], connect: Connect, comes_first: str
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    verdict = "submission = submission + 1" if comes_first == "settle" else "epoch = 0, instance_id = ''"
    other.execute("BEGIN")
    other.execute(f"UPDATE qrtz_fired_triggers SET {verdict}".encode())
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(saving, worker, ticket, "{}")
        until_one_waits(connect(), commit)
        other.execute("COMMIT")
        with pytest.raises(LeaseLostError):
            commit.result(20)
    assert saved(other) == 0


def test_of_a_hundred_workers_whose_executions_were_given_to_others_each_is_refused(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    tickets = many_submitted(store, node, 100)
    assert all(worker.take(ticket, f"gpu:{number}") for number, ticket in enumerate(tickets))
    lost, adopted, void = tickets[:33], tickets[33:66], tickets[66:]
    other.execute(
        "UPDATE qrtz_fired_triggers SET outlives_node = true WHERE fire_id = ANY(%s)",
        [[ticket.fire_id for ticket in adopted]],
    )
    assert len(store.settle(node, {ticket.fire_id: ticket.submission for ticket in void})) == 34
    forget(other, node)
    heir = register(store, "heir")
    assert store.recover(heir, []).adopted == 33
    assert len(store.settle(heir, {ticket.fire_id: ticket.submission for ticket in adopted})) == 33
    refused = 0
    for number, ticket in enumerate(tickets):
        with pytest.raises(LeaseLostError):
            saving(worker, ticket, "{}" if number % 2 else None)
        refused += 1
    assert (refused, saved(other)) == (100, 0)
    assert worker.touch({ticket: WorkerReport() for ticket in tickets}) == {}
    assert not any(worker.end(ticket, "{}") for ticket in tickets)
    assert len(lost) == 33


def test_a_transaction_whose_commit_was_not_answered_is_decided_by_the_next_ending(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any], postgres_dsn: str, proxy: Proxy
) -> None:
    node = register(store)
    tickets = many_submitted(store, node, 2)
    far = WorkerStore(proxy.through(postgres_dsn))
    for ticket in tickets:
        assert worker.take(ticket, "gpu:1")

    def ending() -> str:
        proxy.cut_after = b"COMMIT"
        return "done"

    with pytest.raises(OutcomeUnknownError), far.transaction(tickets[0], ending) as connection:
        connection.execute(text("INSERT INTO saved VALUES (1)"))
    assert saved(other) == 1
    assert not worker.end(tickets[0], "failed"), "it was committed"
    assert store.settle(node, {tickets[0].fire_id: tickets[0].submission}) == {tickets[0].fire_id: "done"}
    far.close()
    # The COMMIT of another one is still under way, with all that came before it, when its worker has given up.
    assert worker.end(tickets[1], "failed")
    with pytest.raises(LeaseLostError):
        saving(worker, tickets[1], "done")
    assert saved(other) == 1


def test_a_worker_behind_a_pooler_needs_no_session(
    store: SqlJobStore, postgres_dsn: str, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    tickets = many_submitted(store, node, 10)
    with Pooler(postgres_dsn) as pooler:
        workers = [WorkerStore(pooler.through(postgres_dsn)) for _ in range(3)]
        for number, ticket in enumerate(tickets):
            for step in range(3):
                one = workers[(number + step) % 3]
                if step == 0:
                    assert one.take(ticket, "gpu:1")
                saving(one, ticket)
                assert one.touch({ticket: WorkerReport()}) == {ticket: False}
            assert workers[number % 3].end(ticket, "{}")
        for one in workers:
            one.close()
    assert saved(other) == 30


@pytest.mark.parametrize(("schema", "prefix"), [("billing", "qrtz_"), (None, "jobs_"), ("billing", "jobs_")])
def test_a_worker_finds_tables_in_any_place(fresh_database: Callable[[], str], schema: str | None, prefix: str) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, schema, prefix=prefix)
    store = SqlJobStore(dsn, SchedulerConfig.of({"name": NAME, "schema": schema, "table_prefix": prefix}))
    store.open()
    ticket = submitted(store, register(store))
    worker = WorkerStore(dsn, schema=schema, prefix=prefix)
    assert worker.take(ticket, "gpu:1")
    assert worker.touch({ticket: WorkerReport()}) == {ticket: False}
    with worker.transaction(ticket, lambda: "{}") as connection:
        connection.execute(text("SELECT 1"))
    assert worker.end(ticket, "{}")
    for one in (worker, store):
        one.close()


@pytest.mark.new_sessions
def test_what_a_job_sets_in_its_session_ends_with_its_transaction(store: SqlJobStore, worker: WorkerStore) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    with worker.transaction(ticket, None) as connection:
        connection.execute(text("SET search_path = pg_catalog; SELECT pg_advisory_lock(7)"))
        session = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with worker.transaction(ticket, None) as connection:
        path, other = connection.execute(text("SELECT current_setting('search_path'), pg_backend_pid()")).one()
        assert path == '"$user", public'
        assert other != session
        # The server ends the session, and with it the lock, a moment after the client has left.
        connection.execute(text("SET LOCAL lock_timeout = '30s'; SELECT pg_advisory_xact_lock(7)"))
