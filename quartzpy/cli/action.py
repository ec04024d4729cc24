"""Actions from the command line: their common options, the confirmation, and the result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.commands import NOT_CONFIRMED, NOTHING_MATCHED, PARTLY_DONE
from quartzpy.cli.formatter import Formatter, faint
from quartzpy.cli.listing import print_json
from quartzpy.cli.subjects import Subjects
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import SettingsError
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.actions.log import ActionResult
    from quartzpy.operations.operations import Operations

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
    operations: Operations,
    action: Action,
    request: Request,
    subjects: Subjects,
    values: Mapping[str, Any],
    *,
    dry_run: Callable[[], None] = lambda: None,
) -> ActionResult | None:
    """Do an action after the confirmation that it needs, and print the result; exit if it was not done.

    Args:
        operations: the operations.
        action: the action.
        request: the options of the command.
        subjects: its subjects.
        values: the values of its inputs.
        dry_run: prints more about what would be done.

    Returns:
        The result; None of a dry run.
    """
    if subjects.count == 0 and subjects.words is None:
        sys.exit(NOTHING_MATCHED)
    question = f"{action.question_for(values)} {subjects}"
    if request.dry_run:
        if request.json_output:
            print_json({"action": action.name, "dry_run": True, "count": subjects.count, "keys": list(subjects.first)})
        else:
            click.echo(f"would {question[:1].lower()}{question[1:]}")
            dry_run()
        return None
    if not request.confirmed and (action.always_asks or subjects.must_be_confirmed):
        confirm_or_exit(f"{question}?")
    method = getattr(operations.actions, action.name)
    result: ActionResult = method(subjects.selected, **values, reason=request.reason)
    report(request, result)
    return result


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
        click.echo(Formatter().sentence(result.text))
        for failure in result.failures:
            click.echo(f"  {visible(failure.key)}: {visible(failure.error)}", err=True)
        if result.failed > len(result.failures):
            click.echo(faint(f"  and {numbered(result.failed - len(result.failures), 'other', 'others')}"), err=True)
    if result.failed:
        sys.exit(PARTLY_DONE)


def parsed_data(flag: str) -> Callable[[click.Context, click.Parameter, str | None], dict[str, Any] | None]:
    """Return the reader of an option with job data: a JSON object, or that in a file after "@".

    Raises (by the reader):
        SettingsError: the file cannot be read, or the text is not a JSON object.
    """

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, Any] | None:
        import json
        from pathlib import Path

        from quartzpy.text_files import read_text_file

        if text is None:
            return None
        if text.startswith("@"):
            text = read_text_file(Path(text[1:]))
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{flag}: is not JSON: {error}") from error
        if not isinstance(entries, dict):
            raise SettingsError(f"{flag}: must be a JSON object (got {type(entries).__name__})")
        return entries

    return read
