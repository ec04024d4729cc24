"""`quartzpy doctor`: examine the database of a scheduler, and mend what can be mended safely."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option("--dsn", envvar="QUARTZPY_URL", required=True, help="postgresql+psycopg://user@host/database")
@click.option("--name", envvar="QUARTZPY_NAME", default="quartzpy", show_default=True, help="The scheduler's name.")
@click.option("--schema", envvar="QUARTZPY_SCHEMA", help="The database schema of our tables.")
@click.option(
    "--table-prefix",
    envvar="QUARTZPY_TABLE_PREFIX",
    default="qrtz_",
    show_default=True,
    help="The beginning of the names of our tables.",
)
@click.option("--pooled", is_flag=True, help="The URL leads to a pooler that lends connections for a transaction.")
@click.option("--repair", is_flag=True, help="Mend what can be mended safely, also while nodes work.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def doctor(
    dsn: str, name: str, schema: str | None, table_prefix: str, pooled: bool, repair: bool, json_output: bool
) -> None:
    """Say what is wrong with the database of a scheduler, and what to do.

    Run it as the user of the nodes: what that one may not do is found too. Exit status: 0 where nothing is wrong, 1 for
    warnings, 2 for errors.
    """
    from quartzpy.config import SchedulerConfig
    from quartzpy.operations.doctor import as_json, as_text, examine
    from quartzpy.store.sql.store import SqlJobStore

    store = SqlJobStore(
        dsn, SchedulerConfig.of({"name": name, "schema": schema, "table_prefix": table_prefix, "pooled": pooled})
    )
    try:
        report = examine(store, repair=repair)
    finally:
        store.close()
    click.echo(as_json(report) if json_output else as_text(report))
    sys.exit(report.status)
