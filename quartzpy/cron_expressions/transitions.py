"""The instants at which a zone's offset changes, and those near a change that count for a wall-clock schedule.

Instants are whole seconds since 1970 in UTC. `zoneinfo` provides the offset at an instant, but not the next change of
the offset. The changes are found by probing, half a year at a time, and kept.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from quartzpy.instants import zone

_CHUNK_BITS = 24  # 194 days
_CHUNK = 1 << _CHUNK_BITS
# The shortest time after which any zone since 1970 took a change back again was just under 7 days.
_PROBE_EVERY = 3 * 86_400
# What happens at a change counts for less than two days before and after it: no clock was ever moved by
# more than one.
_MARGIN = 2 * 86_400
_UNBOUNDED = 1 << 59
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# `datetime` ends with the year 9999, and some hours are needed for the offset itself.
_LATEST = int((datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds())
_EARLIEST = int((datetime(1, 1, 3, tzinfo=UTC) - _EPOCH).total_seconds())


class Passes(Enum):
    """The pass that counts if a wall-clock time occurs twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Window(NamedTuple):
    """A span of one offset, from `start` up to `end`, in which the instants from `live_from` up to `live_until` count.

    The others are another pass of wall-clock times that count elsewhere. `skipped_before` and
    `skipped_after` are how many seconds of wall clock the change at `start` and at `end` leaps over.
    """

    start: int
    end: int
    offset: int
    live_from: int
    live_until: int
    skipped_before: int
    skipped_after: int


_NONE = Window(0, 0, 0, 0, 0, 0, 0)


class ZoneWindows:
    """The windows of a zone. Thread-safe, because cached values are replaced as a whole."""

    __slots__ = ("_chunks", "_passes", "_zone", "keeps_all", "latest")

    def __init__(self, time_zone: tzinfo, passes: Passes) -> None:
        self._zone = time_zone
        self._passes = passes
        self._chunks: dict[int, tuple[Window, ...]] = {}
        is_fixed = isinstance(time_zone, timezone) or getattr(time_zone, "key", None) == "UTC"
        offset = _offset(time_zone, 0) if is_fixed else 0
        self.latest = Window(-_UNBOUNDED, _UNBOUNDED, offset, -_UNBOUNDED, _UNBOUNDED, 0, 0) if is_fixed else _NONE
        """The window that was used last, which is usually the next one needed as well."""
        self.keeps_all = is_fixed or passes is Passes.BOTH
        """True if every instant counts."""

    def at(self, instant: int) -> Window:
        """Return the window that contains `instant`."""
        latest = self.latest
        if latest.start <= instant < latest.end:
            return latest
        number = instant >> _CHUNK_BITS
        windows = self._chunks.get(number)
        if windows is None:
            windows = self._chunks[number] = self._find_windows(number << _CHUNK_BITS)
        for window in windows:
            if instant < window.end:
                break
        self.latest = window
        return window

    def _find_windows(self, start: int) -> tuple[Window, ...]:
        end = start + _CHUNK
        changes = _find_changes(self._zone, start - _MARGIN, end + _MARGIN)
        # Beyond the first and the last change it is not known how far the offset holds: up to the chunk's
        # border at least.
        borders = [start, *changes, end]
        offsets = [_offset(self._zone, start - _MARGIN), *(_offset(self._zone, change) for change in changes)]
        windows: list[Window] = []
        for index, offset in enumerate(offsets):
            since, until = borders[index], borders[index + 1]
            if index == len(offsets) - 1:
                until = max(until, since)
            if until <= start or since >= end or until <= since:
                continue
            leap_before = offset - offsets[index - 1] if index > 0 else 0
            leap_after = offsets[index + 1] - offset if index + 1 < len(offsets) else 0
            live_from, live_until = since, until
            if self._passes is Passes.FIRST:
                live_from = min(until, since + max(0, -leap_before))
            elif self._passes is Passes.SECOND:
                live_until = max(since, until - max(0, -leap_after))
            windows.append(Window(since, until, offset, live_from, live_until, max(0, leap_before), max(0, leap_after)))
        return tuple(windows)


@lru_cache(maxsize=1024)
def zone_windows(name: str, passes: Passes) -> ZoneWindows:
    """Return the windows of the zone with that name.

    Raises:
        UnknownTimeZoneError: there is no such zone.
    """
    return ZoneWindows(zone(name), passes)


def _offset(time_zone: tzinfo, instant: int) -> int:
    moment = _EPOCH + timedelta(seconds=min(max(instant, _EARLIEST), _LATEST))
    offset = moment.astimezone(time_zone).utcoffset()
    # Offsets of fractions of a second do not exist; whole ones that are not minutes do, before 1972.
    return 0 if offset is None else offset.days * 86_400 + offset.seconds


def _find_changes(time_zone: tzinfo, start: int, end: int) -> list[int]:
    """Return the instants after `start` up to `end` at which the offset changes."""
    changes: list[int] = []
    since, offset = start, _offset(time_zone, start)
    while since < end:
        probe = min(since + _PROBE_EVERY, end)
        if _offset(time_zone, probe) == offset:
            since = probe
            continue
        before, after = since, probe
        while after - before > 1:
            middle = (before + after) // 2
            if _offset(time_zone, middle) == offset:
                before = middle
            else:
                after = middle
        changes.append(after)
        since, offset = after, _offset(time_zone, after)
    return changes
