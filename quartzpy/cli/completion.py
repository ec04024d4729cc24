"""`quartzpy completion`, and the completion of names from the database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from quartzpy.cli.target import select_target, selection_of
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.matchers import GroupMatcher

if TYPE_CHECKING:
    from quartzpy.factory import Scheduler

PROGRAM, VARIABLE = "quartzpy", "_QUARTZPY_COMPLETE"
_MOST = 100
"""The largest number of names that are offered."""
_PATIENCE = "2s"
"""The longest wait for the database: the user waits for each press of the key."""

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_HOW = {
    "bash": 'eval "$(quartzpy completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(quartzpy completion zsh)" in ~/.zshrc',
    "fish": "quartzpy completion fish > ~/.config/fish/completions/quartzpy.fish",
}


@click.command(epilog="  ".join(f"{shell}: {how}" for shell, how in _HOW.items()))
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and names in SHELL.

    The names of jobs, triggers and nodes come from the database that the command line so far selects.
    """
    cls = get_completion_class(shell)
    assert cls is not None
    root = context.find_root().command
    click.echo(cls(root, {}, PROGRAM, VARIABLE).source())


def completing(names: Callable[[Scheduler, str], Iterator[str]]) -> Completer:
    """Return the completion of an argument by names from the database. It is silent about every error."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        logging.disable(logging.CRITICAL)
        try:
            chosen = selection_of(context)
            target = select_target(chosen.options, chosen.config, connect_timeout=_PATIENCE, start_timeout=_PATIENCE)
            with target.client() as scheduler:
                matching = sorted({name for name in names(scheduler, incomplete) if name.startswith(incomplete)})
        except Exception:
            return []
        finally:
            logging.disable(logging.NOTSET)
        return [CompletionItem(name) for name in matching[:_MOST]]

    return complete


def _keys(query: Callable[..., Any], incomplete: str) -> Iterator[str]:
    """Yield the keys that begin with a text, and the bare names of the group DEFAULT that do."""
    selections: list[dict[str, Any]] = [
        {"group": GroupMatcher.starts_with(incomplete)} if incomplete else {},
        {"group": DEFAULT_GROUP, **({"contains": incomplete} if incomplete else {})},
    ]
    dots = [place for place, character in enumerate(incomplete) if character == "." and place]
    for dot in dots:
        name = incomplete[dot + 1 :]
        selections.append({"group": incomplete[:dot], **({"contains": name} if name else {})})
    for selection in selections:
        for record in query(**selection).page(_MOST):
            yield str(record.key)
            if record.key.group == DEFAULT_GROUP:
                yield record.key.name


def _job_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return _keys(scheduler.jobs, incomplete)


def _trigger_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return _keys(scheduler.triggers, incomplete)


def _node_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return (node.instance_id for node in scheduler.nodes().nodes)


def _calendar_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return iter(scheduler.calendar_names())


def _limit_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return iter(scheduler.limits())


def _running_ids(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return (str(record.fire_id) for record in scheduler.running())


def _subject_names(scheduler: Scheduler, incomplete: str) -> Iterator[str]:
    return chain(_job_names(scheduler, incomplete), _trigger_names(scheduler, incomplete))


SUBJECTS: Completer = completing(_subject_names)
JOBS: Completer = completing(_job_names)
TRIGGERS: Completer = completing(_trigger_names)
NODES: Completer = completing(_node_names)
LIMITS: Completer = completing(_limit_names)
CALENDARS: Completer = completing(_calendar_names)
RUNNING: Completer = completing(_running_ids)
