"""Within a day the clocks of a time zone are moved, and triggers fire within an hour of it.

Each trigger's [rule for daylight saving](../time-zones.md) decides about times that are skipped or occur twice; its
page shows the fire times. The remedy skips the next fire of a trigger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from quartzpy.instants import short
from quartzpy.keys import TriggerKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.operations.read_context import attempt
from quartzpy.operations.views.agenda import FIRES
from quartzpy.operations.views.schedules import zone_text
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.store.health_findings import Severity
from quartzpy.store.queries import TriggerOrder, TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import instant_text

AHEAD = timedelta(hours=24)
AROUND = timedelta(hours=1)
"""The fires around a change are those that come at most this long before or after it."""
MAX_FIRES = 200
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of the clocks of time zones, and the fires around it."""

    at: datetime
    zones: Sequence[str]
    """The zones with triggers that fire around it."""
    shift: timedelta
    """How far the clock is moved forward; negative if it is moved back."""
    triggers: Sequence[TriggerKey]
    has_more: bool


def judge(facts: ClusterFacts) -> Rounds:
    yield
    now = facts.now
    # Only on a few days of a year is there a change anywhere, and only then triggers are read.
    by_instant: defaultdict[tuple[datetime, timedelta], set[str]] = defaultdict(set)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, at, shift in _zones_that_change(day, day + _DAY + AHEAD):
        if now <= at <= now + AHEAD:
            by_instant[at, shift].add(name)
    around = [(at, shift, names, _around(facts.reading, at, now)) for (at, shift), names in sorted(by_instant.items())]
    yield
    changes = (_change(at, shift, names, due()) for at, shift, names, due in around)
    return clock_changes([change for change in changes if change is not None])


def _around(reading: BatchedReads, at: datetime, now: datetime) -> Deferred[list[TriggerRecord]]:
    query = TriggerQuery(
        states=FIRES,
        since=max(now, at - AROUND),
        until=at + AROUND,
        order=TriggerOrder.NEXT_FIRE_TIME,
    )
    return reading.defer(lambda store: store.find(query, MAX_FIRES))


def _change(at: datetime, shift: timedelta, names: set[str], due: Sequence[TriggerRecord]) -> ClockChange | None:
    """Return a change if triggers of its zones are among those that are due around it."""
    zones: dict[str, None] = {}
    keys = []
    for record in due:
        trigger = attempt(lambda record=record: record.trigger)[0]  # type: ignore[misc]
        of_trigger = set((zone_text(trigger) or "").split(", ")) & names if trigger is not None else set()
        if of_trigger:
            zones.update(dict.fromkeys(sorted(of_trigger)))
            keys.append(record.key)
    return ClockChange(at, tuple(zones), shift, tuple(keys), len(due) == MAX_FIRES) if keys else None


@lru_cache(maxsize=4)
def _zones_that_change(start: datetime, end: datetime) -> tuple[tuple[str, datetime, timedelta], ...]:
    """Return the zones whose offset differs between two instants, with the instant and the size of the change.

    All zones have to be read for that, 35 ms during which other threads hardly run, so a day is asked for as a whole.
    """
    return tuple(_changes(start, end))


def _changes(start: datetime, end: datetime) -> Iterator[tuple[str, datetime, timedelta]]:
    for name in sorted(available_timezones()):
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError, ValueError):
            continue

        def offset(at: datetime, zone: ZoneInfo = zone) -> timedelta:
            return at.astimezone(zone).utcoffset() or timedelta()

        if offset(start) == offset(end):
            continue
        before, after = start, end
        while after - before > _SECOND:
            middle = (before + (after - before) / 2).replace(microsecond=0)
            if offset(middle) == offset(start):
                before = middle
            else:
                after = middle
        yield name, after, offset(end) - offset(start)


def clock_changes(changes: Sequence[ClockChange]) -> list[Incident]:
    incidents = []
    for change in changes:
        moved = "forward" if change.shift > timedelta() else "back"
        effect = "times that are skipped" if change.shift > timedelta() else "times that occur twice"
        names = ", ".join(map(str, change.triggers[:MAX_NAMED]))
        incidents.append(
            Incident(
                Severity.WARNING,
                "clock-change",
                ", ".join(change.zones[:MAX_NAMED]),
                f"The clocks of {', '.join(change.zones[:MAX_NAMED])} move {moved} by {short(abs(change.shift))} at"
                f" {instant_text(change.at)}.",
                (
                    f"Within an hour of it fire: {names}"
                    f"{', ...' * (len(change.triggers) > MAX_NAMED or change.has_more)}.",
                    f"Each trigger's rule for daylight saving decides about {effect}; its page shows the fire times.",
                ),
                change.at,
                tuple(
                    Remedy("skip_next", {"selection": key}, f"skip the next fire of {key}")
                    for key in change.triggers[:MAX_NAMED]
                ),
                change.triggers[0],
                lasting=f"{change.at.isoformat()} {change.shift}",
            )
        )
    return incidents


KIND = IncidentKind(("clock-change",), About.REST, __doc__, judge)
