"""`quartzpy doctor`: examine the database of a scheduler, and mend what can be mended safely."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from quartzpy.cli.target import DEFAULT_NAME, Target, scheduler_options


@click.command()
@scheduler_options
@click.option("--pooled", is_flag=True, help="The URL leads to a pooler that lends connections for a transaction.")
@click.option("--repair", is_flag=True, help="Mend what can be mended safely, also while nodes work.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def doctor(target: Target, pooled: bool, repair: bool, json_output: bool) -> None:
    """Say what is wrong with the database of a scheduler, and what to do.

    Run it as the user of the nodes: what that one may not do is found too. Exit status: 0 where nothing is wrong, 1 for
    warnings, 2 for errors.
    """
    from quartzpy.config import SchedulerConfig
    from quartzpy.errors import SchemaError, StoreUnavailableError
    from quartzpy.operations.doctor import as_json, as_text, examine
    from quartzpy.store.sql.store import SqlJobStore

    # A database that cannot be read at all is what the doctor reports, under whatever name.
    name = target.name or DEFAULT_NAME
    with suppress(SchemaError, StoreUnavailableError):
        name = target.chosen_name()
    store = SqlJobStore(target.dsn, SchedulerConfig.of({**target.settings(name), "pooled": pooled}))
    try:
        report = examine(store, repair=repair)
    finally:
        store.close()
    click.echo(as_json(report) if json_output else as_text(report))
    sys.exit(report.status)
