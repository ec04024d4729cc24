"""Reads definitions from plain values: the one reader of declared files and of documents over HTTP.

What a record consists of is said once, by its class: the names, the types that it accepts, its defaults and its checks.
The reader makes values of these types, calls the class, and reports all faults, each at its place. Where a file and a
document differ (`forms`), a `Form` says how. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields
from datetime import datetime, time
from functools import cache
from typing import Any, TypeVar, cast, get_args

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.checks import WRONG, assembled
from quartzpy.cron_expressions.crontab import is_crontab
from quartzpy.definitions.faults import Faults, Place
from quartzpy.definitions.forms import SCHEDULE, STORED_DATA, Form
from quartzpy.errors import InvalidTriggerError, InvalidValueError, SettingsError
from quartzpy.expect import Expect
from quartzpy.instants import accepted_members, accepted_types, as_instant
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP, JobKey
from quartzpy.scheduler.coercion import as_trigger, interval_of
from quartzpy.texts import did_you_mean, quoted
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.registry import stored_schedule, trigger_kind
from quartzpy.triggers.simple import at, every
from quartzpy.triggers.trigger import Trigger

_T = TypeVar("_T")
_EVERY = "every"
RECORDS = (RetryPolicy, RateLimit, Expect, Continuation, Join, MaintenanceWindow)
_INSTANT, _TIME_OF_DAY = "2026-12-24T18:00+01:00", "08:30"


# --- values


@cache
def words_of(cls: type[Any]) -> frozenset[str]:
    """Return the names of the values of a record."""
    own = {value_field.name for value_field in fields(cls) if value_field.init}
    if cls is Continuation:
        return frozenset(own | {"group", STORED_DATA})
    return frozenset(own - {"name"}) if cls is MaintenanceWindow else frozenset(own)


def take_words(values: dict[str, Any], words: Collection[str], faults: Faults, place: Place) -> None:
    """Remove unknown words from a table, and report them."""
    for word in [word for word in values if word not in words]:
        del values[word]
        hint = did_you_mean(str(word), sorted(words), "words")
        faults.add((*place, str(word)), f"{quoted(word)} is not known; {hint}")


def plain_table(declared: object, form: Form, faults: Faults, place: Place) -> dict[str, Any] | None:
    """Return the values of a table; None, and a fault, if it is none."""
    if isinstance(declared, Mapping):
        return dict(declared)
    faults.add(place, f"must be {form.language.table} (got {quoted(declared)})")
    return None


def read_record(cls: type[_T], values: dict[str, Any], form: Form, faults: Faults, place: Place) -> _T | None:
    """Return the record of a table; None if it has faults."""
    take_words(values, words_of(cast(Any, cls)) - form.refused_words, faults, place)
    if cls is Continuation:
        form.read_data(values, faults, place)
        values = _with_key(values)
    elif cls is Join and not isinstance(values.get("jobs", []), list):
        faults.add((*place, "jobs"), f"must be a list of jobs (got {quoted(values.pop('jobs'))})")
        values["jobs"] = MISSING
    converted = {name: _value(cls, name, value, form, faults, (*place, name)) for name, value in values.items()}
    return made(cls, converted, faults, place)


def _with_key(values: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in values.items() if name != "group"}
    return {**others, "job": _Key(values["job"], values.get("group", DEFAULT_GROUP))} if "job" in values else others


class _Key:
    """The parts of the key of a job, which are checked where the record is made."""

    def __init__(self, name: object, group: object) -> None:
        self.name, self.group = name, group


def made(
    cls: type[_T], values: dict[str, Any], faults: Faults, place: Place, renamed: Mapping[str, str] | None = None
) -> _T | None:
    """Return the object of a class with values of the types that it accepts; None if there are faults.

    A value that is `MISSING` has a fault already. `renamed` has the words of the document for values that have other
    names there.
    """
    words = renamed or {}
    for own in fields(cls):  # type: ignore[arg-type]
        if own.init and own.default is MISSING and own.default_factory is MISSING and own.name not in values:
            faults.add(place, f"{own.name} is missing")
            values[own.name] = MISSING
    try:
        return assembled(cls, values)
    except WRONG as error:
        add_refused(error, faults, place, words)
    return None


def add_refused(
    error: BaseException, faults: Faults, place: Place, renamed: Mapping[str, str], elsewhere: Place = ()
) -> None:
    """Add what a class has refused: each value at its place, and all else at `elsewhere` within the place."""
    for name, each in _refused_by(error):
        word = renamed.get(name, name)
        faults.add((*place, word) if word else (*place, *elsewhere), each)


def _refused_by(error: BaseException) -> Iterable[tuple[str, BaseException]]:
    """Return the values that a class has refused, with their errors; the name "" if the error says none."""
    refused = error.refused if isinstance(error, InvalidValueError) else ()
    return refused or (("", error),)


def _value(cls: type[Any], name: str, value: Any, form: Form, faults: Faults, place: Place) -> Any:
    """Return a plain value as one of the types that a class accepts by this name; `MISSING` if it has a fault."""
    accepted = accepted_types(cast(Any, cls))[name]
    record = next((each for each in RECORDS if each in accepted), None)
    if isinstance(value, Mapping) and record is not None:
        return _or_missing(read_record(record, dict(value), form, faults, place))
    try:
        if isinstance(value, _Key):
            return JobKey(value.name, value.group)  # type: ignore[arg-type]
        if datetime in accepted and isinstance(value, str):
            return _read_text(datetime, value, name, _INSTANT)
        if time in accepted and str not in accepted and isinstance(value, str):
            return _read_text(time, value, name, _TIME_OF_DAY)
    except WRONG as error:
        faults.add(place, error)
        return MISSING
    if Trigger in accepted:
        return _or_missing(read_trigger(value, DEFAULT_GROUP, form, faults, place))
    if record is Join and value is not None:
        jobs = _items(accepted, value, form, faults, place) if isinstance(value, list) else value
        return _or_missing(made(Join, {"jobs": jobs}, faults, place, {"jobs": ""}))
    if isinstance(value, list) and any(map(get_args, accepted)):
        items = _items(accepted, value, form, faults, place)
        return tuple(items) if isinstance(items, list) and issubclass(cls, Trigger) else items
    return value


_ITEMS = frozenset({Trigger, Continuation, JobKey})
"""The types of items that are read from tables."""


def _items(accepted: Collection[Any], items: list[Any], form: Form, faults: Faults, place: Place) -> Any:
    arguments = [argument for hint in accepted for argument in get_args(hint)]
    of_items = {part for argument in arguments for part in accepted_members(argument)} & _ITEMS
    read = [_item(of_items, item, form, faults, (*place, number)) for number, item in enumerate(items)]
    return MISSING if MISSING in read else read


def _item(accepted: AbstractSet[Any], item: Any, form: Form, faults: Faults, place: Place) -> Any:
    if Trigger in accepted:
        return _or_missing(read_trigger(item, DEFAULT_GROUP, form, faults, place))
    if not accepted or isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        faults.add(place, f"must be the name of a job or {form.language.table} (got {quoted(item)})")
        return MISSING
    if Continuation in accepted:
        return _or_missing(read_record(Continuation, dict(item), form, faults, place))
    values = dict(item)
    take_words(values, ("job", "group"), faults, place)
    try:
        return JobKey(values.get("job", ""), values.get("group", DEFAULT_GROUP))
    except WRONG as error:
        faults.add((*place, "job"), error)
    return MISSING


def _or_missing(value: object) -> Any:
    return MISSING if value is None else value


def _read_text(kind: type[Any], text: str, word: str, example: str) -> Any:
    try:
        return kind.fromisoformat(text.strip())
    except ValueError:
        raise InvalidTriggerError(f"{word}: must be written as {example} (got {quoted(text)})") from None


# --- jobs


def read_job(values: dict[str, Any], key: JobKey, form: Form, faults: Faults, place: Place) -> JobDetail | None:
    """Return the job of a table, from which name and group were taken; None if it has faults."""
    number = len(faults.entries)
    take_words(values, form.job_words, faults, place)
    job_type = form.type_of(values.pop("type", None), faults, place)
    form.read_data(values, faults, place)
    converted = {name: _value(JobDetail, name, value, form, faults, (*place, name)) for name, value in values.items()}
    if job_type is not None:
        form.complete(converted, job_type, faults, place)
    job = made(
        JobDetail, {**converted, "job": job_type or "unknown", "name": key.name, "group": key.group}, faults, place
    )
    if job is not None and job_type is not None:
        for within, problem in form.data_problems(job):
            faults.add((*place, "data", *within), problem)
    return job if len(faults.entries) == number else None


# --- triggers


def read_trigger(declared: object, group: str, form: Form, faults: Faults, place: Place) -> Trigger | None:
    """Return the trigger of a table, a cron text, an interval ("every 10s") or an instant; None if it has faults.

    Without a group of its own, the trigger of a table belongs to `group`.
    """
    try:
        if isinstance(declared, str):
            return trigger_of_text(declared)
        if isinstance(declared, datetime):
            return at(as_instant(declared, "trigger"))
    except WRONG as error:
        faults.add(place, error)
        return None
    if not isinstance(declared, Mapping):
        faults.add(place, f"must be a text or {form.language.table} (got {quoted(declared)})")
        return None
    return read_trigger_table(declared, group, form, faults, place)


def trigger_of_text(text: str) -> Trigger:
    """Return the trigger of a cron text, an interval ("every 10s") or an instant. Raises InvalidValueError."""
    span = interval_of(text)
    if span is not None:
        return every(span)
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        return as_trigger(text)
    return at(as_instant(instant, "trigger"))


def kind_and_values(declared: Mapping[str, Any]) -> tuple[type[Trigger], dict[str, Any]]:
    """Return the class of the trigger of a table, and the values without the words that choose it.

    Raises:
        SettingsError: words contradict each other. UnsupportedKindError: there is no such kind.
    """
    values = dict(declared)
    if _EVERY in values:
        if "interval" in values or "kind" in values:
            raise SettingsError(f"{_EVERY} is the interval of a trigger of the kind simple; give no other")
        values |= {"kind": "simple", "interval": values.pop(_EVERY)}
    elif "interval" in values and "unit" not in values:
        values.setdefault("kind", "simple")
    if "cron" in values:
        # Windows have this word; a trigger may have it, too.
        if "expression" in values:
            raise SettingsError("cron and expression are the same; give one of them")
        values["expression"] = values.pop("cron")
    return trigger_kind(str(values.pop("kind", "cron"))), values


@cache
def trigger_words(kind: type[Trigger], *, is_stored: bool) -> frozenset[str]:
    """Return the words of the table of a trigger; `is_stored` if its schedule is given as it is stored."""
    own = {value_field.name for value_field in fields(kind)} - {"job_key", "rescheduled_from"}
    common = {value_field.name for value_field in fields(Trigger)} | {"name", "group"}
    return frozenset((own & common if is_stored else own) | {SCHEDULE, STORED_DATA})


def read_trigger_table(
    declared: Mapping[str, Any], group: str, form: Form, faults: Faults, place: Place
) -> Trigger | None:
    """Return the trigger of a table; None if it has faults."""
    number = len(faults.entries)
    renamed = {own: word for word, own in ((_EVERY, "interval"), ("cron", "expression")) if word in declared}
    try:
        kind, values = kind_and_values(declared)
    except WRONG as error:
        faults.add((*place, "kind") if "kind" in declared else place, error)
        return None
    stored = values.pop(SCHEDULE, None)
    take_words(values, trigger_words(kind, is_stored=stored is not None) - form.refused_words, faults, place)
    if stored is not None and not isinstance(stored, Mapping):
        try:
            stored = form.stored_schedule(stored)
        except WRONG as error:
            faults.add((*place, SCHEDULE), error)
            return None
    form.read_data(values, faults, place)
    if kind is CronTrigger and is_crontab(str(values.get("expression"))):
        values.setdefault("dialect", "crontab")
    converted = {
        word: _value(kind, word, value, form, faults, (*place, renamed.get(word, word)))
        for word, value in {"group": group, **values}.items()
    }
    if stored is None:
        trigger = made(kind, converted, faults, place, renamed)
    else:
        trigger = _of_schedule(kind, stored, converted, faults, place)
    return trigger if len(faults.entries) == number else None


def _of_schedule(
    kind: type[Trigger], stored: Mapping[str, Any], values: dict[str, Any], faults: Faults, place: Place
) -> Trigger | None:
    common = {name: value for name, value in values.items() if value is not MISSING}
    try:
        return stored_schedule(kind.kind, stored, **common)
    except WRONG as error:
        for name, each in _refused_by(error):
            faults.add((*place, name if name in common else SCHEDULE), each)
    return None


# --- windows


def read_window(name: object, declared: object, form: Form, faults: Faults, place: Place) -> MaintenanceWindow | None:
    """Return the maintenance window of a table; None if it has faults."""
    values = plain_table(declared, form, faults, place)
    if values is None:
        return None
    take_words(values, words_of(MaintenanceWindow), faults, place)
    converted = {
        word: _value(MaintenanceWindow, word, value, form, faults, (*place, word)) for word, value in values.items()
    }
    return made(MaintenanceWindow, {**converted, "name": name}, faults, place, {"name": ""})
