"""The recover step. Locks: STATE_ACCESS, then TRIGGER_ACCESS. Ends or repeats the executions of dead nodes.

A node registers before it fires, so an execution of an epoch that is not registered has no owner. Recovery first
removes the dead nodes, and then one rule is for both their executions and those that any earlier accident left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from quartzpy.errors import JobStoreError
from quartzpy.keys import JobKey
from quartzpy.store import refusals
from quartzpy.store.postgresql import slices
from quartzpy.store.postgresql.connection.conninfo import session_prefix
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.locks import MAKE, LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import complete
from quartzpy.store.postgresql.steps.bad_rows import set_aside_parked
from quartzpy.store.postgresql.steps.checkin import LEAVE, NODES, REGISTER, REPLACE_SILENT, records
from quartzpy.store.postgresql.steps.effects import others
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.process_identity import own_process
from quartzpy.store.protocol import MAX_NODE_DEATHS, Gate, Node, RecoveryOutcome
from quartzpy.store.records import NodeRecord

logger = logging.getLogger(__name__)

_SQL = SqlFile("steps/recover.sql")
RECORD_LOST = _SQL("record_lost")
LOST = _SQL("lost")
ADOPTABLE = _SQL("adoptable")
ADOPT = _SQL("adopt")
RECORD = _SQL("record")
COUNT_DEATHS = _SQL("count_deaths")
FORGET_REPEATED = _SQL("forget_repeated")
STUCK = _SQL("stuck")
ANYTHING_STUCK = _SQL("anything_stuck")
OPEN_GATES = _SQL("open_gates")
NEXT_CHANGE = SqlFile("time_off.sql")("next_change")
REPAIR = _SQL("repair")


def _identified(dead: Collection[NodeRecord]) -> dict[str, list[Any]]:
    """Return the values that identify the rows of these nodes, if they have not changed since they were read."""
    return {
        "instances": [record.instance_id for record in dead],
        "epochs": [record.epoch for record in dead],
        "counts": [record.checkin_count for record in dead],
    }


def end_sessions(session: SqlSession, dead: Collection[NodeRecord]) -> None:
    """Terminate the database sessions of dead nodes, except those of a pooler, which other clients share."""
    others = [record for record in dead if record.process not in ("", own_process())]
    if not others or session.connections.pooled:
        return
    prefixes = [session_prefix(record.process, session.scheduler, session.names.prefix) for record in others]
    try:
        ended = session.unlocked(session.bind(_SQL.end_sessions, **_identified(others), prefixes=prefixes))[0].rows[0][
            0
        ]
    except JobStoreError as error:
        # Rows that these sessions have locked are skipped, and recovered after their release.
        logger.warning("cannot terminate the database sessions of dead nodes: %s", error)
        return
    if ended:
        logger.info("terminated %d database sessions of dead nodes", ended)


def recover(
    session: SqlSession, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
) -> RecoveryOutcome:
    """Remove dead nodes and release what they held; see `JobStore.recover`."""
    try:
        return _recover(session, node, dead, max_node_deaths)
    except RefusedRowError:
        if not set_aside_parked(session, {"instance": node.instance_id, "epoch": node.epoch}):
            raise
        return _recover(session, node, dead, max_node_deaths)


def _recover(session: SqlSession, node: Node, dead: Collection[NodeRecord], max_node_deaths: int) -> RecoveryOutcome:
    instances = [record.instance_id for record in dead]
    looked, standing, time_off, ownerless, gates, going_on = session.read(
        session.bind(ANYTHING_STUCK),
        session.bind(_SQL.guard, instance=node.instance_id, epoch=node.epoch),
        session.bind(NEXT_CHANGE),
        session.bind(LOST, instances=instances),
        session.bind(OPEN_GATES),
        session.bind(ADOPTABLE, instances=instances, epoch=node.epoch),
    )
    require_epoch(node, standing)
    is_anything_stuck, is_any_job_stopping = looked.rows[0]
    next_time_off = time_off.rows[0][0]
    lost = ownerless.rows
    [[is_any_adoptable]] = going_on.rows
    if not dead and not lost and not is_anything_stuck and not is_any_adoptable:
        if is_any_job_stopping:
            _stop_in_slices(session)
        return RecoveryOutcome(next_time_off=next_time_off, opened=_gates(gates.rows))
    end_sessions(session, dead)
    flight = {
        "record_lost": session.bind(RECORD_LOST, instance=node.instance_id, **_identified(dead)),
        "remove_dead": session.bind(_SQL.remove_dead, **_identified(dead)),
        **_adopt(session, node, instances, is_wanted=is_any_adoptable),
        **end_lost(session, lost, [record.epoch for record in dead]),
        "quarantine": _quarantine(session, max_node_deaths),
        "repair": session.bind(REPAIR),
        "open_gates": session.bind(OPEN_GATES),
        "news": news(session),
    }
    results = send(session, flight)
    # A COMPLETE trigger whose node died before it could remove it is not an anomaly.
    odd = sum(state != "COMPLETE" for state, _, _ in results["repair"].rows)
    jobs = {(group, name) for _, group, name in results["repair"].rows}
    if jobs:
        session.locked(*orphans(session, jobs))
    recovered = len(results["forget_repeated"].rows) if lost else 0
    ended = len(results["leave"].rows[0][0]) if lost else 0
    quarantined = [JobKey(name, group) for group, name, _ in results["quarantine"].rows]
    if is_any_job_stopping or any(is_stopping for *_, is_stopping in results["quarantine"].rows):
        _stop_in_slices(session)
    nodes = [name for (name,) in results["remove_dead"].rows]
    opened = _gates(results["open_gates"].rows)
    adopted = len(results["adopt"].rows) if is_any_adoptable else 0
    return RecoveryOutcome(nodes, recovered, ended - recovered, odd, quarantined, next_time_off, opened, adopted)


def _adopt(session: SqlSession, node: Node, instances: list[str], *, is_wanted: bool) -> Flight:
    """Return what makes executions of dead nodes this node's that go on without them."""
    values = {"instance": node.instance_id, "epoch": node.epoch, "instances": instances}
    return {"adopt": session.bind(ADOPT, **values)} if is_wanted else {}


