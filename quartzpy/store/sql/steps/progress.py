"""The progress of running executions."""

from __future__ import annotations

from collections.abc import Mapping

from quartzpy.jobs.progress import Progress
from quartzpy.store.protocol import Node
from quartzpy.store.sql.db.session import SqlSession

# Locked rows are skipped: a step that ends several executions locks their rows in an order of its own.
REPORT_PROGRESS = """
UPDATE $fired_triggers f SET progress = locked.progress, progress_message = locked.message
  FROM (SELECT r.row, p.progress, p.message
          FROM unnest(%(fire_ids)s::bigint[], %(fractions)s::float8[], %(messages)s::text[])
               AS p(fire_id, progress, message)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM $fired_triggers o
             WHERE o.fire_id = p.fire_id AND o.sched_name = %(sched)s AND o.epoch = %(epoch)s::bigint
               AND o.state = 'EXECUTING'
               FOR NO KEY UPDATE SKIP LOCKED) AS r) AS locked
 WHERE f.ctid = locked.row
RETURNING f.fire_id
"""


def report_progress(session: SqlSession, node: Node, reports: Mapping[int, Progress]) -> set[int]:
    """Store the progress of executions; see `JobStore.report_progress`."""
    send = session.send(
        REPORT_PROGRESS,
        epoch=node.epoch,
        fire_ids=list(reports),
        fractions=[progress.fraction for progress in reports.values()],
        messages=[progress.message for progress in reports.values()],
    )
    [stored] = session.unlocked(send)
    return {fire_id for (fire_id,) in stored.rows}
