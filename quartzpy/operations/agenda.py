"""The fires that are to come, of many triggers together."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from quartzpy.calendars.calendar import Calendar
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.schedules import planned, zone_text
from quartzpy.operations.source import attempt
from quartzpy.states import TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import TriggerOrder, TriggerQuery
from quartzpy.store.records import TriggerRecord

WAITING = frozenset({TriggerState.WAITING})
HELD = frozenset({TriggerState.ACQUIRED, TriggerState.BLOCKED})
"""The states of triggers that wait for a fire which has begun, and then follow their schedules."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A fire that is to come."""

    at: datetime
    trigger: TriggerKey
    job: JobKey
    local: str
    """The wall-clock time in the zone of the schedule, with its offset from UTC."""
    zone: str
    clock_change: str | None = None
    """A note if the clock of the zone is moved between the fire of the trigger before and this one."""


def agenda(store: JobStore, now: datetime, since: datetime, until: datetime, limit: int) -> list[PlannedRun]:
    """Return the fires from `since` until just before `until`, several of one trigger included, the soonest first.

    They are those of the `limit` triggers that are due first, and of as many that fire before `since`. A trigger that
    is claimed or blocked is among them with its times after that fire.
    """
    return list(islice(runs_of(store, _due(store, now, since, until, limit), since, until), limit))


def planned_fires(
    store: JobStore, now: datetime, since: datetime, until: datetime, limit: int
) -> list[tuple[datetime, TriggerRecord]]:
    """Return the fires of `agenda`, each with its trigger, without a look at the clocks of their zones."""
    return list(islice(_fires_of(store, _due(store, now, since, until, limit), since, until), limit))


def _due(store: JobStore, now: datetime, since: datetime, until: datetime, limit: int) -> list[TriggerRecord]:
    by_time = TriggerOrder.NEXT_FIRE_TIME
    found = store.find_triggers(TriggerQuery(states=WAITING, since=since, until=until, order=by_time), limit)
    if since > now:
        # A trigger that fires before `since` may fire again after it.
        found += store.find_triggers(TriggerQuery(states=WAITING, since=now, until=since, order=by_time), limit)
    found += store.find_triggers(TriggerQuery(states=HELD, until=until, order=by_time), limit)
    # One that fires between two of the queries may be in both.
    return list({record.key: record for record in found}.values())


def runs_of(
    store: JobStore, records: Iterable[TriggerRecord], since: datetime, until: datetime | None = None
) -> Iterator[PlannedRun]:
    """Return the fires of triggers from `since` on, the soonest first. Each is computed only when it is asked for."""
    before: dict[TriggerKey, datetime] = {}
    for at, record in _fires_of(store, records, since, until):
        [one] = planned([at], _zone(record), since=before.get(record.key, since))
        yield PlannedRun(at, record.key, record.job_key, one.local, one.zone, one.clock_change)
        before[record.key] = at


def _fires_of(
    store: JobStore, records: Iterable[TriggerRecord], since: datetime, until: datetime | None
) -> Iterator[tuple[datetime, TriggerRecord]]:
    found = list(records)
    names = {record.calendar for record in found if record.calendar is not None}
    calendars = {name: calendar for name in names if (calendar := _calendar(store, name)) is not None}
    fires = [_fires(record, calendars, since, until) for record in found]
    return heapq.merge(*fires, key=lambda fire: (fire[0], fire[1].key))


def _calendar(store: JobStore, name: str) -> Calendar | None:
    stored, _ = attempt(lambda: store.calendars([name])[name])
    return None if stored is None else stored.calendar


def _zone(record: TriggerRecord) -> str | None:
    trigger, _ = attempt(lambda: record.trigger)
    return None if trigger is None else zone_text(trigger)


def _fires(
    record: TriggerRecord, calendars: Mapping[str, Calendar], since: datetime, until: datetime | None
) -> Iterator[tuple[datetime, TriggerRecord]]:
    for at in _instants(record, calendars, since):
        if until is not None and at >= until:
            return
        yield at, record


def _instants(record: TriggerRecord, calendars: Mapping[str, Calendar], since: datetime) -> Iterator[datetime]:
    at = record.next_fire_time
    if at is None:
        return
    stored = (at, *record.upcoming)
    if at >= since:
        # The definition of the trigger is decoded only if these are not enough.
        yield from stored
    trigger, _ = attempt(lambda: record.trigger)
    calendar = None if record.calendar is None else calendars.get(record.calendar)
    if trigger is None or (record.calendar is not None and calendar is None):
        # Without its definition or its calendar, only the stored fire times are known.
        if at < since:
            yield from (one for one in stored if one >= since)
        return
    if at < since:
        yield from trigger.fire_times(since, calendar=calendar)
        return
    progress = record.progress
    while progress.next_fire_time is not None:
        if progress.next_fire_time > stored[-1]:
            yield progress.next_fire_time
        progress = trigger.triggered(progress, calendar)
