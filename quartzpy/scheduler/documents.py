"""Reading definitions that programs in other languages send as JSON documents.

A document has the words of a declared file (see `declarations`). Dates and times are texts, and job data is the JSON in
which it is stored. Reading a document reports all of its faults at once, each with its place as a JSON pointer. It
imports nothing: job types are those that nodes have published. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, replace
from datetime import date, datetime, time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.calendars.registry import calendar_from_json
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.expect import Expect
from quartzpy.job_data import values_of_classes
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import ON, Join, On
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP, UNSCHEDULED_GROUPS, JobKey, TriggerKey, check_name
from quartzpy.scheduler.coercion import bind
from quartzpy.scheduler.declarations import (
    CONTINUATION_WORDS,
    EXPECT_WORDS,
    JOIN_WORDS,
    RATE_LIMIT_WORDS,
    RETRY_WORDS,
    SCHEDULE,
    SCHEDULE_WORDS,
    WINDOW_WORDS,
    is_made_of_others,
    kind_and_values,
    read_calendar,
    read_join,
    read_trigger,
    read_window,
    trigger_of,
    trigger_words,
    with_own_groups,
)
from quartzpy.scheduler.document_faults import Faults, Place, Within
from quartzpy.scheduler.document_forms import DECLARED, UNKNOWN_TYPE, Form, StoredForm
from quartzpy.scheduler.document_values import SAMPLES, WRONG, built
from quartzpy.scheduler.exporting import plain_value
from quartzpy.scheduler.published_types import PublishedTypes
from quartzpy.scheduler.sync import Declarations
from quartzpy.texts import did_you_mean, quoted, reason
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

MAX_DEFINED = 10_000
"""The largest number of jobs and triggers of one document."""
MAX_NESTED = 64
BATCH_WORDS = frozenset({"on", "triggers"})


def check_nesting(document: object) -> None:
    """Refuse a document that is nested deeper than any definition.

    Raises:
        InvalidValueError: it is.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > MAX_NESTED:
            raise InvalidValueError(f"body: nested deeper than {MAX_NESTED}")
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
    return _job(values, key, types, faults, (), StoredForm(stored_data))


def _job(
    values: dict[str, Any], key: JobKey, types: PublishedTypes, faults: Faults, place: Place, form: Form
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
            values[word] = built(faults, (*place, word), cls, inner, needed)
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
    job = built(faults, place, lambda **own: JobDetail(job_class or job_type, key.name, key.group, **own), values)
    if job is not None and job_type != UNKNOWN_TYPE:
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
    trigger = _trigger(values, key.group, faults, (), StoredForm(stored_data))
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
    if len(declared) > MAX_DEFINED:
        faults.add(("triggers",), f"has {len(declared):,} triggers; one batch takes at most {MAX_DEFINED:,}")
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
    except WRONG as error:
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
    except WRONG as error:
        faults.add((SCHEDULE,), error)
        return {**values, "expression": SAMPLES["expression"]} if "kind" not in values else values
    words = ("expression", "interval", "start_time") if values.get("kind") in (None, written.kind) else ()
    own = {word: getattr(written, word, None) for word in words}
    meant = {"kind": written.kind, **{word: plain_value(value) for word, value in own.items() if value}}
    for word in sorted(meant.keys() & values.keys() - {"kind"}):
        faults.add((word,), f"{SCHEDULE} says this already; give one of them")
    if not words:
        faults.add(("kind",), f"{SCHEDULE} is of the kind {written.kind}; leave kind out")
    return {**values, **meant}


def _trigger(values: Mapping[str, Any], group: str, faults: Faults, place: Place, form: Form) -> Trigger | None:
    number = len(faults.entries)
    renamed = {own: word for word, own in (("every", "interval"), ("cron", "expression")) if word in values}
    try:
        kind, values = kind_and_values(values, "trigger")
    except WRONG as error:
        faults.add((*place, "kind") if "kind" in values else place, error)
        return None
    stored = values.get(SCHEDULE)
    _take_words(values, trigger_words(kind, is_stored=stored is not None) - form.refused_words, faults, place)
    if stored is not None and not isinstance(stored, Mapping):
        try:
            values[SCHEDULE] = form.stored_schedule(stored)
        except WRONG as error:
            faults.add((*place, SCHEDULE), error)
            return None
    form.read_data(values, faults, place)

    def build(**own: Any) -> Trigger:
        return trigger_of(kind, own.pop(SCHEDULE, None), own)

    trigger = built(
        faults,
        place,
        build,
        {"group": group, **values},
        _needed(kind, is_stored=stored is not None),
        renamed,
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
    except WRONG as error:
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
    jobs = with_own_groups(jobs)
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
    except WRONG as error:
        word = next((word for word in values if str(error).startswith(f"{word}:")), None)
        faults.add(place if word is None else (*place, word), error)
    return None


def _check_number(jobs: list[Any], calendars: Mapping[Any, Any], windows: Mapping[Any, Any], faults: Faults) -> None:
    number = len(jobs) + len(calendars) + len(windows)
    for declared in jobs:
        triggers = declared.get("trigger") if isinstance(declared, Mapping) else None
        number += len(triggers) if isinstance(triggers, list) else 1
    if number > MAX_DEFINED:
        faults.add(
            (),
            f"declares {number:,} jobs, triggers, calendars and windows; one request takes at most"
            f" {MAX_DEFINED:,}: send several, each with an owner of its own, or use quartzpy apply",
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
    except WRONG as error:
        faults.add((*place, "name"), "is missing" if name is None else error)
        key = JobKey("job")
    job = _job(values, key, types, faults, place, DECLARED)
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
    except WRONG as error:
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
        return _trigger(declared, group, faults, place, DECLARED)
    try:
        return read_trigger(declared, group, "trigger")
    except WRONG as error:
        faults.add(place, error)
        return None


def _plain_calendar(table: object, faults: Faults, place: Place) -> BaseCalendar | None:
    """Return a calendar of a file. YAML has dates, which documents have as texts."""
    if is_made_of_others(table):
        try:
            return read_calendar(table, "calendar")
        except InvalidValueError as error:
            faults.add(place, error)
            return None
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
    return UNKNOWN_TYPE


def _job_key(written: object, key: TriggerKey, faults: Faults) -> JobKey | None:
    if written is None:
        return JobKey(key.name, key.group)
    if not isinstance(written, Mapping) or "name" not in written or written.keys() - {"name", "group"}:
        faults.add(("job",), f'must be an object {{"name": ..., "group": ...}} (got {quoted(written)})')
        return None
    try:
        return JobKey(written["name"], written.get("group", DEFAULT_GROUP))
    except WRONG as error:
        faults.add(("job",), error)
        return None


def _continuation(declared: object, faults: Faults, place: Place, form: Form) -> Continuation | str | None:
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

    return built(faults, place, build, values, {"job"})


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
    except WRONG as error:
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
