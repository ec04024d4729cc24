"""The index of WAITING triggers by fire time, partitioned by dispatch key and by misfire rule.

A step starts at the first entry of a partition that is not too late. So it never walks over triggers that this node
cannot run, or that the misfire step must handle.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import NamedTuple

from quartzpy.keys import TriggerKey
from quartzpy.states import MisfireRule
from quartzpy.store.protocol import AvailableSlots, DispatchKey

CHUNK = 512
_ABOVE_ALL_PRIORITIES = -(2**31)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_ACQUIRED = (MisfireRule.NODE, MisfireRule.OWN, MisfireRule.IGNORE)
"""The rules of the triggers that the acquire step takes."""
MISFIRING = (MisfireRule.NODE, MisfireRule.OWN, MisfireRule.LATE)
"""The rules of the triggers that the misfire step takes."""


class Entry(NamedTuple):
    """A trigger's place in the order: by fire time, then by priority, then by key."""

    at: datetime
    negative_priority: int
    group: str
    name: str

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)

    @classmethod
    def first_at(cls, instant: datetime) -> Entry:
        """Return the place before all triggers of `instant` and after all earlier ones."""
        return cls(instant, _ABOVE_ALL_PRIORITIES, "", "")


class SortedEntries:
    """Sorted entries in chunks, so that adding and removing remain cheap for any number of entries."""

    def __init__(self) -> None:
        self._chunks: list[list[Entry]] = []
        self._lasts: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

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

    def __iter__(self) -> Iterator[Entry]:
        return self.since(_BEGINNING)

    def since(self, instant: datetime) -> Iterator[Entry]:
        """Yield the entries at or after `instant`, in order. The caller must not change the entries meanwhile."""
        start = Entry.first_at(instant)
        place = bisect_left(self._lasts, start)
        if place == len(self._chunks):
            return
        chunk = self._chunks[place]
        yield from chunk[bisect_left(chunk, start) :]
        for chunk in self._chunks[place + 1 :]:
            yield from chunk


class IndexPart(NamedTuple):
    """A part of the entries of a dispatch key: those that misfire at the same age."""

    rule: MisfireRule
    threshold: timedelta | None
    """The threshold of triggers with one of their own."""

    def earliest_on_time(self, now: datetime, threshold: timedelta) -> datetime:
        """Return the instant before which a due trigger has misfired; `threshold` is the scheduler's."""
        match self.rule:
            case MisfireRule.NODE:
                return now - threshold
            case MisfireRule.OWN:
                return now - (self.threshold or timedelta())
            case MisfireRule.LATE:
                return now
            case _:
                return _BEGINNING


class DueIndex:
    """The entries of all dispatch keys."""

    def __init__(self) -> None:
        self._dispatch_keys: dict[DispatchKey, dict[IndexPart, SortedEntries]] = {}

    def add(self, dispatch_key: DispatchKey, part: IndexPart, entry: Entry) -> None:
        parts = self._dispatch_keys.setdefault(dispatch_key, {})
        if part not in parts:
            parts[part] = SortedEntries()
        parts[part].add(entry)

    def remove(self, dispatch_key: DispatchKey, part: IndexPart, entry: Entry) -> None:
        parts = self._dispatch_keys[dispatch_key]
        parts[part].remove(entry)
        if not parts[part]:
            del parts[part]
            if not parts:
                del self._dispatch_keys[dispatch_key]

    def on_time(
        self,
        slots: Mapping[DispatchKey, AvailableSlots],
        now: datetime,
        threshold: timedelta,
        limit: int,
        *,
        least: int = 0,
        beyond: int = 0,
    ) -> Iterator[Entry]:
        """Yield, in order, the entries that are not misfires: as many for each dispatch key as its slots allow, but at
        least `least`, and `beyond` more, because the caller may skip some."""
        return merge(
            *(
                islice(
                    entries.since(part.earliest_on_time(now, threshold)),
                    max(min(limit, slot.workers, slot.group_slots), least) + beyond,
                )
                for dispatch_key, slot in slots.items()
                for part, entries in self._dispatch_keys.get(dispatch_key, {}).items()
                if part.rule in _ACQUIRED
            )
        )

    def misfired(self, dispatch_keys: Iterable[DispatchKey], now: datetime, threshold: timedelta) -> Iterator[Entry]:
        """Yield the entries that are misfires, in order."""
        return merge(
            *(
                _before(part.earliest_on_time(now, threshold), entries)
                for dispatch_key in dict.fromkeys(dispatch_keys)
                for part, entries in self._dispatch_keys.get(dispatch_key, {}).items()
                if part.rule in MISFIRING
            )
        )

    @property
    def slot_pools(self) -> set[str]:
        """The slot pools with an executor or a group for which triggers are waiting."""
        return {key.slot_pool for key in self._dispatch_keys if key.placement} - {""}

    def dispatch_keys(self) -> set[DispatchKey]:
        """Return the dispatch keys for which triggers are waiting."""
        return set(self._dispatch_keys)


def _before(instant: datetime, dispatch_key: SortedEntries) -> Iterator[Entry]:
    for entry in dispatch_key.since(_BEGINNING):
        if entry.at >= instant:
            return
        yield entry
