"""Limits that jobs share; `quartzpy.store.postgresql.steps.shared_limits` describes the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import Limit, checked_limit_name, names_from_text
from quartzpy.keys import TriggerKey
from quartzpy.states import Admission, TriggerState
from quartzpy.store import refusals
from quartzpy.store.memory.index import Entry
from quartzpy.store.memory.rows import FiredRow, LimitRow, TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import AvailableSlots, DispatchKey, Notification
from quartzpy.store.records import MOST_WAITING, LimitRecord

LATE_AT_ONCE = 500
"""The number of triggers of a set of limits that a step examines where the first is late."""
BLOCKED_AT_ONCE = 200
"""The number of triggers of full jobs that a step passes over."""
ANY = 1_000_000


@dataclass(frozen=True, slots=True)
class _InUse:
    """How much of a limit is free at one instant."""

    free: int
    has_slot: bool
    """True if its limit of executions, by itself, has a slot."""
    opens: datetime | None
    """The instant from which on its rate admits a fire; None if it has none."""
    admits_since: datetime | None
    """The instant since which it has admitted fires; None: for ever."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The triggers of one set of limits and slot pool that wait."""

    names: tuple[str, ...]
    slot_pool: str
    first: TriggerRow
    dispatch_keys: Sequence[DispatchKey]

    def rows(self, tables: Tables, keys: Collection[DispatchKey], passed_over: Collection[int]) -> Iterator[TriggerRow]:
        """Yield those that a node can run, in order."""
        parts = (tables.due.sharing(key, self.first.part) for key in self.dispatch_keys if key in keys)
        for entry in merge(*parts):
            row = tables.triggers[entry.key]
            if row.generation not in passed_over:
                yield row


@dataclass(frozen=True, slots=True)
class _Contender:
    """A trigger that asks for its limits; without a row, one for which slots are reserved alone."""

    order: Entry
    names: tuple[str, ...]
    row: TriggerRow | None
    reserves: bool


def admit(
    tables: Tables,
    slots_of: Mapping[DispatchKey, AvailableSlots],
    now: datetime,
    *,
    limit: int,
    misfire_threshold: timedelta,
    passed_over: Collection[int],
) -> list[TriggerRow]:
    """Admit the due triggers of whose limits each has a slot."""
    waiting = [some for some in _sets(tables) if some.first.entry.at <= now]
    if not waiting:
        return []
    in_use = {name: _in_use(tables, name, now) for some in waiting for name in some.names}
    slots = {key.slot_pool: min(limit, slot.workers, slot.group_slots) for key, slot in slots_of.items()}
    contenders: list[_Contender] = []
    for some in waiting:
        has_waited = some.first.entry.at < now - misfire_threshold
        free = min(in_use[name].free for name in some.names)
        if free <= 0:
            if has_waited and len(some.names) > 1 and _runs_somewhere(tables, some.first):
                contenders.append(_Contender(some.first.entry, some.names, None, reserves=True))
            continue
        since = max((at for name in some.names if (at := in_use[name].admits_since) is not None), default=None)
        may_be_late = has_waited and (since is None or since < now - misfire_threshold)
        most = LATE_AT_ONCE if may_be_late else min(free, slots.get(some.slot_pool, 0))
        is_first, number = True, 0
        for row in list(islice(some.rows(tables, slots_of, passed_over), most + BLOCKED_AT_ONCE)):
            if row.entry.at > now or number >= most:
                break
            if tables.is_blocked(row):
                tables.move(row, TriggerState.BLOCKED)
                continue
            number += 1
            if _is_late(row, since, now, misfire_threshold):
                tables.set_admission(row, Admission.LATE)
                continue
            contenders.append(_Contender(row.entry, some.names, row, reserves=has_waited and is_first))
            is_first = False
    for name in in_use:
        _settle(tables, name, now)
    admitted = [
        contender.row for contender, gets in _allotted(contenders, in_use) if gets and contender.row is not None
    ]
    for row in admitted:
        tables.set_admission(row, Admission.ADMITTED)
    return admitted


