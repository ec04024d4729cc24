"""`quartzpy show` and `quartzpy why`: all that is known about one object."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import date
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.commands import KindGroup
from quartzpy.cli.definition_lists import TRIGGERS
from quartzpy.cli.drawing import Column, DetailView
from quartzpy.cli.execution_lists import EXECUTIONS, MISFIRES, RUNNING, UPCOMING
from quartzpy.cli.formatter import Formatter
from quartzpy.cli.keys import execution_id, job_key, likely_trigger_key, trigger_key
from quartzpy.cli.listing import Listing, output_options, parsed, print_json, repeat, terminal_width
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import JobNotFoundError, ObjectNotFoundError, TriggerNotFoundError
from quartzpy.texts import did_you_mean, visible

if TYPE_CHECKING:
    from quartzpy.operations.calendars import CalendarYear
    from quartzpy.operations.cluster import NodeView
    from quartzpy.operations.executions import ExecutionView
    from quartzpy.operations.jobs import JobView
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.schedules import PlannedTime
    from quartzpy.operations.triggers import TriggerView

_Command = Callable[..., Any]

GROUP_HELP = "The group, where GROUP.NAME would be ambiguous."

_TIMES: Listing[PlannedTime] = Listing(
    (
        Column("at", lambda one: one.at, rigid=True),
        Column("local", lambda one: one.local, rigid=True),
        Column("zone", lambda one: one.zone),
        Column("clock change", lambda one: one.clock_change),
    ),
    ("at",),
)


def sheet_options(command: Callable[..., None]) -> _Command:
    """Add the options of commands that show one object; the command receives a `Target` and `_Output`."""

    @wraps(command)
    def collected(
        target: Target, *arguments: Any, json_output: bool, watch: str | None, zone: str, **rest: Any
    ) -> None:
        command(target, _Output(target, json_output, watch, zone), *arguments, **rest)

    return scheduler_options(output_options(collected))


class _Output:
    """Prints the detail view of one object, once or again and again."""

    def __init__(self, target: Target, json_output: bool, watch: str | None, zone: str) -> None:
        options = parsed(json_output, watch, zone, None)
        self.formatter: Formatter = options.formatter
        self._target = target
        self._json = json_output
        self._period = options.watch

    def show(self, read: Callable[[Operations], Any], drawn: Callable[[DetailView, Any], None]) -> None:
        with self._target.operations() as operations:

            def output() -> None:
                model = read(operations)
                if self._json:
                    print_json(model, indent=self._period is None)
                    return
                details = DetailView(self.formatter, terminal_width())
                drawn(details, model)
                click.echo(str(details))

            repeat(self._period, output)


def _of(listing: Listing[Any], *names: str) -> Sequence[Column[Any]]:
    return listing.chosen([name.replace(" ", "_") for name in names])


_IN_KEY = ("name", "group", "type", "disallow_concurrent")
"""What the title and the type say, and the flag that the limit says, too."""
_PAST_RUNS = _of(EXECUTIONS, "id", "state", "scheduled", "waited", "ran", "attempt", "node", "error")


@click.group(cls=KindGroup)
def show() -> None:
    """Show all that is known about one object.

    It is a job, a trigger, an execution, a node or a calendar.
    """


@show.command()
@sheet_options
@click.argument("job", shell_complete=completion.JOBS)
@click.option("--group", help=GROUP_HELP)
def job(target: Target, output: _Output, job: str, group: str | None) -> None:
    """Show JOB with its triggers, next runs, data and last runs.

    JOB is GROUP.NAME, or NAME for the group DEFAULT.
    """
    output.show(lambda operations: operations.job(job_key(operations.scheduler, job, group)), _draw_job)


def _draw_job(details: DetailView, view: JobView) -> None:
    one = view.job
    details.title(f"job {one.key}", one.mode)
    details.values(
        {
            "display name": one.display_name,
            "type": one.job_type,
            "description": one.description,
            **_others(view),
            "problem": one.unreadable,
            "next": one.next_fire_time,
            "previous": one.previous_fire_time,
            "triggers": str(one.triggers),
            **({} if one.unreadable else _rules(view)),
        }
    )
    if one.unreadable is None:
        details.named("Data", view.data)
    details.table(
        "Triggers", _of(TRIGGERS, "trigger", "state", "next", "schedule", "zone", "error"), view.triggers, ["next"]
    )
    details.table("Running", _of(RUNNING, "id", "state", "for", "progress", "message", "node"), view.running)
    times = [column.name for column in _time_columns(details, view.next_runs)]
    details.table("Next runs", _of(UPCOMING, "at", "trigger", *times[1:]), view.next_runs, ["at"])
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(view.outcomes.items()))
    details.table(f"Last runs ({outcomes})", _PAST_RUNS, view.last_runs, ["scheduled"])


def _others(view: JobView) -> dict[str, Any]:
    """Return the values of the job's definition for which the view has no field of its own."""
    named = {*_IN_KEY, *(one.name for one in (*fields(view), *fields(view.job)))}
    return {name.replace("_", " "): value for name, value in view.definition.items() if name not in named}


