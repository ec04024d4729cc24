"""The progress and the log lines of running executions."""

from __future__ import annotations

from collections.abc import Mapping

from quartzpy.jobs.progress import Progress
from quartzpy.store.protocol import Node
from quartzpy.store.sql.db.session import SqlSession

# Locked rows are skipped: a step that ends several executions locks their rows in an order of its own.
REPORT_PROGRESS = """
UPDATE $fired_triggers f
   SET progress = coalesce(locked.progress, f.progress),
       progress_message = CASE WHEN locked.progress IS NULL THEN f.progress_message ELSE locked.message END,
       recent_log = coalesce(locked.log, f.recent_log)
  FROM (SELECT r.row, p.progress, p.message, p.log
          FROM unnest(%(fire_ids)s::bigint[], %(fractions)s::float8[], %(messages)s::text[], %(logs)s::text[])
               AS p(fire_id, progress, message, log)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM $fired_triggers o
             WHERE o.fire_id = p.fire_id AND o.sched_name = %(sched)s AND o.epoch = %(epoch)s::bigint
               AND o.state = 'EXECUTING'
               FOR NO KEY UPDATE SKIP LOCKED) AS r) AS locked
 WHERE f.ctid = locked.row
RETURNING f.fire_id
"""


def report_progress(
    session: SqlSession, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str]
) -> set[int]:
    """Store the progress and the log lines of executions; see `JobStore.report_progress`."""
    fire_ids = list(reports.keys() | logs.keys())
    progress = [reports.get(fire_id) for fire_id in fire_ids]
    send = session.send(
        REPORT_PROGRESS,
        epoch=node.epoch,
        fire_ids=fire_ids,
        fractions=[None if one is None else one.fraction for one in progress],
        messages=[None if one is None else one.message for one in progress],
        logs=[logs.get(fire_id) for fire_id in fire_ids],
    )
    [stored] = session.unlocked(send)
    return {fire_id for (fire_id,) in stored.rows}
