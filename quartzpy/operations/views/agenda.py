"""The fires that are to come, of many triggers together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from quartzpy.budget import MAX_STEPS, Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import ScheduleTooCostlyError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.read_context import attempt
from quartzpy.operations.views.schedules import planned, zone_text
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.states import TriggerState
from quartzpy.store.queries import TriggerOrder, TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.trigger import Trigger, TriggerProgress

HELD = frozenset({TriggerState.BLOCKED})
"""The state of triggers that wait for a fire which has begun, and then follow their schedules."""
FIRES = HELD | {TriggerState.WAITING}
"""The states of triggers that fire. The row of one that is blocked may say WAITING: so a store finds the
triggers of all these states off their index, and those of some only among them."""
_STEPS_OF_TRIGGER = MAX_STEPS // 10
_BY_TIME = TriggerOrder.NEXT_FIRE_TIME


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


class Agenda:
    """The fires from `since`, by default now, until just before `until`, several of one trigger included.

    They are those of the `limit` triggers that are due first, and of as many that fire before `since`. A trigger that
    is blocked is among them with its times after that fire.
    """

    def __init__(
        self, reading: BatchedReads, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> None:
        self._reading = reading
        self._since, self._until, self._limit = since or now, until, limit
        spans = [(self._since, until)]
        if self._since > now:
            # A trigger that fires before `since` may fire again after it.
            spans.append((now, self._since))
        queries = [
            *(TriggerQuery(states=FIRES, since=begin, until=end, order=_BY_TIME) for begin, end in spans),
            TriggerQuery(states=HELD, until=min(now, self._since), order=_BY_TIME),
        ]
        self._due = [_triggers(reading, query, limit) for query in queries]
        self._fires: Fires | None = None

    def look_up_calendars(self) -> None:
        """Ask for the calendars of the triggers, with the questions that already wait."""
        if self._fires is None:
            # One that fires between two of the queries may be in both.
            records = {record.key: record for answer in self._due for record in answer()}
            self._fires = Fires(self._reading, records.values(), self._since, self._until)

    def runs(self) -> list[PlannedRun]:
        """Return the fires, the soonest first."""
        self.look_up_calendars()
        assert self._fires is not None
        return list(islice(self._fires.runs(), self._limit))

    def fires(self) -> list[tuple[datetime, TriggerRecord]]:
        """Return the fires, each with its trigger, without a look at the clocks of their zones."""
        self.look_up_calendars()
        assert self._fires is not None
        return list(islice(self._fires, self._limit))


def _triggers(reading: BatchedReads, query: TriggerQuery, limit: int) -> Deferred[list[TriggerRecord]]:
    return reading.defer(lambda store: store.find(query, limit))


class Fires:
    """The fires of triggers from `since` on, the soonest first. Each is computed only when it is asked for."""

    def __init__(
        self, reading: BatchedReads, records: Iterable[TriggerRecord], since: datetime, until: datetime | None = None
    ) -> None:
        self._records = list(records)
        self._since, self._until = since, until
        names = {record.calendar for record in self._records if record.calendar is not None}
        self._calendars = {name: calendar_of(reading, name) for name in names}

    def __iter__(self) -> Iterator[tuple[datetime, TriggerRecord]]:
        decoded = {name: attempt(answer)[0] for name, answer in self._calendars.items()}
        calendars = {name: calendar for name, calendar in decoded.items() if calendar is not None}
        fires = [_fires(record, calendars, self._since, self._until) for record in self._records]
        return heapq.merge(*fires, key=lambda fire: (fire[0], fire[1].key))

    def runs(self) -> Iterator[PlannedRun]:
        """Return the fires by the wall clocks of their zones."""
        before: dict[TriggerKey, datetime] = {}
        for at, record in self:
            [planned_time] = planned([at], _zone(record), since=before.get(record.key, self._since))
            yield PlannedRun(
                at, record.key, record.job_key, planned_time.local, planned_time.zone, planned_time.clock_change
            )
            before[record.key] = at


def calendar_of(reading: BatchedReads, name: str) -> Callable[[], Calendar]:
    """Ask for one calendar. Each is a question of its own, because it may be one that cannot be decoded."""
    answer = reading.defer(lambda store: store.calendars([name])[name])
    return lambda: answer().calendar


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
            yield from (instant for instant in stored if instant >= since)
        return
    if at < since:
        times = trigger.fire_times(since, calendar=calendar)
    else:
        times = _beyond(stored[-1], record.progress, trigger, calendar)
    # One costly schedule delays a list of all triggers by a moment only.
    budget = Budget(_STEPS_OF_TRIGGER)
    while True:
        with budget:
            try:
                following = next(times, None)
            except ScheduleTooCostlyError:
                return
        if following is None:
            return
        yield following


def _beyond(
    last: datetime, progress: TriggerProgress, trigger: Trigger, calendar: Calendar | None
) -> Iterator[datetime]:
    while progress.next_fire_time is not None:
        if progress.next_fire_time > last:
            yield progress.next_fire_time
        progress = trigger.triggered(progress, calendar)
