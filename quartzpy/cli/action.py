"""Actions from the command line: their subjects, the confirmation, and the result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.cells import Cells, faint
from quartzpy.cli.exits import NOT_CONFIRMED, NOTHING_MATCHED, PARTLY_DONE
from quartzpy.cli.filters import EXECUTION_FILTERS, JOB_FILTERS, TRIGGER_FILTERS, Filters, FilterSet
from quartzpy.cli.keys import execution_id, job_key, trigger_key
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import SettingsError
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.results import ActionResult
    from quartzpy.operations.selection import Selected, Selection

SHOWN = 10
"""The number of subjects that a question and a dry run name."""
_Command = Callable[..., Any]
_COMPLETERS = {"job": completion.JOBS, "trigger": completion.TRIGGERS, "execution": completion.RUNNING}


@dataclass(frozen=True, slots=True)
class Request:
    """The options that all actions share."""

    reason: str
    dry_run: bool
    confirmed: bool
    json_output: bool


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of an action: those that were named, or a selection by filters."""

    selected: Selected
    kind: str
    """The kind of one subject: "trigger"."""
    count: int
    first: Sequence[str]
    """The first of them, as text."""
    named: bool
    """True if the user named each of them."""
    words: str | None = None
    """Describes a group or everything, which lasts and so may be empty."""

    def __str__(self) -> str:
        if self.words is not None:
            return self.words
        if self.count == 1 and self.first:
            return f"{self.kind} {self.first[0]}"
        more = f" and {self.count - len(self.first):,} others" if self.count > len(self.first) else ""
        names = f": {', '.join(self.first)}{more}" if self.first else ""
        return f"{self.count:,} {self.kind}s{names}"


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


def subject_options(filters: FilterSet, metavar: str) -> Callable[[_Command], _Command]:
    """Return the decorator that adds the subjects of an action: their keys, or the filters that select them."""

    def decorate(command: _Command) -> _Command:
        words = f"Every {filters.kind}, if no filter is given."
        command = click.option("--all", "everything", is_flag=True, help=words)(command)
        return click.argument("keys", nargs=-1, metavar=f"[{metavar}]...", shell_complete=_COMPLETERS[filters.kind])(
            filters.options(command)
        )

    return decorate


def subjects(
    operations: Operations, filters: FilterSet, keys: Sequence[str], everything: bool, given: dict[str, Any]
) -> Subjects:
    """Return the subjects that the arguments of a command name or select.

    Raises:
        click.UsageError: there are neither keys nor filters, or both.
        ObjectNotFoundError: one that was named is not stored.
    """
    chosen = Filters(filters, given, Cells())
    if keys:
        only_group = given.get("group") is not None and not Filters(filters, {**given, "group": None}, Cells())
        if everything or (chosen and not only_group):
            raise click.UsageError(f"give either the keys of the {filters.kind}s or filters, not both")
        found = [_key(operations, filters, text, given.get("group")) for text in dict.fromkeys(keys)]
        return Subjects(found[0] if len(found) == 1 else found, filters.kind, len(found), _texts(found), named=True)
    if not chosen and not everything:
        raise click.UsageError(f"name the {filters.kind}s, select them by filters, or give --all")
    selection = _selection(filters, chosen.values(operations))
    count = operations.actions.count(selection)
    records = selection.query(operations.scheduler).page(SHOWN) if count else []
    first = [getattr(record, "fire_id", None) or getattr(record, "key", None) for record in records]
    if not count:
        click.echo(chosen.nothing(operations), err=True)
    return Subjects(selection, filters.kind, count, _texts(first), named=False)


def _selection(filters: FilterSet, values: dict[str, Any]) -> Selection:
    from quartzpy.operations.selection import Selection

    if filters is JOB_FILTERS:
        return Selection.jobs(**values)
    return Selection.triggers(**values) if filters is TRIGGER_FILTERS else Selection.executions(**values)


def _key(operations: Operations, filters: FilterSet, text: str, group: str | None) -> Any:
    if filters is JOB_FILTERS:
        return job_key(operations.scheduler, text, group)
    if filters is EXECUTION_FILTERS:
        return execution_id(text)
    return trigger_key(operations.scheduler, text, group)


def _texts(keys: Sequence[Any]) -> list[str]:
    return [visible(str(key)) for key in keys[:SHOWN]]


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
            click.echo(faint(f"  and {result.failed - len(result.failures):,} others"), err=True)
    if result.failed:
        sys.exit(PARTLY_DONE)


def one(kind: str, key: Any) -> Subjects:
    """Return a single subject that the user named."""
    return Subjects(key, kind, 1, _texts([key]), named=True)


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
