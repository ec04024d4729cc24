"""Definitions as plain values: what `reader` reads as the same definitions. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.definitions.forms import SCHEDULE
from quartzpy.expect import Expect
from quartzpy.jobs.continuation import Continuation, as_continuations
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.triggers.trigger import Trigger

_JOB_FIELDS = [field.name for field in fields(JobDetail) if field.name not in ("job", "name", "group", "data")]
_NOT_WRITTEN = {"job_key", "rescheduled_from", "data", "name", "group", "kind"}
_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


def _changed(record: Any, left_out: Any = ()) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a record that are not the defaults."""
    for own in fields(record):
        if own.name not in left_out and (value := getattr(record, own.name)) != own.default:
            yield own.name, value


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
    return {name: plain_value(value) for name, value in _changed(window, ("name",))}


def trigger_values(
    trigger: Trigger,
    common: Mapping[str, Any],
    data: Mapping[str, Any],
    *,
    text_of: Callable[[Any], Any],
    schedule_of: Callable[[Mapping[str, Any]], Any],
    reads_back: Callable[[Mapping[str, Any]], bool],
) -> dict[str, Any]:
    """Return the values of a trigger by the parameters of its class, or where these lose something, as it is stored.

    `common` are the values that stand first, and `data` is the entry of its data. `text_of` writes what is plain, and
    `schedule_of` a stored schedule, in the types of the form.
    """
    own = {name: text_of(plain_value(value)) for name, value in _changed(trigger, _NOT_WRITTEN)}
    own = {name: value for name, value in own.items() if value is not None}
    # The dialect of an expression follows from its fields, unless it was named against them.
    brief = {name: value for name, value in own.items() if name != "dialect"}
    for values in (brief, own):
        if reads_back({**common, **values, **data}):
            return {**common, **values, **data}
    shared = {value_field.name for value_field in fields(Trigger)}
    stored = {SCHEDULE: schedule_of(trigger.schedule())}
    return {**common, **{name: value for name, value in own.items() if name in shared}, **data, **stored}


def plain_value(value: Any) -> Any:
    """Return a value of a job or trigger in the types of TOML."""
    match value:
        case Enum():
            return value.value
        case Expect():
            # Files and JSON have wall times as texts alike.
            return {name: text_of_time(plain_value(own)) for name, own in _changed(value)}
        case RetryPolicy() | RateLimit():
            return {name: plain_value(own) for name, own in _changed(value)}
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


def text_of_time(value: Any) -> Any:
    """Return a plain value in the types of JSON, which has no dates and times."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return [text_of_time(part) for part in value]
    return value


def _continuation(continuation: Continuation) -> dict[str, Any] | str:
    """Return a continuation without its data, which each form writes in its own way."""
    if continuation == as_continuations([continuation.key])[0] and continuation.key.group == DEFAULT_GROUP:
        return continuation.key.name
    return continuation_table(continuation)


def continuation_table(continuation: Continuation) -> dict[str, Any]:
    """Return the table of a continuation, without its data."""
    return {
        "job": continuation.key.name,
        "group": continuation.key.group,
        "outcomes": [str(outcome) for outcome in continuation.outcomes],
    }


def _join(join: Join) -> dict[str, Any] | list[Any]:
    jobs = [key.name if key.group == DEFAULT_GROUP else {"job": key.name, "group": key.group} for key in join.keys]
    others = {name: plain_value(value) for name, value in _changed(join, ("jobs",))}
    return {"jobs": jobs, **others} if others else jobs


def span_text(span: timedelta) -> str:
    """Return a span exactly, in the longest unit of which it is a multiple: "90s", "2h", "1500ms"."""
    microseconds = span // timedelta(microseconds=1)
    for unit, size in _UNITS:
        if microseconds % size == 0 and (microseconds or unit == "s"):
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"
