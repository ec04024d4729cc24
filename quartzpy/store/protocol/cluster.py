"""The cluster protocol: the life of a node, the recovery of dead ones, and the care of the store itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from quartzpy.events.events import Event
from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.node_metadata import setting_of_nodes
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.node_states import NodeState, states_of
from quartzpy.store.protocol.outcomes import RecoveryOutcome, Repairs, TimeOff, ZoneRenewal
from quartzpy.store.records import NodeRecord

MAX_NODE_DEATHS = 3
"""After this many node deaths during its executions, a job is considered the cause."""


@dataclass(frozen=True, slots=True)
class Node:
    """One life of a node. A store never issues the same epoch twice."""

    instance_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class CheckIn:
    """The answer to a check-in: the store's time, and all nodes of the cluster including this one."""

    now: datetime
    nodes: tuple[NodeRecord, ...]
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each node has published about itself, by instance id: release, settings, clock. A check-in leaves it out."""
    answers_since: datetime | None = None
    """The instant from which on the store has answered without a break, as far as the caller can know: the start of its
    server, or the first answer to the caller after a vain attempt. None if neither is known. A check-in leaves it out.
    """

    def states(self) -> dict[str, NodeState]:
        """Return the states of the nodes by their instance ids."""
        return states_of(self.nodes, self.now, self.answers_since)

    def alive(self) -> list[NodeRecord]:
        """Return the nodes that are alive, the late ones included."""
        states = self.states()
        return [node for node in self.nodes if states[node.instance_id].is_alive]

    def setting(self, name: str, default: timedelta) -> timedelta:
        """Return a span of time by which the nodes judge, as they have published it; see `setting_of_nodes`."""
        return setting_of_nodes(self.metadata, name, default)


class ConnectionUsage(NamedTuple):
    """The number of connections in use for steps and calls, the largest number that may be, and how many were opened.

    A store counts only connections that it opens itself.
    """

    in_use: int
    most: int
    opened: int = 0


class Notification(StrEnum):
    """A message from another node or client."""

    SCHEDULED = "scheduled"
    """A trigger is due sooner than the cluster waits for. Some nodes look at once, and the others a little later."""
    RESUMED = "resumed"
    """Triggers were resumed, or a node leaves what it could take to the others. All nodes look at once.

    Of resumed triggers, those whose fire times have passed wait for the misfire step, however late they are."""
    CANCELLED = "cancelled"
    """An execution was asked to stop."""
    WATCHED = "watched"
    """A client watches the events of the cluster, and nodes are asked to announce recorded executions."""
    COMMANDED = "commanded"
    """An operator has set the mode of a node."""
    ENDED = "ended"
    """Executions were recorded. Sent only while a client watches."""


class Purged(NamedTuple):
    """The number of rows that were deleted, and the instant before which executions of the history are too many."""

    rows: int
    before: datetime | None = None


class Subscription(Protocol):
    """The receiving end of notifications from other nodes and clients."""

    def wait(self, timeout: float) -> Mapping[Notification, datetime | None]:
        """Wait at most `timeout` seconds, and return the notifications that have arrived.

        Each comes with the soonest fire time of the triggers that all of its kind are about; with None if one of them
        does not tell it.

        Raises:
            StoreUnavailableError: the connection is lost; the caller subscribes again.
        """
        ...

    def interrupt(self) -> None:
        """End the current call of `wait` and all later ones at once. Any thread may call this, also after `close`."""
        ...

    def close(self) -> None: ...


class ClusterStore(Protocol):
    """The membership of nodes, and the maintenance of the store."""

    def open(self, emit: Callable[[Event], None] | None = None) -> None:
        """Prepare the store for use.

        Events that the store detects by itself, such as a failover of its database, are reported to `emit`; without
        it, to the one that was given before.

        Raises:
            SchemaError: tables are missing or belong to another release.
        """
        ...

    def check_tables(self) -> None:
        """Check that the tables are still those of this release. A node asks when it starts, and twice a minute.

        Raises:
            SchemaError: tables are missing or belong to another release.
            CopiedDatabaseError: the tables were made for another database. Nothing may fire.
        """
        ...

    def close(self) -> None:
        """Close all connections. Calls that wait for one fail."""
        ...

    def now(self) -> datetime:
        """Return the store's time, which all its decisions use."""
        ...

    def register(
        self,
        instance_id: str,
        *,
        host: str,
        pid: int,
        checkin_interval: timedelta,
        window: timedelta,
        process: str = "",
        ended_epoch: int | None = None,
        max_node_deaths: int = MAX_NODE_DEATHS,
    ) -> Node:
        """Begin a new epoch of the node, which may be declared dead after a silence of `window`.

        An older epoch of the same instance id is recovered first, as `recover` does and in the same transaction, where
        it has been silent for its own window, or is `ended_epoch`, whose process the caller knows to have ended.

        Raises:
            InstanceIdInUseError: a node with this id has checked in within its window.
        """
        ...

    def check_in(self, node: Node, *, within: float | None = None, problems: Sequence[NodeProblem] = ()) -> CheckIn:
        """Renew the lease of the epoch, and store what the node finds wrong with itself.

        Takes no shared lock, and waits for no other call of this process.

        With `within`, the call takes at most that many seconds, connecting included.

        Raises:
            LeaseLostError: the epoch is no longer registered.
            StoreUnavailableError, OutcomeUnknownError: no answer came in time; the next call uses a new connection.
        """
        ...

    def publish(self, node: Node, capabilities: Capabilities) -> None:
        """Store what this node can run in its node record, for the other nodes to read."""
        ...

    def recover(
        self, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
    ) -> RecoveryOutcome:
        """Remove the nodes of `dead` that have not checked in since those records were read, and free what they held.

        First their database sessions are terminated, so that none of their transactions is still open. Then:

        - an execution of a job that requests recovery, unless it was asked to stop, becomes a one-shot trigger in the
          group RECOVERING_JOBS, with the data, keys and times of the original; every other execution is recorded as
          TERMINATED;
        - but one that was submitted to an engine, and outlives its node or has ended there, becomes one of this node,
          if it has the executor and the job type, or no node has; a death of its node is none of its job;
        - triggers that these executions blocked are unblocked;
        - executions of epochs that are not registered, and BLOCKED triggers that nothing holds, are treated in the
          same way.

        The death of a node counts once for each job that it executed. Where `max_node_deaths` have counted and no
        execution of the job succeeded in between, all triggers of the job, its recovery included, become ERROR with
        that reason, and the count starts again. Two nodes never both recover the same node.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def apply_time_off(self, by: str) -> TimeOff:
        """Begin the maintenance windows and end the pauses whose time has come, in the name of the node `by`.

        Triggers that their own pause holds, and those that only the pause of their group holds, are resumed as by
        `resume`, with the treatment of missed fires that the pause has. What another pause or a mode still holds stays
        paused. Very many proceed in slices; the call returns after a few seconds, and the next one goes on. Several
        nodes may call it at the same time: each trigger is resumed once.
        """
        ...

    def renew_zones(self, node: Node) -> ZoneRenewal:
        """Compute anew what was computed by other rules of a time zone, once all nodes have the rules of this one.

        Triggers, and maintenance windows that have not begun, keep their times on the clocks of their zones. What has
        fired does not fire again, and a fire whose new instant has passed is late. One node at a time does it. The call
        returns after a few seconds, and the next one goes on. A store without other processes has nothing to renew.
        """
        ...

    def subtract_node_deaths(self, jobs: Collection[JobKey]) -> None:
        """Subtract one node death from each job: the node that executed it was silent, but is alive."""
        ...

    def leave(self, node: Node) -> None:
        """Remove the node. What it executes is left to a recovery, which another node may adopt."""
        ...

    def list_nodes(self) -> CheckIn:
        """Return the store's time, and the records and the metadata of all nodes."""
        ...

    def set_node_mode(self, instance_id: str, mode: NodeMode) -> datetime | None:
        """Set the mode of a registered node, and notify the nodes (`COMMANDED`); return the new `mode_since`.

        The node applies it when it reads its own record at its next check-in. Each call raises `mode_since`. The
        result is None if no node with this id is registered. A new epoch of the node begins as RUNNING.
        """
        ...

    def connections(self) -> ConnectionUsage | None:
        """Return the use of connections for steps and calls; None for a store that has none."""
        ...

    def subscribe(self) -> Subscription | None:
        """Subscribe to notifications; None for a store that no other process uses."""
        ...

    def notify(self, notification: Notification) -> None:
        """Send a notification to all nodes and clients that listen. A store without other processes does nothing."""
        ...

    def purge_history(
        self,
        older_than: timedelta | None,
        *,
        limit: int,
        ended_triggers: timedelta | None = None,
        actions: timedelta | None = None,
        before: datetime | None = None,
        most: int | None = None,
    ) -> Purged:
        """Delete at most `limit` executions that ended longer ago, and as many misfires.

        None keeps all of them. Executions that ended before the instant `before` are deleted too, whatever
        `older_than` is. With `most`, that instant is found first, so that the latest `most` executions are kept; of
        executions that ended at the same instant as the first of the others, none is kept. To find it costs much more
        than to delete a batch, so that following calls pass the instant that the result has.

        Triggers that a job or a misfire ended are deleted too, once the last fire time that they show is longer ago
        than `ended_triggers` (without it, than `older_than`; without both they are kept). A store with an audit log
        deletes at most `limit` rows of it that began longer ago than `actions` (None keeps them), which count as well,
        and marks the actions of processes that ended.
        """
        ...

    def repair(self) -> Repairs:
        """Repair whatever is safe to repair while nodes are working. It is cheap if there is nothing to repair."""
        ...
