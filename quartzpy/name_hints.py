"""Names that people know from APScheduler, Celery, Quartz and schedule, and the line to write here instead.

Python itself would offer the most similar name, and that can be a wrong one (`resume_job` for `remove_job`). The hints
are part of errors only: nothing here makes a wrong name work, and neither `dir` nor a type checker sees any of it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from quartzpy.foreign_names import answer, quartz_answer, snake_case

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

_RUN = "scheduler.run() starts the node and blocks until Ctrl-C; scheduler.start() returns at once"
_DECORATE = '@scheduler.scheduled_job("0 0 2 * * ?") schedules a function, and @job makes a job type of it'
_NOW = "scheduler.trigger_job(job) runs a stored job now; scheduler.schedule_job(function, at()) runs a function once"

SCHEDULER_NAMES: Mapping[str, str] = {
    # APScheduler
    "get_jobs": "scheduler.jobs() lists the stored jobs, and scheduler.triggers() their next fire times",
    "get_job": 'scheduler.job("nightly") is a handle of a stored job',
    "print_jobs": "for record in scheduler.jobs(): print(record)",
    "remove_job": 'scheduler.delete_job("nightly")',
    "remove_all_jobs": "scheduler.clear() removes all jobs, triggers and calendars",
    "add_listener": "scheduler.listeners.add_listener(callback)",
    "add_schedule": 'scheduler.schedule_job(report, "0 0 2 * * ?")',
    "get_schedules": "scheduler.triggers() lists the triggers with their next fire times",
    "get_schedule": 'scheduler.trigger("nightly") is a handle of a stored trigger',
    "remove_schedule": 'scheduler.trigger("nightly").delete()',
    "pause_schedule": 'scheduler.pause(TriggerKey("nightly"))',
    "unpause_schedule": 'scheduler.resume(TriggerKey("nightly"))',
    "enable_job": 'scheduler.set_mode("nightly", "ENABLED")',
    "disable_job": 'scheduler.set_mode("nightly", "DISABLED")',
    "trace_with": "scheduler.node.trace_with(...)",
    "add_middleware": "scheduler.node.add_middleware(...)",
    "history": "scheduler.executions() lists the executions, and scheduler.misfires() the missed fires",
    "delete": 'scheduler.delete_job("nightly")',
    "run_until_stopped": _RUN,
    "start_in_background": _RUN,
    "state": "scheduler.is_started and scheduler.is_in_standby are the state of this node",
    # Celery, Flask-APScheduler, Huey and others
    "task": _DECORATE,
    "job_decorator": _DECORATE,
    "periodic_task": _DECORATE,
    "cron": _DECORATE,
    "every": "scheduler.schedule_job(report, every(minutes=10))",
    "send_task": _NOW,
    "enqueue": _NOW,
    "run_job": _NOW,
    "run_now": _NOW,
    "run_forever": _RUN,
    "run_pending": _RUN,
    "start_blocking": _RUN,
    "stop": "scheduler.shutdown()",
    "close": "scheduler.shutdown()",
    # Quartz
    "get_scheduler_name": "scheduler.name",
    "get_meta_data": "scheduler.metadata",
    "get_metadata": "scheduler.metadata",
    "get_currently_executing_jobs": "scheduler.currently_executing_jobs()",
    "get_job_keys": "scheduler.job_keys()",
    "get_trigger_keys": "scheduler.trigger_keys()",
    "get_triggers_of_job": 'scheduler.triggers_of_job("nightly")',
    "get_listener_manager": "scheduler.listeners",
    "get_context": "scheduler.context",
    "is_shutdown": "scheduler.is_shut_down",
    # Of events, and of other methods
    "calendars": 'scheduler.calendar_names(), and scheduler.get_calendar("holidays")',
    "update_job": 'scheduler.modify_job("nightly", ...) for its options, and scheduler.reschedule_job for its trigger',
    **dict.fromkeys(
        ("upcoming", "next_fire_times"), "scheduler.triggers() has the next fire times, and trigger.upcoming(5) more"
    ),
    **dict.fromkeys(("on", "on_event", "listen", "subscribe"), "scheduler.listeners.add_listener(callback)"),
    **dict.fromkeys(("is_running", "is_alive"), "scheduler.is_started and scheduler.is_in_standby"),
    **dict.fromkeys(("rerun", "retry"), "scheduler.run_again(fire_id) runs an execution that has ended once more"),
    **dict.fromkeys(("cancel_execution", "kill"), "scheduler.cancel(fire_id) asks a running execution to stop"),
    **dict.fromkeys(("pause_jobs", "pause_group"), 'scheduler.pause(JobGroups("reports"))'),
    **dict.fromkeys(("serve", "wait"), _RUN),
    **dict.fromkeys(("at", "schedule_once", "once"), "scheduler.schedule_job(report, at(instant))"),
}
"""Attributes that users of other libraries look for on a scheduler, each with the line to write here."""

HANDLE_NAMES: Mapping[str, str] = {
    "remove": "handle.delete()",
    "cancel": "handle.delete() removes the job; scheduler.cancel_job(handle) stops its executions",
    "run": "handle.trigger() runs the job now",
    "next_run_time": "handle.next_fire_time",
    "id": "handle.key",
    "name": "handle.key.name",
    "next": "handle.next_fire_time",
    **dict.fromkeys(("history", "executions"), "scheduler.executions(job=handle.key)"),
}
"""The same for the handle of a job."""

QUERY_NAMES: Mapping[str, str] = {
    "limit": "query[:5] is a list of the first five records, and query.page(5) a page of them",
    **dict.fromkeys(("all", "to_list", "fetchall"), "list(query)"),
    **dict.fromkeys(("filter", "filter_by", "where"), 'filters are arguments: scheduler.executions(state="FAILED")'),
    **dict.fromkeys(("one", "one_or_none", "get"), "query.first()"),
    **dict.fromkeys(("exists", "any"), "bool(query)"),
    **dict.fromkeys(("offset", "skip"), "query[20:30]"),
}
"""The same for a query of jobs, triggers, executions or misfires."""

_UNITS = ("second", "minute", "hour", "day", "week")
INTERVAL_NAMES: Mapping[str, str] = {
    **{f"{unit}s": f"every({unit}s=10)" for unit in _UNITS},
    **{unit: f"every({unit}s=1)" for unit in _UNITS},
    "do": "scheduler.schedule_job(report, every(minutes=10))",
}
"""The same for an interval, whose units other libraries append."""

CONTEXT_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("args", "kwargs"), "a function gets them as its parameters; context.job_data is all data"),
    "logger": "context.log",
    "job": "context.job_key, and context.job_detail",
    "job_name": "context.job_key.name",
    "trigger_name": "context.trigger_key.name",
    **dict.fromkeys(("node", "node_name"), "context.instance_id"),
    **dict.fromkeys(("is_cancelled", "canceled", "is_canceled"), "context.cancelled"),
    **dict.fromkeys(
        ("report_progress", "set_progress", "update_progress"), "context.progress(0.5), or context.progress(5, 10)"
    ),
    "retry": 'raise the error, which a RetryPolicy of the job repeats; context.snooze("5m") runs the job again later',
    "session": "with context.transaction() as connection, Session(connection) as session",
    **dict.fromkeys(("id", "execution_id", "run_id"), "context.fire_id"),
    **dict.fromkeys(("scheduled_time", "run_time"), "context.scheduled_fire_time, and context.fire_time"),
}
"""The same for the context of an execution."""

FUNCTION_NAMES: Mapping[str, str] = {
    "delay": "scheduler.schedule_job({0}, at(), args=[...]) runs it once on a node; {0}(...) calls it here",
    "apply_async": "scheduler.schedule_job({0}, at(), args=[...]) runs it once on a node; {0}(...) calls it here",
    "schedule": 'scheduler.schedule_job({0}, "0 0 2 * * ?")',
    "s": '{0}.detail("name", args=[...]) is a job that calls it with these arguments',
    "si": '{0}.detail("name", args=[...]) is a job that calls it with these arguments',
    "retry": "@job(retry=RetryPolicy(attempts=5)) retries failed executions",
}
"""The same for a `@job` function; {0} is replaced by its name."""

OPTION_NAMES: Mapping[str, str] = {
    "id": 'the name is the identity: name="nightly"',
    "trigger": 'the triggers come after the job: schedule_job(report, "0 0 2 * * ?")',
    "replace_existing": "replace=True",
    "max_instances": "max_concurrent=1, which counts over the whole cluster",
    "coalesce": 'the trigger decides how missed fires are handled: every("10s", misfire="...")',
    "misfire_grace_time": 'the trigger has the lateness of a misfire: every("10s", misfire_threshold="30s")',
    "next_run_time": 'the trigger has the start: every("10s", start_time=...)',
    "jobstore": "a scheduler has one store, its database",
    "jitter": 'a trigger spreads its fires: Jitter(trigger=every("10s"), up_to="1s")',
    "time_limit": 'timeout="5m"',
    "soft_time_limit": 'timeout="5m"',
    "title": 'display_name="Nightly report"',
    "label": 'display_name="Nightly report"',
    "log_level": 'capture_logs="INFO" keeps the log lines of each execution in the history',
    **dict.fromkeys(("retries", "max_retries", "max_attempts", "attempts"), "retry=RetryPolicy(attempts=5)"),
    **dict.fromkeys(
        ("time_zone", "timezone", "tz", "zone"),
        'the trigger has the time zone: CronTrigger("0 0 2 * * ?", time_zone="Europe/Berlin")',
    ),
    **dict.fromkeys(
        ("calendar", "calendar_name"), 'the trigger has the calendar: CronTrigger("0 0 2 * * ?", calendar="holidays")'
    ),
    **dict.fromkeys(
        ("start", "start_time", "start_date", "start_at"), 'the trigger has the start: every("10s", start_time=...)'
    ),
    **dict.fromkeys(("end", "end_time", "end_date", "until"), 'the trigger has the end: every("10s", end_time=...)'),
    "priority": 'the trigger has the priority: every("10s", priority=9)',
    "misfire": 'the trigger decides how missed fires are handled: every("10s", misfire="...")',
    "repeat_count": 'the trigger has the number of fires: every("10s", repeat_count=9) fires ten times',
    "func": "the function comes first: schedule_job(report, every('10s'))",
    **dict.fromkeys(("weeks", "days", "hours", "minutes", "seconds"), "an interval is a trigger: every(minutes=10)"),
    **dict.fromkeys(("hour", "minute", "second", "day_of_week", "day"), "a cron trigger is cron.daily_at(2, 30)"),
    "run_date": "an instant is a trigger: at(datetime(2026, 12, 24, 18, tzinfo=UTC))",
}
"""Options of other libraries for which users look on `schedule_job`, each with the line to write here."""

TRIGGER_WORDS: Mapping[str, str] = {
    "interval": "schedule_job(report, every(seconds=10))",
    "cron": 'schedule_job(report, cron.daily_at(2, 30)) or schedule_job(report, "0 30 2 * * ?")',
    "date": "schedule_job(report, at(datetime(2026, 12, 24, 18, tzinfo=UTC)))",
}
"""The kinds of triggers that APScheduler 3 names by a word."""

BUILDER_NAMES: Mapping[str, str] = {
    "daily": "cron.daily_at(2, 30)",
    "every_day": "cron.daily_at(2, 30)",
    "weekly": 'cron.weekly_on("MON", 9)',
    "monthly": "cron.monthly_on(1, 2, 30)",
    "yearly": "cron.yearly_on(12, 24, 18)",
    "weekdays": "cron.weekdays_at(9)",
    "weekends": "cron.weekends_at(9)",
    "minutely": "cron.every_minutes(1)",
    "every": 'every("10s") is imported from quartzpy; cron has every_seconds, every_minutes and every_hours',
}
"""Builders for which users look in the module `cron`, each with the one to use."""


class NameHints:
    """A base class whose AttributeError for a name of another library shows the line to write here."""

    __slots__ = ()
    _name_hints: ClassVar[Mapping[str, str]] = {}
    _quartz_sections: ClassVar[tuple[str, ...]] = ()
    """The sections of the page "Coming from Quartz" about this class."""

    if not TYPE_CHECKING:  # A type checker would accept every attribute.

        def __getattr__(self, name: str) -> Any:
            own = type(self)
            # A property of this name has raised an AttributeError of its own.
            is_own = name.startswith("_") or hasattr(own, name)
            hint = None if is_own else answer(name, partial(hasattr, own), own._name_hints, own._quartz_sections)
            if hint is None:
                # Raise Python's own error, or that of the property.
                return object.__getattribute__(self, name)
            raise _no_attribute(f"{own.__name__!r} object", name, hint.replace("{0}", getattr(self, "__name__", "")))


def _no_attribute(owner: str, name: str, hint: str) -> AttributeError:
    # Without `obj`, tracebacks do not add the most similar name to the hint.
    return AttributeError(f"{owner} has no attribute {name!r}; {hint}", name=name, obj=None)


def hint_of(name: str, names: Collection[str], hints: Mapping[str, str]) -> str:
    """Return what an error says about an unknown argument: the line to write, the right name, or all names."""
    alias = ARGUMENT_ALIASES.get(name, name)
    if name in hints:
        return f"hint: {hints[name]}"
    if alias in names:
        return f"did you mean {alias}?"
    if alias in hints:
        return f"hint: {hints[alias]}"
    if snake_case(name) in names:
        return f"did you mean {snake_case(name)}?"
    if snake_case(name) in hints:
        return f"hint: {hints[snake_case(name)]}"
    of_quartz = quartz_answer(name)
    if of_quartz is not None:
        return f"hint: {of_quartz}"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"the arguments are {', '.join(names)}"


def argument_hints(hints: Mapping[str, str]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that adds advice on an unknown keyword argument to a function's TypeError."""

    def made(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                refused = _refused(function, kwargs, hints)
                if refused is None:
                    raise
            raise refused

        return checked

    return made


def _refused(function: Callable[..., Any], names: Collection[str], hints: Mapping[str, str]) -> TypeError | None:
    parameters = inspect.signature(function).parameters.values()
    accepted = [parameter.name for parameter in parameters if parameter.name != "self"]
    unknown = [name for name in names if name not in accepted]
    if not unknown or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    return TypeError(f"{called}() has no argument {unknown[0]!r}; {hint_of(unknown[0], accepted, hints)}")


def constructor_hints(hints: Mapping[str, str]) -> Callable[[_C], _C]:
    """Return a decorator that does for the constructor of a class what `argument_hints` does for a function."""

    def made(cls: _C) -> _C:
        type.__setattr__(cls, "__init__", argument_hints(hints)(vars(cls)["__init__"]))
        return cls

    return made


_KEYS: Mapping[str, str] = {
    **dict.fromkeys(("JobRef", "JobKey", "JobKey | str", "JobKey | TriggerKey", "PauseSubject"), "JobKey"),
    **dict.fromkeys(("TriggerRef", "TriggerKey", "TriggerKey | JobKey"), "TriggerKey"),
}
"""The annotations of a parameter that takes a key or a name, with the class of the key."""
_NAMES = ("name", "job_id", "trigger_id", "id", "job_name", "trigger_name")
_GROUPS = ("group", "job_group", "trigger_group")


class KeyHints:
    """A base class whose methods that take a key first refuse its parts, `delete_job("nightly", "billing")`.

    Their TypeError shows the line to write.
    """

    def __init_subclass__(cls, **values: Any) -> None:
        super().__init_subclass__(**values)
        for name, function in list(vars(cls).items()):
            if inspect.isfunction(function) and not name.startswith("_"):
                parameters = [*inspect.signature(function).parameters.values()][1:]
                key_class = _KEYS.get(str(parameters[0].annotation)) if parameters else None
                if key_class is not None:
                    setattr(cls, name, _taking_one_key(function, key_class, parameters))


def _taking_one_key(
    function: Callable[..., Any], key_class: str, parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Return a function that refuses the parts of a key. `parameters` are those of the method, without `self`."""
    positional = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    # Other arguments of a method that takes any, or that has hints of its own, are none of this.
    is_open = hasattr(function, "__wrapped__") or (
        parameters[-1].kind is inspect.Parameter.VAR_KEYWORD and parameters[-1].annotation != "Unpack[PauseOptions]"
    )
    refused = () if is_open else {*_NAMES, *_GROUPS}.difference(parameter.name for parameter in parameters)
    takes_text = len(positional) > 1 and positional[1].annotation == "TriggerLike"
    rest = ", ..." if sum(parameter.default is parameter.empty for parameter in positional) > 1 else ""

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        other = [name for name in refused if name in kwargs]
        texts = [part for part in args[1:3] if isinstance(part, str)]
        are_parts = len(texts) == 2 and (not takes_text or len(args) > len(positional) + 1)
        if not other and not are_parts:
            return
        name = texts[0] if texts else next((kwargs[word] for word in _NAMES if word in kwargs), "nightly")
        group = texts[1] if are_parts else next((kwargs[word] for word in _GROUPS if word in kwargs), None)
        key = f"{name!r}" if group is None else f"{key_class}({name!r}, {group!r})"
        what = f"has no argument {other[0]!r}" if other else "takes the name and the group as one key"
        raise TypeError(f"{function.__name__}() {what}; hint: {function.__name__}({key}{rest})")

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            check(args, kwargs)
            return await function(*args, **kwargs)

        return awaited

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    return called


BLOCKING_ARGUMENTS: Mapping[str, str] = {"block": _RUN, "blocking": _RUN, "paused": "scheduler.start(standby=True)"}
"""Arguments of other libraries for which users look on `start`."""

SETTING_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("url", "dsn", "db_url", "database", "database_url", "engine", "data_store", "store"),
        'the database is the first argument: Scheduler("postgresql+psycopg://user@host/database")',
    ),
    **dict.fromkeys(
        ("timezone", "tz", "time_zone"), 'each trigger has its time zone: CronTrigger(..., time_zone="Europe/Berlin")'
    ),
    **dict.fromkeys(("id", "scheduler_name", "cluster"), 'name="billing"; nodes of one name are one cluster'),
    **dict.fromkeys(
        ("jobstores", "job_stores", "job_store", "jobstore"),
        'a scheduler has one store, its database: Scheduler("postgresql+psycopg://..."), or Scheduler("memory://")',
    ),
    **dict.fromkeys(
        ("max_workers", "concurrency", "threads", "pool", "thread_pool"),
        "workers=10 threads on each node; other pools are executors={...}",
    ),
    **dict.fromkeys(("broker", "backend", "broker_url", "result_backend"), "the database is all that nodes share"),
}
"""Settings of other libraries for which users look on `Scheduler`, each with the line to write here."""

SCHEDULING_ARGUMENTS: Mapping[str, str] = {
    **{name: f"use schedule_job; {hint}" for name, hint in OPTION_NAMES.items()},
    "trigger": "scheduler.schedule_job(report, every(seconds=10)); add_job stores a job without triggers",
}
"""Arguments of other libraries for which users look on `add_job`, which stores a job without a trigger here."""

RESCHEDULING_ARGUMENTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("weeks", "days", "hours", "minutes", "seconds"), 'reschedule_job("nightly", every(minutes=10)) for an interval'
    ),
    **dict.fromkeys(
        ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second"),
        'reschedule_job("nightly", "0 0/5 * * * ?") for a cron expression, or cron.daily_at(2, 30) of `from quartzpy'
        " import cron`",
    ),
    "run_date": 'reschedule_job("nightly", at(datetime(2026, 12, 24, 18, tzinfo=UTC))) for one instant',
    **{
        name: OPTION_NAMES[name]
        for name in ("timezone", "time_zone", "calendar", "start_date", "end_date", "start_time", "end_time", "misfire")
    },
    "jobstore": "a scheduler has one store, its database",
    **dict.fromkeys(("job_id", "id", "name", "trigger_key"), 'the name comes first: reschedule_job("nightly", ...)'),
}
"""Arguments of other libraries for which users look on `reschedule_job`."""

ARGUMENT_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("timezone", "tz", "zone", "tzinfo"), "time_zone"),
    **dict.fromkeys(("start", "start_date", "start_at", "begin"), "start_time"),
    **dict.fromkeys(("end", "end_date", "end_at", "until"), "end_time"),
    **dict.fromkeys(("misfire_instruction", "misfire_policy", "coalesce"), "misfire"),
    "misfire_grace_time": "misfire_threshold",
    **dict.fromkeys(("calendar_name", "modified_by_calendar"), "calendar"),
    "id": "name",
    **dict.fromkeys(("expr", "cron", "crontab"), "expression"),
    **dict.fromkeys(("max_attempts", "max_retries", "retries", "tries"), "attempts"),
    **dict.fromkeys(("backoff", "multiplier", "exponential"), "factor"),
    **dict.fromkeys(("retry_on", "exceptions"), "on"),
    **dict.fromkeys(("wait", "countdown", "base_delay"), "delay"),
    **dict.fromkeys(("dates", "days", "holidays"), "excluded_dates"),
}
"""Arguments of other libraries, each with the argument of the same meaning here, where a function has it."""

TRIGGER_ARGUMENTS: Mapping[str, str] = {
    "time_zone": 'a time of day has a time zone: cron.daily_at(2, 30, time_zone="Europe/Berlin")',
    "jitter": 'Jitter(trigger=every("10s"), up_to="1s") spreads the fires of a trigger',
    **dict.fromkeys(
        ("roll", "business_day", "business_days"),
        'Rolled(trigger=CronTrigger("0 0 18 L * ?"), roll="preceding", calendar="target") moves fires to business days',
    ),
    **dict.fromkeys(("at", "time", "at_time", "hour"), "a time of day is cron.daily_at(2, 30)"),
    **dict.fromkeys(("repeat", "count", "times", "max_runs"), "repeat_count=9 fires ten times"),
    **dict.fromkeys(("month", "months", "year", "years"), 'CalendarIntervalTrigger(interval=1, unit="month")'),
    **dict.fromkeys(("second", "minute", "day", "week"), "every(minutes=5)"),
}
"""Arguments for which users look on a trigger, each with the line to write here."""

CRON_ARGUMENTS: Mapping[str, str] = {
    **TRIGGER_ARGUMENTS,
    **dict.fromkeys(
        ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second"),
        'cron.daily_at(2, 30), or an expression: CronTrigger("0 30 2 * * ?")',
    ),
}
"""Arguments of other libraries for which users look on `CronTrigger`."""


class BuilderModule(ModuleType):
    """The class of the module `quartzpy.cron`: calling it, or a builder that it lacks, raises an error with a hint."""

    def __call__(self, *_args: object, **_options: object) -> Any:
        raise TypeError(
            "cron is a module of builders, such as cron.daily_at(2, 30); pass an expression to schedule_job as text,"
            ' "0 30 2 * * ?", or as CronTrigger("0 30 2 * * ?")'
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = None if name.startswith("_") else answer(name, vars(self).__contains__, BUILDER_NAMES)
            if hint is None:
                return ModuleType.__getattribute__(self, name)
            raise _no_attribute("module 'quartzpy.cron'", name, hint)
