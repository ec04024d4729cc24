"""The commands of the lists that are described in `quartzpy.operations.lists`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from quartzpy.states import TriggerState
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.audit_log import AuditEntry
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.cluster import Cluster
    from quartzpy.operations.views.executions import RunningView
    from quartzpy.operations.views.limits import Groups
    from quartzpy.operations.views.triggers import TriggerSummary

_T = TypeVar("_T")


def _warnings(operations: Operations, page: Sequence[TriggerSummary]) -> Iterator[str]:
    """Return what is wrong with triggers of a page: those in ERROR, and those that are overdue."""
    broken = [row.key for row in page if row.state is TriggerState.ERROR]
    if broken:
        count = numbered(len(broken), "trigger is", "triggers are")
        yield f"{count} in ERROR: `quartzpy why {broken[0]}` says why"
    late = sorted(((row.late, row.key) for row in page if row.late is not None), reverse=True)
    if late:
        span, key = late[0]
        count = numbered(len(late), "trigger is", "triggers are")
        overdue = f"{count} overdue, {key} for {short_span(span)}"
        is_running = bool(operations.scheduler.nodes().nodes)
        yield f"{overdue}: `quartzpy why {key}` says why" if is_running else f"{overdue}, and {START_A_NODE}"


def _undone_by(entry: AuditEntry) -> str | None:
    """Return the command that undoes an entry, or only the action where the entry does not name its one subject."""
    from quartzpy.cli.subjects import command_of
    from quartzpy.operations.actions.audit_log import undoing

    remedy = undoing(entry)
    return entry.undone_by if remedy is None else command_of(remedy)


def _pauses(groups: Groups) -> Iterator[str]:
    if groups.all_paused:
        yield "everything is paused: `quartzpy resume --everything` ends that"
    if groups.manual:
        yield "the manual mode is on: only runs by hand, retries and recoveries fire"
    if groups.has_more:
        yield "there are more groups than these"


def _news(cluster: Cluster) -> Iterator[str]:
    """Return in what the nodes differ, what they report about themselves, and which of them have ended."""
    for difference in cluster.differences:
        values = "; ".join(f"{value} on {', '.join(names)}" for value, names in difference.values.items())
        yield f"the nodes differ in {difference.subject}: {values}"
    for node in cluster.nodes:
        yield from (f"node {visible(node.node)}: {visible(problem.what)}" for problem in node.problems)
    yield from map(str, cluster.ends)


def _no_node(operations: Operations, running: Sequence[RunningView]) -> Iterator[str]:
    if not running and not operations.scheduler.nodes().nodes:
        yield "there is no node"


_NOTES: Mapping[str, Callable[[Operations, Any], Iterable[str]]] = {
    "triggers": _warnings,
    "running": _no_node,
    "groups": lambda operations, groups: _pauses(groups),
    "nodes": lambda operations, cluster: _news(cluster),
}
"""The sentences that follow the tables of lists."""
_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {("audit", "undone by"): _undone_by}
"""The values of columns that a terminal shows in other words."""


_EMPTY: Mapping[str, str] = {"nodes": START_A_NODE}
"""The sentences for empty lists that a terminal says in other words."""


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
            answer = spec.read(operations, options.limit, options.after, **filters.values(operations))
            page = spec.page(answer)
            # A list that is not paged is cut here.
            rows = page if spec.is_paged else page[: options.limit]
            notes = _NOTES[spec.name](operations, answer) if spec.name in _NOTES and not options.json_output else ()
            note = "\n".join(map(options.formatter.sentence, notes))
            empty = "" if rows else _EMPTY.get(spec.name) or filters.nothing(operations)
            return Answer(rows, empty, note or None, None if spec.rows is None else answer)

        run_listing(target, options, columns, read)

    words = f"List {spec.help[0].lower()}{spec.help[1:]}"
    help_text = f"{words}\n\n{spec.more}" if spec.more else words
    return click.command(spec.name, help=help_text)(listing_options(filter_options(spec.declared)(command)))
