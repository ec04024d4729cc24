"""`quartzpy db`, `config` and `doctor`: the tables, the settings, and what is wrong in the database."""

from __future__ import annotations

import getpass
import re
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.target import DEFAULT_NAME, Target, database_options, scheduler_options, table_options
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.notifying import shown_place
from quartzpy.config.pools import ExecutorConfig
from quartzpy.config.setting_names import CONNECT, DATABASE, SETTINGS, URL, Setting
from quartzpy.config.sources import CONFIG_FILE
from quartzpy.errors import AuthenticationError, SchemaError, SettingsError, StoreUnavailableError
from quartzpy.instants import as_span, short
from quartzpy.operations.render import as_json, table
from quartzpy.secret_texts import REDACTED

if TYPE_CHECKING:
    from quartzpy.operations.views.system import Report
    from quartzpy.store.postgresql.upgrade_plan import UpgradePlan


@click.group()
def db() -> None:
    """Create, upgrade and check the tables."""


@db.command()
@database_options
@click.argument("revision", default="head")
@click.option("--yes", is_flag=True, help="Make tables although another schema of the database has some.")
@click.option("--plan", is_flag=True, help="Print the statements and what they lock, and change nothing.")
def upgrade(target: Target, revision: str, yes: bool, plan: bool) -> None:
    """Create the tables, or upgrade them to REVISION (default: that of this release).

    It never makes nodes wait for more than half a second at a time: while a table is in use, it tries again, for up to
    two minutes.
    """
    from quartzpy.store.postgresql import migrations

    if target.schema is None and not yes:
        others = migrations.other_schemas(target.connection, prefix=target.table_prefix)
        if others:
            raise SchemaError(
                f"the search path leads to no quartzpy tables, but schema {', '.join(others)} has some:"
                f" give --schema {others[0]} to upgrade these, or --yes to make a second set of tables"
            )
    if plan:
        _show_plan(migrations.planned(target.connection, target.schema, revision, prefix=target.table_prefix))
        return
    before = migrations.current(target.connection, target.schema, prefix=target.table_prefix)
    migrations.upgrade(target.connection, target.schema, revision, prefix=target.table_prefix)
    click.echo(
        f"{before or 'nothing'} -> {migrations.current(target.connection, target.schema, prefix=target.table_prefix)}"
    )


def _show_plan(plan: UpgradePlan) -> None:
    if not plan.statements:
        click.echo(f"the tables are of revision {plan.before}: there is nothing to do", err=True)
        return
    click.echo(plan.script, nl=False)
    if not plan.locks:
        click.echo("no table that exists is locked", err=True)
        return
    rows = [(lock.table, lock.mode, lock.what, lock.rows, f"{lock.bytes / 2**20:.1f} MB") for lock in plan.locks]
    click.echo(table(("table", "lock", "what", "rows, about", "size"), rows), err=True)


@db.command()
@database_options
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def downgrade(target: Target, revision: str, yes: bool) -> None:
    """Downgrade the tables to REVISION; "base" drops them with all their data."""
    from quartzpy.store.postgresql import migrations

    if not yes:
        click.confirm(f"Downgrade to {revision}? Data that only the newer tables can store is lost", abort=True)
    migrations.downgrade(target.connection, target.schema, revision, prefix=target.table_prefix)
    click.echo(
        f"now at {migrations.current(target.connection, target.schema, prefix=target.table_prefix) or 'nothing'}"
    )


@db.command()
@database_options
def current(target: Target) -> None:
    """Print the revision of the tables."""
    from quartzpy.store.postgresql import migrations

    click.echo(migrations.current(target.connection, target.schema, prefix=target.table_prefix) or "nothing")


@db.command()
@database_options
def check(target: Target) -> None:
    """Check that the tables, with all columns and indexes, are those of this release."""
    from quartzpy.store.postgresql import migrations, schema_version

    migrations.check(target.connection, target.schema, prefix=target.table_prefix)
    click.echo(f"revision {schema_version.HEAD}: the tables match this release")


