"""Requests that executions stop, on any node."""

from __future__ import annotations

from quartzpy.keys import JobKey
from quartzpy.store.protocol import Node, Notification
from quartzpy.store.sql.db.listen import news
from quartzpy.store.sql.db.session import SqlSession

REQUEST_CANCEL = """
UPDATE $fired_triggers SET cancel_requested = true
 WHERE fire_id = %(fire_id)s::bigint AND sched_name = %(sched)s AND state = 'EXECUTING'
"""

# It sends one notification for all executions, and none if nothing is running. It waits for rows that are being
# completed, or whose progress is being stored, because a request that passed over a row would be lost; an execution
# that has ended by then is not reported. Two requests lock the rows in the same order, and completions wait for no row.
REQUEST_CANCEL_OF_JOB = """
WITH requested AS (
    UPDATE $fired_triggers f SET cancel_requested = true
      FROM (SELECT o.fire_id FROM $fired_triggers o
             WHERE o.sched_name = %(sched)s AND o.job_group = %(group)s AND o.job_name = %(name)s
               AND o.state = 'EXECUTING'
             ORDER BY o.fire_id
               FOR NO KEY UPDATE) AS held
     WHERE f.fire_id = held.fire_id AND f.state = 'EXECUTING'
    RETURNING f.fire_id
), notified AS (
    SELECT pg_notify(%(channel)s, 'cancelled') WHERE EXISTS (SELECT FROM requested)
)
SELECT fire_id FROM requested LEFT JOIN notified ON true
"""
CANCEL_REQUESTS = """
SELECT fire_id FROM $fired_triggers
 WHERE sched_name = %(sched)s AND epoch = %(epoch)s::bigint AND cancel_requested
"""


def request_cancel(session: SqlSession, fire_id: int) -> bool:
    """Ask an execution to stop; see `JobStore.request_cancel`."""
    asked, _ = session.unlocked(session.send(REQUEST_CANCEL, fire_id=fire_id), news(session, Notification.CANCELLED))
    return asked.touched > 0


def request_cancel_of_job(session: SqlSession, job: JobKey) -> set[int]:
    """Ask all executions of a job to stop; see `JobStore.request_cancel_of_job`."""
    send = session.send(REQUEST_CANCEL_OF_JOB, group=job.group, name=job.name, channel=session.channel)
    [asked] = session.unlocked(send)
    return {fire_id for (fire_id,) in asked.rows}


def cancel_requests(session: SqlSession, node: Node) -> set[int]:
    """Return this epoch's executions that were asked to stop; see `JobStore.cancel_requests`."""
    return {fire_id for (fire_id,) in session.read_one(CANCEL_REQUESTS, epoch=node.epoch)}
