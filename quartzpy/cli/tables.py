"""`quartzpy triggers | jobs | nodes | running`: the state tables, to read or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from quartzpy.keys import TriggerKey
from quartzpy.operations.render import as_json, plain, table
from quartzpy.store.records import JobRecord, TriggerRecord

if TYPE_CHECKING:
    from quartzpy.factory import Scheduler
    from quartzpy.triggers.trigger import Trigger

_Command = Callable[..., None]


def shared_options(command: _Command) -> _Command:
    """Which scheduler on which database, and how it is printed."""
    for option in (
        click.option("--json", "json_output", is_flag=True, help="Print JSON."),
        click.option("--limit", default=500, show_default=True, help="At most so many rows."),
        click.option("--schema", envvar="QUARTZPY_SCHEMA", help="The database schema of our tables."),
        click.option(
            "--name",
            envvar="QUARTZPY_NAME",
            default="quartzpy",
            show_default=True,
            help="The scheduler's name.",
        ),
        click.option("--dsn", envvar="QUARTZPY_URL", required=True, help="postgresql+psycopg://user@host/database"),
    ):
        command = option(command)
    return command


@contextmanager
def client(dsn: str, name: str, schema: str | None) -> Iterator[Scheduler]:
    from quartzpy.factory import Scheduler

    scheduler = Scheduler(dsn, name=name, schema=schema)
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def _print(columns: Sequence[str], rows: list[Sequence[Any]], json_output: bool) -> None:
    click.echo(as_json(columns, rows) if json_output else table(columns, rows))


UNREADABLE = "unreadable"


def _read(record: TriggerRecord | JobRecord, value: Callable[[Any], Any]) -> Any:
    """A value of what a record describes; a word where its row cannot be read."""
    try:
        return value(record.trigger if isinstance(record, TriggerRecord) else record.job)
    except Exception:
        return UNREADABLE


def _misfire(trigger: Trigger) -> str:
    bounds = {"max": trigger.catch_up_max, "within": trigger.catch_up_within}
    return " ".join([trigger.misfire, *(f"{name} {bound}" for name, bound in bounds.items() if bound is not None)])


@click.command()
@shared_options
def triggers(dsn: str, name: str, schema: str | None, limit: int, json_output: bool) -> None:
    """Triggers by next fire time, with their states."""
    columns = ("trigger", "job", "kind", "state", "next", "previous", "fired", "priority", "misfire", "error")
    with client(dsn, name, schema) as scheduler:
        rows: list[Sequence[Any]] = [
            (
                record.key,
                record.job_key,
                _read(record, lambda trigger: trigger.kind),
                record.state,
                record.progress.next_fire_time,
                record.progress.previous_fire_time,
                record.progress.times_triggered,
                _read(record, lambda trigger: trigger.priority),
                _read(record, _misfire),
                record.error,
            )
            for record in scheduler.triggers(limit)
        ]
    _print(columns, rows, json_output)


@click.command()
@shared_options
def jobs(dsn: str, name: str, schema: str | None, limit: int, json_output: bool) -> None:
    """Jobs with what they run and under which rules."""
    columns = ("job", "type", "triggers", "durable", "limit", "recovers", "timeout", "description")
    with client(dsn, name, schema) as scheduler:
        rows: list[Sequence[Any]] = [
            (
                record.key,
                record.job_type,
                record.triggers,
                _read(record, lambda job: job.durable),
                _read(record, lambda job: job.max_concurrent),
                _read(record, lambda job: job.requests_recovery),
                _read(record, lambda job: job.timeout),
                _read(record, lambda job: job.description),
            )
            for record in scheduler.jobs(limit)
        ]
    _print(columns, rows, json_output)


@click.command()
@shared_options
@click.argument("trigger")
def why(dsn: str, name: str, schema: str | None, limit: int, json_output: bool, trigger: str) -> None:
    """Why a trigger (GROUP.NAME, or NAME in DEFAULT) has not fired, or when it will."""
    group, _, given = trigger.rpartition(".")
    with client(dsn, name, schema) as scheduler:
        said = scheduler.why(TriggerKey(given, group or "DEFAULT"))
    click.echo(
        as_json(("said",), [(sentence,) for sentence in said[:limit]]) if json_output else "\n".join(map(plain, said))
    )


@click.command()
@shared_options
def nodes(dsn: str, name: str, schema: str | None, limit: int, json_output: bool) -> None:
    """The nodes of the cluster. A late one has missed two check-ins."""
    columns = ("node", "epoch", "host", "pid", "started", "checked_in", "ago", "state")
    with client(dsn, name, schema) as scheduler:
        answer = scheduler.nodes()
    rows: list[Sequence[Any]] = []
    for node in answer.nodes[:limit]:
        ago = max(timedelta(), answer.now - node.last_checkin)
        state = "late" if ago > 2 * node.checkin_interval else "alive"
        rows.append(
            (
                node.instance_id,
                node.epoch,
                node.host,
                node.pid,
                node.started_at,
                node.last_checkin,
                ago,
                state,
            )
        )
    _print(columns, rows, json_output)


@click.command()
@shared_options
def running(dsn: str, name: str, schema: str | None, limit: int, json_output: bool) -> None:
    """What is claimed or runs, on which node, since when."""
    columns = ("fire", "job", "trigger", "node", "state", "scheduled", "fired", "recovering")
    with client(dsn, name, schema) as scheduler:
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
            )
            for record in scheduler.running()[:limit]
        ]
    _print(columns, rows, json_output)
