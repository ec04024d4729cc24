"""Check-in, registration and departure.

A check-in writes only the node's own row and takes no row of `locks`: it decides nothing, and a node that waits behind
a busy cluster would look dead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.postgresql.db.control import ControlConnection
from quartzpy.store.postgresql.db.session import NOW, SqlSession, require_epoch
from quartzpy.store.postgresql.db.sql_files import SqlFile
from quartzpy.store.protocol import CheckIn, Node
from quartzpy.store.records import NodeRecord

_SQL = SqlFile("steps/checkin.sql")
CHECK_IN = _SQL("check_in")
NODES = _SQL("nodes")
PUBLISH = _SQL("publish")
REPLACE_SILENT = _SQL("replace_silent")
REGISTER = _SQL("register")
LEAVE = _SQL("leave")
FORGIVE = _SQL("forgive")


def check_in(session: SqlSession, control: ControlConnection, node: Node, within: float | None) -> CheckIn:
    """Renew the lease; see `JobStore.check_in`."""
    own, nodes, now = control.fly(
        [
            session.send(CHECK_IN, instance=node.instance_id, epoch=node.epoch),
            session.send(NODES),
            session.send(NOW),
        ],
        within,
    )
    require_epoch(node, own)
    return CheckIn(now.rows[0][0], records(nodes.rows))


def list_nodes(session: SqlSession) -> CheckIn:
    nodes, now = session.read(session.send(NODES), session.send(NOW))
    return CheckIn(now.rows[0][0], records(nodes.rows))


def records(rows: list[tuple[Any, ...]]) -> tuple[NodeRecord, ...]:
    return tuple(NodeRecord(*(*row[:-3], Capabilities.from_text(row[-3]), NodeMode(row[-2]), row[-1])) for row in rows)


def publish(session: SqlSession, node: Node, capabilities: Capabilities) -> None:
    """Record what the node can run; see `JobStore.publish`."""
    values = {"instance": node.instance_id, "epoch": node.epoch, "capabilities": capabilities.as_text()}
    session.unlocked(session.send(PUBLISH, **values))


def forgive(session: SqlSession, jobs: Collection[JobKey]) -> None:
    """Subtract node deaths; see `JobStore.forgive`."""
    if jobs:
        session.unlocked(session.send(FORGIVE, groups=[key.group for key in jobs], names=[key.name for key in jobs]))
