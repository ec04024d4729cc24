"""`quartzpy nodes` and `quartzpy audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.filters import AUDIT_FILTERS, Filters
from quartzpy.cli.incidents import command_of
from quartzpy.cli.layout import Column
from quartzpy.cli.list_definitions import START_A_NODE
from quartzpy.cli.listing import Answer, Listing, Options, listing_options, run_listing
from quartzpy.cli.target import Target

if TYPE_CHECKING:
    from quartzpy.operations.audit_log import AuditEntry
    from quartzpy.operations.cluster import Cluster, NodeView
    from quartzpy.operations.operations import Operations

NODES: Listing[NodeView] = Listing(
    (
        Column("node", lambda one: one.node, middle=True, readable=28),
        Column("state", lambda one: one.state, rigid=True, is_state=True),
        Column("mode", lambda one: one.mode, drop=8, rigid=True, is_state=True),
        Column("busy", lambda one: f"{one.executing}/{one.workers}", rigid=True, right=True),
        Column("load", lambda one: None if one.load is None else f"{one.load:.0%}", drop=7, rigid=True, right=True),
        Column("checked in", lambda one: one.last_checkin, rigid=True),
        Column("ago", lambda one: one.checkin_age, rigid=True, right=True),
        Column("claimed", lambda one: one.claimed, drop=4, rigid=True, right=True),
        Column("version", lambda one: one.version, drop=6),
        Column("host", lambda one: one.host, drop=5, middle=True),
        Column("pid", lambda one: one.pid, drop=5, rigid=True, right=True),
        Column("started", lambda one: one.started_at, drop=3, rigid=True),
        Column("clock ahead", lambda one: one.clock_ahead, drop=2, rigid=True, right=True),
        Column("epoch", lambda one: one.epoch, drop=1, rigid=True, right=True),
        Column("labels", lambda one: one.labels, extra=True),
        Column("executors", lambda one: one.executors, extra=True),
        Column("groups", lambda one: one.group_limits, extra=True),
        Column("job types", lambda one: one.job_types, extra=True),
    ),
    ("checked in", "started"),
)


@click.command()
@listing_options
def nodes(target: Target, options: Options) -> None:
    """List the nodes of the cluster.

    A node is late when it has missed two check-ins, and dead when its last check-in is older than its failure window.
    The other nodes recover the work of a dead node and remove it from the list, but each of them must first have
    watched it for the whole window. A dead node therefore stays in the list until another node has run that long.
    """

    def read(operations: Operations) -> Answer[NodeView]:
        cluster = operations.cluster()
        return Answer(cluster.nodes[: options.limit], START_A_NODE, _differences(cluster), whole=cluster)

    run_listing(target, options, NODES, read)


def _differences(cluster: Cluster) -> str | None:
    lines = []
    for one in cluster.differences:
        values = "; ".join(f"{value} on {', '.join(names)}" for value, names in one.values.items())
        lines.append(f"the nodes differ in {one.subject}: {values}")
    return "\n".join(lines) or None


AUDIT: Listing[AuditEntry] = Listing(
    (
        Column("id", lambda one: one.action_id, drop=2, rigid=True, right=True),
        Column("at", lambda one: one.at, rigid=True),
        Column("actor", lambda one: one.actor, middle=True),
        Column("action", lambda one: one.action, rigid=True),
        Column("subject", lambda one: one.subject, middle=True, readable=28),
        Column("state", lambda one: one.state, drop=5, rigid=True, is_state=True),
        Column("count", lambda one: one.count, drop=3, rigid=True, right=True),
        Column("reason", lambda one: one.reason, drop=6),
        Column("error", lambda one: one.error, drop=4),
        Column("role", lambda one: one.role, drop=1),
        Column("before", lambda one: one.before, extra=True),
        Column("after", lambda one: one.after, extra=True),
        Column("undone by", lambda one: _undone_by(one), extra=True),
    ),
    ("at",),
)


def _undone_by(entry: AuditEntry) -> str | None:
    """Return the command that undoes an entry, or only the action where the entry does not name its one subject."""
    from quartzpy.operations.audit_log import undoing

    remedy = undoing(entry)
    return entry.undone_by if remedy is None else command_of(remedy)


@click.command()
@listing_options
@AUDIT_FILTERS.options
def audit(target: Target, options: Options, **given: Any) -> None:
    """List the actions of operators, the latest first."""
    filters = Filters(AUDIT_FILTERS, given, options.cells)

    def read(operations: Operations) -> Answer[AuditEntry]:
        page = operations.audit_log(limit=options.limit, after=options.after, **filters.values(operations))
        return Answer(page, "" if page else filters.nothing(operations))

    run_listing(target, options, AUDIT, read)
