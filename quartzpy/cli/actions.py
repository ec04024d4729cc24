"""The commands of the actions, each made from its entry in the table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.action import Request, act_on, action_options, parsed_data
from quartzpy.cli.commands import NOT_OK, NOTHING_MATCHED, USAGE, KindGroup, NounGroup
from quartzpy.cli.drawing import DetailView
from quartzpy.cli.filters import choice
from quartzpy.cli.formatter import LOCAL, Formatter, instant
from quartzpy.cli.listing import print_json, terminal_width
from quartzpy.cli.show import draw_times
from quartzpy.cli.subjects import SHOWN, Find, Subjects, subject_options
from quartzpy.cli.target import Target
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span
from quartzpy.operations.actions.action import NOUNS, Action
from quartzpy.operations.actions.inputs import Choice, Data, EndInput, Flag, Input, Instant, Number
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Subject
from quartzpy.states import ExecutionState
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.keys import TriggerKey
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.schedules import SchedulePreview


@click.argument("text", nargs=-1, required=True, metavar="SCHEDULE")
@click.option("--zone", help="The time zone of the schedule. [default: that of the trigger]")
def reschedule(
    action: Action, target: Target, request: Request, find: Find, *, text: tuple[str, ...], zone: str | None
) -> None:
    """Show the schedule or its error, and give it to the trigger."""
    context = click.get_current_context()
    if len(text) > 1:
        typed = context.params["trigger"]
        raise click.UsageError(f"Quote the schedule, which has blanks: {context.command_path} {typed} '...'", context)
    [schedule] = text
    with target.operations() as operations:
        trigger = find(operations)
        preview = operations.actions.preview_schedule(schedule, zone, trigger=trigger.selected)
        if preview.error is not None:
            click.echo(_pointed_at(preview), err=True)
            context.exit(USAGE)
        if request.dry_run and request.json_output:
            print_json(preview)
            return

        def show() -> None:
            details = DetailView(Formatter(), terminal_width())
            details.values({"schedule": schedule, "in words": preview.words})
            draw_times(details, preview.next_times)
            click.echo(str(details))

        act_on(operations, action, request, trigger, {"text": schedule, "zone": zone}, dry_run=show)


def _pointed_at(preview: SchedulePreview) -> str:
    """Return the error of a schedule, with a mark below the place that is wrong."""
    lines = [f"quartzpy: {visible(str(preview.error))}"]
    if preview.position is not None and preview.text.isprintable():
        lines += [f"  {preview.text}", f"  {' ' * preview.position}^"]
    return "\n".join(lines)


_POLL_SECONDS = 0.25


@click.option("--wait", "timeout", help="Wait up to this time for the run to end; its failure is exit status 1.")
def run_and_wait(
    action: Action, target: Target, request: Request, find: Find, *, timeout: str | None, **values: Any
) -> None:
    """Run a job, and wait for the end of the run if the options say so."""
    seconds = None if timeout is None else as_span(timeout, "--wait", SettingsError).total_seconds()
    with target.operations() as operations:
        result = act_on(operations, action, request, find(operations), values)
        if result is not None and seconds is not None:
            _wait(operations, result.keys[0], seconds)


def _wait(operations: Operations, key: TriggerKey, seconds: float) -> None:
    """Wait until the run has ended, and print its outcome. Exit with an error unless it succeeded."""
    pause = threading.Event()
    for _ in range(max(1, round(seconds / _POLL_SECONDS))):
        executions = operations.executions(trigger=key, limit=1)
        if executions:
            ended = executions[0]
            error = f": {ended.error}" if ended.error else ""
            click.echo(f"execution {ended.fire_id} {ended.state}{error}", err=True)
            if ended.state is not ExecutionState.SUCCEEDED:
                sys.exit(NOT_OK)
            return
        pause.wait(_POLL_SECONDS)
    click.echo(f"trigger {key} has not ended within {seconds:g}s", err=True)
    sys.exit(NOT_OK)


@click.option("--from", "start", required=True, help="The earliest fire time: an instant, or a length of time ago.")
@click.option("--until", "end", default="now", show_default=True, help="The fire times are before this instant.")
@click.option("--zone", default=LOCAL, help="The time zone of the instants. [default: that of this machine]")
def backfill(
    action: Action,
    target: Target,
    request: Request,
    find: Find,
    *,
    start: str,
    end: str,
    zone: str,
    max_runs: int,
    even_if_paused: bool,
) -> None:
    """Run the job of a trigger for the fire times in a range, which the question and a dry run name."""
    formatter = Formatter(zone)
    with target.operations() as operations:
        key = find(operations).selected
        now = operations.now()
        first, last = instant(start, "--from", formatter, now), instant(end, "--until", formatter, now)
        assert first is not None
        assert last is not None
        times: list[datetime] = operations.actions.backfill_times(key, first, last, max_runs=max_runs)
        if not times:
            click.echo(f"trigger {key} has no fire time in this range", err=True)
            sys.exit(NOTHING_MATCHED)
        shown = ", ".join(formatter.text(at) for at in times[:SHOWN])
        more = f" and {numbered(len(times) - SHOWN, 'other', 'others')}" if len(times) > SHOWN else ""
        fires = numbered(len(times), "fire time", "fire times")
        words = f"{fires} of trigger {key}: {shown}{more}"
        subjects = Subjects(key, "trigger", len(times), shown.split(", "), named=len(times) == 1, words=words)
        values = {"start": first, "end": last, "max_runs": max_runs, "even_if_paused": even_if_paused}
        act_on(operations, action, request, subjects, values)


_Command = Callable[..., Any]
_Run = Callable[..., Any]

_OWN: Mapping[str, _Run] = {
    "trigger": run_and_wait,
    "backfill": backfill,
    "reschedule": reschedule,
}
"""The actions whose commands do more than the action. They have options of their own."""


def _run(action: Action, target: Target, request: Request, find: Find, *, of_clock: str = LOCAL, **values: Any) -> None:
    with target.operations() as operations:
        for item in _instants(action):
            values[item.name] = instant(
                values[item.name], flag(item), Formatter(of_clock), operations.now(), direction=item.direction
            )
        act_on(operations, action, request, find(operations), values)


def _instants(action: Action) -> list[Instant | EndInput]:
    """Return the instants that a command reads; an action with a zone of its own reads them in that."""
    if any(item.name == "zone" for item in action.inputs):
        return []
    return [item for item in action.inputs if isinstance(item, Instant | EndInput)]


def _command(action: Action, name: str, *kinds: Subject) -> click.Command:
    run: _Run = _OWN.get(action.name, _run)
    own: list[click.Parameter] = getattr(run, "__click_params__", [])

    def command(target: Target, request: Request, find: Find, **values: Any) -> None:
        run(action, target, request, find, **values)

    vars(command)["__click_params__"] = [*own]
    decorated: _Command = command
    if run is _run and _instants(action):
        words = "The time zone of the instant. [default: that of this machine]"
        decorated = click.option("--zone", "of_clock", default=LOCAL, help=words)(decorated)
    for item in reversed(action.inputs):
        if item.is_argument:
            decorated = click.argument(item.name)(decorated)
    decorated = subject_options(action, *kinds)(decorated)
    for item in reversed(action.inputs):
        if not item.is_argument and item.name not in {parameter.name for parameter in own}:
            decorated = _option(item)(decorated)
    text = action.subjects[kinds[0]] if len(kinds) == 1 else action.help
    return click.command(name, help=text)(action_options(decorated))


def flag(item: Input) -> str:
    """Return the option of an input."""
    return f"--{item.name.replace('_', '-')}"


def _option(item: Input) -> Callable[[_Command], _Command]:
    name = flag(item)
    match item:
        case Flag():
            return click.option(name, is_flag=True, help=item.help)
        case Number():
            return click.option(name, type=click.IntRange(1), default=item.default, show_default=True, help=item.help)
        case Choice():
            return click.option(name, type=choice(item.words), default=item.default, show_default=True, help=item.help)
        case Data():
            read = parsed_data(name)
            return click.option(name, callback=read, help=f"{item.help} A JSON object, or @FILE.")
    return click.option(name, required=item.is_required, help=item.help)


def _command_of(action: Action, name: str) -> click.Command:
    """Return the command of an action, or the group of its commands if there is one for each kind of its subjects."""
    kinds = action.commanded
    if len(kinds) == 1 or Subject.EVERYTHING in kinds:
        return _command(action, name, *kinds)
    group = KindGroup(name, help=action.help)
    for kind in kinds:
        group.add_command(_command(action, kind.replace(" ", "-"), kind))
    return group


def names() -> Iterable[str]:
    """Return the names of the commands."""
    return dict.fromkeys([*NOUNS, *(_words(action)[0] for action in ACTIONS.values() if action.commanded)])


def command_named(name: str) -> click.Command:
    """Return the command of this name.

    Raises:
        KeyError: there is none.
    """
    actions = [action for action in ACTIONS.values() if action.commanded and _words(action)[0] == name]
    if name in NOUNS:
        group = NounGroup(name, help=NOUNS[name])
        for action in actions:
            group.add_command(_command_of(action, _words(action)[1]))
        return group
    for action in actions:
        return _command_of(action, name)
    raise KeyError(name)


def _words(action: Action) -> tuple[str, str]:
    """Return the first word of a command, and the others."""
    first, _, verb = action.command.partition(" ")
    return first, verb
