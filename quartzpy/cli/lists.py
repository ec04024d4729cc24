"""The commands of the lists that are described in `quartzpy.operations.lists`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quartzpy.cli.commands import START_A_NODE
from quartzpy.cli.filters import Filters, filter_options
from quartzpy.cli.formatter import short_span
from quartzpy.cli.listing import Answer, Options, listing_options, run_listing
from quartzpy.cli.target import Target
from quartzpy.operations.lists.spec import Column, ListSpec
from quartzpy.operations.lists.table import LISTS
from quartzpy.scheduler.querying import Page
from quartzpy.states import TriggerState
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.actions.audit_log import AuditEntry
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.triggers import TriggerSummary

_T = TypeVar("_T")


def _warnings(operations: Operations, page: Sequence[TriggerSummary]) -> str | None:
    """Return what is wrong with triggers of a page: those in ERROR, and those that are overdue."""
    sentences = []
    broken = [row.key for row in page if row.state is TriggerState.ERROR]
    if broken:
        count = numbered(len(broken), "trigger is", "triggers are")
        sentences.append(f"{count} in ERROR: `quartzpy why {broken[0]}` says why")
    late = sorted(((row.late, row.key) for row in page if row.late is not None), reverse=True)
    if late:
        span, key = late[0]
        count = numbered(len(late), "trigger is", "triggers are")
        overdue = f"{count} overdue, {key} for {short_span(span)}"
        is_running = bool(operations.scheduler.nodes().nodes)
        sentences.append(
            f"{overdue}: `quartzpy why {key}` says why" if is_running else f"{overdue}, and {START_A_NODE}"
        )
    return "\n".join(sentences) or None


def _undone_by(entry: AuditEntry) -> str | None:
    """Return the command that undoes an entry, or only the action where the entry does not name its one subject."""
    from quartzpy.cli.cluster import command_of
    from quartzpy.operations.actions.audit_log import undoing

    remedy = undoing(entry)
    return entry.undone_by if remedy is None else command_of(remedy)


_NOTES: Mapping[str, Callable[[Operations, Sequence[Any]], str | None]] = {"triggers": _warnings}
"""The sentences that follow the tables of lists."""
_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {("audit", "undone by"): _undone_by}
"""The values of columns that a terminal shows in other words."""


def command_named(name: str) -> click.Command:
    """Return the command of the list of this name."""
    return list_command(LISTS[name])


def list_command(spec: ListSpec[_T]) -> click.Command:
    """Return the command that lists what a description of a list says."""
    columns: Sequence[Column[_T]] = [
        replace(column, value=_VALUES.get((spec.name, column.name), column.value)) for column in spec.columns
    ]

    def command(target: Target, options: Options, **values: Any) -> None:
        filters = Filters(spec, values, options.formatter)

        def read(operations: Operations) -> Answer[_T]:
            ask = getattr(operations, spec.method)
            if spec.query is None:
                empty = spec.empty or f"the scheduler {operations.scheduler.name!r} has no {spec.nouns}"
                return Answer(ask()[: options.limit], empty)
            page: Page[_T] = ask(limit=options.limit, after=options.after, **filters.values(operations))
            note = None if options.json_output or spec.name not in _NOTES else _NOTES[spec.name](operations, page)
            return Answer(page, "" if page else filters.nothing(operations), note)

        run_listing(target, options, columns, read)

    words = f"List {spec.help[0].lower()}{spec.help[1:]}"
    help_text = f"{words}\n\n{spec.more}" if spec.more else words
    return click.command(spec.name, help=help_text)(listing_options(filter_options(spec.declared)(command)))
