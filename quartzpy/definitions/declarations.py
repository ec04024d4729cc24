"""Reads what a whole file declares, of any form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.registry import calendar_from_json
from quartzpy.checks import WRONG
from quartzpy.definitions.calendars import is_made_of_others, read_calendar
from quartzpy.definitions.faults import Faults, Place
from quartzpy.definitions.forms import FileForm, Form
from quartzpy.definitions.reader import add_refused, plain_table, read_job, read_trigger, read_window, take_words
from quartzpy.errors import InvalidValueError
from quartzpy.job_data import values_of_classes
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import DEFAULT_GROUP, UNSCHEDULED_GROUPS, JobKey, check_name
from quartzpy.scheduler.coercion import bind
from quartzpy.scheduler.sync import Declarations
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger

MAX_DEFINED = 10_000
"""The largest number of jobs and triggers of one request."""
SCHEDULE_WORDS = {"every", "cron", "crontab", "interval", "schedule", "at", "expression", "triggers"}
"""What users write in the table of a job where the schedule belongs into its trigger."""
_WORDS_OF_A_JOB = {"type", "name", "trigger"}


def read_declarations(document: object, form: Form, faults: Faults) -> Declarations:
    """Return what a document declares.

    Raises:
        InvalidDefinitionError: it has faults, which are those of `faults`.
    """
    language = form.language
    whole = plain_table(document, form, faults, ())
    faults.check()
    assert whole is not None
    if not whole:
        # An empty file is more often an accident than an intent to have no jobs.
        faults.add((), f"declares no job; if that is intended, write {language.no_jobs}")
    take_words(whole, ("job", "calendar", "window"), faults, ())
    jobs = whole.get("job", [])
    is_single = isinstance(jobs, Mapping) and not _WORDS_OF_A_JOB.isdisjoint(jobs)
    jobs = [jobs] if is_single else jobs
    if not isinstance(jobs, list):
        faults.add(("job",), f"job is {language.jobs} (got {quoted(jobs)})")
        jobs = []
    jobs = with_own_groups(jobs)
    named: dict[str, Mapping[Any, Any]] = {}
    for kind in ("calendar", "window"):
        tables = whole.get(kind, {})
        if not isinstance(tables, Mapping):
            faults.add((kind,), f"{kind} is {language.calendars.format(kind)} (got {quoted(tables)})")
            tables = {}
        named[kind] = tables
    if not isinstance(form, FileForm):
        _check_number(jobs, named, faults)
    pairs = [
        _pair(declared, form, faults, ("job",) if is_single else ("job", number))
        for number, declared in enumerate(jobs)
    ]
    calendars = {name: _calendar(name, table, form, faults) for name, table in named["calendar"].items()}
    windows = [read_window(name, table, form, faults, ("window", name)) for name, table in named["window"].items()]
    faults.check()
    return Declarations(
        [pair for pair in pairs if pair is not None],
        {str(name): calendar for name, calendar in calendars.items() if calendar is not None},
        [window for window in windows if window is not None],
    )


def with_own_groups(jobs: list[Any]) -> list[Any]:
    """Return the tables of jobs in which a name of `after` and `continuations` is that of a job of the own group.

    A name without a group is that of the declared job in the group of the job that has it, if there is one, and
    otherwise of the group DEFAULT.
    """
    tables = [job for job in jobs if isinstance(job, Mapping)]
    declared = {(str(job.get("group", DEFAULT_GROUP)), str(job.get("name"))) for job in tables}

    def resolved(entry: Any, group: str) -> Any:
        if isinstance(entry, str) and (group, entry) in declared:
            return {"job": entry, "group": group}
        if isinstance(entry, Mapping) and "group" not in entry and (group, entry.get("job")) in declared:
            return {**entry, "group": group}
        return entry

    def resolved_in(entries: Any, group: str) -> Any:
        return [resolved(entry, group) for entry in entries] if isinstance(entries, list) else entries

    def of_job(job: Any) -> Any:
        if not isinstance(job, Mapping) or job.get("group", DEFAULT_GROUP) == DEFAULT_GROUP:
            return job
        group, values = str(job["group"]), dict(job)
        if "continuations" in values:
            values["continuations"] = resolved_in(values["continuations"], group)
        after = values.get("after")
        if isinstance(after, Mapping) and "jobs" in after:
            values["after"] = {**after, "jobs": resolved_in(after["jobs"], group)}
        elif isinstance(after, str):
            values["after"] = resolved_in([after], group)
        elif after is not None:
            values["after"] = resolved_in(after, group)
        return values

    return [of_job(job) for job in jobs]


def _check_number(jobs: list[Any], named: Mapping[str, Mapping[Any, Any]], faults: Faults) -> None:
    number = len(jobs) + sum(map(len, named.values()))
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


def _pair(declared: object, form: Form, faults: Faults, place: Place) -> tuple[JobDetail, list[Trigger]] | None:
    values = plain_table(declared, form, faults, place)
    if values is None:
        return None
    for word in sorted(SCHEDULE_WORDS & values.keys()):
        faults.add((*place, word), f"{quoted(word)} is not known; a schedule is {form.language.schedule}")
        del values[word]
    triggers = values.pop("trigger", [])
    name, group = values.pop("name", None), values.pop("group", DEFAULT_GROUP)
    key = _key(name, group, faults, place)
    job = read_job(values, key or JobKey("job"), form, faults, place)
    is_single = not isinstance(triggers, list)
    if is_single and not isinstance(triggers, str | Mapping | datetime):
        faults.add((*place, "trigger"), f"trigger is {form.language.triggers} (got {quoted(triggers)})")
        return None
    places = [(*place, "trigger")] if is_single else [(*place, "trigger", n) for n in range(len(triggers))]
    written = [triggers] if is_single else triggers
    of_group = DEFAULT_GROUP if key is None else key.group
    read = [read_trigger(each, of_group, form, faults, at) for each, at in zip(written, places, strict=True)]
    if job is None or key is None or None in read:
        return None
    try:
        bound = bind([trigger for trigger in read if trigger is not None], key)
    except WRONG as error:
        faults.add((*place, "trigger"), error)
        return None
    if not isinstance(form, FileForm):
        _check_sent(job, list(zip(bound, places, strict=True)), form, faults, place)
    return job, bound


def _key(name: object, group: object, faults: Faults, place: Place) -> JobKey | None:
    if name is None:
        faults.add((*place, "name"), "name is missing")
        return None
    try:
        return JobKey(name, group)  # type: ignore[arg-type]
    except WRONG as error:
        faults.add((*place, "name"), error)
    return None


def _check_sent(
    job: JobDetail, triggers: list[tuple[Trigger, Place]], form: Form, faults: Faults, place: Place
) -> None:
    """Check what the scheduler checks of a file when it is stored, where it has no pointers."""
    for trigger, at in triggers:
        for within, problem in form.data_problems(job, trigger):
            faults.add((*at, "data", *within) if trigger.data else at, problem)
        if trigger.group in UNSCHEDULED_GROUPS:
            faults.add((*at, "group"), f"the triggers of the group {trigger.group} are made by the scheduler")
        if trigger.follows_end and job.max_concurrent != 1:
            faults.add(at, follows_end_problem(trigger, job))
    if not triggers and not job.durable:
        faults.add(place, f"job {job.key} has no trigger and is not durable: it would be deleted at once")


def follows_end_problem(trigger: Trigger, job: JobDetail) -> str:
    """Return why a trigger that counts from the end of an execution does not fit a job."""
    return (
        f"{trigger.kind} counts from the end of an execution; job {job.key} must disallow concurrent execution"
        " (disallow_concurrent: true)"
    )


def _calendar(name: object, table: object, form: Form, faults: Faults) -> BaseCalendar | None:
    place = ("calendar", str(name))
    try:
        check_name(name, "calendar name")
        if isinstance(form, FileForm) or is_made_of_others(table):
            return read_calendar(table, f"calendar {quoted(name)}")
    except InvalidValueError as error:
        faults.add(place, error)
        return None
    return read_sent_calendar(_without_dates(table), form, faults, place)


def read_sent_calendar(document: object, form: Form, faults: Faults, place: Place = ()) -> BaseCalendar | None:
    """Return the calendar of a document; None if it has faults. Its class is one that this process has imported."""
    values = plain_table(document, form, faults, place)
    if values is None:
        return None
    for within in values_of_classes(values):
        faults.add((*place, *within), "values of Python classes cannot be sent")
        return None
    try:
        return calendar_from_json(values)
    except WRONG as error:
        add_refused(error, faults, place, {})
    return None


def _without_dates(value: Any) -> Any:
    """Return the value in the types of JSON: YAML has dates, which documents have as texts."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return [_without_dates(item) for item in value]
        case Mapping():
            return {str(name): _without_dates(item) for name, item in value.items()}
    return value
