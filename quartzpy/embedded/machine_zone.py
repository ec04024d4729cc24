"""The time zone of this machine, in all the ways in which a machine names it. It is never guessed."""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from quartzpy.errors import SettingsError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.texts import quoted
from quartzpy.zone_names import meant, offset_text, posix_offset, preferred, zone_names

_LOCALTIME = Path("etc/localtime")
# Files that hold the name alone, and files of variables of which one holds it.
_NAME_FILES = (Path("etc/timezone"), Path("etc/TZ"))
_VARIABLE_FILES = (Path("etc/sysconfig/clock"), Path("etc/conf.d/clock"))
_VARIABLE = re.compile(r"^\s*(?:ZONE|TIMEZONE|TIME_ZONE)\s*=\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
_SAY_IT = "write time_zone: Europe/Berlin into the file, or give --time-zone Europe/Berlin"
_MAX_LINKS = 8
# Two zones that agree at all of these are the same for whoever schedules today.
_SAMPLES = tuple(datetime(year, month, 15, tzinfo=UTC) for year in range(2000, 2038) for month in range(1, 13))


@dataclass(frozen=True, slots=True)
class MachineZone:
    """The name of a zone, and what named it."""

    name: str
    source: str


def zone_of_machine(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> MachineZone:
    """Return the time zone of this machine: that of TZ if it is set, and otherwise that of the files in /etc.

    Raises:
        SettingsError: it is unknown; the message says what was read, and how to name the zone.
    """
    text = (os.environ if environ is None else environ).get("TZ")
    if text is not None:
        return _of_variable(text, root)
    without_name = []
    for path in (_LOCALTIME, *_NAME_FILES, *_VARIABLE_FILES):
        shown = f"/{path}"
        if not os.path.lexists(root / path):
            continue
        name = _of_file(root / path, root)
        if name is not None:
            return MachineZone(name, shown)
        without_name.append(shown)
    read = f"{', '.join(without_name)} names no zone" if without_name else "there is neither TZ nor /etc/localtime"
    raise SettingsError(f"the time zone of this machine is unknown ({read}): {_SAY_IT}")


def _of_variable(text: str, root: Path) -> MachineZone:
    source = f"TZ={quoted(text)}"
    typed = text.strip().removeprefix(":")
    if not typed:
        # So says POSIX, and so do the programs of this machine.
        return MachineZone("UTC", "TZ, which is empty")
    if typed.startswith("/"):
        path = root / typed.lstrip("/")
        name = (_name_in(typed) or _of_file(path, root)) if os.path.lexists(path) or _name_in(typed) else None
    else:
        name = _accepted(typed.removeprefix("posix/").removeprefix("right/"))
        if name is None and (offset := posix_offset(typed)) is not None:
            name = offset_text(offset) if offset else "UTC"
    if name is None:
        hint = "" if typed.startswith("/") else f"; {meant(typed)}"
        raise SettingsError(f"the time zone of this machine is unknown: {source} names no zone{hint}: {_SAY_IT}")
    return MachineZone(name, source)


def _accepted(name: str) -> str | None:
    """Return a name if it is that of a zone."""
    try:
        zone(name)
    except UnknownTimeZoneError:
        return None
    return name


def _name_in(path: str) -> str | None:
    """Return the zone that a path into a zone directory names."""
    _, separator, name = path.partition("zoneinfo/")
    return _accepted(name.removeprefix("posix/").removeprefix("right/")) if separator else None


def _of_file(path: Path, root: Path) -> str | None:
    """Return the zone that a file or a link stands for."""
    for step in _links(path, root):
        if (name := _name_in(str(step))) is not None:
            return name
        path = step
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if content.startswith(b"TZif"):
        return _with_rules_of(path, root)
    text = content.decode("utf-8-sig", errors="replace")
    named = _VARIABLE.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    candidate = named[1] if named else lines[0] if len(lines) == 1 else ""
    return _accepted(candidate) if candidate else None


def _links(path: Path, root: Path) -> Iterator[Path]:
    """Follow links one by one: an early one may name the zone, and the last one an alias of it."""
    for _ in range(_MAX_LINKS):
        try:
            target = os.readlink(path)
        except OSError:
            return
        path = root / target.lstrip("/") if target.startswith("/") else path.parent / target
        yield path


def _with_rules_of(path: Path, root: Path) -> str | None:
    """Return the zone of which a file is a copy; of several that are alike the one that another file names."""
    try:
        with path.open("rb") as file:
            copied = zoneinfo.ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return None
    alike = []
    for name in zone_names():
        there = zoneinfo.ZoneInfo(name)
        if all(_shown(at, there) == _shown(at, copied) for at in _SAMPLES):
            alike.append(name)
    for other in (*_NAME_FILES, *_VARIABLE_FILES):
        named = _of_file(root / other, root) if (root / other).is_file() else None
        if named in alike:
            return named
    return preferred(alike)


def _shown(at: datetime, place: zoneinfo.ZoneInfo) -> tuple[object, str | None]:
    local = at.astimezone(place)
    return local.utcoffset(), local.tzname()
