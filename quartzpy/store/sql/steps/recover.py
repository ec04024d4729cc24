"""The recover step. Locks: STATE_ACCESS, then TRIGGER_ACCESS. Releases the claims of dead nodes.

A node registers before it claims, so a claim of an epoch that is not registered has no owner. Recovery first removes
the dead nodes, and then one rule releases both their claims and those that any earlier accident left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from quartzpy.errors import JobStoreError
from quartzpy.keys import JobKey
from quartzpy.store import refusals
from quartzpy.store.process_identity import own_process
from quartzpy.store.protocol import Node, RecoveryOutcome
from quartzpy.store.records import NodeRecord
from quartzpy.store.sql.db.conninfo import session_prefix
from quartzpy.store.sql.db.listen import news
from quartzpy.store.sql.db.locks import MAKE, LockName
from quartzpy.store.sql.db.session import SqlSession, require_epoch
from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps.checkin import LEAVE, NODES, REGISTER, REPLACE_SILENT, records
from quartzpy.store.sql.steps.continuations import UNFOLLOWED, continued, followers
from quartzpy.store.sql.steps.guard import GUARD
from quartzpy.store.sql.steps.holdings import RELEASE_OTHERS
from quartzpy.store.sql.steps.orphans import orphans
from quartzpy.store.sql.steps.overlap import unblocked
from quartzpy.store.sql.steps.rerun import RECOVERY, repeatable, rerun
from quartzpy.store.sql.steps.void_claims import void_claims

logger = logging.getLogger(__name__)

# Only nodes that have not checked in since they were judged dead.
REMOVE_DEAD = """
DELETE FROM $scheduler_state s
 USING unnest(%(instances)s::text[], %(epochs)s::bigint[], %(counts)s::bigint[]) AS d(instance_id, epoch, checkin_count)
 WHERE s.sched_name = %(sched)s AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
RETURNING s.instance_id
"""

# Their open transactions hold locks on rows that recovery would have to skip. Only from PostgreSQL 14 on does
# pg_terminate_backend() wait for the end of a session: these get a moment.
END_SESSIONS = """
SELECT ended, (SELECT pg_sleep(0.1) WHERE ended > 0)::text
  FROM (SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid)) AS ended
          FROM unnest(%(instances)s::text[], %(epochs)s::bigint[], %(counts)s::bigint[], %(prefixes)s::text[])
                   AS d(instance_id, epoch, checkin_count, prefix)
          JOIN $scheduler_state s
            ON s.sched_name = %(sched)s AND s.instance_id = d.instance_id AND s.epoch = d.epoch
           AND s.checkin_count = d.checkin_count
          JOIN pg_stat_activity a
            ON a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
           AND starts_with(a.application_name, d.prefix)) AS sessions
