"""The recover step. Locks: STATE_ACCESS, then TRIGGER_ACCESS. Frees what dead nodes held.

Any claim of an epoch that is not registered is nobody's: a node registers before it claims. So the dead are
removed first, and one rule serves for them and for whatever an earlier accident left behind.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from quartzpy.errors import InstanceIdInUseError
from quartzpy.store.protocol import Node, RecoveryOutcome
from quartzpy.store.records import NodeRecord
from quartzpy.store.sql.again import RECOVERY, again, repeatable
from quartzpy.store.sql.checkin import LEAVE, NODES, REGISTER, REPLACE_SILENT
from quartzpy.store.sql.complete import freed, orphans
from quartzpy.store.sql.fire import RELEASE, UNKNOWN_CLAIMS
from quartzpy.store.sql.listen import news
from quartzpy.store.sql.locks import MAKE, LockName
from quartzpy.store.sql.misfire import GUARD
from quartzpy.store.sql.session import SqlSession, still_standing

# Only those that did not check in since they were judged.
REMOVE_DEAD = """
DELETE FROM $scheduler_state s
 USING unnest(%(instances)s::text[], %(epochs)s::bigint[], %(counts)s::bigint[]) AS d(instance_id, epoch, checkin_count)
 WHERE s.sched_name = %(sched)s AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
RETURNING s.instance_id
"""

FREE = f"""
WITH orphans AS MATERIALIZED (
    SELECT o.fence, o.job_group, o.job_name, o.state = 'EXECUTING' AND o.requests_recovery AS runs_again
      FROM $fired_triggers o
     WHERE o.sched_name = %(sched)s
       AND NOT EXISTS (SELECT FROM $scheduler_state s
                        WHERE s.sched_name = o.sched_name AND s.epoch = o.epoch)
       FOR UPDATE SKIP LOCKED
),
{repeatable("repeatable", "(SELECT * FROM orphans WHERE runs_again)")},
taken AS (
    DELETE FROM $fired_triggers f USING orphans o
     WHERE f.fence = o.fence
       AND (NOT o.runs_again OR f.fence IN (SELECT fence FROM repeatable)
            OR NOT EXISTS (SELECT FROM $job_details j WHERE j.sched_name = f.sched_name
                              AND j.job_group = f.job_group AND j.job_name = f.job_name))
    RETURNING f.*
),
released AS (
    UPDATE $triggers t SET trigger_state = 'WAITING', fence = NULL
      FROM (SELECT c.row
              FROM taken f
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row
                  FROM $triggers o
                 WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                   AND o.trigger_name = f.trigger_name AND o.trigger_state || '' = 'ACQUIRED' AND o.fence = f.fence
                   FOR NO KEY UPDATE SKIP LOCKED) AS c) AS held
     WHERE t.ctid = held.row
    RETURNING t.trigger_name
),
{freed("SELECT DISTINCT job_group, job_name FROM taken WHERE max_concurrent IS NOT NULL AND state = 'EXECUTING'")}
),
{again("again", "taken WHERE state = 'EXECUTING' AND requests_recovery", "repeatable", RECOVERY)}
    RETURNING trigger_name
),
lost AS (
    INSERT INTO $executions (fence, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, error, attempt,
        trigger_data)
    SELECT f.fence, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name, f.job_type,
           f.instance_id, f.epoch, f.fired_time, f.scheduled_time, $now, 'TERMINATED',
           'its node stopped while executing it', f.attempt, f.trigger_data
      FROM taken f
     WHERE f.state = 'EXECUTING'
       AND NOT (f.requests_recovery
                AND EXISTS (SELECT FROM $job_details j WHERE j.sched_name = f.sched_name
                               AND j.job_group = f.job_group AND j.job_name = f.job_name))
        ON CONFLICT DO NOTHING
    RETURNING fence
)
SELECT (SELECT count(*) FROM again), (SELECT count(*) FROM lost), (SELECT count(*) FROM released)
"""

# Triggers that say that something holds them, where nothing does. Possible only by editing tables, or where a step
# skipped a row that a transaction held.
STUCK = """
    SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
      FROM $triggers t
     WHERE t.sched_name = %(sched)s
       AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
       AND CASE t.trigger_state
           WHEN 'ACQUIRED' THEN NOT EXISTS (
               SELECT FROM $fired_triggers f WHERE f.fence = t.fence AND f.state = 'ACQUIRED')
           WHEN 'COMPLETE' THEN t.fence IS NOT NULL AND t.owner IS NULL AND NOT EXISTS (
               SELECT FROM $fired_triggers f WHERE f.fence = t.fence)
           ELSE t.when_full = 'skip' OR coalesce(t.max_concurrent, 1000000) > (
               SELECT count(*) FROM $fired_triggers f
                WHERE f.sched_name = t.sched_name AND f.job_group = t.job_group AND f.job_name = t.job_name
                  AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL)
           END
