"""Requests that executions stop, on any node."""

from __future__ import annotations

from quartzpy.keys import JobKey
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Node, Notification

_SQL = SqlFile("steps/cancel.sql")


def request_cancel(session: SqlSession, executions: int | JobKey) -> set[int]:
    """Ask executions to stop; see `FiringStore.request_cancel`."""
    if isinstance(executions, int):
        statement = session.bind(_SQL.request_cancel, fire_id=executions)
        marked, _ = session.unlocked(statement, news(session, Notification.CANCELLED))
        return {executions} if marked.touched else set()
    job = executions
    statement = session.bind(_SQL.request_cancel_of_job, group=job.group, name=job.name, channel=session.channel)
    [marked] = session.unlocked(statement)
    return {fire_id for (fire_id,) in marked.rows}


def cancel_requests(session: SqlSession, node: Node) -> set[int]:
    """Return this epoch's executions that were asked to stop; see `JobStore.cancel_requests`."""
    return {fire_id for (fire_id,) in session.read_one(_SQL.cancel_requests, epoch=node.epoch)}
