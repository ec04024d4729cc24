"""`quartzpy triggers | jobs | nodes | running | why`: the state of a scheduler, as tables or JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.target import Target, scheduler_options
from quartzpy.keys import TriggerKey
from quartzpy.operations.render import as_json, local_zone, plain, table
from quartzpy.states import TriggerState
from quartzpy.store.records import JobRecord, NodeRecord, TriggerRecord

if TYPE_CHECKING:
    from quartzpy.factory import Scheduler
    from quartzpy.triggers.trigger import Trigger

OVERDUE = timedelta(seconds=10)
"""The delay after its fire time from which a waiting trigger counts as overdue."""

_Command = Callable[..., None]


def shared_options(command: _Command) -> _Command:
    """Add the options of all commands that print tables."""
    command = click.option("--json", "json_output", is_flag=True, help="Print JSON.")(command)
    command = click.option("--limit", default=500, show_default=True, help="The maximum number of rows.")(command)
    return scheduler_options(command)


def _print(columns: Sequence[str], rows: list[Sequence[Any]], json_output: bool, droppable: Sequence[str] = ()) -> None:
    """Print rows as JSON or as a table. On a terminal the table fits the width of the terminal."""
    if json_output:
        click.echo(as_json([name.replace(" ", "_") for name in columns], rows))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    zone = local_zone()
    heads = {name: f"{name} ({zone})" for name in INSTANTS}
    shown = [heads.get(name, name) for name in columns]
    click.echo(table(shown, rows, width=width, droppable=[heads.get(name, name) for name in droppable]))


INSTANTS = ("next", "previous", "started", "checked in", "scheduled", "fired at")
"""The columns that contain instants. Their headings name the time zone."""


UNREADABLE = "unreadable"


def _read(record: TriggerRecord | JobRecord, value: Callable[[Any], Any]) -> Any:
    """Return a value of the trigger or job of a record, or `UNREADABLE` if its row cannot be decoded."""
    try:
        return value(record.trigger if isinstance(record, TriggerRecord) else record.job)
    except Exception:
        return UNREADABLE


def _misfire(trigger: Trigger) -> str:
    bounds = {"max": trigger.catch_up_max, "within": trigger.catch_up_within}
    return " ".join([trigger.misfire, *(f"{name} {bound}" for name, bound in bounds.items() if bound is not None)])


def _last_line(error: str | None) -> str | None:
    """Return the last line of a traceback, which has the error itself."""
    return None if error is None else error.strip().rpartition("\n")[2]


@click.command()
@shared_options
def triggers(target: Target, limit: int, json_output: bool) -> None:
    """List triggers with their schedules, states and fire times."""
    from quartzpy.operations.schedules import schedule_text, zone_text

    columns = (
        *("trigger", "job", "kind", "schedule", "zone", "calendar", "state"),
        *("next", "previous", "fired", "priority", "misfire", "error"),
    )
    with target.client() as scheduler:
        records = list(scheduler.triggers(order_by="next_fire_time").page(limit))
        rows: list[Sequence[Any]] = [
            (
                record.key,
                record.job_key,
                _read(record, lambda trigger: trigger.kind),
                _read(record, schedule_text),
                _read(record, zone_text),
                _read(record, lambda trigger: trigger.calendar),
                record.state,
                record.next_fire_time,
                record.previous_fire_time,
                record.times_triggered,
                _read(record, lambda trigger: trigger.priority),
                _read(record, _misfire),
                record.error if json_output else _last_line(record.error),
            )
            for record in records
        ]
        warning = _overdue(scheduler, records)
    _print(columns, rows, json_output, ("priority", "kind", "misfire", "previous", "fired", "calendar", "zone", "job"))
    if warning is not None:
        click.echo(warning, err=True)


def _overdue(scheduler: Scheduler, records: Sequence[TriggerRecord]) -> str | None:
    """Return a warning if triggers are overdue."""
    answer = scheduler.nodes()
    late = sorted(
        (at, record.key)
        for record in records
        if record.state == TriggerState.WAITING
        and (at := record.progress.next_fire_time) is not None
        and max(at, record.rate_limited_until or at) < answer.now - OVERDUE
    )
    if not late:
        return None
    first, key = late[0]
    count = "1 trigger is" if len(late) == 1 else f"{len(late)} triggers are"
    overdue = f"{count} overdue, {key} for {_in_words(answer.now, first)}"
    if not answer.nodes:
        return f"{overdue}, and no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"
    return f"{overdue}: `quartzpy why {key}` says why"


def _in_words(now: datetime, since: datetime) -> str:
    from quartzpy.operations.schedules import short

    return short(timedelta(seconds=int((now - since).total_seconds())))


@click.command()
@shared_options
def jobs(target: Target, limit: int, json_output: bool) -> None:
    """List jobs with their types and options."""
    columns = ("job", "display name", "type", "triggers", "durable", "limit", "recovers", "timeout", "description")
    with target.client() as scheduler:
        rows: list[Sequence[Any]] = [
            (
                record.key,
                record.display_name,
                record.job_type,
                record.trigger_count,
                _read(record, lambda job: job.durable),
                _read(record, lambda job: job.max_concurrent),
                _read(record, lambda job: job.requests_recovery),
                _read(record, lambda job: job.timeout),
                _read(record, lambda job: job.description),
            )
            for record in scheduler.jobs().page(limit)
        ]
    _print(columns, rows, json_output, ("description", "timeout", "recovers", "limit", "display name"))


@click.command()
@shared_options
@click.argument("trigger")
def why(target: Target, limit: int, json_output: bool, trigger: str) -> None:
    """Explain why TRIGGER has not fired, or when it will fire.

    TRIGGER is GROUP.NAME, or NAME for the group DEFAULT.
    """
    group, _, given = trigger.rpartition(".")
    with target.client() as scheduler:
        said = scheduler.why(TriggerKey(given, group or "DEFAULT"))
    click.echo(
        as_json(("said",), [(sentence,) for sentence in said[:limit]]) if json_output else "\n".join(map(plain, said))
    )


@click.command()
@shared_options
def nodes(target: Target, limit: int, json_output: bool) -> None:
    """List the nodes of the cluster.

    A node is late when it has missed two check-ins, and dead when its last check-in is older than its failure window.
    The other nodes recover the work of a dead node and remove it from the list, but each of them must first have
    watched it for the whole window. A dead node therefore stays in the list until another node has run that long.
    """
    columns = ("node", "epoch", "host", "pid", "started", "checked in", "ago", "state")
    with target.client() as scheduler:
        answer = scheduler.nodes()
    rows: list[Sequence[Any]] = []
    for node in answer.nodes[:limit]:
        ago = max(timedelta(), answer.now - node.last_checkin)
        rows.append(
            (
                node.instance_id,
                node.epoch,
                node.host,
                node.pid,
                node.started_at,
                node.last_checkin,
                ago,
                _state(node, ago),
            )
        )
    _print(columns, rows, json_output, ("epoch", "started", "host"))
    if not rows:
        click.echo("no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`", err=True)


def _state(node: NodeRecord, ago: timedelta) -> str:
    if ago > node.failure_window:
        return "dead"
    return "late" if ago > 2 * node.checkin_interval else "alive"


@click.command()
@shared_options
def running(target: Target, limit: int, json_output: bool) -> None:
    """List claimed triggers and running executions, with their nodes and times."""
    columns = ("fire", "job", "trigger", "node", "state", "scheduled", "fired at", "recovering", "progress", "message")
    with target.client() as scheduler:
        rows: list[Sequence[Any]] = [
            (
                record.fire_id,
                record.job_key,
                record.trigger_key,
                record.instance_id,
                record.state,
                record.scheduled_fire_time,
                record.fire_time,
                record.recovering,
                record.progress,
                record.progress_message,
            )
            for record in scheduler.running()[:limit]
        ]
    _print(columns, rows, json_output, ("recovering", "trigger", "fired at"))
