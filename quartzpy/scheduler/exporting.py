"""Writes what is stored as a file of declarations, which `declarations` reads back.

Pure functions.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import QuartzpyError
from quartzpy.expect import Expect
from quartzpy.job_data import encode
from quartzpy.jobs.continuation import Continuation, as_continuations
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.scheduler.declarations import (
    SCHEDULE,
    STORED_DATA,
    calendar_table,
    read_trigger,
    rules_in,
    with_stored_rules,
)
from quartzpy.triggers.trigger import Trigger

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_JOB_FIELDS = [field.name for field in fields(JobDetail) if field.name not in ("job", "name", "group", "data")]
_INTERNAL = {"job_key", "rescheduled_from", "data"}
_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000))
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


def definition_of(job: JobDetail) -> dict[str, Any]:
    """Return the values of a job as a file declares them, without its data and without those that are the defaults."""
    is_loaded = isinstance(job.job, type)
    plain = JobDetail(job.job, job.name, job.group)
    values: dict[str, Any] = {"type": job.job_type, "name": job.name}
    if job.group != DEFAULT_GROUP:
        values["group"] = job.group
    for name in _JOB_FIELDS:
        value = getattr(job, name)
        if value != getattr(plain, name) or (not is_loaded and name in ("disallow_concurrent", "persist_data")):
            values[name] = value
    # The two express one limit; the flag alone can say that there is none.
    if values.get("max_concurrent") is not None or job.concurrency_key is not None:
        values.pop("disallow_concurrent", None)
    return {name: plain_value(value) for name, value in values.items() if value is not None}


def window_table(window: MaintenanceWindow) -> dict[str, Any]:
    """Return the values of a maintenance window as a file declares them, without those that are the defaults."""
    return {
        value_field.name: plain_value(value)
        for value_field in fields(window)
        if value_field.name != "name" and (value := getattr(window, value_field.name)) != _default(value_field)
    }


def _job_values(job: JobDetail) -> dict[str, Any]:
    return definition_of(job) | _data(job.data)


def _trigger_values(trigger: Trigger) -> dict[str, Any]:
    """Return the values of a trigger by the parameters of its class, or where these lose something, as it is stored."""
    common = {"kind": trigger.kind, "name": trigger.name, "group": trigger.group}
    own = {
        value_field.name: plain_value(getattr(trigger, value_field.name))
        for value_field in fields(trigger)
        if value_field.name not in {*_INTERNAL, *common} and getattr(trigger, value_field.name) != _default(value_field)
    }
    data = _data(trigger.data)
    values = {**common, **{name: value for name, value in own.items() if value is not None}, **data}
    # The dialect of an expression follows from its fields, unless it was named against them.
    brief = {name: value for name, value in values.items() if name != "dialect"}
    for table in (brief, values):
        if _reads_back(table, trigger):
            return table
    shared = {value_field.name for value_field in fields(Trigger)}
    common_values = {name: value for name, value in values.items() if name in {*shared, *common, *data}}
    return {**common_values, SCHEDULE: json.dumps(trigger.schedule())}


def _default(field: Field[Any]) -> Any:
    """Return the default of a field; for one without, a value that equals no other."""
    return field.default


def _reads_back(values: Mapping[str, Any], trigger: Trigger) -> bool:
    """Return True if a file with these values declares this trigger."""
    try:
        read = read_trigger(tomllib.loads("\n".join(_entries(values))), DEFAULT_GROUP)
    except (QuartzpyError, TypeError, ValueError):
        return False
    same_data = (read.data or None) == (trigger.data or None)
    return same_data and trigger.job_key is not None and read.bound_to(trigger.job_key) == trigger


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


def plain_value(value: Any) -> Any:
    """Return a value of a job or trigger in the types of TOML."""
    match value:
        case Enum():
            return value.value
        case Expect():
            # Files and JSON have wall times as texts alike.
            return {
                value_field.name: own.isoformat() if isinstance(own, time) else plain_value(own)
                for value_field in fields(value)
                if (own := getattr(value, value_field.name)) != _default(value_field)
            }
        case RetryPolicy() | RateLimit():
            return {
                value_field.name: plain_value(getattr(value, value_field.name))
                for value_field in fields(value)
                if getattr(value, value_field.name) != _default(value_field)
            }
        case Continuation():
            return _continuation(value)
        case Join():
            return _join(value)
        case type():
            return f"{value.__module__}:{value.__qualname__}"
        case frozenset() | set():
            return sorted(plain_value(part) for part in value)
        case tuple() | list():
            return [plain_value(part) for part in value]
        case timedelta():
            return span_text(value)
    return value


def _continuation(continuation: Continuation) -> dict[str, Any] | str:
    if continuation == as_continuations([continuation.key])[0] and continuation.key.group == DEFAULT_GROUP:
        return continuation.key.name
    values: dict[str, Any] = {
        "job": continuation.key.name,
        "group": continuation.key.group,
        "outcomes": [str(o) for o in continuation.outcomes],
    }
    return values | _data(continuation.data)


def _join(join: Join) -> dict[str, Any] | list[Any]:
    jobs = [key.name if key.group == DEFAULT_GROUP else {"job": key.name, "group": key.group} for key in join.keys]
    others = {
        own.name: span_text(value) if isinstance(value := getattr(join, own.name), timedelta) else value
        for own in fields(Join)
        if own.name != "jobs" and getattr(join, own.name) != own.default
    }
    return {"jobs": jobs, **others} if others else jobs


def span_text(span: timedelta) -> str:
    """Return a span exactly, in the longest unit of which it is a multiple: "90s", "2h", "1500ms"."""
    microseconds = span // timedelta(microseconds=1)
    for unit, size in _UNITS:
        if microseconds % size == 0 and (microseconds or unit == "s"):
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"


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
