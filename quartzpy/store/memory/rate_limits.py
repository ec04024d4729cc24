"""Rate limits in the acquire step; `quartzpy.store.postgresql.steps.rate_limits` describes the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey
from quartzpy.states import Admission
from quartzpy.store.memory.rows import RateRow, TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import AvailableSlots, DispatchKey

MOST_ASKED = 100
"""The number of due triggers of each slot pool about which a step asks the limits."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A trigger that a limit has admitted in this step."""

    row: TriggerRow
    limit: RateLimit
    previous_fire_time: datetime | None

    @property
    def is_taken(self) -> bool:
        """True if the step has fired the trigger."""
        return self.row.progress.previous_fire_time != self.previous_fire_time


def admit(
    tables: Tables,
    slots_of: Mapping[DispatchKey, AvailableSlots],
    now: datetime,
    *,
    limit: int,
    misfire_threshold: timedelta,
    passed_over: Collection[int],
) -> list[Admitted]:
    """Admit the due triggers that their limits allow to fire now, and hold the others back."""
    if not tables.due.has_rate_limits:
        return []
    slots = {key: min(limit, slot.workers, slot.group_slots) for key, slot in slots_of.items()}
    buckets: dict[tuple[JobKey, str], list[TriggerRow]] = {}
    for row in _due(tables, slots, now, passed_over):
        if _is_late(tables, row, now, misfire_threshold):
            tables.set_admission(row, Admission.LATE)
        else:
            buckets.setdefault(row.bucket, []).append(row)
    conforming = []
    for bucket, rows in buckets.items():
        _bound(tables, rows[0], now)
        rows.sort(key=_in_order)
        free = _available(tables, rows[0], now)
        conforming += rows[:free]
        if free < slots[rows[0].job.dispatch_key]:
            _hold_back(tables, bucket, rows[free:], now, free)
    admitted = []
    taken: Counter[str] = Counter()
    for row in sorted(conforming, key=_in_order):
        dispatch_key = row.job.dispatch_key
        taken[dispatch_key.slot_pool] += 1
        if taken[dispatch_key.slot_pool] <= slots[dispatch_key]:
            admitted.append(Admitted(row, _limit_of(row), row.progress.previous_fire_time))
            tables.set_admission(row, Admission.ADMITTED)
    return admitted


def spend(tables: Tables, admitted: Sequence[Admitted], now: datetime) -> None:
    """Charge the limits for the triggers that were taken; the others are no longer admitted."""
    for trigger in admitted:
        if trigger.is_taken:
            rate = tables.rate_limits.setdefault(trigger.row.bucket, RateRow())
            rate.tat = trigger.limit.after(rate.tat, now, 1)
        elif trigger.row.admission is Admission.ADMITTED:
            tables.set_admission(trigger.row, None)
    for bucket, rate in list(islice(tables.rate_limits.items(), 100)):
        if all(at is None or at <= now for at in (rate.tat, rate.queued_until)):
            del tables.rate_limits[bucket]


def next_turn(tables: Tables, keys: Collection[DispatchKey], passed_over: Collection[int]) -> datetime | None:
    """Return the earliest instant at which a rate limit is to be asked about a trigger that this node can run."""
    turns = tables.due.turns(keys, 1 + len(passed_over))
    return next((entry.at for entry in turns if tables.triggers[entry.key].generation not in passed_over), None)


def _due(
    tables: Tables, dispatch_keys: Collection[DispatchKey], now: datetime, passed_over: Collection[int]
) -> list[TriggerRow]:
    entries = tables.due.turns(dispatch_keys, MOST_ASKED + len(passed_over))
    examined: Counter[str] = Counter()
    rows = []
    for entry in entries:
        row = tables.triggers[entry.key]
        if entry.at <= now and row.generation not in passed_over:
            examined[row.job.dispatch_key.slot_pool] += 1
            if examined[row.job.dispatch_key.slot_pool] <= MOST_ASKED:
                rows.append(row)
    return rows


def _in_order(row: TriggerRow) -> tuple[datetime, int]:
    at = row.progress.next_fire_time
    assert at is not None
    return at, -row.bare.priority


def _limit_of(row: TriggerRow) -> RateLimit:
    limit = row.job.rate_limit
    assert limit is not None
    return limit


def _available(tables: Tables, row: TriggerRow, now: datetime) -> int:
    limit = _limit_of(row)
    return limit.available(_rate(tables, row).tat, now)


def _bound(tables: Tables, row: TriggerRow, now: datetime) -> None:
    """Correct a TAT that is too late because the limit was raised or the clock was set back."""
    rate = tables.rate_limits.get(row.bucket)
    if rate is not None:
        rate.tat = _limit_of(row).bounded(rate.tat, now)


def _rate(tables: Tables, row: TriggerRow) -> RateRow:
    return tables.rate_limits.get(row.bucket) or RateRow()


def _is_late(tables: Tables, row: TriggerRow, now: datetime, threshold: timedelta) -> bool:
    """Return True if the limit would have admitted the trigger longer ago than its misfire threshold."""
    if row.bare.ignores_misfires or row.catch_up_until is not None:
        return False
    limit = _limit_of(row)
    tat = limit.bounded(_rate(tables, row).tat, now)
    since = [row.progress.next_fire_time, row.rate_limited_until, tat and tat - limit.tolerance]
    patience = threshold if row.bare.misfire_threshold is None else row.bare.misfire_threshold
    return max(at for at in since if at is not None) < now - patience


def _hold_back(
    tables: Tables, bucket: tuple[JobKey, str], rows: Sequence[TriggerRow], now: datetime, free: int
) -> None:
    """Give each of these triggers the instant of its turn: first those that had one before, then new ones."""
    if not rows:
        return
    limit = _limit_of(rows[0])
    rate = tables.rate_limits.setdefault(bucket, RateRow())
    gap = limit.emission_interval
    turn = limit.after(rate.tat, now, free) - limit.tolerance - gap
    new = [row for row in rows if row.rate_limited_until is None or row.rate_limited_until <= _in_order(row)[0]]
    new_ids = set(map(id, new))
    for row in rows:
        if id(row) not in new_ids:
            turn += gap
            tables.hold_back(row, turn)
    if rate.queued_until is not None and rate.queued_interval == gap:
        turn = max(turn, rate.queued_until)
    for row in new:
        turn += gap
        tables.hold_back(row, turn)
    if new:
        rate.queued_until, rate.queued_interval = turn, gap
