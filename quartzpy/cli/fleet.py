"""`quartzpy fleet`: several schedulers in one view."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.commands import NOT_OK
from quartzpy.cli.formatter import heading
from quartzpy.cli.listing import Answer, chosen_columns, output_options, parsed, print_answer, print_json, repeat
from quartzpy.cli.setup import report_of
from quartzpy.cli.target import Target
from quartzpy.config.fleet import FLEET_FILE, FleetEntry, fleet_from_toml
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span
from quartzpy.operations.lists.fleet import FLEET, FLEET_INCIDENTS
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.operations.fleet import FleetMember
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.system import Report

_EXAMINED_WITHIN = 60.0


def target_of(entry: FleetEntry) -> Target:
    """Return the scheduler of an entry, as the options of a command would select it."""
    values = entry.placed()
    return Target(values, dict.fromkeys(values, entry.origin), None)


def members_in(path: str) -> Sequence[FleetMember]:
    """Return the schedulers of a file; errors as for `fleet_from_toml`."""
    from quartzpy.operations.fleet import FleetMember

    def opening(entry: FleetEntry) -> Callable[[], Any]:
        @contextmanager
        def opened() -> Iterator[Operations]:
            with target_of(entry).operations() as operations:
                yield operations

        return opened

    return [FleetMember(entry.title, opening(entry), entry.dashboard) for entry in fleet_from_toml(path)]


def _file_option(command: Callable[..., None]) -> Callable[..., None]:
    option = click.option("--fleet", "file", metavar="FILE", help=f"The file. [default: {FLEET_FILE}]")
    return option(command)


def _list_options(command: Callable[..., None]) -> Callable[..., None]:
    columns = click.option("--columns", help="The columns of the table, separated by commas; all prints every column.")
    deadline = click.option(
        "--deadline", default="5s", show_default=True, help="The longest wait for the answer of a scheduler."
    )
    return _file_option(output_options(columns(deadline(command))))


@click.group(invoke_without_command=True)
@_list_options
@click.pass_context
def fleet(context: click.Context, /, file: str | None, **options: Any) -> None:
    """List several schedulers, those of a file, and how each is.

    The file has a table [[scheduler]] for each, with name, url and other settings. One that does not answer is shown as
    such, and delays no other. With --watch, the list is printed again and again.
    """
    context.obj = file
    if context.invoked_subcommand is None:
        _print(FLEET, file, **options)


@fleet.command()
@_list_options
@click.pass_context
def incidents(context: click.Context, /, file: str | None, **options: Any) -> None:
    """List what is wrong with any of the schedulers, the worst first.

    Exit status: 0 if nothing is wrong, 1 if something is.
    """
    sys.exit(NOT_OK if _print(FLEET_INCIDENTS, file or context.obj, **options) else 0)


def _print(
    spec: ListSpec[Any],
    file: str | None,
    *,
    json_output: bool,
    watch: str | None,
    zone: str,
    columns: str | None,
    deadline: str,
) -> Sequence[Any]:
    """Print a list once or again and again. Return its last rows."""
    from quartzpy.operations.fleet import PERIOD, Fleet

    options = parsed(json_output, watch, zone, columns)
    shown = chosen_columns(spec.columns, options.columns)
    within = as_span(deadline, "--deadline", SettingsError, above_zero=True).total_seconds()
    rows: Sequence[Any] = ()
    view = Fleet(members_in(file or FLEET_FILE), period=options.watch or PERIOD, deadline=within)

    def output() -> None:
        nonlocal rows
        rows = getattr(view, spec.method)()
        print_answer(options, shown, Answer(rows, f"nothing is wrong with the {len(view.members)} schedulers"))

    try:
        repeat(options.watch, output)
    finally:
        view.close()
    return rows


@fleet.command()
@_file_option
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, /, file: str | None, json_output: bool) -> None:
    """Find problems in the databases of all schedulers, and advise on them, as `quartzpy doctor` does for one.

    All are examined at the same time, each within a minute. Exit status: 0 if there are no problems, 1 for warnings, 2
    for errors.
    """
    from quartzpy.operations.fleet import ask_each
    from quartzpy.operations.views.system import as_json, as_text, unusable

    path = file or context.obj or FLEET_FILE
    entries = {entry.title: entry for entry in fleet_from_toml(path)}

    def examined(member: FleetMember) -> Report:
        return report_of(target_of(entries[member.title]))

    status, printed = 0, {}
    for member, answer in ask_each(members_in(path), examined, _EXAMINED_WITHIN):
        report = unusable(answer) if isinstance(answer, str) else answer
        status = max(status, report.status)
        if json_output:
            printed[member.title] = json.loads(as_json(report))
        else:
            click.echo(f"{heading(visible(member.title))}\n{as_text(report)}\n")
    if json_output:
        print_json(printed)
    sys.exit(status)
