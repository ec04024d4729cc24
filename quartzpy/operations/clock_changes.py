"""Changes of the clocks of time zones within the next day, and the triggers that fire around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from quartzpy.operations.incidents import ClockChange
from quartzpy.operations.schedules import zone_text
from quartzpy.operations.source import attempt
from quartzpy.states import ExecutionState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery

AHEAD = timedelta(hours=24)
AROUND = timedelta(hours=1)
"""The fires around a change are those that come at most this long before or after it."""
MOST_FIRES = 200
_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


def upcoming_changes(store: JobStore, now: datetime) -> list[ClockChange]:
    """Return the changes of the next 24 hours around which triggers of the zones fire.

    Only on a few days of a year is there a change anywhere, and only then triggers are read.
    """
    by_instant: defaultdict[tuple[datetime, timedelta], set[str]] = defaultdict(set)
    hour = now.replace(minute=0, second=0, microsecond=0)
    for name, at, shift in _zones_that_change(hour, hour + AHEAD + _HOUR):
        if now <= at <= now + AHEAD:
            by_instant[at, shift].add(name)
    found = []
    for (at, shift), names in sorted(by_instant.items()):
        query = ExecutionQuery(
            states=frozenset({ExecutionState.SCHEDULED}), since=max(now, at - AROUND), until=at + AROUND
        )
        due = store.find_executions(query, MOST_FIRES)
        records = store.triggers({record.trigger_key for record in due})
        zones: dict[str, None] = {}
        keys = []
        for row in due:
            record = records.get(row.trigger_key)
            trigger = None if record is None else attempt(lambda record=record: record.trigger)[0]  # type: ignore[misc]
            of_trigger = set((zone_text(trigger) or "").split(", ")) & names if trigger is not None else set()
            if of_trigger:
                zones.update(dict.fromkeys(sorted(of_trigger)))
                keys.append(row.trigger_key)
        if keys:
            found.append(ClockChange(at, tuple(zones), shift, tuple(keys), len(due) == MOST_FIRES))
    return found


@lru_cache(maxsize=4)
def _zones_that_change(start: datetime, end: datetime) -> tuple[tuple[str, datetime, timedelta], ...]:
    """Return the zones whose offset differs between two instants, with the instant and the size of the change."""
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