"""

# Whether there is anything to recover, without a lock: almost always there is not.
ANYTHING_STUCK = f"""
SELECT EXISTS (SELECT FROM $fired_triggers f
                WHERE f.sched_name = %(sched)s
                  AND NOT EXISTS (SELECT FROM $scheduler_state s
                                   WHERE s.sched_name = f.sched_name AND s.epoch = f.epoch))
    OR EXISTS ({STUCK})
"""

REPAIR = f"""
WITH stuck AS MATERIALIZED ({STUCK} FOR UPDATE OF t SKIP LOCKED),
freed AS (
    UPDATE $triggers t
       SET trigger_state = CASE s.trigger_state WHEN 'PAUSED_BLOCKED' THEN 'PAUSED' ELSE 'WAITING' END, fence = NULL
      FROM stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state <> 'COMPLETE'
),
gone AS (
    DELETE FROM $triggers t USING stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state = 'COMPLETE'
)
SELECT trigger_state, job_group, job_name FROM stuck
"""


def recover(session: SqlSession, node: Node, dead: Collection[NodeRecord]) -> RecoveryOutcome:
    """Free what the dead held; see `JobStore.recover`."""
    stuck, standing = session.read(
        session.send(ANYTHING_STUCK), session.send(GUARD, instance=node.instance_id, epoch=node.epoch)
    )
    still_standing(node, standing)
    if not dead and not stuck.rows[0][0]:
        return RecoveryOutcome()
    removed, given_back, repaired = session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(
            REMOVE_DEAD,
            instances=[record.instance_id for record in dead],
            epochs=[record.epoch for record in dead],
            counts=[record.checkin_count for record in dead],
        ),
        session.send(FREE),
        session.send(REPAIR),
        news(session),
        name=LockName.STATE_ACCESS,
    )[1:4]
    # A COMPLETE trigger whose node died before it could end it is nothing odd.
    odd = sum(state != "COMPLETE" for state, _, _ in repaired.rows)
    jobs = {(group, name) for _, group, name in repaired.rows}
    if jobs:
        session.locked(*orphans(session, jobs))
    recovered, lost, released = given_back.rows[0]
    return RecoveryOutcome([name for (name,) in removed.rows], recovered, lost, released, odd)


def register(
    session: SqlSession,
    instance_id: str,
    *,
    host: str,
    pid: int,
    checkin_interval: timedelta,
    window: timedelta,
    gone: int | None,
) -> Node:
    """Begin an epoch; see `JobStore.register`."""
    session.unlocked(session.send(MAKE, names=list(LockName)))
    *_, registered, _, nodes = session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(REPLACE_SILENT, instance=instance_id, window=window, gone=gone),
        session.send(REGISTER, instance=instance_id, host=host, pid=pid, checkin_interval=checkin_interval),
        session.send(FREE),
        session.send(NODES),
        name=LockName.STATE_ACCESS,
    )
    row = registered.first()
    if row is None:
        other = next(record for record in (NodeRecord(*n) for n in nodes.rows) if record.instance_id == instance_id)
        raise InstanceIdInUseError(
            f"instance_id {instance_id!r} is in use by a node on host {other.host}, pid {other.pid},"
            f" which checked in at {other.last_checkin.isoformat()}; choose another, or AUTO"
        )
    return Node(instance_id, row[0])


def leave(session: SqlSession, node: Node) -> None:
    """Give back the claims and go; see `JobStore.leave`."""
    claims = session.read_one(UNKNOWN_CLAIMS, epoch=node.epoch, known=[])[0][0]
    session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(RELEASE, epoch=node.epoch, fences=claims),
        session.send(LEAVE, instance=node.instance_id, epoch=node.epoch),
        # Others may be asleep past what this node alone was awake for.
        news(session),
        name=LockName.STATE_ACCESS,
    )
