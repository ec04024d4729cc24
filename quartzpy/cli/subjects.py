"""The subjects of an action from the command line: those that the user names, or selects by filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from quartzpy.cli import completion
from quartzpy.cli.filters import Filters, filter_options
from quartzpy.cli.formatter import Formatter
from quartzpy.cli.keys import execution_id, group_matcher, job_key, trigger_key
from quartzpy.cli.show import GROUP_HELP
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.operations.selection import Selection, Subject
from quartzpy.states import ENDED
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.operations import Operations

SHOWN = 10
"""The number of subjects that a question and a dry run name."""
_Command = Callable[..., Any]
_LISTS: Mapping[Subject, ListSpec[Any]] = {Subject.JOB: JOBS, Subject.TRIGGER: TRIGGERS, Subject.EXECUTION: EXECUTIONS}
_COMPLETERS = {"job": completion.JOBS, "trigger": completion.TRIGGERS, "execution": completion.RUNNING}


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of an action: those that were named, or a selection by filters."""

    selected: Any
    """The argument of the method: a key, several, or a selection; of a node, its name."""
    kind: str
    """The kind of one subject: "trigger"."""
    count: int
    first: Sequence[str]
    """The first of them, as text."""
    named: bool
    """True if the user named each of them."""
    words: str | None = None
    """Describes a group or everything, which lasts and so may be empty."""
    lasts: bool = False
    """True for a group or everything: what is stored there later belongs to it."""

    @property
    def must_be_confirmed(self) -> bool:
        """True if the user did not name each of them."""
        return self.lasts or (not self.named and self.count > 1)

    def __str__(self) -> str:
        if self.words is not None:
            return self.words
        if self.count == 1 and self.first:
            return f"{self.kind} {self.first[0]}"
        more = (
            f" and {numbered(self.count - len(self.first), 'other', 'others')}" if self.count > len(self.first) else ""
        )
        names = f": {', '.join(self.first)}{more}" if self.first else ""
        return f"{self.count:,} {self.kind}s{names}"


