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
from quartzpy.states import ExecutionState, TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery, TriggerOrder, TriggerQuery
from quartzpy.store.records import TriggerRecord

WAITING = frozenset({ExecutionState.SCHEDULED})
"""The state of the next fires of waiting triggers."""
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
    due = store.find_executions(ExecutionQuery(states=WAITING, since=since, until=until), limit)
    if since > now:
        # A trigger that fires before `since` may fire again after it.
        due += store.find_executions(ExecutionQuery(states=WAITING, since=now, until=since), limit)
    records = store.triggers({record.trigger_key for record in due})
    held = TriggerQuery(states=HELD, until=until, order=TriggerOrder.NEXT_FIRE_TIME)
    records |= {record.key: record for record in store.find_triggers(held, limit)}
    return list(islice(runs_of(store, records.values(), since, until), limit))


def runs_of(
    store: JobStore, records: Iterable[TriggerRecord], since: datetime, until: datetime | None = None
) -> Iterator[PlannedRun]:
    """Return the fires of triggers from `since` on, the soonest first. Each is computed only when it is asked for."""
    found = list(records)
    names = {record.calendar for record in found if record.calendar is not None}
    calendars = {name: calendar for name in names if (calendar := _calendar(store, name)) is not None}
    runs = [_runs(record, calendars, since, until) for record in found]
    return heapq.merge(*runs, key=lambda run: (run.at, run.trigger))


def _calendar(store: JobStore, name: str) -> Calendar | None:
    stored, _ = attempt(lambda: store.calendars([name])[name])
    return None if stored is None else stored.calendar


def _runs(
    record: TriggerRecord, calendars: Mapping[str, Calendar], since: datetime, until: datetime | None
) -> Iterator[PlannedRun]:
    trigger, _ = attempt(lambda: record.trigger)
    zone = None if trigger is None else zone_text(trigger)
    before = since
    for at in _instants(record, calendars, since):
        if until is not None and at >= until:
            return
        [one] = planned([at], zone, since=before)
        yield PlannedRun(at, record.key, record.job_key, one.local, one.zone, one.clock_change)
        before = at


def _instants(record: TriggerRecord, calendars: Mapping[str, Calendar], since: datetime) -> Iterator[datetime]:
    at = record.next_fire_time
    if at is None:
        return
    trigger, _ = attempt(lambda: record.trigger)
    calendar = None if record.calendar is None else calendars.get(record.calendar)
    if trigger is None or (record.calendar is not None and calendar is None):
        # Without its definition or its calendar, only the stored fire time is known.
        if at >= since:
            yield at
        return
    if at < since:
        yield from trigger.fire_times(since, calendar=calendar)
        return
    progress = record.progress
    while progress.next_fire_time is not None:
        yield progress.next_fire_time
        progress = trigger.triggered(progress, calendar)
