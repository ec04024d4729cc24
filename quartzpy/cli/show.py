"""`quartzpy show` and `quartzpy why`: all that is known about one object."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.commands import KindGroup
from quartzpy.cli.drawing import DetailView
from quartzpy.cli.formatter import Formatter
from quartzpy.cli.keys import execution_id, job_key, likely_trigger_key, trigger_key
from quartzpy.cli.listing import output_options, parsed, print_json, repeat, terminal_width
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import JobNotFoundError, ObjectNotFoundError, TriggerNotFoundError
from quartzpy.operations.lists.history import EXECUTIONS, MISFIRES, RUNNING, UPCOMING
from quartzpy.operations.lists.schedule import TRIGGERS
from quartzpy.operations.lists.spec import Column, Look
from quartzpy.scheduler.typed_text import no_subject
from quartzpy.texts import did_you_mean, visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.calendars import CalendarYear
    from quartzpy.operations.views.cluster import NodeView
    from quartzpy.operations.views.executions import ExecutionView
    from quartzpy.operations.views.jobs import JobView
    from quartzpy.operations.views.schedules import PlannedTime
    from quartzpy.operations.views.triggers import TriggerView

_Command = Callable[..., Any]

GROUP_HELP = "The group, where GROUP.NAME would be ambiguous."

_TIMES: Sequence[Column[PlannedTime]] = (
    Column("at", lambda record: record.at, Look.INSTANT),
    Column("local", lambda record: record.local, Look.WORD),
    Column("zone", lambda record: record.zone),
    Column("clock change", lambda record: record.clock_change),
)


def sheet_options(command: Callable[..., None]) -> _Command:
    """Add the options of commands that show one object; the command receives a `Target` and `_DetailOutput`."""

    @wraps(command)
    def collected(
        target: Target, *arguments: Any, json_output: bool, watch: str | None, zone: str, **rest: Any
    ) -> None:
        command(target, _DetailOutput(target, json_output, watch, zone), *arguments, **rest)

    return scheduler_options(output_options(collected))


class _DetailOutput:
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


_PAST_RUNS = EXECUTIONS.chosen("id", "state", "scheduled", "waited", "ran", "attempt", "node", "error")


@click.group(cls=KindGroup)
def show() -> None:
    """Show all that is known about one object.

    It is a job, a trigger, an execution, a node or a calendar.
    """


@show.command()
@sheet_options
@click.argument("job", shell_complete=completion.JOBS)
@click.option("--group", help=GROUP_HELP)
def job(target: Target, output: _DetailOutput, job: str, group: str | None) -> None:
    """Show JOB with its triggers, next runs, data and last runs.

    JOB is GROUP.NAME, or NAME for the group DEFAULT.
    """
    output.show(lambda operations: operations.job(job_key(operations.scheduler, job, group)), _draw_job)


def _draw_job(details: DetailView, view: JobView) -> None:
    record = view.job
    details.title(f"job {record.key}", record.mode)
    details.values(
        {
            "display name": record.display_name,
            "type": record.job_type,
            "description": record.description,
            **view.others,
            "problem": record.unreadable,
            "next": record.next_fire_time,
            "previous": record.previous_fire_time,
            "triggers": str(record.triggers),
            **({} if record.unreadable else _rules(view)),
        }
    )
    if record.unreadable is None:
        details.named("Data", view.data)
    details.table("Triggers", TRIGGERS.chosen("trigger", "state", "next", "schedule", "zone", "error"), view.triggers)
    details.table("Running", RUNNING.chosen("id", "state", "for", "progress", "message", "node"), view.running)
    times = [column.name for column in _time_columns(details, view.next_runs)]
    details.table("Next runs", UPCOMING.chosen("at", "trigger", *times[1:]), view.next_runs)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(view.outcomes.items()))
    details.table(f"Last runs ({outcomes})", _PAST_RUNS, view.last_runs)


def _rules(view: JobView) -> dict[str, Any]:
    record = view.job
    return {
        "durable": record.durable,
        "limit": record.max_concurrent,
        "overlap": view.overlap_policy,
        "concurrency key": view.concurrency_key,
        "rate limit": view.rate_limit,
        "shares limits": ", ".join(view.limits) or None,
        "retry": view.retry,
        "expected": view.expect,
        "timeout": record.timeout,
        "recovers": record.requests_recovery,
        "pause after failures": view.pause_after_failures,
        "persists data": view.persist_data,
        "captures logs": view.capture_logs,
        "executor": view.executor,
        "execution group": view.execution_group,
        "requires": view.requires,
        "then runs": view.continuations,
        "runs after": tuple(upstream.job for upstream in view.runs_after),
    }


@show.command()
@sheet_options
@click.argument("trigger", shell_complete=completion.TRIGGERS)
@click.option("--group", help=GROUP_HELP)
def trigger(target: Target, output: _DetailOutput, trigger: str, group: str | None) -> None:
    """Show TRIGGER with its schedule, next fire times, and why it does or does not fire.

    TRIGGER is GROUP.NAME, or NAME for the group DEFAULT.
    """
    output.show(lambda operations: operations.trigger(trigger_key(operations.scheduler, trigger, group)), draw_trigger)


def draw_trigger(details: DetailView, view: TriggerView) -> None:
    record = view.trigger
    details.title(f"trigger {record.key}", record.state)
    details.values(
        {
            "job": record.job if view.job_display_name is None else f"{record.job} ({view.job_display_name})",
            "type": record.job_type,
            "description": record.description,
            "problem": record.unreadable,
            "schedule": record.schedule,
            "in words": record.words if record.words != record.schedule else None,
            "zone": record.zone,
            "calendar": record.calendar,
            "next": record.next_fire_time,
            "previous": record.previous_fire_time,
            "fired": record.times_triggered,
            "late": record.late,
            "start": view.start_time,
            "end": view.end_time,
            "priority": record.priority,
            "misfire": record.misfire,
            "misfire threshold": view.misfire_threshold,
            "expected": view.expect,
            "limits": ", ".join(view.shared_limits) or None,
            "limit admits next": view.opens_at,
            "catches up until": view.catch_up_until,
            "paused at": record.paused_at,
            "paused by": record.paused_by,
            "pause reason": record.pause_reason,
            "paused until": record.paused_until,
        }
    )
    details.sentences("Why", view.why)
    details.lines("Error", view.error)
    details.named("Data", view.data)
    draw_times(details, view.next_times)
    details.table("Last executions", _PAST_RUNS, view.last_executions)
    details.table("Misfires", MISFIRES.chosen("scheduled", "late", "action", "missed", "next"), view.misfires)


def draw_times(details: DetailView, times: Sequence[PlannedTime]) -> None:
    """Add the next fire times of a trigger."""
    details.table("Next fire times", _time_columns(details, times), times)


def _time_columns(details: DetailView, times: Sequence[Any]) -> Sequence[Column[Any]]:
    """Return the columns of fire times; the wall clock of the schedule only where it differs from that of the view."""
    if all(details.in_zone(record.zone) and record.clock_change is None for record in times):
        return _TIMES[:1]
    return _TIMES


@show.command()
@sheet_options
@click.argument("fire_id", shell_complete=completion.RUNNING)
def execution(target: Target, output: _DetailOutput, fire_id: str) -> None:
    """Show the execution FIRE_ID with its times, attempts, error and log lines."""
    number = execution_id(fire_id)
    output.show(lambda operations: operations.execution(number), draw_execution)


def draw_execution(details: DetailView, view: ExecutionView) -> None:
    record = view.execution
    details.title(f"execution {record.fire_id}", record.state)
    progress = None if view.progress is None else f"{view.progress:.0%} {view.progress_message or ''}".strip()
    details.values(
        {
            "job": record.job,
            "trigger": record.trigger,
            "type": record.job_type,
            "node": record.node,
            "attempt": record.attempt,
            "scheduled": record.scheduled_fire_time,
            "fired at": record.fire_time,
            "started": record.started_at,
            "ended": record.ended_at,
            "waited": record.waited,
            "queued": record.queued,
            "ran": record.ran,
            "running for": view.elapsed,
            "progress": progress,
            "cancel requested": view.cancel_requested or None,
            "retry at": record.retry_at,
            "recovering": record.recovering or None,
            "by hand by": record.triggered_by,
            "result": view.result,
            "problem": view.unreadable,
        }
    )
    details.sentences("Why", view.why)
    if len(view.attempts) > 1:
        columns = EXECUTIONS.chosen("id", "attempt", "state", "fired at", "ran", "node", "error")
        details.table("Attempts", columns, view.attempts)
    details.named("Data", view.data)
    details.lines("Error", view.traceback)
    details.lines("Log", view.log)


@show.command()
@sheet_options
@click.argument("node", shell_complete=completion.NODES)
def node(target: Target, output: _DetailOutput, node: str) -> None:
    """Show NODE with its state, its load and what it runs."""

    def read(operations: Operations) -> dict[str, Any]:
        cluster = operations.cluster()
        by_name = {record.node: record for record in cluster.nodes}
        if node not in by_name:
            hint = did_you_mean(node, by_name, "nodes") if by_name else "no node is running"
            raise ObjectNotFoundError(f"there is no node {node!r}; {hint}")
        running = [record for record in operations.running() if record.node == node]
        return {"node": by_name[node], "running": running}

    output.show(read, _draw_node)


def _draw_node(details: DetailView, parts: dict[str, Any]) -> None:
    record: NodeView = parts["node"]
    details.title(f"node {record.node}", record.state)
    details.values(
        {
            "mode": record.mode,
            "problems": "; ".join(map(str, record.problems)),
            "host": record.host,
            "pid": record.pid,
            "version": record.version,
            "epoch": record.epoch,
            "started": record.started_at,
            "checked in": record.last_checkin,
            "ago": record.checkin_age,
            "checks in every": record.checkin_interval,
            "failure window": record.failure_window,
            "clock ahead": record.clock_ahead,
            "workers": f"{record.executing} of {record.workers} busy, {record.claimed} claimed",
            "executors": record.executors,
            "engines": record.engines,
            "labels": record.labels,
            "group limits": record.group_limits,
            "job types": record.job_types,
        }
    )
    columns = RUNNING.chosen("id", "job", "state", "for", "progress", "message", "scheduled")
    details.table("Running", columns, parts["running"])


@show.command()
@sheet_options
@click.argument("calendar", shell_complete=completion.CALENDARS)
@click.option("--year", type=click.IntRange(1970, 9999), help="[default: this year]")
def calendar(target: Target, output: _DetailOutput, calendar: str, year: int | None) -> None:
    """Show CALENDAR with the days of a year that it excludes."""
    output.show(lambda operations: operations.calendar(calendar, year), _draw_calendar)


def _draw_calendar(details: DetailView, view: CalendarYear) -> None:
    record = view.calendar
    details.title(f"calendar {record.name}")
    details.values(
        {
            "kind": record.kind,
            "zone": record.zone,
            "description": record.description,
            "problem": record.unreadable,
            "revision": record.revision,
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
def why(target: Target, output: _DetailOutput, trigger: str, group: str | None) -> None:
    """Explain why TRIGGER has not fired, or when it will fire.

    TRIGGER is GROUP.NAME, or NAME for the group DEFAULT. A trigger that has ended is explained from its history. The
    name of a job explains all of its triggers, and what a job waits for that runs after others.
    """

    def read(operations: Operations) -> dict[str, Sequence[str]]:
        scheduler = operations.scheduler
        with suppress(TriggerNotFoundError):
            key = likely_trigger_key(scheduler, trigger, group)
            return {str(key): operations.why(key)}
        try:
            job = job_key(scheduler, trigger, group)
        except JobNotFoundError:
            raise no_subject(scheduler, trigger, group) from None
        records = scheduler.triggers(job=job).page(_MAX_EXPLAINED)
        parts: dict[str, Sequence[str]] = {str(record.key): operations.why(record.key) for record in records}
        detail = scheduler.get_job_detail(job)
        if (detail is not None and detail.after is not None) or scheduler.joins(job=job).first() is not None:
            parts = {str(job): scheduler.why(job), **parts}
        return parts or {str(job): ("The job has no triggers.",)}

    output.show(read, _draw_reasons)


_MAX_EXPLAINED = 20


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


@click.command()
@scheduler_options
@click.argument("fire_id")
def log(target: Target, fire_id: str) -> None:
    """Print the log lines of the execution FIRE_ID.

    They are kept of jobs with `capture_logs`. Of a running execution, these are the last lines, which may be two
    seconds old. Control characters are written as escapes.
    """
    with target.client() as scheduler:
        text = scheduler.execution_log(execution_id(fire_id))
    if text is None:
        click.echo(f"execution {fire_id} has no log lines", err=True)
    else:
        click.echo("\n".join(map(visible, text.split("\n"))))
