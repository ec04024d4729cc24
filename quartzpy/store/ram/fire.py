"""The fire step: fires acquired triggers whose instant has come; gives claims back; finds out what a node holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quartzpy.states import FiredState, TriggerState
from quartzpy.store.protocol import Acquisition, Firing, Move, Node
from quartzpy.store.ram.acquire import Overlaps, Taken, fire_row, newest_first
from quartzpy.store.ram.tables import FiredRow, Tables, TriggerRow
from quartzpy.triggers.trigger import TriggerProgress


def fire(tables: Tables, node: Node, moves: Sequence[Move]) -> Firing:
    """Fire those of `moves` that are due; see `JobStore.fire`."""
    now = tables.require(node)
    took = Taken()
    not_due: set[int] = set()
    overlaps = Overlaps(tables, node, now, took)
    claims = [
        (row, move)
        for move in sorted(moves, key=_in_order)
        if (row := tables.triggers.get(move.acquired.key)) is not None
    ]
    for row, move in newest_first(claims):
        claim = claim_of(tables, node, move.acquired.fence)
        if claim is None:
            continue
        if claimed_trigger(tables, claim) is None:
            tables.drop(claim)
        elif claim.scheduled_time > now or tables.is_blocked(row.job):
            not_due.add(claim.fence)
        else:
            times = move.progress.times_triggered
            progress = TriggerProgress(move.progress.next_fire_time, claim.scheduled_time, times)
            if overlaps.may_fire(row, progress, move.horizon):
                took.fired.append(fire_row(tables, node, row, claim.fence, progress, move.horizon, now, move.covers))
    return Firing(now, tuple(took.fired), frozenset(not_due), tuple(took.skipped), tuple(took.cancelled))


def _in_order(move: Move) -> tuple[bool, object, int]:
    at = move.acquired.progress.next_fire_time
    return at is None, at, -move.acquired.trigger.priority


def claim_of(tables: Tables, node: Node, fence: int) -> FiredRow | None:
    """The claim of this fence that is this epoch's and did not fire."""
    claim = tables.fired.get(fence)
    if claim is None or claim.epoch != node.epoch or claim.state is not FiredState.ACQUIRED:
        return None
    return claim


def claimed_trigger(tables: Tables, claim: FiredRow) -> TriggerRow | None:
    """The trigger that a claim is on."""
    row = tables.triggers.get(claim.trigger_key)
    return row if row is not None and row.fence == claim.fence else None


def release(tables: Tables, node: Node, fences: Collection[int]) -> None:
    """Give claims back; see `JobStore.release`."""
    for fence in fences:
        claim = claim_of(tables, node, fence)
        if claim is not None:
            give_back(tables, claim)


def give_back(tables: Tables, claim: FiredRow) -> bool:
    """Drop a claim; whether a trigger waits again."""
    row = claimed_trigger(tables, claim)
    if row is None:
        tables.drop(claim)
        return False
    tables.move(row, TriggerState.WAITING)
    return True


def settle(tables: Tables, node: Node, known: Collection[int]) -> Acquisition:
    """Learn what became of steps whose answer was lost; see `JobStore.settle`."""
    now = tables.require(node)
    unknown = [row for row in tables.fired.values() if row.epoch == node.epoch and row.fence not in known]
    for row in unknown:
        if row.state is FiredState.ACQUIRED:
            give_back(tables, row)
    unknown.sort(key=lambda row: (row.scheduled_time, -row.priority))
    return Acquisition(now, tuple(row.fired for row in unknown if row.fired is not None))
