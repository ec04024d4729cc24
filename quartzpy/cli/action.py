"""Actions from the command line: their common options, the confirmation, and the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.cells import Cells, faint
from quartzpy.cli.exits import NOT_CONFIRMED, NOTHING_MATCHED, PARTLY_DONE
from quartzpy.cli.listing import print_json
from quartzpy.cli.subjects import Subjects
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import SettingsError
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.results import ActionResult

_Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Request:
    """The options that all actions share."""

    reason: str
    dry_run: bool
    confirmed: bool
    json_output: bool


def action_options(command: Callable[..., None]) -> _Command:
    """Add the options that all actions share; the command receives a `Target` and a `Request`."""

    @wraps(command)
    def collected(
        target: Target, *arguments: Any, reason: str, dry_run: bool, confirmed: bool, json_output: bool, **rest: Any
    ) -> None:
        command(target, Request(reason, dry_run, confirmed, json_output), *arguments, **rest)

    decorated: Any = collected
    for option in (
        click.option("--json", "json_output", is_flag=True, help="Print the result as JSON."),
        click.option("--yes", "confirmed", is_flag=True, help="Do not ask for confirmation."),
        click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing."),
        click.option("--reason", default="", help="The reason, for the audit log."),
    ):
        decorated = option(decorated)
    return scheduler_options(decorated)


def act_on(
    target: Target,
    request: Request,
    find: Callable[[Operations], Subjects],
    what: str,
    action: str,
    *arguments: Any,
    always_asks: bool = False,
    **options: Any,
) -> None:
    """Do an action of `Operations.actions` on the subjects that `find` returns.

    Args:
        target: the scheduler.
        request: the options of the command.
        find: finds the subjects.
        what: the action as a question begins: "Pause".
        action: the name of the method of `Operations.actions`, which is also its name in JSON.
        arguments: the arguments of the method after the subjects.
        always_asks: ask also where the user has named each subject.
        options: the keyword arguments of the method.
    """
    with target.operations() as operations:
        found = find(operations)
        method = getattr(operations.actions, action)
        perform(
            request,
            what,
            found,
            lambda: method(found.selected, *arguments, reason=request.reason, **options),
            action=action,
            always_asks=always_asks,
        )


def perform(
    request: Request,
    what: str,
    found: Subjects,
    act: Callable[[], ActionResult],
    *,
    action: str,
    always_asks: bool = False,
    dry_run: Callable[[], None] | None = None,
) -> None:
    """Do an action on subjects after the confirmation that it needs, print the result, and exit if it was not done.

    Args:
        request: the options of the command.
        what: the action as a question begins: "Pause".
        found: the subjects.
        act: does it.
        action: the name of the action in JSON.
        always_asks: ask also where the user has named each subject.
        dry_run: prints more about what would be done.
    """
    if found.count == 0 and found.words is None:
        sys.exit(NOTHING_MATCHED)
    if request.dry_run:
        if request.json_output:
            print_json({"action": action, "dry_run": True, "count": found.count, "keys": list(found.first)})
        else:
            click.echo(f"would {what[:1].lower()}{what[1:]} {found}")
        if dry_run is not None and not request.json_output:
            dry_run()
        return
    if not request.confirmed and (always_asks or (not found.named and found.count > 1)):
        confirm_or_exit(f"{what} {found}?")
    report(request, act())


def confirm_or_exit(question: str) -> None:
    """Ask the user. Exit if the answer is no, or if nobody can be asked."""
    if not sys.stdin.isatty():
        click.echo(f"{question} Nobody can be asked, because the input is not a terminal: give --yes.", err=True)
        sys.exit(NOT_CONFIRMED)
    if not click.confirm(question, err=True):
        click.echo("nothing was changed", err=True)
        sys.exit(NOT_CONFIRMED)


def report(request: Request, result: ActionResult) -> None:
    """Print the result of an action; exit with an error if it could not be applied to all of its subjects."""
    if request.json_output:
        print_json(result)
    else:
        click.echo(Cells().sentence(result.text))
        for failure in result.failures:
            click.echo(f"  {visible(failure.key)}: {visible(failure.error)}", err=True)
        if result.failed > len(result.failures):
            click.echo(faint(f"  and {numbered(result.failed - len(result.failures), 'other', 'others')}"), err=True)
    if result.failed:
        sys.exit(PARTLY_DONE)


def parsed_data(text: str | None) -> dict[str, Any] | None:
    """Return the data of `--data`: a JSON object, or that in a file after "@".

    Raises:
        SettingsError: the file cannot be read, or the text is not a JSON object.
    """
    import json
    from pathlib import Path

    if text is None:
        return None
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--data: {error}") from error
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"--data: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f"--data: must be a JSON object (got {type(found).__name__})")
    return found
