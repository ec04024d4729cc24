"""Which nodes are alive, and which of these work: the one judgement that all readers share.

A node judges itself by its own settings, which its row has: so each reader comes to the same answer, whatever its own
settings are. The view `qrtz_node_health` says the same in SQL.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from quartzpy.states import NodeMode
from quartzpy.store.records import NodeRecord

MAX_PROBE_WAIT = 5.0
"""The longest delay, in seconds, between the attempts of the check-in thread."""
PROBE_SHARE = 1 / 4
"""The longest delay between these attempts as a share of the failure window. The first node that checks in after an
outage watches the others for one window: within it, each of them must get several attempts."""


class NodeState(StrEnum):
    """The state of a node, by the age of its last check-in."""

    ALIVE = "alive"
    LATE = "late"
    """It has missed two check-ins. It is still counted as alive."""
    DEAD = "dead"
    """Its last check-in is older than its failure window: the other nodes recover its work."""

    @property
    def is_alive(self) -> bool:
        """True until the others may recover its work."""
        return self is not NodeState.DEAD


def states_of(
    nodes: Collection[NodeRecord], now: datetime, answers_since: datetime | None = None
) -> dict[str, NodeState]:
    """Return the states of the nodes by their instance ids.

    The other nodes also watch a silent one for its window before they recover it. When the database has been away, all
    nodes are silent at first, so none is late or dead before it has had the time for a check-in: as long as every node
    that checks in has just come back, or, if none does, the store `answers_since` just now.
    """
    speaking = [node.back_since for node in nodes if not _is_silent(node, now)]
    return {node.instance_id: _state_of(node, speaking or [answers_since], now) for node in nodes}


def _state_of(node: NodeRecord, backs: Collection[datetime | None], now: datetime) -> NodeState:
    if not _is_silent(node, now):
        return NodeState.ALIVE
    # During an outage a node tries to check in at least so often.
    longest_wait = min(timedelta(seconds=MAX_PROBE_WAIT), PROBE_SHARE * node.failure_window)
    allowed = node.checkin_interval + longest_wait
    # It was silent before they came back, and each of them came back at about the same time.
    if all(back is not None and node.last_checkin < back <= now < back + allowed for back in backs):
        return NodeState.ALIVE
    return NodeState.DEAD if now - node.last_checkin > node.failure_window else NodeState.LATE


def _is_silent(node: NodeRecord, now: datetime) -> bool:
    return now - node.last_checkin > min(2 * node.checkin_interval, node.failure_window)


class _Moded(Protocol):
    @property
    def mode(self) -> NodeMode: ...


def works(node: NodeRecord, state: NodeState) -> bool:
    """Return whether a node does its work: it is in time, takes new work, and reports no problem that stops it."""
    return state is NodeState.ALIVE and takes_work(node) and not any(row.stops_work for row in node.problems)


def takes_work(node: _Moded) -> bool:
    """Return whether a node that is alive takes new work: it is not in standby and does not drain."""
    return node.mode is NodeMode.RUNNING