def _rules(view: JobView) -> dict[str, Any]:
    one = view.job
    return {
        "durable": one.durable,
        "limit": one.max_concurrent,
        "overlap": view.overlap_policy,
        "concurrency key": view.concurrency_key,
        "rate limit": view.rate_limit,
        "retry": view.retry,
        "timeout": one.timeout,
        "recovers": one.requests_recovery,
        "pause after failures": view.pause_after_failures,
        "persists data": view.persist_data,
        "captures logs": view.capture_logs,
        "executor": view.executor,
        "execution group": view.execution_group,
        "requires": view.requires,
        "then runs": view.continuations,
    }


@show.command()
@sheet_options
@click.argument("trigger", shell_complete=completion.TRIGGERS)
@click.option("--group", help=GROUP_HELP)
def trigger(target: Target, output: _Output, trigger: str, group: str | None) -> None:
    """Show TRIGGER with its schedule, next fire times, and why it does or does not fire.

    TRIGGER is GROUP.NAME, or NAME for the group DEFAULT.
    """
    output.show(lambda operations: operations.trigger(trigger_key(operations.scheduler, trigger, group)), draw_trigger)


def draw_trigger(details: DetailView, view: TriggerView) -> None:
    one = view.trigger
    details.title(f"trigger {one.key}", one.state)
    details.values(
        {
            "job": one.job if view.job_display_name is None else f"{one.job} ({view.job_display_name})",
            "type": one.job_type,
            "description": one.description,
            "problem": one.unreadable,
            "schedule": one.schedule,
            "in words": one.words if one.words != one.schedule else None,
            "zone": one.zone,
            "calendar": one.calendar,
            "next": one.next_fire_time,
            "previous": one.previous_fire_time,
            "fired": one.times_triggered,
            "late": one.late,
            "start": view.start_time,
            "end": view.end_time,
            "priority": one.priority,
            "misfire": one.misfire,
            "misfire threshold": view.misfire_threshold,
            "rate limited until": view.rate_limited_until,
            "catches up until": view.catch_up_until,
            "paused at": one.paused_at,
            "paused by": one.paused_by,
            "pause reason": one.pause_reason,
        }
    )
    details.sentences("Why", view.why)
    details.lines("Error", view.error)
    details.named("Data", view.data)
    draw_times(details, view.next_times)
    details.table("Last executions", _PAST_RUNS, view.last_executions, ["scheduled"])
    details.table(
        "Misfires", _of(MISFIRES, "scheduled", "late", "action", "missed", "next"), view.misfires, ["scheduled"]
    )


def draw_times(details: DetailView, times: Sequence[PlannedTime]) -> None:
    """Add the next fire times of a trigger."""
    details.table("Next fire times", _time_columns(details, times), times, ["at"])


def _time_columns(details: DetailView, times: Sequence[Any]) -> Sequence[Column[Any]]:
    """Return the columns of fire times; the wall clock of the schedule only where it differs from that of the view."""
    if all(details.in_zone(one.zone) and one.clock_change is None for one in times):
        return _of(_TIMES, "at")
    return _TIMES.columns


@show.command()
@sheet_options
@click.argument("fire_id", shell_complete=completion.RUNNING)
def execution(target: Target, output: _Output, fire_id: str) -> None:
    """Show the execution FIRE_ID with its times, attempts, error and log lines."""
    number = execution_id(fire_id)
    output.show(lambda operations: operations.execution(number), draw_execution)


def draw_execution(details: DetailView, view: ExecutionView) -> None:
    one = view.execution
    details.title(f"execution {one.fire_id}", one.state)
    progress = None if view.progress is None else f"{view.progress:.0%} {view.progress_message or ''}".strip()
    details.values(
        {
            "job": one.job,
            "trigger": one.trigger,
            "type": one.job_type,
            "node": one.node,
            "attempt": one.attempt,
            "scheduled": one.scheduled_fire_time,
            "fired at": one.fire_time,
            "started": one.started_at,
            "ended": one.ended_at,
            "waited": one.waited,
            "queued": one.queued,
            "ran": one.ran,
            "running for": view.elapsed,
            "progress": progress,
            "cancel requested": view.cancel_requested or None,
            "retry at": one.retry_at,
            "recovering": one.recovering or None,
            "result": view.result,
            "problem": view.unreadable,
        }
    )
    details.sentences("Why", view.why)
    if len(view.attempts) > 1:
        columns = _of(EXECUTIONS, "id", "attempt", "state", "fired at", "ran", "node", "error")
        details.table("Attempts", columns, view.attempts, ["fired at"])
    details.named("Data", view.data)
    details.lines("Error", view.traceback)
    details.lines("Log", view.log)