"""

# One that was asked to stop does not run again.
_RUNS_AGAIN = "requests_recovery AND NOT cancel_requested"
FREE = f"""
WITH
-- The claims and executions of epochs that are no longer registered.
abandoned AS MATERIALIZED (
    SELECT o.fire_id, o.job_group, o.job_name, o.state,
           o.state = 'EXECUTING' AND o.requests_recovery AND NOT o.cancel_requested AS runs_again
      FROM $fired_triggers o
     WHERE o.sched_name = %(sched)s
       AND NOT EXISTS (SELECT FROM $scheduler_state s
                        WHERE s.sched_name = o.sched_name AND s.epoch = o.epoch)
       FOR UPDATE SKIP LOCKED
),
{repeatable("repeatable", "(SELECT * FROM abandoned WHERE runs_again)")},
{
    followers(
        "SELECT fire_id, job_group, job_name, 'TERMINATED' AS outcome"
        " FROM abandoned WHERE state = 'EXECUTING' AND NOT runs_again"
    )
}
-- Their rows go, unless somebody holds the row of a job that must be stored with them.
removed AS (
    DELETE FROM $fired_triggers f USING abandoned o
     WHERE f.fire_id = o.fire_id
       AND (NOT o.runs_again OR f.fire_id IN (SELECT fire_id FROM repeatable)
            OR NOT EXISTS (SELECT FROM $job_details j WHERE j.sched_name = f.sched_name
                              AND j.job_group = f.job_group AND j.job_name = f.job_name {BY_KEY}))
       AND f.fire_id NOT IN ({UNFOLLOWED})
    RETURNING f.*
),
-- The triggers of claims wait again.
released AS (
    UPDATE $triggers t SET trigger_state = 'WAITING', fire_id = NULL
      FROM (SELECT c.row
              FROM removed f
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row
                  FROM $triggers o
                 WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                   AND o.trigger_name = f.trigger_name AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
                   FOR NO KEY UPDATE SKIP LOCKED) AS c) AS claimed
     WHERE t.ctid = claimed.row
    RETURNING t.trigger_name
),
{
    unblocked(
        "SELECT DISTINCT job_group, job_name, concurrency_key FROM removed"
        " WHERE max_concurrent IS NOT NULL AND state = 'EXECUTING'"
    )
}
),
{rerun("reruns", f"removed WHERE state = 'EXECUTING' AND {_RUNS_AGAIN}", "repeatable", RECOVERY)}
    RETURNING trigger_name
),
{continued("SELECT *, 'TERMINATED' AS outcome, NULL AS result FROM removed")}
),
-- The jobs that were running on nodes that died.
deaths AS (
    UPDATE $job_details j SET node_deaths = j.node_deaths + 1
      FROM (SELECT DISTINCT job_group, job_name FROM removed
             WHERE state = 'EXECUTING' AND epoch = ANY(%(died)s::bigint[])) AS d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = d.job_group AND o.job_name = d.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS died_in
     WHERE j.ctid = died_in.row
),
-- The history of executions that do not run again.
terminated AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, error, attempt,
        trigger_data, log)
    SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name, f.job_type,
           f.instance_id, f.epoch, f.fired_time, f.scheduled_time, $now, 'TERMINATED',
           'its node stopped while executing it', f.attempt, f.trigger_data, f.recent_log
      FROM removed f
     WHERE f.state = 'EXECUTING'
       AND NOT ({_RUNS_AGAIN}
                AND EXISTS (SELECT FROM $job_details j WHERE j.sched_name = f.sched_name
                               AND j.job_group = f.job_group AND j.job_name = f.job_name {BY_KEY}))
        ON CONFLICT DO NOTHING
    RETURNING fire_id
)
SELECT (SELECT count(*) FROM reruns), (SELECT count(*) FROM terminated), (SELECT count(*) FROM released)
"""

# A separate statement after FREE, because it changes triggers that FREE has just stored or released. A recovery trigger
# becomes ERROR as well, and runs when somebody resets it, so that no fire is lost. The count restarts.
QUARANTINE = f"""
WITH poison AS (
    UPDATE $job_details j SET node_deaths = 0
      FROM (SELECT o.ctid AS row, o.node_deaths AS deaths FROM $job_details o
             WHERE o.sched_name = %(sched)s AND o.node_deaths > 0 AND o.node_deaths >= %(max_deaths)s::int
               FOR NO KEY UPDATE SKIP LOCKED) AS deadly
     WHERE j.ctid = deadly.row
    RETURNING j.job_group, j.job_name, deadly.deaths
),
of_poison AS (
    SELECT t.*, p.deaths
      FROM poison p
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.job_group = p.job_group AND o.job_name = p.job_name
           AND o.trigger_state || '' NOT IN ('COMPLETE', 'ERROR')
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
stopped AS (
    UPDATE $triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = of_poison.deaths || ' nodes died in a row while they executed its job (max_node_deaths)'
      FROM of_poison
     WHERE t.ctid = of_poison.row
    RETURNING of_poison.fire_id
),
unclaimed AS (
{void_claims("stopped").strip()}
)
SELECT job_group, job_name FROM poison ORDER BY 1, 2
"""

# Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
# or if a step skipped a row that a transaction had locked.
STUCK = f"""
    SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
      FROM $triggers t
     WHERE t.sched_name = %(sched)s
       AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
       AND CASE t.trigger_state
           WHEN 'ACQUIRED' THEN NOT EXISTS (
               SELECT FROM $fired_triggers f WHERE f.fire_id = t.fire_id AND f.state = 'ACQUIRED' {BY_KEY})
           WHEN 'COMPLETE' THEN t.fire_id IS NOT NULL AND t.owner IS NULL AND NOT EXISTS (
               SELECT FROM $fired_triggers f WHERE f.fire_id = t.fire_id {BY_KEY})
           ELSE t.overlap_policy = 'skip' OR coalesce(t.max_concurrent, 1000000) > (
               SELECT count(*) FROM $fired_triggers f
                WHERE f.sched_name = t.sched_name AND f.job_group = t.job_group AND f.job_name = t.job_name
                  AND f.concurrency_key = t.concurrency_key
                  AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL)
           END
"""

# A check without a lock whether there is anything to recover; almost always there is not.
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
       SET trigger_state = CASE s.trigger_state WHEN 'PAUSED_BLOCKED' THEN 'PAUSED' ELSE 'WAITING' END, fire_id = NULL
      FROM stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state <> 'COMPLETE'
),
deleted AS (
    DELETE FROM $triggers t USING stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state = 'COMPLETE'
)
SELECT trigger_state, job_group, job_name FROM stuck
"""


# The present epoch of an instance id that is wanted. If it is removed, it counts as dead.
PRESENT_EPOCH = """
SELECT epoch FROM $scheduler_state WHERE sched_name = %(sched)s AND instance_id = %(instance)s
"""


def _identified(dead: Collection[NodeRecord]) -> dict[str, list[Any]]:
    """Return the values that identify the rows of these nodes, if they have not changed since they were read."""
    return {
        "instances": [record.instance_id for record in dead],
        "epochs": [record.epoch for record in dead],
        "counts": [record.checkin_count for record in dead],
    }


def end_sessions(session: SqlSession, dead: Collection[NodeRecord]) -> None:
    """Terminate the database sessions of dead nodes, except those of a pooler, which other clients share."""
    others = [record for record in dead if record.process not in ("", own_process())]
    if not others or session.connections.pooled:
        return
    prefixes = [session_prefix(record.process, session.scheduler, session.names["prefix"]) for record in others]
    try:
        ended = session.unlocked(session.send(END_SESSIONS, **_identified(others), prefixes=prefixes))[0].rows[0][0]
    except JobStoreError as error:
        # Rows that these sessions have locked are skipped, and recovered after their release.
        logger.warning("cannot terminate the database sessions of dead nodes: %s", error)
        return
    if ended:
        logger.info("terminated %d database sessions of dead nodes", ended)


def recover(session: SqlSession, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int) -> RecoveryOutcome:
    """Remove dead nodes and release what they held; see `JobStore.recover`."""
    stuck, standing = session.read(
        session.send(ANYTHING_STUCK), session.send(GUARD, instance=node.instance_id, epoch=node.epoch)
    )
    require_epoch(node, standing)
    if not dead and not stuck.rows[0][0]:
        return RecoveryOutcome()
    end_sessions(session, dead)
    removed, given_back, poison, repaired = session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(REMOVE_DEAD, **_identified(dead)),
        session.send(FREE, died=[record.epoch for record in dead]),
        session.send(QUARANTINE, max_deaths=max_node_deaths),
        session.send(REPAIR),
        news(session),
        name=LockName.STATE_ACCESS,
    )[1:5]
    # A COMPLETE trigger whose node died before it could remove it is not an anomaly.
    odd = sum(state != "COMPLETE" for state, _, _ in repaired.rows)
    jobs = {(group, name) for _, group, name in repaired.rows}
    if jobs:
        session.locked(*orphans(session, jobs))
    recovered, lost, released = given_back.rows[0]
    quarantined = [JobKey(name, group) for group, name in poison.rows]
    return RecoveryOutcome([name for (name,) in removed.rows], recovered, lost, released, odd, quarantined)


