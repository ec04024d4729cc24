"""Definitions as JSON documents: what programs in other languages send, and what they read back.

A document has the words of a declared file (see `declarations`). Dates and times are texts, and job data is the JSON in
which it is stored. Reading a document reports all of its faults at once, each with its place as a JSON pointer. It
imports nothing: job types are those that nodes have published. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, fields, replace
from datetime import date, datetime, time
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.errors import InvalidCronError, InvalidDefinitionError, InvalidJobDataError, InvalidValueError
from quartzpy.expect import Expect
from quartzpy.job_data import INTERNAL_KEYS, decode, encode, values_of_classes
from quartzpy.jobs import typed_data
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.function_arguments import ARGS, KWARGS, arguments_of
from quartzpy.jobs.internal_entries import without_trace
from quartzpy.jobs.job import Job, JobDetail, JobTypes
from quartzpy.jobs.join import ON, Join, On
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.jobs.type_facts import TypeFacts
from quartzpy.keys import DEFAULT_GROUP, UNSCHEDULED_GROUPS, JobKey, TriggerKey, check_name
from quartzpy.scheduler.coercion import bind
from quartzpy.scheduler.declarations import (
    CONTINUATION_WORDS,
    EXPECT_WORDS,
    JOB_WORDS,
    JOIN_WORDS,
    RATE_LIMIT_WORDS,
    RETRY_WORDS,
    SCHEDULE,
    SCHEDULE_WORDS,
    STORED_DATA,
    WINDOW_WORDS,
    kind_and_values,
    read_join,
    read_trigger,
    read_window,
    trigger_of,
    trigger_words,
)
from quartzpy.scheduler.exporting import definition_of, plain_value
from quartzpy.scheduler.sync import Declarations
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import did_you_mean, quoted, reason
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash

Place: TypeAlias = tuple[str | int, ...]
"""The names and numbers that lead from the document to one of its values."""
_T = TypeVar("_T")

MOST_FAULTS = 100
"""The number of faults after which the rest of a document is not read."""
MOST_DEFINED = 10_000
"""The largest number of jobs and triggers of one document."""
MOST_NESTED = 64
BATCH_WORDS = frozenset({"on", "triggers"})
_UNKNOWN_TYPE = "unknown"
_SAMPLES: Mapping[str, Any] = {
    "expression": "* * * * *",
    "rule": "FREQ=DAILY",
    "delay": "1m",
    "interval": 1,
    "unit": "day",
    "limit": 1,
    "job": "job",
}
"""Values that stand in for wrong ones which a class needs, while its other values are checked."""
_WRONG = (
    InvalidValueError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
)
"""What the constructors of jobs and triggers raise for values from outside."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document."""

    pointer: str
    """Its place, as a JSON pointer (RFC 6901). Of a value that is missing, the object that lacks it."""
    detail: str
    error: str = ""
    """The name of the error that the value alone raises; empty if none does."""
    field: str | None = None
    """Of a wrong cron expression: the field."""
    position: int | None = None
    """Of a wrong cron expression: the character, from 0."""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


