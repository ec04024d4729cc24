"""Executions that were submitted to an engine, and their workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
from sqlalchemy import text

from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import Ticket, WorkerStore
from quartzpy.store.protocol import Node
from tests.database import waiting_sessions
from tests.postgresql.conftest import NAME
from tests.postgresql.test_faults import acquire, store_due

# A COMMIT that waits as long as somebody holds advisory lock 1.
SLOW_TO_COMMIT = """
CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON saved DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
"""
Connect = Callable[[], psycopg.Connection[Any]]
ROWS = "SELECT ending, submission, worker, epoch, instance_id FROM qrtz_fired_triggers ORDER BY fire_id"


def executing(store: SqlJobStore, node: Node, number: int = 1) -> list[int]:
    store_due(store, *(f"t{n}" for n in range(number)))
    return sorted(fired.fire_id for fired in acquire(store, node).fired)


def submitted(store: SqlJobStore, node: Node, *, outlives: bool = False) -> Ticket:
    [fire_id] = executing(store, node)
    return Ticket(NAME, fire_id, store.submit(node, {fire_id: outlives})[fire_id])


def many_submitted(store: SqlJobStore, node: Node, number: int) -> list[Ticket]:
    numbers = store.submit(node, dict.fromkeys(executing(store, node, number), False))
    return [Ticket(NAME, fire_id, numbers[fire_id]) for fire_id in sorted(numbers)]


def forget(connection: psycopg.Connection[Any], node: Node) -> None:
    """Let the epoch end without a recovery."""
    connection.execute("DELETE FROM qrtz_scheduler_state WHERE epoch = %s", [node.epoch])


def saving(worker: WorkerStore, ticket: Ticket, ending: str | None = None) -> None:
    with worker.transaction(ticket, None if ending is None else lambda: ending) as connection:
        connection.execute(text("INSERT INTO saved VALUES (1)"))


def saved(connection: psycopg.Connection[Any]) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM saved").fetchall()
    return int(count)


def until_one_waits(connection: psycopg.Connection[Any], call: Future[Any], application: str = "%") -> None:
    deadline = time.monotonic() + 60
    while waiting_sessions(connection, application) != 1:
        assert not call.done(), "it did not wait"
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
