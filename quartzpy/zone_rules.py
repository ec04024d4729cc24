"""The rules of time zones as this process knows them: their version, their offsets, and what another version changes.

Fire times that are computed from a zone are stored. Another release of the time zone data may give them other instants;
the offsets by which they were computed are kept with them, so that each keeps its time on the clock of its zone.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from pathlib import Path

from quartzpy.instants import fixed_offset, zone

UNKNOWN = "unknown"
FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""The span whose offsets are compared. It is the same in all processes."""
_STEP = timedelta(days=7)
"""No zone changes its offset twice within this time."""
_SECOND = timedelta(seconds=1)
_TZID = re.compile(r"TZID=([^:;\s]+)")
_ALWAYS_UTC = frozenset({"UTC", "Etc/UTC", "Z"})


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """The offsets of a zone from UTC, from `FIRST` to `LAST`.

    `changes` are the seconds since the epoch from which on an offset holds, each with that offset in seconds.
    """

    name: str
    version: str
    """The version of the time zone data, for people: the rules of two versions may be the same."""
    changes: tuple[tuple[int, int], ...]

    @property
    def digest(self) -> str:
        """Identifies the offsets."""
        return hashlib.blake2b(self.as_text().encode(), digest_size=8).hexdigest()

    def as_text(self) -> str:
        """Return the changes as JSON."""
        return json.dumps(self.changes, separators=(",", ":"))

    @classmethod
    def from_text(cls, name: str, version: str, text: str) -> ZoneRules:
        """Return the rules of which `as_text` has returned the changes."""
        return cls(name, version, tuple((int(at), int(offset)) for at, offset in json.loads(text)))

    def offset_at(self, instant: datetime) -> timedelta:
        """Return the offset from UTC at an instant."""
        index = bisect_right(self.changes, (int(instant.timestamp()), 10**6)) - 1
        return timedelta(seconds=self.changes[max(index, 0)][1])

    def same_wall_time(self, instant: datetime, other: ZoneRules) -> datetime:
        """Return the instant at which the clock shows by the rules of `other` what it shows by these at `instant`.

        A time that the clock skips is the end of the gap. At the end of a gap of these rules, it is the first time that
        they skip: a fire there may be one of the skipped times.
        """
        offset = self.offset_at(instant)
        if offset > self.offset_at(instant - _SECOND):
            return self.same_wall_time(instant - _SECOND, other) + _SECOND
        wall = instant + offset
        near = wall - other.offset_at(instant)
        exact = wall - other.offset_at(near)
        if exact + other.offset_at(exact) == wall:
            return exact
        index = bisect_right(other.changes, (int(max(near, exact).timestamp()), 10**6)) - 1
        return datetime.fromtimestamp(other.changes[max(index, 0)][0], UTC)


def rules_of(name: str) -> ZoneRules | None:
    """Return the rules of a zone; None where it is always at the same offset by its name, or is not known here."""
    if name in _ALWAYS_UTC:
        return None
    try:
        place = zone(name)
        if fixed_offset(name) is not None:
            return None
    except ValueError:
        return None
    return _rules(name, place)


@lru_cache(maxsize=1024)
def _rules(name: str, place: tzinfo) -> ZoneRules:
    return ZoneRules(name, tzdata_version(), tuple(_changes(place)))


def _changes(place: tzinfo) -> Iterator[tuple[int, int]]:
    at, offset = FIRST, _offset(FIRST, place)
    yield int(at.timestamp()), offset
    while at < LAST:
        following = at + _STEP
        if (then := _offset(following, place)) != offset:
            low, high = int(at.timestamp()), int(following.timestamp())
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(datetime.fromtimestamp(middle, UTC), place) == offset:
                    low = middle
                else:
                    high = middle
            yield high, then
            offset = then
        at = following


def _offset(instant: datetime, place: tzinfo) -> int:
    offset = instant.astimezone(place).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def zones_in(value: object) -> set[str]:
    """Return the names of the zones in the stored form of a trigger's schedule, a calendar or a window."""
    match value:
        case dict():
            named = {value["time_zone"]} if isinstance(value.get("time_zone"), str) else set()
            return named.union(*(zones_in(each) for each in value.values()))
        case list() | tuple():
            return set().union(*(zones_in(each) for each in value))
        case str() if "TZID=" in value:
            return set(_TZID.findall(value))
    return set()


@cache
def tzdata_version() -> str:
    """Return the version of the time zone data of this process: the system's, else the package's.

    Where none is said, it is a digest of the files: "unknown (ab12cd34)".
    """
    for place in map(Path, zoneinfo.TZPATH):
        if (place / "UTC").is_file() or (place / "Europe").is_dir():
            return _version_in(place)
    try:
        return str(importlib.import_module("tzdata").IANA_VERSION)
    except (ImportError, AttributeError):
        return UNKNOWN


def _version_in(place: Path) -> str:
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (place / name).open(encoding="ascii", errors="replace") as file:
                line = file.readline(100)
        except OSError:
            continue
        if version := line.removeprefix("# version ").strip():
            return version
    digest = hashlib.blake2b(digest_size=4)
    try:
        for path in sorted(path for path in place.rglob("*") if path.is_file()):
            digest.update(path.relative_to(place).as_posix().encode())
            digest.update(path.read_bytes())
    except OSError:
        return UNKNOWN
    return f"{UNKNOWN} ({digest.hexdigest()})"
