"""The misfire step: applies the misfire instructions of late triggers, and records the misfires."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from quartzpy.states import Missed, OverlapPolicy, TriggerState
from quartzpy.store.memory.index import MISFIRING
from quartzpy.store.memory.rows import TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import Gate, MisfireOutcome, Node
from quartzpy.store.records import MisfireRecord
from quartzpy.triggers.misfire import MAX_MISSED, Misfire, misfired

logger = logging.getLogger(__name__)


def recover_misfires(tables: Tables, node: Node, *, threshold: timedelta, limit: int) -> MisfireOutcome:
    """Handle one batch; see `JobStore.recover_misfires`."""
    now = tables.require(node)
    decided = tables.runs.get(node.epoch, {})
    dispatch_keys = [key for key in tables.due.dispatch_keys() if decided.get(key)]
    waiting = list(islice(tables.due.misfired(dispatch_keys, now, threshold), limit + 1))
    late = _late_at_gates(tables, [tables.triggers[entry.key] for entry in waiting], now, threshold)
    parked = {row.gate for row in late[:limit] if row.state is TriggerState.BLOCKED}
    handled = {}
    for row in late[:limit]:
        try:
            handled[row.key] = _misfire(tables, node, row, now)
        except Exception as error:
            logger.exception("the next fire time of trigger %s cannot be computed; it is in ERROR", row.key)
            tables.move(row, TriggerState.ERROR)
            row.error = f"its next fire time cannot be computed: {type(error).__name__}: {error}"
    for gate in parked:
        # Where more are parked and late than a batch handles, one of the rest waits, and leads the next batch to them.
        rest = next((row for row in tables.parked_at(gate) if _is_late(row, now, threshold)), None)
        if rest is not None:
            tables.move(rest, TriggerState.WAITING)
    moved = {key: misfire.to.progress.next_fire_time for key, misfire in handled.items()}
    times = [at for at in moved.values() if at is not None]
    over = tuple(key for key, at in moved.items() if at is None)
    missed = {key: misfire.missed for key, misfire in handled.items()}
    return MisfireOutcome(now, missed, over, min(times, default=None), more=len(late) > limit)


def _late_at_gates(
    tables: Tables, waiting: Sequence[TriggerRow], now: datetime, threshold: timedelta
) -> list[TriggerRow]:
    """Return these late triggers without those of full jobs, which are parked; and those that are parked beside them.

    A trigger that waits for a place which nobody leaves is late by design, and this is no misfire. Where a place is
    free, nothing holds up what is parked; but a rate, or a limit that others share, may have done so until now.
    """
    late = []
    gates: set[Gate] = set()
    for row in waiting:
        if tables.is_blocked(row):
            tables.move(row, TriggerState.BLOCKED)
            continue
        late.append(row)
        if row.job.overlap_policy is OverlapPolicy.BLOCK and row.job.has_slots_alone:
            gates.add(row.gate)
    late += (row for gate in gates for row in tables.parked_at(gate) if _is_late(row, now, threshold))
    return sorted(late, key=lambda row: row.entry)


def _is_late(row: TriggerRow, now: datetime, threshold: timedelta) -> bool:
    assert row.progress.next_fire_time is not None
    return row.part.rule in MISFIRING and row.progress.next_fire_time < row.part.earliest_on_time(now, threshold)


def _misfire(tables: Tables, node: Node, row: TriggerRow, now: datetime) -> Misfire:
    """Apply a trigger's misfire instruction. A trigger without a further fire time becomes COMPLETE."""
    stored = tables.calendar_of(row)
    calendar = None if stored is None else stored.calendar
    late = row.progress.next_fire_time
    assert late is not None
    # What comes due after the resumption is not skipped.
    until = row.resumed_at if row.missed_policy is Missed.SKIP else None
    misfire = misfired(
        row.load(),
        row.progress,
        calendar,
        now=until or now,
        coalesced=bool(row.coalesced_fire_times),
        missed_policy=row.missed_policy,
    )
    progress, pending = misfire.to.progress, misfire.to.upcoming
    if progress.next_fire_time is None:
        tables.move(row, TriggerState.COMPLETE, progress=progress, upcoming=pending, missed_policy=Missed.MISFIRE)
    else:
        row.coalesced_fire_times = (row.coalesced_fire_times + misfire.missed)[:MAX_MISSED] if misfire.coalesces else ()
        row.bare = replace(misfire.to.trigger, data=None)
        tables.move(
            row,
            TriggerState.WAITING,
            progress=progress,
            upcoming=pending,
            catch_up_until=now if misfire.caught_up else None,
            missed_policy=Missed.MISFIRE,
        )
    tables.misfires.append(
        MisfireRecord(
            misfire_id=tables.next_number(),
            trigger_key=row.key,
            job_key=row.job.key,
            instance_id=node.instance_id,
            handled_at=now,
            misfire=str(row.bare.misfire),
            action=misfire.action,
            scheduled_fire_time=late,
            missed=misfire.missed,
            has_more=misfire.has_more,
            caught_up=misfire.caught_up,
            next_fire_time=progress.next_fire_time,
        )
    )
    return misfire
