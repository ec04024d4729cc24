"""`quartzpy db`: create, upgrade and check the tables."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from quartzpy.cli.target import prefix_option, schema_option, url_option
from quartzpy.errors import AuthenticationError, SchemaError, SettingsError, StoreUnavailableError
from quartzpy.instants import as_span

_Command = Callable[..., None]


def _place_options(command: _Command) -> _Command:
    return schema_option(prefix_option(command))


def _database_options(command: _Command) -> _Command:
    return url_option()(_place_options(command))


@click.group()
def db() -> None:
    """Create, upgrade and check the tables."""


@db.command()
@_database_options
@click.argument("revision", default="head")
def upgrade(dsn: str, schema: str | None, table_prefix: str, revision: str) -> None:
    """Create the tables, or upgrade them to REVISION (default: that of this release)."""
    from quartzpy.store.sql import migrations

    before = migrations.current(dsn, schema, prefix=table_prefix)
    migrations.upgrade(dsn, schema, revision, prefix=table_prefix)
    click.echo(f"{before or 'nothing'} -> {migrations.current(dsn, schema, prefix=table_prefix)}")


@db.command()
@_database_options
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def downgrade(dsn: str, schema: str | None, table_prefix: str, revision: str, yes: bool) -> None:
    """Downgrade the tables to REVISION; "base" drops them with all their data."""
    from quartzpy.store.sql import migrations

    if not yes:
        click.confirm(f"Downgrade to {revision}? Data that only the newer tables can store is lost", abort=True)
    migrations.downgrade(dsn, schema, revision, prefix=table_prefix)
    click.echo(f"now at {migrations.current(dsn, schema, prefix=table_prefix) or 'nothing'}")


@db.command()
@_database_options
def current(dsn: str, schema: str | None, table_prefix: str) -> None:
    """Print the revision of the tables."""
    from quartzpy.store.sql import migrations

    click.echo(migrations.current(dsn, schema, prefix=table_prefix) or "nothing")


@db.command()
@_database_options
def check(dsn: str, schema: str | None, table_prefix: str) -> None:
    """Check that the tables, with all columns and indexes, are those of this release."""
    from quartzpy.store.sql import migrations

    migrations.check(dsn, schema, prefix=table_prefix)
    click.echo(f"revision {migrations.HEAD}: the tables match this release")


@db.command()
@_place_options
def sql(schema: str | None, table_prefix: str) -> None:
    """Print the SQL that creates the tables. It needs no database."""
    from quartzpy.store.sql import migrations

    click.echo(migrations.sql(schema, prefix=table_prefix), nl=False)


@db.command()
@_database_options
@click.option("--timeout", default="60s", show_default=True, help="How long to wait.")
def wait(dsn: str, schema: str | None, table_prefix: str, timeout: str) -> None:
    """Wait until the database is available and its tables match this release."""
    from quartzpy.store.sql import migrations

    deadline = time.monotonic() + as_span(timeout, "--timeout", SettingsError).total_seconds()
    while True:
        try:
            migrations.check(dsn, schema, prefix=table_prefix)
            return
        except AuthenticationError:
            raise
        except (StoreUnavailableError, SchemaError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)  # noqa: TID251 - nothing here could wake us sooner


@db.command()
@url_option(required=False, text="The database, required only for --apply: postgresql+psycopg://user@host/database")
@_place_options
@click.option("--owner", help="The role to own the tables. Default: the owner is not changed.")
@click.option("--node", default="quartzpy_node", show_default=True, help="The role of nodes, which run jobs.")
@click.option(
    "--client", default="quartzpy_client", show_default=True, help="The role of clients, which schedule jobs."
)
@click.option("--reader", default="quartzpy_reader", show_default=True, help="The role of read-only users.")
@click.option("--apply", "applied", is_flag=True, help="Run the SQL instead of printing it.")
def roles(
    dsn: str | None,
    schema: str | None,
    table_prefix: str,
    owner: str | None,
    node: str,
    client: str,
    reader: str,
    applied: bool,
) -> None:
    """Print the SQL for roles with the least privileges, or run it.

    The roles cannot log in: GRANT them to your login roles.
    """
    from quartzpy.store.sql import roles as sql_roles

    names = {"node": node, "client": client, "reader": reader} | ({"owner": owner} if owner else {})
    if len(set(names.values())) < len(names):
        raise click.UsageError("the roles must have different names")
    found = sql_roles.statements(names, schema, table_prefix)
    if not applied:
        click.echo(sql_roles.as_script(found), nl=False)
        return
    if dsn is None:
        raise click.UsageError("--apply requires --dsn")
    sql_roles.apply(dsn, found)
    click.echo(f"created or updated the roles {', '.join(names.values())} with their privileges")
