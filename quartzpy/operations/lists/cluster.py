"""The lists of the cluster: its nodes, the groups and the limits, and the locks on the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.operations.lists.spec import Column, ListSpec, Look

if TYPE_CHECKING:
    from quartzpy.operations.views.cluster import NodeView
    from quartzpy.operations.views.limits import GroupView, LimitRow
    from quartzpy.store.postgresql.admin.records import LockRecord

NODES: ListSpec[NodeView] = ListSpec(
    "nodes",
    "node",
    "The nodes of the cluster.",
    (
        Column("node", lambda row: row.node, Look.NAME, readable=28, classes="name"),
        Column("state", lambda row: row.state, Look.STATE, classes=""),
        Column("mode", lambda row: row.mode, Look.STATE, drop=8, aside=True),
        Column("busy", lambda row: f"{row.executing}/{row.workers}", Look.NUMBER, "Busy workers", classes="nowrap"),
        Column("load", lambda row: None if row.load is None else f"{row.load:.0%}", Look.NUMBER, drop=7, aside=True),
        Column("checked in", lambda row: row.last_checkin, Look.INSTANT, "Last check-in", classes=""),
        Column("ago", lambda row: row.checkin_age, Look.SPAN, "Since the check-in", aside=True),
        Column("problems", lambda row: len(row.problems) or None, Look.NUMBER, drop=9, aside=True),
        Column("claimed", lambda row: row.claimed, Look.NUMBER, drop=4, aside=True),
        Column("version", lambda row: row.version, label="Release", drop=6, classes="wide least"),
        Column("host", lambda row: row.host, Look.NAME, drop=5),
        Column("pid", lambda row: row.pid, Look.NUMBER, "Process", drop=5, classes="wide least"),
        Column("started", lambda row: row.started_at, Look.INSTANT, drop=3),
        Column("clock ahead", lambda row: row.clock_ahead, Look.SPAN, drop=2, aside=True),
        Column("epoch", lambda row: row.epoch, Look.NUMBER, drop=1, aside=True),
        Column("labels", lambda row: row.labels, extra=True, aside=True),
        Column("executors", lambda row: row.executors, extra=True, classes="wide less"),
        Column("engines", lambda row: row.engines, extra=True, aside=True),
        Column("groups", lambda row: row.group_limits, label="Group limits", extra=True, aside=True),
        Column("every", lambda row: row.checkin_interval, Look.SPAN, "Checks in every", extra=True, aside=True),
        Column("dead after", lambda row: row.failure_window, Look.SPAN, extra=True, aside=True),
        Column("job types", lambda row: row.job_types, extra=True, aside=True),
    ),
    reads="cluster",
    rows=lambda cluster: cluster.nodes,
    more="""`quartzpy incidents` says first whether something is wrong with one.

A node is late when it has missed two check-ins, and dead when its last check-in is older than its failure window. The
other nodes recover the work of a dead node and remove it from the list, but each of them must first have watched it for
the whole window. A dead node therefore stays in the list until another node has run that long.""",
    title="Nodes",
    live="nodes schedule executions",
    menu="Cluster",
    key="n",
    template="nodes.html",
)

GROUPS: ListSpec[GroupView] = ListSpec(
    "groups",
    "group",
    "The groups of triggers and jobs with their pauses.",
    (
        Column("group", lambda row: row.name, Look.NAME, readable=28, classes="name"),
        Column("of", lambda row: row.of, Look.WORD, classes=""),
        Column(
            "count",
            lambda row: str(row.count),
            Look.NUMBER,
            title="Its triggers or its jobs",
            order=lambda row: row.count.number,
            classes="",
        ),
        Column("state", lambda row: "PAUSED" if row.is_paused else None, Look.STATE, classes=""),
        Column("until", lambda row: row.paused_until, Look.INSTANT, "Paused until", drop=3),
        Column(
            "paused",
            lambda row: str(row.paused),
            Look.NUMBER,
            title="Its paused triggers, or its jobs that have such",
            order=lambda row: row.paused.number,
            drop=2,
        ),
        Column(
            "in error",
            lambda row: str(row.in_error),
            Look.NUMBER,
            order=lambda row: row.in_error.number,
            drop=1,
            classes="",
        ),
    ),
    rows=lambda groups: (*groups.triggers, *groups.jobs),
    title="Groups",
    menu="Schedule",
    key="u",
    template="groups.html",
)

LIMITS: ListSpec[LimitRow] = ListSpec(
    "limits",
    "limit",
    "The limits that are in use, with their headroom, and those that jobs share.",
    (
        Column("limit of", lambda row: row.kind, Look.WORD, "Kind", classes="nowrap"),
        Column("subject", lambda row: str(row.subject), Look.NAME, "Limit", readable=28, classes="name"),
        Column("for", lambda row: row.part, Look.NAME, title="The concurrency key or the node", drop=3, classes=""),
        Column("limit", lambda row: row.limit, Look.NUMBER, "Value", classes=""),
        Column("running", lambda row: row.running, Look.NUMBER, "In use", classes="nowrap"),
        Column("headroom", lambda row: row.headroom, Look.NUMBER, "Free", classes=""),
        Column("waiting", lambda row: row.waiting, Look.NUMBER, title="The triggers that wait for it", drop=4),
        Column("next", lambda row: row.next_at, Look.INSTANT, "Next fire", "When its rate admits one", drop=2),
        Column(
            "last",
            lambda row: row.queued_until,
            Look.INSTANT,
            "Last turn",
            "That of the last trigger",
            drop=1,
            aside=True,
        ),
        Column(
            "used by",
            lambda row: [f"{job} ({number})" for job, number in row.used_by],
            title="The jobs",
            drop=1,
            classes="wide fill",
        ),
    ),
    rows=lambda limits: limits.rows(),
    empty="no limit is in use, and no node is running",
    more="They are those of jobs, of rates, of execution groups, and of the worker pools of the nodes; and those that"
    " jobs share, which `quartzpy limit set` sets, in use or not.",
    title="Limits",
    intro="The limits that jobs share, in use or not; those of jobs and of rates that are in use; and the worker pools"
    " and the execution groups of the nodes.",
    live="schedule executions nodes",
    menu="Schedule",
    key="b",
    template="limits.html",
)

LOCKS: ListSpec[LockRecord] = ListSpec(
    "locks",
    "lock",
    "The locks on the tables, and who waits for them.",
    (
        Column("table", lambda row: row.table, Look.NAME, classes="mono"),
        Column("mode", lambda row: row.mode, drop=3, classes=""),
        Column("granted", lambda row: row.granted, Look.WORD, classes=""),
        Column("pid", lambda row: row.pid, Look.NUMBER, "Process", classes=""),
        Column("blocked by", lambda row: row.blocked_by, Look.WORD),
        Column("since", lambda row: row.since, Look.INSTANT, drop=4, classes=""),
        Column("application", lambda row: row.application, Look.NAME, drop=2),
        Column("state", lambda row: row.state, drop=1, aside=True),
    ),
    empty="no session holds a lock that conflicts with others, or waits for one",
    more="They are those that conflict with the locks of others.",
    title="Locks on tables",
    intro="The locks that conflict with those of others, and who waits for them.",
)
