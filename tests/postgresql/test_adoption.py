"""Executions of engines that go on without their node, or have ended on a worker, become those of another node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.placement import Capabilities
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import Ticket, WorkerReport, WorkerStore
from tests.database import execute
from tests.postgresql.conftest import NAME, register
from tests.postgresql.submitting import executing, submitted
from tests.postgresql.test_faults import LANES, ended


def test_an_execution_that_outlives_its_node_is_adopted_and_keeps_what_it_holds(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    fire_ids = executing(store, node, 4)
    outlives, ended_there, running, _ = fire_ids
    numbers = dict.fromkeys(fire_ids, 1) | store.submit(node, {outlives: True, ended_there: False, running: False})
    tickets = {fire_id: Ticket(NAME, fire_id, numbers[fire_id]) for fire_id in fire_ids}
    for fire_id in (outlives, ended_there, running):
        assert worker.take(tickets[fire_id], "gpu:1")
    assert worker.end(tickets[ended_there], "{}")
    store.request_cancel(outlives)
    other.execute("UPDATE qrtz_fired_triggers SET requests_recovery = true")
    heir = register(store, "heir")
    store.leave(node)
    outcome = store.recover(heir, [])
    assert (outcome.adopted, outcome.recovered, outcome.lost) == (2, 2, 0)
    assert store.holdings(heir).executions == {outlives, ended_there}
    assert store.cancel_requests(heir) == {outlives}
    assert worker.touch({ticket: WorkerReport() for ticket in tickets.values()}) == {tickets[outlives]: True}
    unknown = store.reconcile(heir, executions=[])
    assert {fired.fire_id for fired in unknown.fired} == {outlives, ended_there}
    assert {one.fire_id: one.ending for one in unknown.submitted.values()} == {outlives: None, ended_there: "{}"}
    assert store.reconcile(heir, executions=[outlives]).submitted.keys() == {ended_there}
    assert not store.recover(heir, []).changed_anything
    assert worker.end(tickets[outlives], "done")
    # The heir dies as well, with its record.
    third = register(store, "third")
    dead = [record for record in store.list_nodes().nodes if record.instance_id == "heir"]
    outcome = store.recover(third, dead)
    assert (outcome.nodes, outcome.adopted, outcome.lost) == (["heir"], 2, 0)
    assert store.settle(third, {fire_id: numbers[fire_id] for fire_id in (outlives, ended_there)}) == {
        outlives: "done",
        ended_there: "{}",
    }
    unknown = store.reconcile(third, executions=[])
    store.complete(third, [ended(fired) for fired in unknown.fired])
    assert store.holdings(third).executions == frozenset()
    states = other.execute("SELECT fire_id, outcome FROM qrtz_executions ORDER BY 1").fetchall()
    assert states == [(outlives, "SUCCEEDED"), (ended_there, "SUCCEEDED")]
    deaths = other.execute("SELECT node_deaths FROM qrtz_job_details").fetchall()
    assert deaths == [(0,)], "no node has died of it"
    [(audit,)] = other.execute(
        "SELECT after FROM qrtz_audit WHERE subject = 'node heir' AND action = 'lost'"
    ).fetchall()
    assert audit == {"repeated": 0, "lost": 0}


def test_a_node_that_comes_back_under_its_name_ends_nothing_that_outlives_it(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node, outlives=True)
    assert worker.take(ticket, "gpu:1")
    other.execute("UPDATE qrtz_scheduler_state SET last_checkin = now() - interval '1 hour'")
    again = register(store)
    assert store.holdings(again).executions == frozenset()
    assert store.repair().executions == 0
    assert store.recover(again, []).adopted == 1
    assert worker.end(ticket, "{}")


def test_a_node_adopts_only_what_its_executors_can_watch_and_its_programs_know(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node, outlives=True)
    other.execute("""UPDATE qrtz_job_details SET placement = '{"executor":"big"}'""")
    both, known = frozenset({"default", "big"}), frozenset({LANES[0].job_type})
    small, old, big = (register(store, name) for name in ("small", "old", "big"))
    store.publish(small, Capabilities(known, executors=frozenset({"default"})))
    store.publish(old, Capabilities(frozenset({"another"}), executors=both))
    store.publish(big, Capabilities(known, executors=both))
    store.leave(node)
    for unfit in (small, old):
        assert not store.recover(unfit, []).changed_anything
    assert store.recover(big, []).adopted == 1
    store.leave(big)
    assert not store.recover(small, []).changed_anything, "the engine may still have the call"
    assert worker.take(ticket, "gpu:1")
    assert store.recover(small, []).adopted == 1, "nobody else can, either"


def test_a_recovery_passes_over_a_row_that_its_worker_writes(
    store: SqlJobStore, worker: WorkerStore, other: psycopg.Connection[Any]
) -> None:
    node = register(store)
    ticket = submitted(store, node)
    assert worker.take(ticket, "gpu:1")
    heir = register(store, "heir")
    other.execute("BEGIN")
    other.execute("UPDATE qrtz_fired_triggers SET ending = '{}'")
    dead = [record for record in store.list_nodes().nodes if record.instance_id == "node"]
    outcome = store.recover(heir, dead)
    assert (outcome.nodes, outcome.adopted, outcome.lost) == (["node"], 0, 0)
    other.execute("COMMIT")
    assert store.recover(heir, []).adopted == 1, "what it has written counts"


def test_a_copy_of_a_database_adopts_no_call_of_the_original(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    store = SqlJobStore(dsn, SchedulerConfig.of({"name": NAME}))
    store.open()
    node = register(store)
    numbers = store.submit(node, dict.fromkeys(executing(store, node, 2), True))
    running, over = (Ticket(NAME, fire_id, numbers[fire_id]) for fire_id in sorted(numbers))
    worker = WorkerStore(dsn)
    for ticket in (running, over):
        assert worker.take(ticket, "gpu:1")
    assert worker.end(over, "{}")
    store.leave(node)
    migrations.adopt(dsn, by="a test")
    assert worker.touch({running: WorkerReport()}) == {}
    assert not worker.end(running, "{}")
    heir = register(store, "heir")
    assert store.recover(heir, []).adopted == 1
    assert store.holdings(heir).executions == {over.fire_id}
    assert execute(dsn, "SELECT fire_id, outcome FROM qrtz_executions") == [(running.fire_id, "TERMINATED")]
    for one in (worker, store):
        one.close()