def _gates(rows: Sequence[Sequence[str]]) -> list[Gate]:
    return [Gate(*row) for row in rows]


def end_lost(session: SqlSession, lost: Sequence[tuple[Any, ...]], died: Sequence[int]) -> Flight:
    """Return the flight that ends executions whose nodes are gone: those that `lost` returns.

    To others, such an end is one as any other. The epochs in `died` count as deaths of nodes for the jobs.
    """
    if not lost:
        return {}
    fire_ids = [fire_id for fire_id, *_ in lost]
    repeating = [fire_id for fire_id, runs_again, *_ in lost if runs_again]
    ends = Ends(session, fire_ids, repeating=repeating, continuing=fire_ids, joining=fire_ids)
    return {
        "record": session.bind(RECORD, fire_ids=fire_ids),
        **complete.hold_jobs(session, repeating),
        **others.hold(ends),
        **others.change(ends),
        "count_deaths": session.bind(COUNT_DEATHS, fire_ids=fire_ids, died=died),
        **complete.leave(session, fire_ids, [False] * len(fire_ids)),
        "forget_repeated": session.bind(FORGET_REPEATED, fire_ids=fire_ids),
    }


def send(session: SqlSession, flight: Flight) -> dict[str, Result]:
    """Send a flight under both locks, and return its results by their names."""
    _, *answers = session.locked(session.lock(LockName.TRIGGER_ACCESS), *flight.values(), name=LockName.STATE_ACCESS)
    results = dict(zip(flight, answers, strict=True))
    for (fire_id,) in results["record"].rows if "record" in results else ():
        complete.tell_twice(fire_id)
    return results


def _quarantine(session: SqlSession, max_node_deaths: int) -> BoundStatement:
    return session.bind(_SQL.quarantine, max_deaths=max_node_deaths, most=slices.AT_FIRST)


def _stop_in_slices(session: SqlSession) -> None:
    """Put the triggers of the jobs that are stopping into ERROR, however many they are, without TRIGGER_ACCESS.

    Their mark stays until none is left. So another node goes on if this one dies, and a trigger whose row somebody
    holds follows at a later check-in: this thread waits for no row.
    """

    def stop_slice(columns: dict[str, list[Any]]) -> BoundStatement:
        return session.bind(_SQL.stop_slice, **columns)

    try:
        keys = key_columns([JobKey(name, group) for group, name in session.read_one(_SQL.stopping)])
        slices.change(session, slices.Affected(("by_job", "stops"), keys), stop_slice, done="set to ERROR", waits=False)
        session.unlocked(session.bind(_SQL.all_stopped, **keys))
    except JobStoreError as error:
        # What the transaction under the lock has committed is still reported to the caller.
        logger.warning("cannot set all triggers of a job to ERROR yet; the next check-in goes on: %s", error)


def register(
    session: SqlSession,
    instance_id: str,
    *,
    host: str,
    pid: int,
    checkin_interval: timedelta,
    window: timedelta,
    process: str = "",
    ended_epoch: int | None = None,
    max_node_deaths: int = MAX_NODE_DEATHS,
) -> Node:
    """Begin an epoch; see `JobStore.register`."""
    _, present, lost = session.unlocked(
        session.bind(MAKE, names=list(LockName)),
        session.bind(_SQL.present_epoch, instance=instance_id),
        session.bind(LOST, instances=[instance_id]),
    )
    flight = {
        "replace_silent": session.bind(REPLACE_SILENT, instance=instance_id, ended_epoch=ended_epoch),
        "register": session.bind(
            REGISTER,
            instance=instance_id,
            host=host,
            pid=pid,
            checkin_interval=checkin_interval,
            window=window,
            process=process,
        ),
        **end_lost(session, lost.rows, [epoch for (epoch,) in present.rows]),
        "quarantine": _quarantine(session, max_node_deaths),
        "nodes": session.bind(NODES),
    }
    results = send(session, flight)
    row = results["register"].first()
    if row is None:
        raise refusals.instance_id_in_use(
            next(record for record in records(results["nodes"].rows) if record.instance_id == instance_id)
        )
    if any(is_stopping for *_, is_stopping in results["quarantine"].rows):
        _stop_in_slices(session)
    return Node(instance_id, row[0])


def leave(session: SqlSession, node: Node) -> None:
    """Remove the node; see `JobStore.leave`."""
    session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.bind(_SQL.record_left, instance=node.instance_id, epoch=node.epoch),
        session.bind(LEAVE, instance=node.instance_id, epoch=node.epoch),
        # Only this node was notified of triggers that its last executions unblocked.
        news(session),
        name=LockName.STATE_ACCESS,
    )
