"""The names of time zones: which of them are zones, and what a text that is none probably means.

A text such as "UTC+2" or "CEST" is answered by its meaning, with the offset and with zones that use it, and never with
a name that merely looks alike.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
"""Files of the zone directory that are no zones of a place."""
_COPIES = ("posix/", "right/")
_MAX_COMPARED = 64
_SHOWN = 3
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+\-\u2212])\s*([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_POSIX = re.compile(
    r"([A-Za-z]{3,10}|<[A-Za-z0-9+-]{3,10}>)([+-]?[0-9]{1,2})(?::([0-9]{2}))?((?:[A-Za-z]{3,10}|<[A-Za-z0-9+-]{3,10}>).*)?"
)
_LARGEST = timedelta(hours=18)
# The zones that are shown first, because most people live there.
_WELL_KNOWN = (
    "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Athens", "Europe/Moscow", "Europe/Istanbul",
    "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Sao_Paulo",
    "Asia/Dubai", "Asia/Karachi", "Asia/Kolkata", "Asia/Dhaka", "Asia/Jakarta", "Asia/Shanghai", "Asia/Tokyo",
    "Asia/Jerusalem", "Australia/Sydney", "Pacific/Auckland", "Africa/Lagos", "Africa/Johannesburg", "Europe/Dublin",
)  # fmt: skip
# Winter and summer of both hemispheres.
_SAMPLES = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC))


def is_zone_name(name: str) -> bool:
    """Return False for the files of the zone directory that can be read as a zone and are none, or copies of zones."""
    return name not in NO_ZONES and not name.startswith(_COPIES)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones. Cached, because it walks through the directories of the time zone database."""
    return frozenset(name for name in zoneinfo.available_timezones() if is_zone_name(name))


def offset_text(offset: timedelta) -> str:
    """Return an offset from UTC as it is written as a zone: "+02:00"."""
    minutes = abs(offset) // timedelta(minutes=1)
    return f"{'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"


def posix_offset(text: str) -> timedelta | None:
    """Return the offset of a POSIX string without summer time, such as "UTC0" or "<+0530>-5:30"; None for others.

    POSIX counts west of Greenwich: "CET-1" is one hour ahead of UTC.
    """
    match = _POSIX.fullmatch(text)
    if match is None or match[4]:
        return None
    hours = int(match[2])
    offset = timedelta(hours=abs(hours), minutes=int(match[3] or 0))
    offset = offset if match[2].startswith("-") else -offset
    return offset if abs(offset) <= _LARGEST else None


def meant(text: str) -> str:
    """Return what to write in place of a text that names no zone, as the end of an error."""
    generic = "use an IANA name such as 'Europe/Berlin', or an offset such as '+02:00'"
    text = text.strip()
    if not text or len(text) > _MAX_COMPARED:
        return generic
    if text.upper() == "Z":
        return _of_offset(timedelta())
    match = _OFFSET.fullmatch(text)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return generic if offset > _LARGEST else _of_offset(offset if match[1] == "+" else -offset)
    by_case = {name.lower(): name for name in zone_names()}
    whole = text.replace(" ", "_").lower()
    for copy in _COPIES:
        whole = whole.removeprefix(copy)
    if whole in by_case:
        return f"did you mean {by_case[whole]!r}?"
    offsets = _abbreviations().get(text.upper())
    if offsets:
        return _of_abbreviation(text.upper(), offsets)
    fixed = posix_offset(text)
    if fixed is not None:
        return _of_offset(fixed)
    posix = _POSIX.fullmatch(text)
    if posix is not None and (offsets := _abbreviations().get(posix[1].upper())):
        return _of_abbreviation(posix[1].upper(), offsets)
    cities = [name for name in _in_order(zone_names()) if name.rpartition("/")[2].lower() == whole.rpartition("/")[2]]
    if cities:
        return f"did you mean {cities[0]!r}?"
    # Letters say something only where a place is named.
    near = difflib.get_close_matches(text, sorted(zone_names()), n=1, cutoff=0.75) if "/" in text else ()
    return f"did you mean {near[0]!r}?" if near else generic


def preferred(names: Iterable[str]) -> str | None:
    """Return the one of several names that most people would use; None if there is none."""
    return next(iter(_in_order(names)), None)


def _of_offset(offset: timedelta) -> str:
    written = offset_text(offset)
    if not offset:
        written = "UTC"
    zones = sorted({name for each in _by_offset().get(offset, {}).values() for name in each}, key=_rank)[:_SHOWN]
    use = f", or a zone that uses it, such as {_listed(zones)}" if zones else ""
    return f"write {written!r} for the offset{use}"


def _of_abbreviation(abbreviation: str, offsets: dict[timedelta, set[str]]) -> str:
    parts = []
    for offset, names in sorted(offsets.items(), key=lambda item: min(map(_rank, item[1])))[:_SHOWN]:
        parts.append(f"{offset_text(offset)} ({_listed(_in_order(names)[:_SHOWN])})")
    return (
        f"{abbreviation} is an abbreviation of {' or '.join(parts)}; write the zone, whose summer time is followed, or"
        " the offset"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _rank(name: str) -> tuple[int, int, str]:
    place = _WELL_KNOWN.index(name) if name in _WELL_KNOWN else len(_WELL_KNOWN)
    return place, 0 if "/" in name and not name.startswith("Etc/") else 1, name


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=_rank)


@lru_cache(maxsize=1)
def _by_offset() -> dict[timedelta, dict[str, set[str]]]:
    """Return the abbreviations in use at each offset from UTC, with the zones that use them."""
    used: dict[timedelta, dict[str, set[str]]] = {}
    for name in zone_names():
        if name.startswith("Etc/") or "/" not in name:
            continue
        there = zoneinfo.ZoneInfo(name)
        for sample in _SAMPLES:
            local = sample.astimezone(there)
            offset, abbreviation = local.utcoffset(), local.tzname()
            if offset is not None and abbreviation is not None:
                used.setdefault(offset, {}).setdefault(abbreviation, set()).add(name)
    return used


@lru_cache(maxsize=1)
def _abbreviations() -> dict[str, dict[timedelta, set[str]]]:
    """Return the offsets that each abbreviation stands for, with the zones that use it."""
    offsets: dict[str, dict[timedelta, set[str]]] = {}
    for offset, abbreviations in _by_offset().items():
        for abbreviation, names in abbreviations.items():
            if abbreviation[:1].isalpha():
                offsets.setdefault(abbreviation, {}).setdefault(offset, set()).update(names)
    return offsets