@db.command()
@table_options
def sql(target: Target) -> None:
    """Print the SQL that creates the tables. It needs no database."""
    from quartzpy.store.postgresql import migrations

    click.echo(migrations.sql(target.schema, prefix=target.table_prefix), nl=False)


@db.command()
@database_options
@click.option("--timeout", default="60s", show_default=True, help="How long to wait.")
def wait(target: Target, timeout: str) -> None:
    """Wait until the database is available and its tables match this release."""
    from quartzpy.store.postgresql import migrations

    deadline = time.monotonic() + as_span(timeout, "--timeout", SettingsError).total_seconds()
    while True:
        try:
            migrations.check(target.connection, target.schema, prefix=target.table_prefix)
            return
        except AuthenticationError:
            raise
        except (StoreUnavailableError, SchemaError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)  # noqa: TID251 - nothing here could wake us sooner


@db.command()
@database_options
@click.option("--owner", help="The role to own the tables. Default: the owner is not changed.")
@click.option("--node", default="quartzpy_node", show_default=True, help="The role of nodes, which run jobs.")
@click.option(
    "--client", default="quartzpy_client", show_default=True, help="The role of clients, which schedule jobs."
)
@click.option("--worker", default="quartzpy_worker", show_default=True, help="The role of the workers of engines.")
@click.option("--reader", default="quartzpy_reader", show_default=True, help="The role of read-only users.")
@click.option("--apply", "applied", is_flag=True, help="Run the SQL instead of printing it.")
def roles(target: Target, owner: str | None, node: str, client: str, worker: str, reader: str, applied: bool) -> None:
    """Print the SQL for roles with the least privileges, or run it.

    The roles cannot log in: GRANT them to your login roles. Only --apply needs the database.
    """
    from quartzpy.store.postgresql import roles as sql_roles

    names = {"node": node, "client": client, "worker": worker, "reader": reader} | ({"owner": owner} if owner else {})
    if len(set(names.values())) < len(names):
        raise click.UsageError("the roles must have different names")
    statements = sql_roles.statements(names, target.schema, target.table_prefix)
    if not applied:
        click.echo(sql_roles.as_script(statements), nl=False)
        return
    sql_roles.apply(target.connection, statements)
    click.echo(f"created or updated the roles {', '.join(names.values())} with their privileges")


