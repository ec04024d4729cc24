"""The nodes of the cluster, judged by the predicate by which they recover each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quartzpy.operations.read_context import view_of
from quartzpy.operations.views import allowed_actions
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.states import NodeMode
from quartzpy.store import node_metadata
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.node_states import NodeState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import NodeEndRecord
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import NodeRecord, RunningRecord
from quartzpy.texts import instant_text, numbered


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the cluster."""

    node: str
    """Its instance id."""
    state: NodeState
    mode: NodeMode
    """The mode that an operator has set: RUNNING, STANDBY or DRAINING."""
    mode_since: datetime | None
    """The instant at which the mode was last set; None if it was never set."""
    host: str
    pid: int
    epoch: int
    """Increases with each start of a node."""
    version: str | None
    """The release of quartzpy; None if the node has not published it yet."""
    started_at: datetime
    last_checkin: datetime
    checkin_age: timedelta
    checkin_interval: timedelta
    failure_window: timedelta
    clock_ahead: timedelta | None
    """How far its clock is ahead of the store's; negative if it is behind."""
    claimed: int
    executing: int
    workers: int
    """The number of workers of all its executors."""
    load: float | None
    """The busy workers as a fraction of all, from 0 to 1; None if it has none."""
    executors: Mapping[str, int]
    """The number of workers by executor."""
    engines: Mapping[str, str]
    """The engines of executors that have one, each with what it cannot do."""
    labels: tuple[str, ...]
    group_limits: Mapping[str, int]
    """Its limits of execution groups."""
    job_types: tuple[str, ...]
    problems: tuple[NodeProblem, ...] = ()
    """What it found wrong with itself before its last check-in: the problems of its `health()`."""
    actions: tuple[str, ...] = ()
    """The names of the actions that are possible now, whatever the role of the actor."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting or fact in which the nodes differ, though it should be the same on all of them."""

    subject: str
    values: Mapping[str, tuple[str, ...]]
    """The nodes that have it, by value."""


MAX_ENDS = 50
ENTRIES = 2_000
"""The number of entries of the audit log among which the ends of nodes are found."""


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """A node that was lost or that left within the last day."""

    node: str
    how: str
    """"lost" if it stopped to check in and another node removed it, "left" if it ended by itself."""
    at: datetime
    last_checkin: datetime
    recovered_by: str
    """The node that recovered its work; itself if it left."""
    host: str
    pid: int
    repeated: int
    """Its executions that run again on another node."""
    lost: int
    """Its executions that do not."""
    is_back: bool
    """True if a node of the same name is alive."""

    def __str__(self) -> str:
        if self.how == "left":
            return f"Node {self.node} left at {instant_text(self.at)}."
        held = (
            (self.lost, "execution was lost", "executions were lost"),
            (self.repeated, "execution runs again", "executions run again"),
        )
        lost = ", ".join(numbered(number, *words) for number, *words in held if number) or "it held nothing"
        back = " It is back." if self.is_back else ""
        return (
            f"Node {self.node} was lost: it last checked in at {instant_text(self.last_checkin)}, and node"
            f" {self.recovered_by} recovered its work at {instant_text(self.at)}: {lost}.{back}"
        )


def node_ends(reading: BatchedReads) -> Deferred[list[NodeEndRecord]]:
    """Ask which nodes were lost or left within the last day."""
    return reading.defer(lambda store: admin(store).node_ends(MAX_ENDS, among=ENTRIES))


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes of the cluster, sorted by instance id, and the settings in which they differ."""

    now: datetime
    nodes: tuple[NodeView, ...]
    differences: tuple[Difference, ...]
    ends: tuple[NodeEnd, ...] = ()
    """The nodes that were lost or that left within the last day, the latest first."""

    @property
    def alive(self) -> int:
        """The number of nodes that are alive, the late ones included."""
        return sum(node.state.is_alive for node in self.nodes)


def cluster(reading: BatchedReads) -> Cluster:
    nodes = reading.defer(lambda store: store.list_nodes())
    running = reading.defer(lambda store: store.list_running())
    ends = node_ends(reading)
    return of_records(nodes(), running(), ends())


def of_records(answer: CheckIn, running: Sequence[RunningRecord], ends: Sequence[NodeEndRecord] = ()) -> Cluster:
    """Return the cluster that these records describe."""
    now = answer.now
    busy = Counter((row.instance_id, row.state) for row in running if not row.is_unrecorded)
    states = answer.states()
    views = tuple(
        _node(node, states[node.instance_id], now, busy, answer.metadata.get(node.instance_id, {}))
        for node in answer.nodes
    )
    differing = node_metadata.differing_values(answer.metadata)
    differences = tuple(Difference(subject, values) for subject, values in differing.items())
    alive = {view.node for view in views if view.state.is_alive}
    return Cluster(now, views, differences, tuple(_end(record, is_back=record.node in alive) for record in ends))


def _end(record: NodeEndRecord, *, is_back: bool) -> NodeEnd:
    return view_of(NodeEnd, record, recovered_by=record.recorded_by, is_back=is_back)


def _node(
    node: NodeRecord, state: NodeState, now: datetime, busy: Mapping[tuple[str, str], int], metadata: Mapping[str, Any]
) -> NodeView:
    can = node.capabilities
    workers = sum(can.workers.values())
    executing = busy.get((node.instance_id, "EXECUTING"), 0)
    return view_of(
        NodeView,
        node,
        node=node.instance_id,
        state=state,
        version=metadata.get(node_metadata.RELEASE),
        checkin_age=max(timedelta(), now - node.last_checkin),
        clock_ahead=None
        if node_metadata.CLOCK_AHEAD not in metadata
        else timedelta(seconds=float(metadata[node_metadata.CLOCK_AHEAD])),
        claimed=busy.get((node.instance_id, "ACQUIRED"), 0),
        executing=executing,
        workers=workers,
        load=min(1.0, executing / workers) if workers else None,
        executors=dict(can.workers),
        engines={executor: str(engine) for executor, engine in can.engines.items()},
        labels=tuple(sorted(can.labels)),
        group_limits=dict(can.groups),
        job_types=tuple(sorted(can.job_types)),
        actions=allowed_actions.on_node(node.mode, is_dead=not state.is_alive),
    )
