"""The misfire step: moves late triggers to where their misfire instruction says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from quartzpy.keys import TriggerKey
from quartzpy.states import TriggerState
from quartzpy.store.protocol import Lane, MisfireOutcome, Node
from quartzpy.store.ram.tables import Tables, TriggerRow
from quartzpy.triggers.horizon import Horizon, PreparedTrigger, covered, moved_to


def recover_misfires(
    tables: Tables, node: Node, lanes: Sequence[Lane], *, threshold: timedelta, limit: int
) -> MisfireOutcome:
    """Handle one slice; see `JobStore.recover_misfires`."""
    now = tables.require(node)
    late = list(islice(tables.due.misfired(lanes, now, threshold), limit + 1))
    misfired = [TriggerKey(entry.group, entry.name) for entry in late[:limit]]
    moved = {key: _misfire(tables, tables.triggers[key], now) for key in misfired}
    times = [at for at in moved.values() if at is not None]
    over = tuple(key for key, at in moved.items() if at is None)
    return MisfireOutcome(now, tuple(misfired), over, min(times, default=None), more=len(late) > limit)


def _misfire(tables: Tables, row: TriggerRow, now: datetime) -> datetime | None:
    """Apply a trigger's misfire instruction; its new fire time. One that has none is COMPLETE."""
    stored = tables.calendar_of(row)
    calendar = None if stored is None else stored.calendar
    trigger, progress = row.load().after_misfire(row.progress, calendar, now=now)
    if progress.next_fire_time is None:
        tables.move(row, TriggerState.COMPLETE, progress=progress, pending=Horizon(is_complete=True))
        return None
    row.covers = row.covers or covered(row.load(), row.progress, progress, calendar, now)
    moved = moved_to(PreparedTrigger(trigger, progress, Horizon()), progress, calendar)
    row.bare = replace(trigger, data=None)
    tables.move(row, TriggerState.WAITING, progress=progress, pending=moved.horizon)
    return progress.next_fire_time