def pointer_to(place: Place) -> str:
    """Return a place as a JSON pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)


class Faults:
    """The faults of one document."""

    def __init__(self) -> None:
        self.entries: list[Fault] = []

    def add(self, place: Place, problem: str | BaseException) -> None:
        """Add a fault at a place.

        Raises:
            InvalidDefinitionError: these are as many faults as are reported.
        """
        detail = problem if isinstance(problem, str) else str(problem) or type(problem).__name__
        error = "" if isinstance(problem, str) else type(problem).__name__
        fault = Fault(pointer_to(place), detail, error)
        if isinstance(problem, InvalidCronError):
            fault = replace(fault, field=problem.field, position=problem.position)
        if fault not in self.entries:
            self.entries.append(fault)
        if len(self.entries) >= MOST_FAULTS:
            self.check()

    def check(self) -> None:
        """Raise an error if there are faults.

        Raises:
            InvalidDefinitionError: there are; the error has all of them.
        """
        if self.entries:
            first, *others = self.entries
            more = f" (and {len(others)} more)" if others else ""
            raise InvalidDefinitionError(f"{first}{more}", self.entries)


class Within(Faults):
    """The faults of a part of a document, which are those of the document."""

    def __init__(self, document: Faults, place: Place) -> None:
        self.entries = document.entries
        self._document, self._place = document, place

    def add(self, place: Place, problem: str | BaseException) -> None:
        """Add a fault at a place within the part; raises as `Faults.add`."""
        self._document.add((*self._place, *place), problem)


@dataclass(frozen=True, slots=True)
class PublishedTypes:
    """The job types that running nodes have published, and those of them that this process has imported."""

    facts: Mapping[str, TypeFacts | None]
    """None for a type of which a node has published no more than the name."""
    imported: JobTypes

    def class_of(self, name: str) -> type[Job] | None:
        return self.imported.class_of(name) if name in self.facts else None

    def data_problems(self, job: JobDetail, trigger: Trigger | None = None) -> Iterator[tuple[Place, str]]:
        """Yield what is wrong with the data with which a job is called by a trigger, and where in the data it is.

        Without a trigger, entries may be missing, because triggers may add them.
        """
        data = {**(job.data or {}), **((trigger.data if trigger else None) or {})}
        job_class = self.class_of(job.job_type)
        if job_class is None:
            facts = self.facts.get(job.job_type)
            if facts is not None:
                for problem in facts.problems(data, is_complete=trigger is not None, reads=job.concurrency_key):
                    yield (), f"the data does not fit {job.job_type}: {problem}"
            return
        arguments = arguments_of(job_class) if job_class.data_type is None else None
        try:
            if job_class.data_type is not None and trigger is None:
                typed_data.refuse_unknown(job_class.data_type, data, job.job_type)
            elif job_class.data_type is not None:
                typed_data.build(job_class.data_type, data, job.job_type)
            elif arguments is not None:
                arguments.check(data, is_complete=trigger is not None, reads=job.concurrency_key)
        except InvalidJobDataError as error:
            yield from _of_model(error) or [((), str(error))]


def _of_model(error: InvalidJobDataError) -> list[tuple[Place, str]]:
    """Return the faults that a model like pydantic's lists in its own error; none if it is another error."""
    listed = getattr(error.__cause__, "errors", None)
    if not callable(listed):
        return []
    return [(tuple(fault["loc"]), str(fault["msg"])) for fault in listed()]


# --- documents of what is stored


def job_document(job: JobDetail) -> dict[str, Any]:
    """Return the document of a job. It does not depend on what this process has imported.

    Of a job that persists its data, the document has none: executions change it.
    """
    named = replace(job, job=job.job_type)
    values = {"name": job.name, "group": job.group, **definition_of(named)}
    values.pop("durable", None)
    if not job.durable:
        values["durable"] = False
    if job.concurrency_key is not None and job.max_concurrent is None:
        values["disallow_concurrent"] = job.disallow_concurrent
    if job.continuations:
        values["continuations"] = [
            {
                "job": continuation.key.name,
                "group": continuation.key.group,
                "outcomes": [str(outcome) for outcome in continuation.outcomes],
                **_data_of(continuation.data),
            }
            for continuation in job.continuations
        ]
    return values if job.persist_data else {**values, **_data_of(job.data)}


def trigger_document(record: TriggerRecord) -> dict[str, Any]:
    """Return the document of a trigger, as it was declared: without a start time if it had none."""
    trigger = record.trigger
    if record.schedule_hash is not None and trigger.start_time is not None:
        unbound = replace(trigger, start_time=None)
        trigger = unbound if schedule_hash(unbound) == record.schedule_hash else trigger
    return document_of_declared(trigger)


def document_of_declared(trigger: Trigger) -> dict[str, Any]:
    """Return the document that declares this trigger, which has a job."""
    assert trigger.job_key is not None
    job = {"name": trigger.job_key.name, "group": trigger.job_key.group}
    common: dict[str, Any] = {"name": trigger.name, "group": trigger.group, "job": job, "kind": trigger.kind}
    shared = {value_field.name for value_field in fields(Trigger)}
    own: dict[str, Any] = {}
    for value_field in fields(trigger):
        value = getattr(trigger, value_field.name)
        if value_field.name not in {*common, "job_key", "data", "rescheduled_from"} and value != value_field.default:
            own[value_field.name] = _json_of(plain_value(value))
    own = {name: value for name, value in own.items() if value is not None}
    data = _data_of(trigger.data)
    brief = {name: value for name, value in own.items() if name != "dialect"}
    for values in (brief, own):
        if _reads_back({**common, **values}, trigger):
            return {**common, **values, **data}
    shared_values = {name: value for name, value in own.items() if name in shared}
    return {**common, SCHEDULE: trigger.schedule(), **shared_values, **data}