Find: TypeAlias = "Callable[[Operations], Subjects]"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arguments of a command that choose its subjects."""

    spec: ListSpec[Any]
    keys: Sequence[str]
    everything: bool
    values: dict[str, Any]
    """The values of the filters; None, False or empty for those that were not given."""

    @property
    def is_by_filters(self) -> bool:
        """True if filters or `--all` select the subjects."""
        return not self.keys and (self.everything or any(self.values.values()))

    def find(self, operations: Operations) -> Subjects:
        """Return the subjects.

        Raises:
            click.UsageError: there are neither keys nor filters, or both.
            ObjectNotFoundError: one that was named is not stored.
        """
        kind, values, group = self.spec.noun, self.values, self.values.get("group")
        filters = Filters(self.spec, values, Formatter())
        if self.keys:
            only_group = group is not None and not Filters(self.spec, {**values, "group": None}, Formatter())
            if self.everything or (filters and not only_group):
                raise click.UsageError(f"give either the keys of the {kind}s or filters, not both")
            keys = [_key(operations, self.spec, text, group) for text in dict.fromkeys(self.keys)]
            return _named(kind, keys)
        if not filters and not self.everything:
            raise click.UsageError(f"name the {kind}s, select them by filters, or give --all")
        selection = Selection(Subject(kind), filters.values(operations))
        count = operations.actions.count(selection)
        records = selection.query(operations.scheduler).page(SHOWN) if count else []
        first = [getattr(record, "fire_id", None) or getattr(record, "key", None) for record in records]
        if not count:
            click.echo(filters.nothing(operations), err=True)
        return Subjects(selection, kind, count, _texts(first), named=False)


def subject_options(action: Action, kind: Subject) -> Callable[[_Command], _Command]:
    """Return the decorator that adds the subjects of an action, which are of one kind.

    The command receives the function that finds them as the parameter `find`.
    """
    if kind is Subject.NODE:
        return _node
    if kind is Subject.INCIDENT:
        return _incident
    if kind is Subject.LIMIT:
        return _limit
    if kind is Subject.WINDOW:
        return _window
    if kind not in _LISTS:
        return partial(_lasting, kind)
    return partial(_single if action.is_single else _several, action, _LISTS[kind])


def _node(command: _Command) -> _Command:
    @click.argument("node", shell_complete=completion.NODES)
    @wraps(command)
    def collected(*arguments: Any, node: str, **rest: Any) -> None:
        command(*arguments, find=lambda _: _named("node", [node]), **rest)

    return collected


def _window(command: _Command) -> _Command:
    @click.argument("window")
    @wraps(command)
    def collected(*arguments: Any, window: str, **rest: Any) -> None:
        command(*arguments, find=lambda _: _named("window", [window]), **rest)

    return collected


def _incident(command: _Command) -> _Command:
    @click.argument("incident", type=click.IntRange(1))
    @wraps(command)
    def collected(*arguments: Any, incident: int, **rest: Any) -> None:
        command(*arguments, find=lambda _: _named("incident", [incident]), **rest)

    return collected


def _limit(command: _Command) -> _Command:
    @click.argument("limit", shell_complete=completion.LIMITS)
    @wraps(command)
    def collected(*arguments: Any, limit: str, **rest: Any) -> None:
        command(*arguments, find=lambda _: _named("limit", [limit]), **rest)

    return collected


def _single(action: Action, spec: ListSpec[Any], command: _Command) -> _Command:
    @click.argument(spec.noun, shell_complete=_COMPLETERS[spec.noun])
    @click.option("--group", help=GROUP_HELP)
    @wraps(command)
    def collected(*arguments: Any, group: str | None, **rest: Any) -> None:
        text = rest.pop(spec.noun)
        command(*arguments, find=lambda ops: _named(spec.noun, [_key(ops, spec, text, group)]), **rest)

    return collected


def _several(action: Action, spec: ListSpec[Any], command: _Command) -> _Command:
    @wraps(command)
    def collected(*arguments: Any, keys: tuple[str, ...], everything: bool, **rest: Any) -> None:
        chosen = Chosen(spec, keys, everything, {declared.name: rest.pop(declared.name) for declared in spec.filters})
        if action.states and chosen.is_by_filters:
            if ENDED.intersection(chosen.values["state"]):
                possible = " or ".join(action.states)
                raise click.UsageError(f"--state: only {spec.noun}s that are {possible} can be selected")
            chosen.values["state"] = chosen.values["state"] or tuple(action.states)
        command(*arguments, find=chosen.find, **rest)

    words = f"Every {spec.noun}, if no filter is given."
    decorated = filter_options(spec.filters)(click.option("--all", "everything", is_flag=True, help=words)(collected))
    metavar = "FIRE_ID" if spec is EXECUTIONS else spec.noun.upper()
    completer = _COMPLETERS[spec.noun]
    return click.argument("keys", nargs=-1, metavar=f"[{metavar}]...", shell_complete=completer)(decorated)


def _lasting(kind: Subject, command: _Command) -> _Command:
    """Add a group of triggers, the triggers of a group of jobs, or everything. There may be none of them as yet."""

    @wraps(command)
    def collected(*arguments: Any, group: str | None = None, **rest: Any) -> None:
        def find(operations: Operations) -> Subjects:
            filters = {} if group is None else {"group": group_matcher(group)}
            present = Selection.jobs(**filters) if kind is Subject.JOB_GROUP else Selection.triggers(**filters)
            selection, count = Selection(kind, filters), operations.actions.count(present)
            words = f"{selection} (now {count:,} {present.kind}s, and those that are stored later)"
            return Subjects(selection, present.kind, count, (), named=False, words=words, lasts=True)

        command(*arguments, find=find, **rest)

    return collected if kind is Subject.EVERYTHING else click.argument("group")(collected)


def _named(kind: str, keys: Sequence[Any]) -> Subjects:
    """Return subjects that the user named one by one."""
    return Subjects(keys[0] if len(keys) == 1 else keys, kind, len(keys), _texts(keys), named=True)


def _key(operations: Operations, spec: ListSpec[Any], text: str, group: str | None) -> Any:
    if spec is JOBS:
        return job_key(operations.scheduler, text, group)
    if spec is EXECUTIONS:
        return execution_id(text)
    return trigger_key(operations.scheduler, text, group)


def _texts(keys: Sequence[Any]) -> list[str]:
    return [visible(str(key)) for key in keys[:SHOWN]]
