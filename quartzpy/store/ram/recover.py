"""Nodes: registering, checking in, leaving, and freeing what dead ones held.

Any claim of an epoch that is not registered is nobody's. So the dead are removed first, and one rule serves for them
and for whatever an earlier accident left behind.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.errors import InstanceIdInUseError
from quartzpy.keys import RECOVERING_JOBS, JobKey
from quartzpy.states import FiredState, Outcome, TriggerState
from quartzpy.store.protocol import CheckIn, ExecutionRecord, Node, NodeRecord, RecoveryOutcome
from quartzpy.store.ram.fire import give_back
from quartzpy.store.ram.tables import AFTER_UNBLOCKING, FiredRow, JobRow, Tables, TriggerRow
from quartzpy.triggers.horizon import Horizon
from quartzpy.triggers.simple import SimpleTrigger

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ORIGINAL = "QRTZ_FAILED_JOB_ORIG_TRIGGER_"


def register(
    tables: Tables,
    instance_id: str,
    *,
    host: str,
    pid: int,
    checkin_interval: timedelta,
    window: timedelta,
    gone: int | None,
) -> Node:
    """Begin an epoch; see `JobStore.register`."""
    now = tables.now()
    other = tables.nodes.get(instance_id)
    if other is not None and other.epoch != gone and other.last_checkin >= now - window:
        raise InstanceIdInUseError(
            f"instance_id {instance_id!r} is in use by a node on host {other.host}, pid {other.pid},"
            f" which checked in at {other.last_checkin.isoformat()}; choose another, or AUTO"
        )
    node = Node(instance_id, tables.next_epoch())
    tables.nodes[instance_id] = NodeRecord(instance_id, node.epoch, host, pid, now, now, 0, checkin_interval)
    _free(tables, now)
    return node


def check_in(tables: Tables, node: Node) -> CheckIn:
    """Renew the lease; see `JobStore.check_in`."""
    now = tables.require(node)
    record = tables.nodes[node.instance_id]
    tables.nodes[node.instance_id] = replace(record, last_checkin=now, checkin_count=record.checkin_count + 1)
    return list_nodes(tables)


def list_nodes(tables: Tables) -> CheckIn:
    return CheckIn(tables.now(), tuple(tables.nodes[name] for name in sorted(tables.nodes)))


def leave(tables: Tables, node: Node) -> None:
    """Give back the claims and go; see `JobStore.leave`."""
    for row in list(tables.fired.values()):
        if row.epoch == node.epoch and row.state is FiredState.ACQUIRED:
            give_back(tables, row)
    record = tables.nodes.get(node.instance_id)
    if record is not None and record.epoch == node.epoch:
        del tables.nodes[node.instance_id]


def recover(tables: Tables, node: Node, dead: Collection[NodeRecord]) -> RecoveryOutcome:
    """Free what the dead held; see `JobStore.recover`."""
    now = tables.require(node)
    removed = []
    for judged in dead:
        record = tables.nodes.get(judged.instance_id)
        if record is not None and (record.epoch, record.checkin_count) == (
            judged.epoch,
            judged.checkin_count,
        ):
            del tables.nodes[judged.instance_id]
            removed.append(judged.instance_id)
    recovered, lost, released = _free(tables, now)
    return RecoveryOutcome(tuple(removed), recovered, lost, released, _repair(tables))


def _free(tables: Tables, now: datetime) -> tuple[int, int, int]:
    """Take away the claims of epochs that are not registered: how many run again, are lost, were given back."""
    registered = {record.epoch for record in tables.nodes.values()}
    recovered = lost = released = 0
    unblocked: set[JobKey] = set()
    for row in [row for row in tables.fired.values() if row.epoch not in registered]:
        if row.state is FiredState.ACQUIRED:
            released += give_back(tables, row)
            continue
        tables.drop(row)
        if row.serial:
            unblocked.add(row.job_key)
        job = tables.jobs.get(row.job_key)
        if job is not None and row.requests_recovery:
            _run_again(tables, row, job)
            recovered += 1
        else:
            tables.history.append(_lost(row, now))
            lost += 1
    tables.unblock(unblocked)
    return recovered, lost, released


def _run_again(tables: Tables, row: FiredRow, job: JobRow) -> None:
    """Store a trigger that fires once, at the instant that its node did not finish. The names are Quartz's."""
    original = {
        f"{_ORIGINAL}NAME": row.trigger_key.name,
        f"{_ORIGINAL}GROUP": row.trigger_key.group,
        f"{_ORIGINAL}FIRETIME_IN_MILLISECONDS_AS_STRING": _milliseconds(row.fire_time),
        f"{_ORIGINAL}SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING": _milliseconds(row.scheduled_time),
    }
    trigger = SimpleTrigger(
        name=f"recover_{row.instance_id[:150]}_{row.fence}",
        group=RECOVERING_JOBS,
        job_key=row.job_key,
        start_time=row.scheduled_time,
        repeat_count=0,
        priority=row.priority,
        misfire="ignore",
    )
    again = TriggerRow(trigger, job, tables.next_number(), trigger.started(), Horizon(is_complete=True))
    # A recovery that failed in its turn brings the keys of the first original with it.
    again.data = json.dumps(original | json.loads(row.trigger_data or "{}"), ensure_ascii=False)
    paused = tables.pauses.cover(again.key, job.key)
    tables.add_trigger(again, TriggerState.PAUSED if paused else TriggerState.WAITING)


def _milliseconds(instant: datetime) -> str:
    return str((instant - _EPOCH) // timedelta(milliseconds=1))


def _lost(row: FiredRow, now: datetime) -> ExecutionRecord:
    return ExecutionRecord(
        fence=row.fence,
        trigger_key=row.trigger_key,
        job_key=row.job_key,
        instance_id=row.instance_id,
        scheduled_fire_time=row.scheduled_time,
        fire_time=row.fire_time,
        started_at=None,
        ended_at=now,
        outcome=Outcome.LOST,
        error="its node stopped while executing it",
        recovering=row.trigger_key.group == RECOVERING_JOBS,
    )


def _repair(tables: Tables) -> int:
    """Free triggers that say that something holds them where nothing does; how many of these were odd.

    A COMPLETE trigger whose node died before it could end it is nothing odd: it goes.
    """
    odd = 0
    for row in list(tables.by_state[TriggerState.ACQUIRED].values()):
        claim = tables.fired.get(row.fence or 0)
        if claim is None or claim.state is not FiredState.ACQUIRED:
            tables.move(row, TriggerState.WAITING)
            odd += 1
    for state, freed in AFTER_UNBLOCKING.items():
        for row in list(tables.by_state[state].values()):
            if not tables.is_running(row.job.key):
                tables.move(row, freed)
                odd += 1
    for row in list(tables.by_state[TriggerState.COMPLETE].values()):
        if row.fence is not None and row.fence not in tables.fired:
            tables.remove_trigger(row)
            tables.drop_orphans([row.job.key])
    return odd