def calendar_document(calendar: BaseCalendar) -> dict[str, Any]:
    """Return the document of a calendar. Raises InvalidCalendarError if it cannot be stored."""
    return calendar_to_json(calendar)


def _json_of(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [_json_of(part) for part in value]
    return value


def _data_of(data: Mapping[str, Any] | None) -> dict[str, Any]:
    text = encode(without_trace(data or {}))
    return {} if text is None else {"data": json.loads(text)}


def _reads_back(values: Mapping[str, Any], trigger: Trigger) -> bool:
    try:
        json.dumps(values)
        faults = Faults()
        read = read_trigger_document(values, trigger.key, faults)
    except (TypeError, InvalidValueError):
        return False
    return not faults.entries and read == replace(trigger, data=None)


# --- reading


def check_nesting(document: object) -> None:
    """Refuse a document that is nested deeper than any definition.

    Raises:
        InvalidValueError: it is.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise InvalidValueError(f"body: nested deeper than {MOST_NESTED}")
        parts = [list(value.values()) if isinstance(value, Mapping) else value for value in level]
        level = [inner for part in parts if isinstance(part, list) for inner in part]


def read_job_document(
    document: object, key: JobKey, types: PublishedTypes, faults: Faults, stored_data: Mapping[str, Any] | None = None
) -> JobDetail | None:
    """Return the job of a document; None if it has faults, which are added to `faults`.

    `stored_data` is data of the same job that need not be read again if the document has exactly that.
    """
    if not isinstance(document, Mapping):
        faults.add((), f"must be an object (got {quoted(document)})")
        return None
    values = dict(document)
    _check_name(values, key, faults)
    return _job(values, key, types, faults, (), _Stored(stored_data))


def _job(
    values: dict[str, Any], key: JobKey, types: PublishedTypes, faults: Faults, place: Place, form: _Form
) -> JobDetail | None:
    number = len(faults.entries)
    _take_words(values, form.job_words, faults, place)
    job_type = _type_of(values.pop("type", None), types, faults, place)
    form.read_data(values, faults, place)
    for word, cls, words, needed in (
        ("retry", RetryPolicy, RETRY_WORDS, ()),
        ("rate_limit", RateLimit, RATE_LIMIT_WORDS, ("limit",)),
        ("expect", Expect, EXPECT_WORDS, ()),
    ):
        if isinstance(values.get(word), Mapping):
            inner = dict(values.pop(word))
            _take_words(inner, words, faults, (*place, word))
            values[word] = _built(faults, (*place, word), cls, inner, needed)
    if isinstance(values.get("continuations"), list):
        values["continuations"] = [
            _continuation(declared, faults, (*place, "continuations", position), form)
            for position, declared in enumerate(values["continuations"])
        ]
        if None in values["continuations"]:
            del values["continuations"]
    if "after" in values:
        join = _after(values.pop("after"), faults, (*place, "after"))
        if join is not None:
            values["after"] = join
    form.complete(values, job_type, types, faults, place)
    job_class = types.class_of(job_type)
    job = _built(faults, place, lambda **own: JobDetail(job_class or job_type, key.name, key.group, **own), values)
    if job is not None and job_type != _UNKNOWN_TYPE:
        for within, problem in types.data_problems(job):
            faults.add((*place, "data", *within), problem)
    return job if len(faults.entries) == number else None


def read_trigger_document(
    document: object, key: TriggerKey, faults: Faults, stored_data: Mapping[str, Any] | None = None
) -> Trigger | None:
    """Return the trigger of a document; None if it has faults. Its job is that of the same key unless it names one."""
    if not isinstance(document, Mapping):
        faults.add((), f"must be an object (got {quoted(document)})")
        return None
    if key.group in UNSCHEDULED_GROUPS:
        faults.add((), f"the triggers of the group {key.group} are made by the scheduler; choose another group")
        return None
    values = dict(document)
    _check_name(values, key, faults)
    job_key = _job_key(values.pop("job", None), key, faults)
    values = _with_schedule_text(values, faults)
    trigger = _trigger(values, key.group, faults, (), _Stored(stored_data))
    if trigger is None or job_key is None:
        return None
    return replace(trigger, name=key.name, group=key.group, job_key=job_key)


def read_batch_document(document: object, name: str, faults: Faults) -> tuple[On, list[Trigger]] | None:
    """Return the ends for which the job of a batch runs, and its triggers; None if the document has faults.

    A trigger without a name is named after the batch, and one without a schedule fires at once.
    """
    if not isinstance(document, Mapping):
        faults.add((), f"must be an object (got {quoted(document)})")
        return None
    values = dict(document)
    _take_words(values, BATCH_WORDS, faults, ())
    on, declared = values.get("on", "end"), values.get("triggers")
    if on not in ON:
        faults.add(("on",), f"must be one of {', '.join(ON)} (got {quoted(on)})")
    if not isinstance(declared, list) or not declared:
        faults.add(("triggers",), "must be a list of at least one trigger")
        return None
    if len(declared) > MOST_DEFINED:
        faults.add(("triggers",), f"has {len(declared):,} triggers; one batch takes at most {MOST_DEFINED:,}")
        return None
    triggers = [
        _trigger_of_batch(each, f"{name}-{n}", Within(faults, ("triggers", n - 1)))
        for n, each in enumerate(declared, start=1)
    ]
    if None in triggers or on not in ON:
        return None
    return on, [trigger for trigger in triggers if trigger is not None]


def _trigger_of_batch(declared: object, name: str, faults: Within) -> Trigger | None:
    if not isinstance(declared, Mapping):
        faults.add((), f"must be an object (got {quoted(declared)})")
        return None
    values = dict(declared)
    try:
        key = TriggerKey(values.pop("name", name), values.pop("group", DEFAULT_GROUP))
    except _WRONG as error:
        faults.add(("name",), error)
        return None
    if "job" not in values:
        faults.add((), "job is missing: the job that the trigger fires, as an object with name and group")
        return None
    if not values.keys() & {SCHEDULE, "kind", "expression", "every", "interval"}:
        values["kind"] = SimpleTrigger.kind
    trigger = read_trigger_document(values, key, faults)
    if trigger is not None and (not isinstance(trigger, SimpleTrigger) or trigger.repeat_count != 0):
        faults.add((), "a trigger of a batch must fire exactly once")
        return None
    return trigger


def _with_schedule_text(values: dict[str, Any], faults: Faults) -> dict[str, Any]:
    """Return the values with a schedule that is a text, as `reschedule` takes it, in the words of its kind."""
    text = values.get(SCHEDULE)
    if not isinstance(text, str):
        return values
    del values[SCHEDULE]
    try:
        written = read_trigger(text, DEFAULT_GROUP)
    except _WRONG as error:
        faults.add((SCHEDULE,), error)
        return {**values, "expression": _SAMPLES["expression"]} if "kind" not in values else values
    words = ("expression", "interval", "start_time") if values.get("kind") in (None, written.kind) else ()
    own = {word: getattr(written, word, None) for word in words}
    meant = {"kind": written.kind, **{word: plain_value(value) for word, value in own.items() if value}}
    for word in sorted(meant.keys() & values.keys() - {"kind"}):
        faults.add((word,), f"{SCHEDULE} says this already; give one of them")
    if not words:
        faults.add(("kind",), f"{SCHEDULE} is of the kind {written.kind}; leave kind out")
    return {**values, **meant}


def _trigger(values: Mapping[str, Any], group: str, faults: Faults, place: Place, form: _Form) -> Trigger | None:
    number = len(faults.entries)
    is_interval = "every" in values
    try:
        kind, values = kind_and_values(values, "trigger")
    except _WRONG as error:
        faults.add((*place, "kind") if "kind" in values else place, error)
        return None
    stored = values.get(SCHEDULE)
    _take_words(values, trigger_words(kind, is_stored=stored is not None) - form.refused_words, faults, place)
    if stored is not None and not isinstance(stored, Mapping):
        try:
            values[SCHEDULE] = form.stored_schedule(stored)
        except _WRONG as error:
            faults.add((*place, SCHEDULE), error)
            return None
    form.read_data(values, faults, place)

    def build(**own: Any) -> Trigger:
        return trigger_of(kind, own.pop(SCHEDULE, None), own)

    trigger = _built(
        faults,
        place,
        build,
        {"group": group, **values},
        _needed(kind, is_stored=stored is not None),
        {"interval": "every"} if is_interval else {},
    )
    return trigger if len(faults.entries) == number else None


def read_calendar_document(document: object, faults: Faults, place: Place = ()) -> BaseCalendar | None:
    """Return the calendar of a document; None if it has faults. Its class is one that this process has imported."""
    if not isinstance(document, Mapping):
        faults.add(place, f"must be an object (got {quoted(document)})")
        return None
    for within in values_of_classes(document):
        faults.add((*place, *within), "values of Python classes cannot be sent")
        return None
    try:
        return calendar_from_json(document)
    except _WRONG as error:
        word = next((word for word in document if str(error).startswith(word)), None)
        faults.add(place if word is None else (*place, word), error)
        return None


def read_declarations(document: object, types: PublishedTypes) -> Declarations:
    """Return what a document declares, which has the form of a declared file.

    Raises:
        InvalidDefinitionError: it has faults.
    """
    faults = Faults()
    if not isinstance(document, Mapping):
        faults.add((), f"must be an object with job, calendar and window (got {quoted(document)})")
        faults.check()
    assert isinstance(document, Mapping)
    whole = dict(document)
    _take_words(whole, {"job", "calendar", "window"}, faults, ())
    if not whole:
        faults.add((), "declares no job; if that is intended, write an empty list for job")
    jobs, calendars = whole.get("job", []), whole.get("calendar", {})
    is_single = isinstance(jobs, Mapping)
    jobs = [jobs] if is_single else jobs
    if not isinstance(jobs, list):
        faults.add(("job",), f"must be a list of jobs (got {quoted(jobs)})")
        jobs = []
    if not isinstance(calendars, Mapping):
        faults.add(("calendar",), f"must be an object of calendars by their names (got {quoted(calendars)})")
        calendars = {}
    windows = whole.get("window", {})
    if not isinstance(windows, Mapping):
        faults.add(("window",), f"must be an object of maintenance windows by their names (got {quoted(windows)})")
        windows = {}
    _check_number(jobs, calendars, windows, faults)
    pairs = [
        _pair(declared, types, faults, ("job",) if is_single else ("job", number))
        for number, declared in enumerate(jobs)
    ]
    named = {str(name): _plain_calendar(table, faults, ("calendar", name)) for name, table in calendars.items()}
    made_windows = [_window(name, table, faults, ("window", str(name))) for name, table in windows.items()]
    faults.check()
    return Declarations(
        [pair for pair in pairs if pair is not None],
        {name: calendar for name, calendar in named.items() if calendar is not None},
        [window for window in made_windows if window is not None],
    )


def _window(name: object, table: object, faults: Faults, place: Place) -> MaintenanceWindow | None:
    if not isinstance(table, Mapping):
        faults.add(place, f"must be an object (got {quoted(table)})")
        return None
    values = dict(table)
    _take_words(values, WINDOW_WORDS, faults, place)
    try:
        return read_window(check_name(name, "window"), values)
    except InvalidCronError as error:
        faults.add((*place, "cron"), error)
    except _WRONG as error:
        word = next((word for word in values if str(error).startswith(f"{word}:")), None)
        faults.add(place if word is None else (*place, word), error)
    return None


def _check_number(jobs: list[Any], calendars: Mapping[Any, Any], windows: Mapping[Any, Any], faults: Faults) -> None:
    number = len(jobs) + len(calendars) + len(windows)
    for declared in jobs:
        triggers = declared.get("trigger") if isinstance(declared, Mapping) else None
        number += len(triggers) if isinstance(triggers, list) else 1
    if number > MOST_DEFINED:
        faults.add(
            (),
            f"declares {number:,} jobs, triggers, calendars and windows; one request takes at most"
            f" {MOST_DEFINED:,}: send several, each with an owner of its own, or use quartzpy apply",
        )
        faults.check()


def _pair(
    declared: object, types: PublishedTypes, faults: Faults, place: Place
) -> tuple[JobDetail, list[Trigger]] | None:
    if not isinstance(declared, Mapping):
        faults.add(place, f"must be an object (got {quoted(declared)})")
        return None
    values = dict(declared)
    for word in sorted(SCHEDULE_WORDS & values.keys()):
        faults.add((*place, word), f"{quoted(word)} is not known; a schedule is the value of trigger")
        del values[word]
    triggers = values.pop("trigger", [])
    is_single = isinstance(triggers, str | Mapping | datetime)
    triggers = [triggers] if is_single else triggers
    name, group = values.pop("name", None), values.pop("group", DEFAULT_GROUP)
    try:
        key = JobKey(name, group)
    except _WRONG as error:
        faults.add((*place, "name"), "is missing" if name is None else error)
        key = JobKey("job")
    job = _job(values, key, types, faults, place, _DECLARED)
    if not isinstance(triggers, list):
        faults.add((*place, "trigger"), f"must be a trigger or a list of them (got {quoted(triggers)})")
        return None
    read = [
        _declared_trigger(trigger, key.group, faults, (*place, "trigger") if is_single else (*place, "trigger", number))
        for number, trigger in enumerate(triggers)
    ]
    if job is None or None in read:
        return None
    try:
        bound = bind([trigger for trigger in read if trigger is not None], key)
    except _WRONG as error:
        faults.add((*place, "trigger"), error)
        return None
    for number, trigger in enumerate(bound):
        at = (*place, "trigger") if is_single else (*place, "trigger", number)
        for within, problem in types.data_problems(job, trigger):
            faults.add((*at, "data", *within) if trigger.data else at, problem)
        if trigger.group in UNSCHEDULED_GROUPS:
            faults.add((*at, "group"), f"the triggers of the group {trigger.group} are made by the scheduler")
        if trigger.follows_end and job.max_concurrent != 1:
            faults.add(at, follows_end_problem(trigger, job))
    if not bound and not job.durable:
        faults.add(place, f"job {key} has no trigger and is not durable: it would be deleted at once")
    return job, bound


def follows_end_problem(trigger: Trigger, job: JobDetail) -> str:
    """Return why a trigger that counts from the end of an execution does not fit a job."""
    return (
        f"{trigger.kind} counts from the end of an execution; job {job.key} must disallow concurrent execution"
        " (disallow_concurrent: true)"
    )


def _declared_trigger(declared: object, group: str, faults: Faults, place: Place) -> Trigger | None:
    if isinstance(declared, Mapping):
        return _trigger(declared, group, faults, place, _DECLARED)
    try:
        return read_trigger(declared, group, "trigger")
    except _WRONG as error:
        faults.add(place, error)
        return None


def _plain_calendar(table: object, faults: Faults, place: Place) -> BaseCalendar | None:
    """Return a calendar of a file. YAML has dates, which documents have as texts."""
    return read_calendar_document(_without_dates(table), faults, place)


def _without_dates(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return [_without_dates(item) for item in value]
        case Mapping():
            return {str(name): _without_dates(item) for name, item in value.items()}
    return value


# --- the parts of documents


class _Form:
    """How the two forms of documents differ: one definition by itself, and a declared file."""

    job_words: AbstractSet[str]
    refused_words: AbstractSet[str] = frozenset()

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        """Replace the data among the values by what is stored."""
        raise NotImplementedError

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        """Return the schedule of a trigger that is not an object."""
        raise InvalidValueError(f"must be a text or an object (got {quoted(written)})")

    def complete(
        self, values: dict[str, Any], job_type: str, types: PublishedTypes, faults: Faults, place: Place
    ) -> None:
        """Add what follows from the type of a job, where this process has not imported it."""
        if types.class_of(job_type) is not None or job_type == _UNKNOWN_TYPE:
            return
        facts = types.facts[job_type]
        # A key alone is a limit of one, and with a rate it is none.
        has_limit = "max_concurrent" in values or ("concurrency_key" in values and "rate_limit" not in values)
        if not has_limit:
            disallows = None if facts is None else facts.disallows_concurrent
            self._complete(values, "disallow_concurrent", disallows, faults, place)
        persists = None if facts is None else facts.persists_data
        self._complete(values, "persist_data", persists, faults, place)

    @staticmethod
    def _complete(values: dict[str, Any], word: str, of_type: bool | None, faults: Faults, place: Place) -> None:
        if of_type is None and word not in values:
            faults.add(place, f"{word} is missing: no node has published what the decorators of the job type say")
        elif values.get(word) is None:
            values[word] = of_type


class _Stored(_Form):
    """A document of its own, whose data is the JSON in which it is stored."""

    job_words = JOB_WORDS - {"trigger", ARGS, KWARGS, STORED_DATA}
    refused_words = frozenset({STORED_DATA})

    def __init__(self, data: Mapping[str, Any] | None) -> None:
        self._data = data

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        if values.get("data") is None:
            values.pop("data", None)
            return
        written = values.pop("data")
        if self._data and _data_of(self._data).get("data") == written:
            # What is stored may have values of classes that this process has not imported, or must not make anew.
            values["data"] = self._data
            return
        data = _checked_data(written, faults, (*place, "data"))
        if data:
            values["data"] = data

    def complete(
        self, values: dict[str, Any], job_type: str, types: PublishedTypes, faults: Faults, place: Place
    ) -> None:
        # A job is stored before its triggers.
        values.setdefault("durable", True)
        super().complete(values, job_type, types, faults, place)


class _Declared(_Form):
    """A part of a declared file, with data as the file has it, or as the text in which it is stored."""

    job_words = JOB_WORDS - {"trigger"}

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        if isinstance(values.get(STORED_DATA), str):
            try:
                written = json.loads(values.pop(STORED_DATA))
            except (ValueError, RecursionError) as error:
                faults.add((*place, STORED_DATA), f"must be JSON: {reason(error)}")
                return
            if "data" in values:
                faults.add((*place, STORED_DATA), "is the same as data; give one of them")
            values["data"] = _checked_data(written, faults, (*place, STORED_DATA))
            return
        arguments = {word: values.pop(word) for word in (ARGS, KWARGS) if word in values}
        data = values.get("data")
        if data is not None and not isinstance(data, Mapping):
            faults.add((*place, "data"), f"must be an object (got {quoted(data)})")
            del values["data"]
        elif arguments:
            values["data"] = {ARGS: [], KWARGS: {}, **arguments, **(data or {})}
        _refuse_internal(data, faults, (*place, "data"))

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        read = json.loads(written) if isinstance(written, str) else written
        return read if isinstance(read, Mapping) else super().stored_schedule(written)


_DECLARED = _Declared()


def _checked_data(written: object, faults: Faults, place: Place) -> dict[str, Any]:
    """Return job data from the JSON in which it is stored. It must not make values of the program's classes."""
    if not isinstance(written, Mapping):
        faults.add(place, f"must be an object (got {quoted(written)})")
        return {}
    _refuse_internal(written, faults, place)
    number = len(faults.entries)
    for key, item in written.items():
        for within in values_of_classes(item, (key,)):
            faults.add(
                (*place, *within),
                "values of Python classes cannot be sent; send plain values, of which the data type of the job is made",
            )
    if len(faults.entries) > number:
        return {}
    try:
        return decode(json.dumps(written))
    except _WRONG as error:
        faults.add(place, error)
        return {}


def _refuse_internal(data: object, faults: Faults, place: Place) -> None:
    if isinstance(data, Mapping):
        for name in sorted(INTERNAL_KEYS & data.keys()):
            faults.add((*place, name), "is an entry that the scheduler itself writes")


def _check_name(values: dict[str, Any], key: JobKey | TriggerKey, faults: Faults) -> None:
    """Take the name and the group from a document, which must be those of its address if it has them."""
    for word in ("name", "group"):
        if values.pop(word, getattr(key, word)) != getattr(key, word):
            faults.add((word,), f"must be {quoted(getattr(key, word))}, as in the address; leave it out")


def _type_of(name: object, types: PublishedTypes, faults: Faults, place: Place) -> str:
    if isinstance(name, str) and name in types.facts:
        return name
    if name is None:
        faults.add(place, "type is missing: the name of a job type that a running node has published")
    elif not types.facts:
        faults.add((*place, "type"), f"no running node has published the job type {quoted(name)}, or any other")
    else:
        few = types.facts if len(types.facts) <= 10 else [*sorted(types.facts)[:10], "..."]
        hint = did_you_mean(str(name), types.facts, "types")
        hint = hint if hint.startswith("did") else f"the types are {', '.join(few)}"
        faults.add((*place, "type"), f"no running node has published the job type {quoted(name)}; {hint}")
    return _UNKNOWN_TYPE


def _job_key(written: object, key: TriggerKey, faults: Faults) -> JobKey | None:
    if written is None:
        return JobKey(key.name, key.group)
    if not isinstance(written, Mapping) or "name" not in written or written.keys() - {"name", "group"}:
        faults.add(("job",), f'must be an object {{"name": ..., "group": ...}} (got {quoted(written)})')
        return None
    try:
        return JobKey(written["name"], written.get("group", DEFAULT_GROUP))
    except _WRONG as error:
        faults.add(("job",), error)
        return None


def _continuation(declared: object, faults: Faults, place: Place, form: _Form) -> Continuation | str | None:
    if isinstance(declared, str):
        return declared
    if not isinstance(declared, Mapping):
        faults.add(place, f"must be the name of a job or an object (got {quoted(declared)})")
        return None
    values = dict(declared)
    _take_words(values, CONTINUATION_WORDS - form.refused_words, faults, place)
    form.read_data(values, faults, place)

    def build(job: Any = "", group: Any = DEFAULT_GROUP, **own: Any) -> Continuation:
        return Continuation(JobKey(job, group), **own)

    return _built(faults, place, build, values, {"job"})


def _after(declared: object, faults: Faults, place: Place) -> Join | None:
    if declared is None:
        return None
    values = dict(declared) if isinstance(declared, Mapping) else {"jobs": declared}
    _take_words(values, JOIN_WORDS, faults, place)
    if not isinstance(values.get("jobs", []), list):
        faults.add((*place, "jobs"), f"must be a list of jobs (got {quoted(values['jobs'])})")
        return None
    try:
        return read_join(values)
    except _WRONG as error:
        faults.add(place, error if isinstance(error, InvalidValueError) else reason(error))
        return None


def _take_words(values: dict[str, Any], words: Collection[str], faults: Faults, place: Place) -> None:
    """Remove unknown words from a table, and report them."""
    for word in [word for word in values if word not in words]:
        del values[word]
        faults.add(
            (*place, str(word)), f"{quoted(word)} is not known; {did_you_mean(str(word), sorted(words), 'words')}"
        )


def _needed(kind: type[Trigger], *, is_stored: bool) -> Collection[str]:
    if is_stored:
        return ()
    return [own.name for own in fields(kind) if own.default is MISSING and own.default_factory is MISSING and own.init]


def _built(
    faults: Faults,
    place: Place,
    build: Callable[..., _T],
    values: Mapping[str, Any],
    needed: Collection[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> _T | None:
    """Call a constructor, and report all values that it refuses. Return None if it refuses any.

    A constructor raises an error for the first value that is wrong. Therefore the wrong value is left out, or replaced
    by a right one if it is needed, and the constructor is called again. `renamed` has the words of the document for
    values that have other names there.
    """
    remaining = dict(values)
    missing = [name for name in needed if name not in remaining and name in _SAMPLES]
    for name in missing:
        faults.add(place, f"{name} is missing")
        remaining[name] = _SAMPLES[name]
    is_faulty = bool(missing)
    for _ in range(len(values) + 1):
        try:
            made = build(**remaining)
        except _WRONG as error:
            is_faulty = True
            word = _culprit(build, remaining, error)
            faults.add(
                place if word is None else (*place, renamed.get(word, word)),
                error if isinstance(error, InvalidValueError) else reason(error),
            )
            if word is None or word == SCHEDULE:
                return None
            if word in needed and word in _SAMPLES and remaining[word] != _SAMPLES[word]:
                remaining[word] = _SAMPLES[word]
                remaining.pop("dialect", None)
            else:
                del remaining[word]
        else:
            return None if is_faulty else made
    return None


def _culprit(build: Callable[..., Any], values: Mapping[str, Any], error: BaseException) -> str | None:
    """Return the name of the value that a constructor refuses; None if it is not one alone."""
    if isinstance(error, InvalidCronError) and "expression" in values:
        return "expression"
    text = str(error)
    # Of a policy, the message begins with its name: "retry: attempts must be from 2 to 1000".
    within = text.partition(": ")[2]
    named = [word for word in values if any(part.startswith((f"{word}:", f"{word} ")) for part in (text, within))]
    if named:
        return max(named, key=len)
    for word in values:
        try:
            build(**{name: value for name, value in values.items() if name != word})
        except _WRONG as other:
            if str(other) != text and not isinstance(other, TypeError):
                return word
        else:
            return word
    return SCHEDULE if SCHEDULE in values else None
