"""Writes what is stored as a TOML file of declarations, which `files` reads back. Pure functions."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.definitions.calendars import calendar_table, rules_in, with_stored_rules
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.forms import STORED_DATA, TOML, FileForm
from quartzpy.definitions.plain import definition_of, trigger_values, window_table
from quartzpy.definitions.reader import read_trigger
from quartzpy.errors import QuartzpyError
from quartzpy.job_data import encode
from quartzpy.jobs.job import JobDetail, JobTypes
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.triggers.trigger import Trigger

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_INTEGER = 2**63 - 1
_NESTED = 20
"""The depth of data up to which tables are written; TOML readers recurse."""


def exported(
    pairs: Iterable[tuple[JobDetail, Sequence[Trigger]]],
    calendars: Mapping[str, BaseCalendar] | None = None,
    *,
    heading: str = "",
) -> str:
    """Return a TOML file that declares these jobs, triggers and calendars.

    `heading` are comment lines at its beginning.

    Raises:
        InvalidCalendarError: a calendar cannot be stored.
    """
    return "".join(written(pairs, (calendars or {}).items(), heading=heading))


def written(
    pairs: Iterable[tuple[JobDetail, Iterable[Trigger]]],
    calendars: Iterable[tuple[str, BaseCalendar]] = (),
    windows: Iterable[MaintenanceWindow] = (),
    *,
    heading: str = "",
) -> Iterator[str]:
    """Yield the parts of such a file. Each job and trigger is read when its part is asked for, and not kept.

    The calendars and the maintenance windows are read after all jobs, so that they may be those that concern these.

    Raises:
        InvalidCalendarError: a calendar cannot be stored.
    """
    between = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    yield between
    is_empty = True
    for job, triggers in pairs:
        yield _block(between, ["[[job]]", *_entries(_job_values(job))])
        is_empty = False
        between = "\n"
        for trigger in triggers:
            lines = ["[[job.trigger]]", *_entries(_trigger_values(trigger))]
            yield _block(between, (f"  {line}" for line in lines))
    if is_empty:
        between = "job = []\n"
        yield between
    for name, calendar in calendars:
        yield _block(between, [f"[calendar.{_key(name)}]", *_entries(_written_rules(calendar_table(calendar)))])
    for window in windows:
        yield _block(between, [f"[window.{_key(window.name)}]", *_entries(window_table(window))])


def _block(before: str, lines: Iterable[str]) -> str:
    """Return the lines of a table, parted from what stands before it by an empty line."""
    return ("\n" if before else "") + "".join(f"{line}\n" for line in lines)


def _written_rules(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of a calendar and its bases in the types of TOML."""
    values = dict(table) if _is_native(rules_in(table)) else with_stored_rules(table)
    # The base is the last, because it may be long.
    base = values.pop("base", None)
    return values if base is None else {**values, "base": _written_rules(base)}


def _entries(values: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_text(value)}" for name, value in values.items()]


def _job_values(job: JobDetail) -> dict[str, Any]:
    values = definition_of(job)
    if job.continuations:
        values["continuations"] = [
            {**table, **_data(continuation.data)} if isinstance(table, dict) else table
            for table, continuation in zip(values["continuations"], job.continuations, strict=True)
        ]
    return values | _data(job.data)


def _trigger_values(trigger: Trigger) -> dict[str, Any]:
    return trigger_values(
        trigger,
        {"kind": trigger.kind, "name": trigger.name, "group": trigger.group},
        _data(trigger.data),
        text_of=lambda value: value,
        schedule_of=json.dumps,
        reads_back=lambda values: _reads_back(values, trigger),
    )


def _reads_back(values: Mapping[str, Any], trigger: Trigger) -> bool:
    """Return True if a file with these values declares this trigger."""
    try:
        table = tomllib.loads("\n".join(_entries(values)))
        read = read_trigger(table, DEFAULT_GROUP, FileForm(TOML, JobTypes()), Faults(), ())
    except (QuartzpyError, TypeError, ValueError):
        return False
    if read is None or trigger.job_key is None or (read.data or None) != (trigger.data or None):
        return False
    return read.bound_to(trigger.job_key) == trigger


def _data(data: Mapping[str, Any] | None) -> dict[str, Any]:
    if not data:
        return {}
    return {"data": dict(data)} if _is_native(data) else {STORED_DATA: encode(data)}


def _is_native(value: Any, depth: int = 0) -> bool:
    """Return True if TOML has the value, and a reader returns one of the same type."""
    match value:
        case bool():
            return True
        case int():
            return type(value) is int and -_MAX_INTEGER <= value <= _MAX_INTEGER
        case float():
            return type(value) is float and math.isfinite(value)
        case str():
            return type(value) is str
        case dict():
            return depth < _NESTED and all(
                type(key) is str and _is_native(part, depth + 1) for key, part in value.items()
            )
        case list():
            return depth < _NESTED and all(_is_native(part, depth + 1) for part in value)
    return False


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            inner = ", ".join(f"{_key(name)} = {_text(part)}" for name, part in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _string(text: str) -> str:
    # JSON escapes what TOML requires, except for the character DEL. What is invisible, or turns the direction of the
    # text, is escaped as well, so that a file shows what it says.
    written = json.dumps(text, ensure_ascii=False)
    return written if written.isprintable() else "".join(c if c.isprintable() else _escaped(ord(c)) for c in written)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
