"""The membership of nodes: registration, check-in, departure, and the recovery of dead nodes.

An execution of an epoch that is not registered has no owner. So recovery first removes the dead nodes, and then one
rule ends both their executions and those that any earlier accident left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode, Outcome, OverlapPolicy, TriggerState
from quartzpy.store import node_problems, refusals
from quartzpy.store.memory.complete import ExecutionEnd, change_others
from quartzpy.store.memory.limits import open_gates
from quartzpy.store.memory.rows import TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.memory.time_off import next_change
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import MAX_NODE_DEATHS, CheckIn, Node, Notification, RecoveryOutcome
from quartzpy.store.records import NodeRecord


def register(
    tables: Tables,
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
    now = tables.now()
    other = tables.nodes.get(instance_id)
    if other is not None and other.epoch != ended_epoch and other.last_checkin >= now - other.failure_window:
        raise refusals.instance_id_in_use(other)
    node = Node(instance_id, tables.next_epoch())
    tables.nodes[instance_id] = NodeRecord(
        instance_id, node.epoch, host, pid, now, now, 0, checkin_interval, window, process
    )
    _free(tables, now, () if other is None else (other.epoch,))
    _quarantine(tables, max_node_deaths)
    return node


def check_in(
    tables: Tables, node: Node, *, within: float | None = None, problems: Sequence[NodeProblem] = ()
) -> CheckIn:
    """Renew the lease; see `JobStore.check_in`."""
    now = tables.require(node)
    record = tables.nodes[node.instance_id]
    is_back = now - record.last_checkin > 2 * record.checkin_interval
    tables.nodes[node.instance_id] = replace(
        record,
        last_checkin=now,
        checkin_count=record.checkin_count + 1,
        back_since=now if is_back else record.back_since,
        problems=node_problems.from_text(node_problems.as_text(problems)),
    )
    return list_nodes(tables)


def publish(tables: Tables, node: Node, capabilities: Capabilities) -> None:
    """Record what the node can run; see `JobStore.publish`."""
    tables.require(node)
    tables.nodes[node.instance_id] = replace(tables.nodes[node.instance_id], capabilities=capabilities)


def list_nodes(tables: Tables) -> CheckIn:
    return CheckIn(tables.now(), tuple(tables.nodes[name] for name in sorted(tables.nodes)))


def set_node_mode(tables: Tables, instance_id: str, mode: NodeMode) -> datetime | None:
    """Command a node; see `ClusterStore.set_node_mode`."""
    node = tables.nodes.get(instance_id)
    if node is None:
        return None
    since = tables.now()
    if node.mode_since is not None:
        since = max(since, node.mode_since + timedelta.resolution)
    tables.nodes[instance_id] = replace(node, mode=mode, mode_since=since)
    tables.notifications.add(Notification.COMMANDED)
    return since


def leave(tables: Tables, node: Node) -> None:
    """Remove the node; see `JobStore.leave`."""
    record = tables.nodes.get(node.instance_id)
    if record is not None and record.epoch == node.epoch:
        del tables.nodes[node.instance_id]


def subtract_node_deaths(tables: Tables, jobs: Collection[JobKey]) -> None:
    """Subtract node deaths; see `JobStore.subtract_node_deaths`."""
    for key in jobs:
        job = tables.jobs.get(key)
        if job is not None and job.node_deaths:
            job.node_deaths -= 1


def recover(
    tables: Tables, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
) -> RecoveryOutcome:
    """Remove dead nodes and release what they held; see `JobStore.recover`."""
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
    recovered, lost = _free(tables, now, [record.epoch for record in dead])
    quarantined = _quarantine(tables, max_node_deaths)
    repaired = _repair(tables)
    return RecoveryOutcome(
        tuple(removed), recovered, lost, repaired, quarantined, next_change(tables), open_gates(tables)
    )


def _quarantine(tables: Tables, max_node_deaths: int) -> tuple[JobKey, ...]:
    """Put the triggers of jobs into ERROR during whose executions too many nodes have died."""
    quarantined = [job for job in tables.jobs.values() if job.node_deaths >= max_node_deaths]
    for job in quarantined:
        reason = f"{job.node_deaths} nodes died in a row while they executed its job (max_node_deaths)"
        job.node_deaths = 0
        for row in list(job.triggers.values()):
            if row.state in (TriggerState.COMPLETE, TriggerState.ERROR):
                continue
            tables.move(row, TriggerState.ERROR)
            row.error = reason
    return tuple(sorted(job.key for job in quarantined))


def _free(tables: Tables, now: datetime, died: Collection[int]) -> tuple[int, int]:
    """End the executions of epochs that are not registered; return the numbers of recovered and lost ones.

    The epochs in `died` count as node deaths for the jobs that they executed.
    """
    registered = {record.epoch for record in tables.nodes.values()}
    suspects: set[JobKey] = set()
    ends: list[ExecutionEnd] = []
    for row in [row for row in tables.fired.values() if row.epoch not in registered]:
        tables.drop(row)
        if row.epoch in died:
            suspects.add(row.job_key)
        runs_again = row.requests_recovery and not row.cancel_requested and row.job_key in tables.jobs
        if not runs_again:
            tables.history.append(row.ended(Outcome.TERMINATED, now, error="its node stopped while executing it"))
        ends.append(ExecutionEnd(row, Outcome.TERMINATED, repeats_after=timedelta() if runs_again else None))
    change_others(tables, ends)
    for key in suspects & tables.jobs.keys():
        tables.jobs[key].node_deaths += 1
    recovered = sum(end.repeats_after is not None for end in ends)
    return recovered, len(ends) - recovered


def _repair(tables: Tables) -> int:
    """Free triggers whose state means that something holds them, if nothing does; return their number.

    A COMPLETE trigger whose node died before it could remove it is not wrong: it is removed and not counted.
    """
    odd = 0
    for row in list(tables.by_state[TriggerState.BLOCKED].values()):
        if _is_parked_in_vain(row):
            tables.move(row, TriggerState.WAITING)
            odd += 1
    for row in list(tables.by_state[TriggerState.COMPLETE].values()):
        if row.fire_id is not None and row.owner is None and row.fire_id not in tables.fired:
            tables.remove_trigger(row)
            tables.drop_orphans([row.job.key])
    return odd


def _is_parked_in_vain(row: TriggerRow) -> bool:
    """Return True if a trigger waits at a gate that nothing opens."""
    if row.parked_at is not None:
        return row.parked_at != row.job.limits
    skips = row.job.overlap_policy is OverlapPolicy.SKIP
    return row.job.rate_limit is None and (row.job.limit is None or skips)