def charge(tables: Tables, admitted: Sequence[TriggerRow], taken: Mapping[TriggerKey, int], now: datetime) -> None:
    """Record which of the executions in `taken` use slots; the others are no longer admitted."""
    fires: Counter[str] = Counter()
    for row in admitted:
        fire_id = taken.get(row.key)
        if fire_id is not None:
            for name in names_from_text(row.job.limits):
                tables.limit_uses.setdefault(name, set()).add(fire_id)
                fires[name] += 1
        if row.admission is Admission.ADMITTED:
            tables.set_admission(row, None)
    for name, number in fires.items():
        stored = tables.limits[name]
        if (rate := stored.limit.rate_limit) is not None:
            stored.tat = rate.after(rate.bounded(stored.tat, now), now, number)


def give_back(tables: Tables, rows: Collection[FiredRow], now: datetime) -> None:
    """Take fires that were handed back off the rates of their limits: what repeats them is charged.

    Without them, a limit would be charged for less by an interval each, but for the time since then, which others that
    fired may have used. A fire of longer ago is not taken off: since then, the limit may have been idle.
    """
    for name, uses in tables.limit_uses.items():
        stored = tables.limits.get(name)
        if stored is None or (rate := stored.limit.rate_limit) is None or stored.tat is None:
            continue
        gap = rate.emission_interval
        fires = [row.fire_time for row in rows if row.fire_id in uses and row.fire_time + gap >= now]
        if fires:
            stored.tat += now - min(fires) - gap * len(fires)


def next_turn(
    tables: Tables,
    slots_of: Collection[DispatchKey],
    now: datetime,
    *,
    misfire_threshold: timedelta,
    passed_over: Collection[int],
) -> datetime | None:
    """Return the earliest instant at which the limits are to be asked about a trigger that this node can run."""
    waiting = list(_sets(tables))
    in_use = {name: _in_use(tables, name, now) for some in waiting for name in some.names}
    contenders = []
    opens: dict[int, datetime] = {}
    for some in waiting:
        has_waited = some.first.entry.at < now - misfire_threshold
        limits = [in_use[name] for name in some.names]
        if all(limit.has_slot for limit in limits):
            row = next(some.rows(tables, slots_of, passed_over), None)
            if row is not None:
                contenders.append(_Contender(row.entry, some.names, row, reserves=has_waited and row is some.first))
                held = [limit.opens for limit in limits if limit.free <= 0 and limit.opens is not None]
                if held:
                    opens[id(row)] = max(held)
        if (
            has_waited
            and len(some.names) > 1
            and min(limit.free for limit in limits) <= 0
            and _runs_somewhere(tables, some.first)
        ):
            contenders.append(_Contender(some.first.entry, some.names, None, reserves=True))
    turns = [
        max(contender.order.at, opens.get(id(contender.row), contender.order.at))
        for contender, gets in _allotted(contenders, in_use)
        if contender.row is not None and (gets or id(contender.row) in opens)
    ]
    return min(turns, default=None)


def freed(tables: Tables, texts: Iterable[str | None]) -> datetime | None:
    """Settle these limits after the end of executions; return the soonest fire time of what waits for one of them."""
    names = {name for text in texts for name in names_from_text(text)}
    if not names:
        return None
    for name in names:
        _settle(tables, name, tables.now())
    return min((some.first.entry.at for some in _sets(tables) if names.intersection(some.names)), default=None)


def limits(tables: Tables) -> dict[str, LimitRecord]:
    """Return the limits that jobs share; see `QueryStore.limits`."""
    now = tables.now()
    waiting: Counter[str] = Counter()
    for some in _sets(tables):
        rows = islice(some.rows(tables, some.dispatch_keys, ()), MOST_WAITING)
        number = sum(row.entry.at <= now for row in rows)
        waiting.update(dict.fromkeys(some.names, number))
    return {
        name: LimitRecord.of(
            name,
            stored.limit,
            dict(
                sorted(
                    Counter(tables.fired[fire_id].job_key for fire_id in _used(tables, name)).items(),
                    key=lambda pair: (-pair[1], pair[0].group, pair[0].name),
                )
            ),
            waiting[name],
            tat=stored.tat,
            now=now,
        )
        for name, stored in sorted(tables.limits.items())
    }


def put_limit(tables: Tables, name: str, limit: Limit) -> None:
    """Store a limit; see `SchedulingStore.put_limit`."""
    checked_limit_name(name)
    stored = tables.limits.setdefault(name, LimitRow(limit, tables.now()))
    stored.limit, stored.full_until = limit, tables.now()
    tables.notifications.add(Notification.SCHEDULED)


