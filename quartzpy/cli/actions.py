"""The commands of the actions, each made from its entry in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from quartzpy.cli.action import Request, act_on, action_options, parsed_data
from quartzpy.cli.filters import choice
from quartzpy.cli.kinds import KindGroup
from quartzpy.cli.rescheduling import reschedule
from quartzpy.cli.running import backfill, run_and_wait
from quartzpy.cli.subjects import Find, subject_options
from quartzpy.cli.target import Target
from quartzpy.operations.actions.action import Action
from quartzpy.operations.actions.inputs import Choice, Data, Flag, Input, Number
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Subject

_Command = Callable[..., Any]
_Run = Callable[..., Any]

_OWN: Mapping[str, _Run] = {"trigger": run_and_wait, "backfill": backfill, "reschedule": reschedule}
"""The actions whose commands do more than the action. They have options of their own."""


def _run(action: Action, target: Target, request: Request, find: Find, **values: Any) -> None:
    with target.operations() as operations:
        act_on(operations, action, request, find(operations), values)


def _command(action: Action, kind: Subject, name: str) -> click.Command:
    run: _Run = _OWN.get(action.name, _run)
    own: list[click.Parameter] = getattr(run, "__click_params__", [])

    def command(target: Target, request: Request, find: Find, **values: Any) -> None:
        run(action, target, request, find, **values)

    vars(command)["__click_params__"] = [*own]
    decorated: _Command = subject_options(action, kind)(command)
    for item in reversed(action.inputs):
        if item.name not in {parameter.name for parameter in own}:
            decorated = _option(item)(decorated)
    return click.command(name, help=action.subjects[kind])(action_options(decorated))


def _option(item: Input) -> Callable[[_Command], _Command]:
    flag = f"--{item.name.replace('_', '-')}"
    match item:
        case Flag():
            return click.option(flag, is_flag=True, help=item.help)
        case Number():
            return click.option(flag, type=click.IntRange(1), default=item.default, show_default=True, help=item.help)
        case Choice():
            return click.option(flag, type=choice(item.words), default=item.default, show_default=True, help=item.help)
        case Data():
            read = parsed_data(flag)
            return click.option(flag, callback=read, help=f"{item.help} A JSON object, or @FILE.")
    return click.option(flag, required=item.is_required, help=item.help)


def command_of(action: Action) -> click.Command:
    """Return the command of an action, or the group of its commands if it applies to several kinds of subjects."""
    kinds = action.commanded
    if len(kinds) == 1:
        return _command(action, kinds[0], action.command)
    group = KindGroup(action.command, help=action.help)
    for kind in kinds:
        group.add_command(_command(action, kind, kind.replace(" ", "-")))
    return group


COMMANDS: Mapping[str, click.Command] = {action.command: command_of(action) for action in ACTIONS.values()}
"""The commands by their names."""