@show.command()
@sheet_options
@click.argument("node", shell_complete=completion.NODES)
def node(target: Target, output: _Output, node: str) -> None:
    """Show NODE with its state, its load and what it runs."""

    def read(operations: Operations) -> dict[str, Any]:
        cluster = operations.cluster()
        known = {one.node: one for one in cluster.nodes}
        if node not in known:
            hint = did_you_mean(node, known, "nodes") if known else "no node is running"
            raise ObjectNotFoundError(f"there is no node {node!r}; {hint}")
        running = [one for one in operations.running() if one.node == node]
        return {"node": known[node], "running": running}

    output.show(read, _draw_node)


def _draw_node(details: DetailView, found: dict[str, Any]) -> None:
    one: NodeView = found["node"]
    details.title(f"node {one.node}", one.state)
    details.values(
        {
            "mode": one.mode,
            "host": one.host,
            "pid": one.pid,
            "version": one.version,
            "epoch": one.epoch,
            "started": one.started_at,
            "checked in": one.last_checkin,
            "ago": one.checkin_age,
            "checks in every": one.checkin_interval,
            "failure window": one.failure_window,
            "clock ahead": one.clock_ahead,
            "workers": f"{one.executing} of {one.workers} busy, {one.claimed} claimed",
            "executors": one.executors,
            "labels": one.labels,
            "group limits": one.group_limits,
            "job types": one.job_types,
        }
    )
    columns = _of(RUNNING, "id", "job", "state", "for", "progress", "message", "scheduled")
    details.table("Running", columns, found["running"], ["scheduled"])


@show.command()
@sheet_options
@click.argument("calendar", shell_complete=completion.CALENDARS)
@click.option("--year", type=click.IntRange(1970, 9999), help="[default: this year]")
def calendar(target: Target, output: _Output, calendar: str, year: int | None) -> None:
    """Show CALENDAR with the days of a year that it excludes."""
    output.show(lambda operations: operations.calendar(calendar, year), _draw_calendar)


def _draw_calendar(details: DetailView, view: CalendarYear) -> None:
    one = view.calendar
    details.title(f"calendar {one.name}")
    details.values(
        {
            "kind": one.kind,
            "zone": one.zone,
            "description": one.description,
            "problem": one.unreadable,
            "revision": one.revision,
            "used by": ", ".join(map(str, view.triggers)) + (", ..." if view.has_more_triggers else ""),
        }
    )
    details.lines(f"{view.year}: # excluded, + partly excluded", "\n".join(_months(view)))


def _months(view: CalendarYear) -> Iterator[str]:
    """Yield a line for each month of a year, with a mark for each day."""
    marks = dict.fromkeys(view.excluded, "#") | dict.fromkeys(view.partly_excluded, "+")
    for month in range(1, 13):
        days = [date(view.year, month, day) for day in range(1, monthrange(view.year, month)[1] + 1)]
        line = "".join(marks.get(day, ".") for day in days)
        yield f"{view.year}-{month:02}  {line.ljust(31)}  {sum(day in marks for day in days):2} of {len(days)}"


@click.command()
@sheet_options
@click.argument("trigger", shell_complete=completion.TRIGGERS)
@click.option("--group", help=GROUP_HELP)
def why(target: Target, output: _Output, trigger: str, group: str | None) -> None:
    """Explain why TRIGGER has not fired, or when it will fire.

    TRIGGER is GROUP.NAME, or NAME for the group DEFAULT. A trigger that has ended is explained from its history. The
    name of a job explains all of its triggers.
    """

    def read(operations: Operations) -> dict[str, Sequence[str]]:
        scheduler = operations.scheduler
        with suppress(TriggerNotFoundError):
            key = likely_trigger_key(scheduler, trigger, group)
            return {str(key): operations.why(key)}
        try:
            job = job_key(scheduler, trigger, group)
        except JobNotFoundError:
            try:
                # This error suggests the nearest trigger.
                trigger_key(scheduler, trigger, group)
            except TriggerNotFoundError as error:
                raise TriggerNotFoundError(
                    str(error).replace("there is no trigger", "there is no trigger and no job", 1)
                ) from None
            raise
        records = scheduler.triggers(job=job).page(_MOST_EXPLAINED)
        found: dict[str, Sequence[str]] = {str(record.key): operations.why(record.key) for record in records}
        return found or {str(job): ("The job has no triggers.",)}

    output.show(read, _draw_reasons)


_MOST_EXPLAINED = 20


def _draw_reasons(details: DetailView, reasons: dict[str, Sequence[str]]) -> None:
    if len(reasons) == 1:
        details.plain(next(iter(reasons.values())))
        return
    for key, sentences in reasons.items():
        details.sentences(visible(key), sentences)


def draw_row(details: DetailView, operations: Operations, row: Any) -> None:
    """Draw what a row of a table stands for: an execution, a trigger, or an incident."""
    if hasattr(row, "fire_id"):
        draw_execution(details, operations.execution(row.fire_id))
    elif hasattr(row, "trigger"):
        draw_trigger(details, operations.trigger(row.trigger))
    else:
        details.plain((row.what, *row.why))