def delete_limit(tables: Tables, name: str) -> bool:
    """Remove a limit; see `SchedulingStore.delete_limit`."""
    sharing = sorted(key for key, job in tables.jobs.items() if name in names_from_text(job.limits))
    if sharing:
        raise refusals.limit_in_use(name, sharing[:3])
    return tables.limits.pop(name, None) is not None


def require_limits(tables: Tables, job: JobDetail) -> None:
    """Check that the limits which a job shares are stored.

    Raises:
        LimitNotFoundError: one of them is not.
    """
    for name in job.limits:
        if name not in tables.limits:
            raise refusals.limit_of_job_not_stored(job.key, name, sorted(tables.limits))


def _sets(tables: Tables) -> Iterator[_Waiting]:
    """Yield the sets of limits for which triggers wait, by slot pool."""
    of_set: dict[tuple[str, str], list[DispatchKey]] = {}
    firsts: dict[tuple[str, str], TriggerRow] = {}
    for key, text, entry in tables.due.sets_of_limits():
        row, place = tables.triggers[entry.key], (text, key.slot_pool)
        of_set.setdefault(place, []).append(key)
        if place not in firsts or row.entry < firsts[place].entry:
            firsts[place] = row
    for (text, slot_pool), keys in sorted(of_set.items()):
        yield _Waiting(names_from_text(text), slot_pool, firsts[text, slot_pool], keys)


def _used(tables: Tables, name: str) -> list[int]:
    """Return the executions that use slots of a limit."""
    return [fire_id for fire_id in tables.limit_uses.get(name, ()) if fire_id in tables.fired]


def _in_use(tables: Tables, name: str, now: datetime) -> _InUse:
    stored = tables.limits.get(name)
    if stored is None:
        return _InUse(0, False, None, None)
    most, rate = stored.limit.max_concurrent, stored.limit.rate_limit
    free = ANY if most is None else max(most - len(_used(tables, name)), 0)
    has_slot = free > 0
    opens = None
    if rate is not None:
        tat = rate.bounded(stored.tat, now)
        free = min(free, rate.available(tat, now))
        opens = None if tat is None else tat - rate.tolerance
    was_full = most is not None and len(tables.limit_uses.get(name, ())) >= most
    since = now if was_full else stored.full_until
    return _InUse(free, has_slot, opens, since if opens is None else max(since, opens))


def _settle(tables: Tables, name: str, now: datetime) -> None:
    """Forget the slots that ended, and note that the limit was full until then."""
    stored, uses = tables.limits.get(name), tables.limit_uses.get(name)
    if stored is None or not uses:
        return
    used = set(_used(tables, name))
    most = stored.limit.max_concurrent
    if len(used) < len(uses):
        if most is not None and len(uses) >= most:
            stored.full_until = now
        tables.limit_uses[name] = used


def _is_late(row: TriggerRow, since: datetime | None, now: datetime, threshold: timedelta) -> bool:
    """Return True if its limits would have admitted the trigger longer ago than its misfire threshold."""
    if row.bare.ignores_misfires or row.catch_up_until is not None:
        return False
    patience = threshold if row.bare.misfire_threshold is None else row.bare.misfire_threshold
    at = row.entry.at
    return (at if since is None else max(at, since)) < now - patience


def _allotted(contenders: Iterable[_Contender], in_use: Mapping[str, _InUse]) -> Iterator[tuple[_Contender, bool]]:
    """Yield the contenders in their order, and whether each gets a slot of all its limits."""
    free = {name: limit.free for name, limit in in_use.items()}
    for contender in sorted(contenders, key=lambda contender: contender.order):
        gets = contender.row is not None and all(free[name] > 0 for name in contender.names)
        if gets or contender.reserves:
            for name in contender.names:
                free[name] = max(free[name] - 1, 0)
        yield contender, gets


def _runs_somewhere(tables: Tables, row: TriggerRow) -> bool:
    """Return True if a live node runs the trigger."""
    epochs = {record.epoch for record in tables.nodes.values()}
    return any(keys.get(row.job.dispatch_key, False) for epoch, keys in tables.runs.items() if epoch in epochs)
