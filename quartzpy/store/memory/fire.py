"""The fire step: fires claims that are due, releases claims, and reconciles the claims of a node with the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from quartzpy.states import FiredState, TriggerState
from quartzpy.store.memory.acquire import Overlaps, StepResult, fire_row, following, newest_first, passed_instants
from quartzpy.store.memory.rows import FiredRow, TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import FireRequest, Firing, Holdings, Node, Reconciliation


def fire(tables: Tables, node: Node, moves: Sequence[FireRequest], *, early: timedelta = timedelta()) -> Firing:
    """Fire the claims of `moves` that are due; see `JobStore.fire`."""
    now = tables.require(node)
    result = StepResult()
    not_due: set[int] = set()
    overlaps = Overlaps(tables, node, now, result)
    claims: list[tuple[TriggerRow, tuple[FireRequest, FiredRow]]] = []
    for move in sorted(moves, key=_in_order):
        claim = claim_of(tables, node, move.acquired.fire_id)
        row = None if claim is None else claimed_trigger(tables, claim)
        if claim is not None and row is None:
            tables.drop(claim)
        elif claim is not None and row is not None:
            claims.append((row, (move, claim)))
    for row, (move, claim) in newest_first(claims):
        if row.fire_id != claim.fire_id:
            # An earlier fire of this call blocked the trigger.
            if claim.fire_id in tables.fired:
                tables.drop(claim)
        elif claim.scheduled_time > now + early or tables.is_blocked(row):
            not_due.add(claim.fire_id)
        else:
            passed = passed_instants(row, move.following, now)
            if not move.following.is_complete:
                # At least one known fire time must remain for the trigger to wait for.
                passed = passed[: len(move.following.instants) - 1]
            if overlaps.may_fire(row, *following(row, move.following, 0)):
                coalesced_fire_times = (claim.scheduled_time, *passed) if passed else ()
                to = following(row, move.following, len(passed))
                at = max(now, claim.scheduled_time)
                result.fired.append(fire_row(tables, node, row, claim.fire_id, *to, at, coalesced_fire_times))
    return Firing(now, tuple(result.fired), frozenset(not_due), tuple(result.skipped))


def _in_order(move: FireRequest) -> tuple[bool, object, int]:
    at = move.acquired.progress.next_fire_time
    return at is None, at, -move.acquired.trigger.priority


def claim_of(tables: Tables, node: Node, fire_id: int) -> FiredRow | None:
    """Return the claim with this fire_id if it belongs to this epoch and has not fired."""
    claim = tables.fired.get(fire_id)
    if claim is None or claim.epoch != node.epoch or claim.state is not FiredState.ACQUIRED:
        return None
    return claim


def claimed_trigger(tables: Tables, claim: FiredRow) -> TriggerRow | None:
    """Return the trigger of a claim; None if it has changed since."""
    row = tables.triggers.get(claim.trigger_key)
    return row if row is not None and row.fire_id == claim.fire_id else None


def release(tables: Tables, node: Node, fire_ids: Collection[int]) -> frozenset[int]:
    """Release claims; see `JobStore.release`."""
    if fire_ids:
        tables.require(node)
    for fire_id in fire_ids:
        claim = claim_of(tables, node, fire_id)
        if claim is not None:
            give_back(tables, claim)
    return frozenset()


def reject(tables: Tables, node: Node, reasons: Mapping[int, str]) -> None:
    """Put claimed triggers into ERROR; see `JobStore.reject`."""
    for fire_id, reason in reasons.items():
        claim = claim_of(tables, node, fire_id)
        row = None if claim is None else claimed_trigger(tables, claim)
        if row is not None:
            tables.move(row, TriggerState.ERROR)
            row.error = reason


def give_back(tables: Tables, claim: FiredRow) -> bool:
    """Drop a claim; return True if its trigger is WAITING again."""
    row = claimed_trigger(tables, claim)
    if row is None:
        tables.drop(claim)
        return False
    tables.move(row, TriggerState.WAITING)
    return True


def holdings(tables: Tables, node: Node) -> Holdings:
    """Return the claims and executions of an epoch; see `JobStore.holdings`."""
    now = tables.require(node)
    own = [row for row in tables.fired.values() if row.epoch == node.epoch]
    return Holdings(
        now,
        frozenset(row.fire_id for row in own if row.state is FiredState.ACQUIRED),
        frozenset(row.fire_id for row in own if row.state is FiredState.EXECUTING),
    )


def reconcile(tables: Tables, node: Node, *, claims: Collection[int], executions: Collection[int]) -> Reconciliation:
    """Reconcile the store's rows with the node's; see `JobStore.reconcile`."""
    held = holdings(tables, node)
    released = set()
    for fire_id in held.claims:
        claim = tables.fired[fire_id]
        if (fire_id not in claims or claimed_trigger(tables, claim) is None) and give_back(tables, claim):
            released.add(fire_id)
    unknown = [tables.fired[fire_id] for fire_id in held.executions.difference(executions)]
    unknown.sort(key=lambda row: (row.scheduled_time, -row.priority))
    fired = tuple(row.fired for row in unknown if row.fired is not None)
    return Reconciliation(fired, released, holdings(tables, node))
