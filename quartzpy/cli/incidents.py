"""`quartzpy incidents`: what is wrong now or soon will be, why, and the commands that mend it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from quartzpy.cli.cells import faint, styled
from quartzpy.cli.listing import Options, output_options, parsed, print_json, repeat, terminal_width
from quartzpy.cli.sheet import Sheet
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.keys import JobKey, Key
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Selection
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.incidents import Incident, Remedy
    from quartzpy.operations.overview import Overview

_INDENT = 2


@click.command()
@scheduler_options
@output_options
def incidents(target: Target, json_output: bool, watch: str | None, zone: str) -> None:
    """Say what is wrong now or soon will be, why, and which commands mend it.

    Exit status: 0 if nothing is wrong, 1 if something is.
    """
    options = parsed(json_output, watch, zone, None)
    found: Sequence[Incident] = ()

    def output() -> None:
        nonlocal found
        overview = operations.overview()
        found = overview.incidents
        if options.json_output:
            print_json(found, indent=options.watch is None)
        else:
            click.echo("\n\n".join(_drawn(one, options) for one in found) or _in_order(overview))

    with target.operations() as operations:
        repeat(options.watch, output)
    sys.exit(1 if found else 0)


def _in_order(overview: Overview) -> str:
    return (
        f"Nothing is wrong: {numbered(len(overview.nodes), 'node is', 'nodes are')} alive, and"
        f" {numbered(len(overview.running), 'job runs', 'jobs run')}."
    )


def _drawn(incident: Incident, options: Options) -> str:
    sheet = Sheet(options.cells, terminal_width())
    sheet.plain((f"{incident.severity.upper()}: {incident.what}",))
    sheet.plain(incident.why, indent=_INDENT)
    what, *why = str(sheet).split("\n")
    mend = (f"{' ' * _INDENT}{faint('mend:')} {command_of(remedy)}" for remedy in incident.remedies)
    return "\n".join([styled(str(incident.severity), what), *why, *mend])


def command_of(remedy: Remedy) -> str:
    """Return the command line that carries out a remedy."""
    arguments = dict(remedy.arguments)
    kind, subject = _subject(arguments.pop("selection", None) or arguments.pop("node"))
    action = ACTIONS[remedy.action]
    words = ["quartzpy", action.command, *([kind] if len(action.commanded) > 1 else [])]
    return shlex.join([*words, *(f"--{name}={value}" for name, value in arguments.items()), *subject])


def _subject(subject: object) -> tuple[str, list[str]]:
    """Return the kind of a subject and the words that name it."""
    match subject:
        case Key(name, group) if "." in name + group:
            # Without the option, the text may read like another key.
            return _kind(subject), [f"--group={group}", "--", name]
        case Key() | str() | int():
            return _kind(subject), _words(str(subject))
        case [first, *_] as subjects:
            return _kind(first), _words(*map(str, subjects))
    # The other subjects of remedies are groups and everything.
    assert isinstance(subject, Selection)
    return subject.kind.replace(" ", "-"), _words(*map(str, subject.filters.values()))


def _kind(subject: object) -> str:
    return "job" if isinstance(subject, JobKey) else "trigger"


def _words(*subjects: str) -> list[str]:
    return [*(["--"] if any(one.startswith("-") for one in subjects) else []), *subjects]
