"""The subjects of an action from the command line: those that the user names, or selects by filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.cells import Cells
from quartzpy.cli.filters import EXECUTION_FILTERS, JOB_FILTERS, TRIGGER_FILTERS, Filters, FilterSet
from quartzpy.cli.keys import execution_id, job_key, trigger_key
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.selection import Selected, Selection

SHOWN = 10
"""The number of subjects that a question and a dry run name."""
_Command = Callable[..., Any]
_COMPLETERS = {"job": completion.JOBS, "trigger": completion.TRIGGERS, "execution": completion.RUNNING}


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
        more = (
            f" and {numbered(self.count - len(self.first), 'other', 'others')}" if self.count > len(self.first) else ""
        )
        names = f": {', '.join(self.first)}{more}" if self.first else ""
        return f"{self.count:,} {self.kind}s{names}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arguments of a command that choose its subjects."""

    filters: FilterSet
    keys: Sequence[str]
    everything: bool
    given: dict[str, Any]
    """The values of the filters; None, False or empty for those that were not given."""

    @property
    def is_by_filters(self) -> bool:
        """True if filters or `--all` select the subjects."""
        return not self.keys and (self.everything or any(self.given.values()))

    def find(self, operations: Operations) -> Subjects:
        """Return the subjects.

        Raises:
            click.UsageError: there are neither keys nor filters, or both.
            ObjectNotFoundError: one that was named is not stored.
        """
        kind, given, group = self.filters.kind, self.given, self.given.get("group")
        filters = Filters(self.filters, given, Cells())
        if self.keys:
            only_group = group is not None and not Filters(self.filters, {**given, "group": None}, Cells())
            if self.everything or (filters and not only_group):
                raise click.UsageError(f"give either the keys of the {kind}s or filters, not both")
            found = [_key(operations, self.filters, text, group) for text in dict.fromkeys(self.keys)]
            return Subjects(found[0] if len(found) == 1 else found, kind, len(found), _texts(found), named=True)
        if not filters and not self.everything:
            raise click.UsageError(f"name the {kind}s, select them by filters, or give --all")
        selection = _selection(self.filters, filters.values(operations))
        count = operations.actions.count(selection)
        records = selection.query(operations.scheduler).page(SHOWN) if count else []
        first = [getattr(record, "fire_id", None) or getattr(record, "key", None) for record in records]
        if not count:
            click.echo(filters.nothing(operations), err=True)
        return Subjects(selection, kind, count, _texts(first), named=False)


def subject_options(filters: FilterSet, metavar: str) -> Callable[[_Command], _Command]:
    """Return the decorator that adds the subjects of an action: their keys, or the filters that select them.

    The command receives them as the parameter `chosen`.
    """

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def collected(*arguments: Any, keys: tuple[str, ...], everything: bool, **rest: Any) -> None:
            given = {name: rest.pop(name) for name in filters.declared}
            command(*arguments, chosen=Chosen(filters, keys, everything, given), **rest)

        words = f"Every {filters.kind}, if no filter is given."
        decorated = filters.options(click.option("--all", "everything", is_flag=True, help=words)(collected))
        return click.argument("keys", nargs=-1, metavar=f"[{metavar}]...", shell_complete=_COMPLETERS[filters.kind])(
            decorated
        )

    return decorate


def one(kind: str, key: Any) -> Subjects:
    """Return a single subject that the user named."""
    return Subjects(key, kind, 1, _texts([key]), named=True)


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
