"""Converts jobs and triggers from the forms that users pass to `JobDetail` and `Trigger`. Pure functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from quartzpy.cron_expressions.crontab import is_crontab
from quartzpy.errors import InvalidJobError, InvalidJobTypeError, InvalidTriggerError, InvalidValueError
from quartzpy.instants import as_span
from quartzpy.jobs.function_job import JobFunction
from quartzpy.jobs.function_job import job as job_of_function
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.keys import JobKey
from quartzpy.name_hints import TRIGGER_WORDS
from quartzpy.texts import quoted
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import TIME_OF_DAY, at, every, is_time_of_day
from quartzpy.triggers.trigger import Trigger

JobLike: TypeAlias = type[Job] | Callable[..., Any] | JobDetail
"""A job: a `Job` subclass, a function, a coroutine function, a `@job` function, or a `JobDetail`."""
TriggerLike: TypeAlias = Trigger | str | timedelta | datetime
"""A trigger: a `Trigger`, a cron text, an interval, or the instant of a single fire."""

_QUARTZ_FIELDS = (6, 7)
_EVERY = "every "


def as_job_detail(
    job: object, name: str | None, group: str, data: Mapping[str, Any] | Any | None, options: Mapping[str, Any]
) -> JobDetail:
    """Return the `JobDetail` for a job in any of its forms.

    A class or a function without a name takes its name in the program. `options` are those of `JobDetail`, and for a
    function `args` and `kwargs` as well.

    Raises:
        InvalidJobError: `job` has none of the forms, or values are given in addition to a `JobDetail`.
        InvalidJobTypeError: other processes could not import the class or the function.
    """
    if isinstance(job, JobDetail):
        extra = [word for word, value in (("name", name), ("data", data)) if value is not None] + sorted(options)
        if extra:
            raise InvalidJobError(
                f"job {job.key}: {', '.join(extra)} cannot be combined with a JobDetail; pass it to the JobDetail"
            )
        return job
    if isinstance(job, type) and issubclass(job, Job):
        return _detail(job, job.__name__ if name is None else name, group, data=data, **options)
    if inspect.isfunction(job):
        job = job_of_function(job)
    if isinstance(job, JobFunction):
        return _function_detail(job, name, group, data, options)
    if isinstance(job, str):
        raise InvalidJobError(
            f"job: the function or the Job subclass comes first, then the triggers, and the name is given by name:"
            f" schedule_job(report, every('10s'), name={quoted(job)})"
        )
    if isinstance(job, Trigger | timedelta | datetime):
        raise InvalidJobError(f"job: the job comes first, then its triggers (got {quoted(job)} as the job)")
    if isinstance(job, partial):
        raise InvalidJobTypeError(
            f"job: other nodes cannot find {quoted(job)}; give its function, and the arguments by args=[...] and"
            " kwargs={...}"
        )
    if callable(job):
        raise InvalidJobTypeError(
            f"job: {quoted(job)} cannot be found by other nodes; give a function of a module, or a Job subclass"
        )
    hint = "; give the function itself, without calling it" if job is None else ""
    raise InvalidJobError(f"job: a Job subclass, a function or a JobDetail is needed (got {quoted(job)}){hint}")


def check_named(job: JobDetail, again: str) -> None:
    """Check that a job that a program stores at each of its starts has a name of its own.

    A job that is made without a name has another one each time, so each start of each node would store another job.
    `again` is what asks for it.

    Raises:
        InvalidJobError: it has none.
    """
    if job.has_unique_name:
        function = job.job_type.rpartition(":")[2]
        raise InvalidJobError(
            f"{again}: a job of type {job.job_type} has no name, so each start would store another job; name it:"
            f" {function}.detail('nightly', ...), or JobDetail(..., 'nightly')"
        )


def _detail(job: type[Job], name: str, group: str, **values: Any) -> JobDetail:
    try:
        return JobDetail(job, name, group, **values)
    except TypeError as error:
        raise InvalidJobError(f"job {group}.{name}: {_without_class(error)}") from None


def _function_detail(
    job: JobFunction[..., Any], name: str | None, group: str, data: Any, options: Mapping[str, Any]
) -> JobDetail:
    name = job.__name__ if name is None else name
    try:
        return job.detail(name, group, data=data, **options)
    except TypeError as error:
        raise InvalidJobError(f"job {group}.{name}: {_without_class(error)}") from None


def _without_class(error: TypeError) -> str:
    return (
        str(error).replace("JobDetail() has no argument", "no option").replace("the arguments are", "the options are")
    )


def as_triggers(triggers: object) -> list[Trigger]:
    """Return the triggers for one trigger or several, each in any of its forms; an empty list for None.

    Raises:
        InvalidTriggerError: a trigger has none of the forms, or its cron text cannot be parsed.
    """
    if triggers is None:
        return []
    if isinstance(triggers, str | type | Mapping) or not isinstance(triggers, Iterable):
        return [as_trigger(triggers)]
    return [as_trigger(trigger) for trigger in triggers]


def as_trigger(trigger: object) -> Trigger:
    """Return the trigger for any of its forms.

    A text of six or seven fields is parsed as Quartz's cron, one of five fields or `@daily` as crontab.

    Raises:
        InvalidTriggerError: the trigger has none of the forms, or its cron text cannot be parsed.
    """
    if isinstance(trigger, Trigger):
        return trigger
    if isinstance(trigger, str):
        text = trigger.strip()
        fields = len(text.split())
        if is_crontab(text):
            return CronTrigger.from_crontab(text)
        if fields not in _QUARTZ_FIELDS:
            raise InvalidTriggerError(
                f"triggers: {quoted(trigger)} is not a cron expression, which has five fields (crontab), six or seven"
                f" (Quartz); {_meant(text, fields)}"
            )
        return CronTrigger(text)
    if isinstance(trigger, timedelta):
        return every(trigger)
    if isinstance(trigger, datetime):
        return at(trigger)
    if (
        isinstance(trigger, JobDetail | JobFunction)
        or inspect.isfunction(trigger)
        or (isinstance(trigger, type) and issubclass(trigger, Job))
    ):
        raise InvalidTriggerError(f"triggers: the job comes first, then its triggers (got the job {quoted(trigger)})")
    is_number = isinstance(trigger, int | float) and not isinstance(trigger, bool)
    hint = f"; an interval is written as every({trigger!r})" if is_number else ""
    if isinstance(trigger, time):
        hint = f"; {TIME_OF_DAY}"
    raise InvalidTriggerError(
        "triggers: a trigger, a cron text, an interval (timedelta) or an instant (aware datetime) is needed"
        f" (got {quoted(trigger)}){hint}"
    )


def interval_of(text: str) -> timedelta | None:
    """Return the interval that a text says: "every 15m", "15 minutes", "every hour". None if it says none.

    A number without a unit is none, because it may be meant as anything.

    Raises:
        InvalidTriggerError: it is shorter than a millisecond.
    """
    written = text.strip()
    rest = written[len(_EVERY) :].strip() if written.lower().startswith(_EVERY) else written
    if rest and not rest[-1].isalpha():
        return None
    try:
        span = as_span(f"1 {rest}" if rest.isalpha() and rest is not written else rest, "interval")
    except InvalidValueError:
        return None
    if span < timedelta(milliseconds=1):
        raise InvalidTriggerError(f"schedule: an interval must be at least 1 ms (got {quoted(written)})")
    return span


def _meant(text: str, fields: int) -> str:
    """Return a hint for a text that is not a cron expression: the line that the user probably meant."""
    if text in TRIGGER_WORDS:
        return f"hint: {TRIGGER_WORDS[text]}"
    if is_time_of_day(text):
        return TIME_OF_DAY
    span = text.removeprefix("every ")
    try:
        as_span(span, "interval")
    except InvalidValueError:
        return (
            f"it has {fields}; an interval is written as every('10s'), and an instant as at('2026-12-24T18:00+01:00')"
        )
    return f"an interval is written as every({span!r})"


def bind(triggers: Sequence[Trigger], job_key: JobKey, names: Iterator[str] | None = None) -> list[Trigger]:
    """Bind triggers to a job. One without a name takes the job's name and group, further ones are `name-2`, ...

    With `names`, one without a name takes the next of these.

    Raises:
        InvalidTriggerError: a trigger names another job.
    """
    if names is not None:
        triggers = [
            trigger if trigger.name is not None else replace(trigger.bound_to(job_key), name=next(names))
            for trigger in triggers
        ]
    taken = {trigger.name for trigger in triggers if trigger.name is not None and trigger.group == job_key.group}
    return [_bind(trigger, job_key, taken) for trigger in triggers]


def _bind(trigger: Trigger, job_key: JobKey, taken: set[str]) -> Trigger:
    if trigger.job_key is not None and trigger.job_key != job_key:
        raise InvalidTriggerError(f"trigger {trigger.label} names job {trigger.job_key}, not {job_key}")
    if trigger.name is not None:
        return trigger if trigger.job_key == job_key else trigger.bound_to(job_key)
    named = (trigger.bound_to(job_key, number) for number in count(1))
    unique = next(candidate for candidate in named if candidate.name not in taken)
    taken.add(str(unique.name))
    return unique
