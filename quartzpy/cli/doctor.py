"""`quartzpy doctor`: examine the database of a scheduler, and repair what can be repaired safely."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from quartzpy.cli.target import DEFAULT_NAME, Target, scheduler_options


@click.command()
@scheduler_options
@click.option("--repair", is_flag=True, help="Repair what can be repaired safely. Nodes may be running.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def doctor(target: Target, repair: bool, json_output: bool) -> None:
    """Find problems in the database of a scheduler, and advise on them.

    Run it as the database user of the nodes, so that it finds missing privileges. Exit status: 0 if there are no
    problems, 1 for warnings, 2 for errors.
    """
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.errors import SchemaError, StoreUnavailableError
    from quartzpy.operations.system import as_json, as_text, examine
    from quartzpy.store.postgresql.store import SqlJobStore

    # If the database cannot be read, the report says so, and the name does not matter.
    name = target.name or DEFAULT_NAME
    with suppress(SchemaError, StoreUnavailableError):
        name = target.chosen_name()
    store = SqlJobStore(target.dsn, SchedulerConfig.of(target.settings(name)))
    try:
        report = examine(store, repair=repair)
    finally:
        store.close()
    click.echo(as_json(report) if json_output else as_text(report))
    sys.exit(report.status)
