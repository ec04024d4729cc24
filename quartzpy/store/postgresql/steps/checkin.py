"""Check-in, registration and departure.

A check-in writes only the node's own row and takes no row of `locks`: it decides nothing, and a node that waits behind
a busy cluster would look dead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store import node_problems
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.postgresql.connection.checkin_connection import ControlConnection
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import NOW, SqlSession, require_epoch
from quartzpy.store.postgresql.schema.row_reader import Reader
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import facts
from quartzpy.store.protocol import CheckIn, Node, Notification
from quartzpy.store.records import NodeRecord

_SQL = SqlFile("steps/checkin.sql")
NODES = _SQL("nodes")
REPLACE_SILENT = _SQL("replace_silent")
REGISTER = _SQL("register")
LEAVE = _SQL("leave")


def check_in(
    session: SqlSession,
    control: ControlConnection,
    node: Node,
    within: float | None,
    problems: Sequence[NodeProblem] = (),
) -> CheckIn:
    """Renew the lease; see `JobStore.check_in`."""
    own, nodes, now = control.execute(
        [
            session.bind(
                _SQL.check_in,
                instance=node.instance_id,
                epoch=node.epoch,
                problems=node_problems.as_text(problems),
            ),
            session.bind(NODES),
            session.bind(NOW),
        ],
        within,
    )
    require_epoch(node, own)
    return CheckIn(now.rows[0][0], records(nodes.rows))


def list_nodes(session: SqlSession) -> CheckIn:
    *nodes, metadata = session.read(*nodes_statements(session), facts.reading(session))
    return replace(nodes_of(session, nodes), metadata=facts.decoded(metadata.rows))


def nodes_statements(session: SqlSession) -> list[BoundStatement]:
    """Return the statements that read the nodes and what decides which of them are alive."""
    return [session.bind(NODES), session.bind(NOW), session.bind(facts.STARTED)]


def nodes_of(session: SqlSession, results: Sequence[Result]) -> CheckIn:
    """Return the answer that the results of `nodes_statements` describe, without metadata."""
    nodes, [[now]], [[started]] = (result.rows for result in results)
    returned = session.last_return.ago()
    beginnings = [started, *([] if returned is None else [now - returned])]
    # A clock that was set back says nothing.
    since = max((at for at in beginnings if at <= now), default=None)
    return CheckIn(now, records(nodes), answers_since=since)


read_node = Reader(NodeRecord, capabilities=Capabilities.from_text, mode=NodeMode, problems=node_problems.from_text)


def records(rows: list[tuple[Any, ...]]) -> tuple[NodeRecord, ...]:
    return tuple(map(read_node, rows))


def publish(session: SqlSession, node: Node, capabilities: Capabilities) -> None:
    """Record what the node can run; see `JobStore.publish`."""
    values = {"instance": node.instance_id, "epoch": node.epoch, "capabilities": capabilities.as_text()}
    session.unlocked(session.bind(_SQL.publish, **values))


def subtract_node_deaths(session: SqlSession, jobs: Collection[JobKey]) -> None:
    """Subtract node deaths; see `JobStore.subtract_node_deaths`."""
    if jobs:
        session.unlocked(
            session.bind(
                _SQL.subtract_node_deaths, groups=[key.group for key in jobs], names=[key.name for key in jobs]
            )
        )


def set_node_mode(session: SqlSession, instance_id: str, mode: NodeMode) -> datetime | None:
    """Command a node; see `ClusterStore.set_node_mode`."""
    values = {"instance": instance_id, "node_mode": mode, "channel": session.channel, "news": Notification.COMMANDED}
    statement = session.bind(_SQL.set_mode, **values)
    [changed] = session.unlocked(statement)
    return changed.rows[0][0] if changed.rows else None
