"""WAITING triggers in the order in which they are due, apart by who can take them and by when they are too late.

They are kept apart by lane and by rule of misfiring. A step reads from the first entry that is not too late: neither
what this node cannot run nor what the misfire step must handle is ever walked over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import NamedTuple

from quartzpy.keys import TriggerKey
from quartzpy.store.protocol import Lane, Opening

CHUNK = 512
_ABOVE_ALL_PRIORITIES = -(2**31)
_BEGINNING = datetime.min.replace(tzinfo=UTC)


class Entry(NamedTuple):
    """A trigger's place in time: by fire time, then by priority, then by key."""

    at: datetime
    negative_priority: int
    group: str
    name: str

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)

    @classmethod
    def first_at(cls, instant: datetime) -> Entry:
        """A place before all triggers of `instant` and after all earlier ones."""
        return cls(instant, _ABOVE_ALL_PRIORITIES, "", "")


class SortedEntries:
    """Entries in order, in chunks, so that adding and removing costs little however many there are."""

    def __init__(self) -> None:
        self._chunks: list[list[Entry]] = []
        self._lasts: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, entry: Entry) -> None:
        if not self._chunks:
            self._chunks.append([entry])
            self._lasts.append(entry)
            return
        place = min(bisect_left(self._lasts, entry), len(self._chunks) - 1)
        chunk = self._chunks[place]
        insort(chunk, entry)
        if len(chunk) > 2 * CHUNK:
            self._chunks[place : place + 1] = chunk[:CHUNK], chunk[CHUNK:]
            self._lasts[place : place + 1] = chunk[CHUNK - 1], chunk[-1]
        else:
            self._lasts[place] = chunk[-1]

    def remove(self, entry: Entry) -> None:
        place = bisect_left(self._lasts, entry)
        chunk = self._chunks[place]
        del chunk[bisect_left(chunk, entry)]
        if chunk:
            self._lasts[place] = chunk[-1]
        else:
            del self._chunks[place], self._lasts[place]

    def since(self, instant: datetime) -> Iterator[Entry]:
        """The entries at or after `instant`, in order; nothing may be added or removed meanwhile."""
        start = Entry.first_at(instant)
        place = bisect_left(self._lasts, start)
        if place == len(self._chunks):
            return
        chunk = self._chunks[place]
        yield from chunk[bisect_left(chunk, start) :]
        for chunk in self._chunks[place + 1 :]:
            yield from chunk


class MisfireRule(NamedTuple):
    """When a trigger is too late: never, or later than its own threshold, or than the scheduler's."""

    ignores_misfires: bool
    own_threshold: timedelta | None

    def earliest_on_time(self, now: datetime, threshold: timedelta) -> datetime:
        """What is due before this instant has misfired."""
        if self.ignores_misfires:
            return _BEGINNING
        return now - (threshold if self.own_threshold is None else self.own_threshold)


class DueIndex:
    """All lanes."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, dict[MisfireRule, SortedEntries]] = {}
        self.placed: frozenset[Lane] = frozenset()
        """The lanes with a placement that triggers wait in."""

    def add(self, lane: Lane, rule: MisfireRule, entry: Entry) -> None:
        by_rule = self._lanes.setdefault(lane, {})
        if rule not in by_rule:
            by_rule[rule] = SortedEntries()
            if lane.placement:
                self.placed |= {lane}
        by_rule[rule].add(entry)

    def remove(self, lane: Lane, rule: MisfireRule, entry: Entry) -> None:
        by_rule = self._lanes[lane]
        by_rule[rule].remove(entry)
        if not by_rule[rule]:
            del by_rule[rule]
            if not by_rule:
                del self._lanes[lane]
                self.placed -= {lane}

    def on_time(
        self, openings: Iterable[Opening], now: datetime, threshold: timedelta, limit: int, *, beyond: int = 0
    ) -> Iterator[Entry]:
        """What did not misfire, whenever it is due, in order: of each opening the first that it has room for, and so
        many `beyond` those, as the caller passes some over."""
        return merge(
            *(
                islice(
                    entries.since(rule.earliest_on_time(now, threshold)),
                    min(limit, opening.workers, opening.room) + beyond,
                )
                for opening in dict.fromkeys(openings)
                for rule, entries in self._lanes.get(opening.lane, {}).items()
            )
        )

    def misfired(self, lanes: Iterable[Lane], now: datetime, threshold: timedelta) -> Iterator[Entry]:
        """What is too late, in order."""
        return merge(
            *(
                _before(rule.earliest_on_time(now, threshold), entries)
                for lane in dict.fromkeys(lanes)
                for rule, entries in self._lanes.get(lane, {}).items()
                if not rule.ignores_misfires
            )
        )

    def lanes(self) -> set[Lane]:
        """Those that triggers wait in."""
        return set(self._lanes)


def _before(instant: datetime, lane: SortedEntries) -> Iterator[Entry]:
    for entry in lane.since(_BEGINNING):
        if entry.at >= instant:
            return
        yield entry