@db.command()
@database_options
@click.option("--pause-all", is_flag=True, help="Pause all triggers first: the original goes on, and this is a copy.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def adopt(target: Target, pause_all: bool, yes: bool) -> None:
    """Say that a database that was copied, restored or moved is the one of its tables, so that its nodes fire.

    Fire ids and epochs continue far above those that were used before, and the nodes of the former database are
    removed. Without --pause-all, whatever has become due since then fires or misfires: no node may reach the former
    database any more.
    """
    from quartzpy.store.postgresql import migrations

    migrations.check_adoptable(target.connection, target.schema, prefix=target.table_prefix)
    if not yes:
        what = "with all triggers paused" if pause_all else "and let its nodes fire all that is due"
        click.confirm(f"Adopt the database {_place(target)}, {what}?", abort=True)
    if pause_all:
        _pause_all(target)
    removed = migrations.adopt(
        target.connection, target.schema, by=f"{_user()}@{socket.gethostname()}", prefix=target.table_prefix
    )
    for scheduler, node in removed:
        click.echo(f"removed node {node} of scheduler {scheduler}")
    click.echo("the database was adopted; nodes that run fire within a minute")


def _pause_all(target: Target) -> None:
    from quartzpy.store.protocol import EVERYTHING

    for name in target.known_names():
        scheduler = target.scheduler(name)
        try:
            scheduler.pause(EVERYTHING, reason="the database is a copy", by="quartzpy db adopt")
        finally:
            scheduler.shutdown()
        click.echo(f"paused all triggers of scheduler {name}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


# Greedy: a password that contains an unescaped @ must not show its second half.
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET_PARAMETER = re.compile(
    r"(?<!\w)((?:ssl)?password|passwd|secret|token)\s*=\s*(?:'(?:[^'\\]|\\.)*'?|(?:[^\s&\\]|\\.)*)", re.IGNORECASE
)


def _place(target: Target) -> str:
    database = target.database
    return without_password(database) if isinstance(database, str) else f"of {target.values[CONNECT]}"


def without_password(url: str) -> str:
    """Return a URL, or what somebody has written in its place, with `***` in place of its passwords."""
    return _SECRET_PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", url))


@click.command()
@scheduler_options
@click.option("--all", "with_defaults", is_flag=True, help="Also print the settings that have their default value.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def config(target: Target, with_defaults: bool, json_output: bool) -> None:
    """Print the effective settings and the source of each.

    An option overrides the environment, the environment overrides the file, and the file overrides the defaults. The
    file is that of --config, else that of QUARTZPY_CONFIG, else the nearest quartzpy.toml in this directory or above
    it. It needs no database; passwords are not printed.
    """
    rows = [row for row in _rows(target) if with_defaults or row[2] != "default"]
    if json_output:
        shown = [
            (setting.name, setting.table or None, _text(value) if isinstance(value, Mapping) else value, source)
            for setting, value, source in rows
        ]
        click.echo(as_json(("setting", "table", "value", "source"), shown))
        return
    click.echo(
        table(("setting", "value", "source"), [(each.dotted, _text(value), source) for each, value, source in rows])
    )
    if target.config_file is None:
        click.echo(f"(no file: there is no {CONFIG_FILE} in this directory or above it)", err=True)


def _rows(target: Target) -> list[tuple[Setting, Any, str]]:
    effective = SchedulerConfig.of({name: value for name, value in target.values.items() if name not in DATABASE})
    values = {name: target.values.get(name) for name in DATABASE} | vars(effective)
    values["command_variables"] = {
        job: dict.fromkeys(variables, REDACTED) for job, variables in effective.command_variables.items()
    }
    values["monitors"] = {pattern: shown_place(place) for pattern, place in effective.monitors.items()}
    if effective.heartbeat_url is not None:
        values["heartbeat_url"] = shown_place(effective.heartbeat_url)
    for name in (URL, "listen_url", "password_command"):
        if values[name] is not None:
            values[name] = without_password(str(values[name]))
    return [(setting, values[name], target.origins.get(name, "default")) for name, setting in SETTINGS.items()]


def _text(value: Any) -> Any:
    match value:
        case timedelta():
            return short(value)
        case dict():
            return ", ".join(f"{name}={_text(part)}" for name, part in value.items()) or None
        case tuple():
            return ", ".join(map(str, value)) or None
        case ExecutorConfig():
            return str(value)
    return value


@click.command()
@scheduler_options
@click.option("--repair", is_flag=True, help="Repair what can be repaired safely. Nodes may be running.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def doctor(target: Target, repair: bool, json_output: bool) -> None:
    """Find problems in the database of a scheduler, and advise on them.

    It is for the tables and their rows: after an upgrade or a restore, or when `quartzpy incidents` names nothing.
    Run it as the database user of the nodes, so that it finds missing privileges. Exit status: 0 if there are no
    problems, 1 for warnings, 2 for errors.
    """
    from quartzpy.operations.views.system import as_json, as_text

    report = report_of(target, repair=repair)
    click.echo(as_json(report) if json_output else as_text(report))
    sys.exit(report.status)


def report_of(target: Target, *, repair: bool = False) -> Report:
    """Examine the database of a scheduler."""
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.errors import SchemaError, StoreUnavailableError
    from quartzpy.operations.views.system import examine
    from quartzpy.store.postgresql.store import SqlJobStore

    # If the database cannot be read, the report says so, and the name does not matter.
    name = target.name or DEFAULT_NAME
    with suppress(SchemaError, StoreUnavailableError):
        name = target.chosen_name()
    store = SqlJobStore(target.database, SchedulerConfig.of(target.settings(name)))
    try:
        return examine(store, repair=repair)
    finally:
        store.close()