def register(
    session: SqlSession,
    instance_id: str,
    *,
    host: str,
    pid: int,
    checkin_interval: timedelta,
    window: timedelta,
    process: str,
    ended_epoch: int | None,
    max_node_deaths: int,
) -> Node:
    """Begin an epoch; see `JobStore.register`."""
    _, present = session.unlocked(
        session.send(MAKE, names=list(LockName)), session.send(PRESENT_EPOCH, instance=instance_id)
    )
    _, _, registered, _, _, nodes = session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(REPLACE_SILENT, instance=instance_id, ended_epoch=ended_epoch),
        session.send(
            REGISTER,
            instance=instance_id,
            host=host,
            pid=pid,
            checkin_interval=checkin_interval,
            window=window,
            process=process,
        ),
        session.send(FREE, died=[epoch for (epoch,) in present.rows]),
        session.send(QUARANTINE, max_deaths=max_node_deaths),
        session.send(NODES),
        name=LockName.STATE_ACCESS,
    )
    row = registered.first()
    if row is None:
        raise refusals.instance_id_in_use(next(one for one in records(nodes.rows) if one.instance_id == instance_id))
    return Node(instance_id, row[0])


def leave(session: SqlSession, node: Node) -> None:
    """Release the node's claims and remove the node; see `JobStore.leave`."""
    session.locked(
        session.lock(LockName.TRIGGER_ACCESS),
        session.send(RELEASE_OTHERS, epoch=node.epoch, claims=[], channel=session.channel),
        session.send(LEAVE, instance=node.instance_id, epoch=node.epoch),
        # Also if no claim was left: only this node was notified of triggers that its last executions unblocked.
        news(session),
        name=LockName.STATE_ACCESS,
    )
