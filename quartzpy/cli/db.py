"""`quartzpy db`: create, upgrade and check the tables."""

from __future__ import annotations

import time

import click

from quartzpy.cli.target import Target, database_options, table_options
from quartzpy.errors import AuthenticationError, SchemaError, SettingsError, StoreUnavailableError
from quartzpy.instants import as_span


@click.group()
def db() -> None:
    """Create, upgrade and check the tables."""


@db.command()
@database_options
@click.argument("revision", default="head")
def upgrade(target: Target, revision: str) -> None:
    """Create the tables, or upgrade them to REVISION (default: that of this release)."""
    from quartzpy.store.postgresql import migrations

    before = migrations.current(target.dsn, target.schema, prefix=target.table_prefix)
    migrations.upgrade(target.dsn, target.schema, revision, prefix=target.table_prefix)
    click.echo(f"{before or 'nothing'} -> {migrations.current(target.dsn, target.schema, prefix=target.table_prefix)}")


@db.command()
@database_options
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def downgrade(target: Target, revision: str, yes: bool) -> None:
    """Downgrade the tables to REVISION; "base" drops them with all their data."""
    from quartzpy.store.postgresql import migrations

    if not yes:
        click.confirm(f"Downgrade to {revision}? Data that only the newer tables can store is lost", abort=True)
    migrations.downgrade(target.dsn, target.schema, revision, prefix=target.table_prefix)
    click.echo(f"now at {migrations.current(target.dsn, target.schema, prefix=target.table_prefix) or 'nothing'}")


@db.command()
@database_options
def current(target: Target) -> None:
    """Print the revision of the tables."""
    from quartzpy.store.postgresql import migrations

    click.echo(migrations.current(target.dsn, target.schema, prefix=target.table_prefix) or "nothing")


@db.command()
@database_options
def check(target: Target) -> None:
    """Check that the tables, with all columns and indexes, are those of this release."""
    from quartzpy.store.postgresql import migrations, schema_version

    migrations.check(target.dsn, target.schema, prefix=target.table_prefix)
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
            migrations.check(target.dsn, target.schema, prefix=target.table_prefix)
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
@click.option("--reader", default="quartzpy_reader", show_default=True, help="The role of read-only users.")
@click.option("--apply", "applied", is_flag=True, help="Run the SQL instead of printing it.")
def roles(
    target: Target,
    owner: str | None,
    node: str,
    client: str,
    reader: str,
    applied: bool,
) -> None:
    """Print the SQL for roles with the least privileges, or run it.

    The roles cannot log in: GRANT them to your login roles. Only --apply needs the database.
    """
    from quartzpy.store.postgresql import roles as sql_roles

    names = {"node": node, "client": client, "reader": reader} | ({"owner": owner} if owner else {})
    if len(set(names.values())) < len(names):
        raise click.UsageError("the roles must have different names")
    found = sql_roles.statements(names, target.schema, target.table_prefix)
    if not applied:
        click.echo(sql_roles.as_script(found), nl=False)
        return
    sql_roles.apply(target.dsn, found)
    click.echo(f"created or updated the roles {', '.join(names.values())} with their privileges")
