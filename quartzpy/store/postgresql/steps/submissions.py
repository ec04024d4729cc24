"""The submissions of executions to engines: each step is one statement, without a shared lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Node, Submitted

_SQL = SqlFile("steps/submissions.sql")
UNKNOWN = _SQL("unknown")


def submit(
    session: SqlSession, node: Node, fires: Mapping[int, bool], *, refires: Collection[int] = ()
) -> dict[int, int]:
    """Begin new submissions; see `SubmissionStore.submit`."""
    # All who wait for several rows take them in this order.
    fire_ids = sorted(fires)
    values = {
        "fire_ids": fire_ids,
        "outlives": [fires[fire_id] for fire_id in fire_ids],
        "refires": [fire_id in refires for fire_id in fire_ids],
    }
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    [changed] = session.unlocked(session.bind(_SQL.submit, **values, **at_node))
    return dict(zip(*require_epoch(node, changed), strict=True))


def submitted(session: SqlSession, node: Node, fire_ids: Collection[int]) -> dict[int, Submitted]:
    """Return what the rows say; see `SubmissionStore.submitted`."""
    rows = session.read_one(_SQL.submitted, fire_ids=list(fire_ids), epoch=node.epoch)
    return by_fire(rows)


def by_fire(rows: Sequence[tuple[Any, ...]]) -> dict[int, Submitted]:
    return {row[0]: Submitted(*row) for row in rows}


def settle(session: SqlSession, node: Node, submissions: Mapping[int, int]) -> dict[int, str | None]:
    """Make submissions void unless they have ended; see `SubmissionStore.settle`."""
    fire_ids = sorted(submissions)
    values = {"fire_ids": fire_ids, "submissions": [submissions[fire_id] for fire_id in fire_ids]}
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    [changed] = session.unlocked(session.bind(_SQL.settle, **values, **at_node))
    return dict(zip(*require_epoch(node, changed), strict=True))
