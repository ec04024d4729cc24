"""The complete step. Lock: TRIGGER_ACCESS. Ends executions by fire_id, if the claim still belongs to this epoch.

All effects of a completion depend on the fired row that it deletes. An execution keeps that row and is completed later
if another transaction has locked a row that it must write: its job, whose data it stores or which runs again, or a
trigger that it asked to end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.protocol.outcomes import NOT_FAILED
from quartzpy.store.sql import failures
from quartzpy.store.sql.continuations import UNFOLLOWED, continued, followers
from quartzpy.store.sql.flight import Send
from quartzpy.store.sql.rate_limits import PRUNE
from quartzpy.store.sql.rerun import RETRY, again, repeatable
from quartzpy.store.sql.session import SqlSession

logger = logging.getLogger(__name__)


def freed(jobs: str) -> str:
    """The SQL that releases the blocked triggers of `jobs`, a query of their groups, names and concurrency keys."""
    return f"""
freed AS (
    UPDATE $triggers t
       SET trigger_state = CASE held.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END
      FROM ({jobs}) AS d
     CROSS JOIN LATERAL (
        SELECT b.ctid AS row, b.trigger_state
          FROM $triggers b
         WHERE b.sched_name = %(sched)s AND b.job_group = d.job_group AND b.job_name = d.job_name
           AND b.concurrency_key = d.concurrency_key AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
           FOR NO KEY UPDATE SKIP LOCKED) AS held
     WHERE t.ctid = held.row"""


def _executing(of: str, columns: str) -> str:
    # LATERAL with a limit: a plain join may be planned as a scan of all fired rows for each row of `of`.
    return f"""
     CROSS JOIN LATERAL (
        SELECT {columns} FROM $fired_triggers r
         WHERE r.fire_id = {of}.fire_id AND r.epoch = %(epoch)s::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f"""


_ITS_JOB = "r.sched_name, r.job_group, r.job_name"

# If jobs give instructions: the executions that must wait, because a trigger that they name is locked.
_HELD_UP = f"""
asked AS MATERIALIZED (
    SELECT a.fire_id, about.trigger_group, about.trigger_name
      FROM unnest(%(ask_fire_ids)s::bigint[], %(ask_all)s::bool[]) AS a(fire_id, all_triggers)
{_executing("a", f"{_ITS_JOB}, r.trigger_group, r.trigger_name, r.generation")}
     CROSS JOIN LATERAL (
        SELECT o.trigger_group, o.trigger_name FROM $triggers o
         WHERE a.all_triggers AND o.sched_name = %(sched)s AND o.job_group = f.job_group AND o.job_name = f.job_name
        UNION ALL
        SELECT o.trigger_group, o.trigger_name FROM $triggers o
         WHERE NOT a.all_triggers AND o.sched_name = %(sched)s AND o.trigger_group = f.trigger_group
           AND o.trigger_name = f.trigger_name AND o.generation = f.generation) AS about
),
held_up AS MATERIALIZED (
    SELECT a.fire_id
      FROM asked a
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = a.trigger_group AND o.trigger_name = a.trigger_name
           FOR NO KEY UPDATE SKIP LOCKED) AS t ON true
     WHERE t.is_free IS NULL
),
"""


# `stored` updates the row that was locked. If another transaction has committed a newer version, which this statement
# does not see, nothing is updated, and the execution is completed at the next try.
_STORED = f"""
storable AS MATERIALIZED (
    SELECT j.row, f.job_group, f.job_name, e.place, e.new_data
      FROM unnest(%(data_fire_ids)s::bigint[], %(data)s::text[]) WITH ORDINALITY AS e(fire_id, new_data, place)
{_executing("e", _ITS_JOB)}
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM $job_details o
         WHERE o.sched_name = f.sched_name AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
stored AS (
    UPDATE $job_details j SET job_data = nullif(s.new_data, '{{{{}}}}')::jsonb
      FROM (SELECT DISTINCT ON (job_group, job_name) row, new_data
              FROM storable ORDER BY job_group, job_name, place DESC) AS s
     WHERE j.ctid = s.row {{after}}
    RETURNING j.job_group, j.job_name
),
"""
_IS_STORED = "(NOT e.stores_data OR (f.job_group, f.job_name) IN (SELECT job_group, job_name FROM stored))"
# Jobs whose failures are counted: an execution waits where somebody else holds its job's row.
_COUNTABLE = f"""
countable AS MATERIALIZED (
    SELECT f.job_group, f.job_name
      FROM unnest(%(count_fire_ids)s::bigint[]) AS e(fire_id)
{_executing("e", _ITS_JOB)}
     CROSS JOIN LATERAL (
        SELECT FROM $job_details o
         WHERE o.sched_name = f.sched_name AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
"""
_IS_COUNTABLE = """
(e.fire_id <> ALL(%(count_fire_ids)s::bigint[])
 OR (f.job_group, f.job_name) IN (SELECT job_group, job_name FROM countable))
"""
_RETRIED = f"""(
    SELECT e.fire_id, f.job_group, f.job_name FROM ended e {_executing("e", _ITS_JOB)}
     WHERE e.retry_after IS NOT NULL)"""
# Those that end for good: a failure that is retried is no end yet.
_ENDING = f"""
    SELECT e.fire_id, f.job_group, f.job_name, e.outcome FROM ended e {_executing("e", _ITS_JOB)}
     WHERE e.retry_after IS NULL"""
_IS_REPEATABLE = "(e.retry_after IS NULL OR e.fire_id IN (SELECT fire_id FROM repeatable))"
_NO_JOB = """
NOT EXISTS (SELECT FROM $job_details j
             WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name)
"""


@cache
def _between(instant: str) -> str:
    """Return a node's estimate of an instant, limited to the time between the fire and now by the store's clock.

    Estimates of two nodes differ by up to a round trip. Without the limits, the history could show that an execution
    began before the previous one of a serial job had ended.
    """
    return f"least(greatest({instant}, fired_time), $now)"


def complete_statement(
    *, asks: bool, stores: bool, retries: bool, counts: bool, continues: bool, captures: bool = False
) -> str:
    """The statement that ends executions; with what only some of them need, where one of these does."""
    conditions = [_IS_STORED] * stores + [_IS_REPEATABLE] * retries + [_IS_COUNTABLE] * counts
    ends = f"AND ({' AND '.join(conditions)} OR {_NO_JOB})" if conditions else ""
    if asks:
        ends += " AND e.fire_id NOT IN (SELECT fire_id FROM held_up)"
    if continues:
        ends += f" AND e.fire_id NOT IN ({UNFOLLOWED})"
    repeated, retry_at = "", "NULL"
    # Most completions have no log lines, and their statement does not mention them.
    of_log, log, logs = (", e.log", ", log", ", %(logs)s::text[]") if captures else ("", "", "")
    waiting = ["SELECT * FROM freed"]
    if retries:
        retried = again("retried", "done WHERE retry_after IS NOT NULL", "repeatable", RETRY)
        retry_at = "CASE WHEN fire_id IN (SELECT fire_id FROM repeatable) THEN $now + retry_after END"
        repeated = f"{retried} RETURNING trigger_state, next_fire_time),"
        waiting.append("SELECT * FROM retried")
    if continues:
        repeated += f"{continued('SELECT * FROM done')} RETURNING trigger_state, next_fire_time),"
        waiting.append("SELECT * FROM continued")
    # A row that this statement has changed can no longer be held by it: what is to be held is held before.
    held_first = ["followers"] * continues + ["repeatable"] * retries + ["countable"] * counts
    stored = _STORED.format(after="".join(f"AND (SELECT count(*) FROM {name}) >= 0 " for name in held_first))
    # A declared trigger (it has an owner) stays when it has ended: else it would be stored anew by the next sync.
    return f"""
WITH ended AS MATERIALIZED (
    SELECT * FROM unnest(%(fire_ids)s::bigint[], %(started)s::timestamptz[], %(ended)s::timestamptz[],
                         %(outcomes)s::text[], %(errors)s::text[], %(stores)s::bool[], %(last)s::bool[],
                         %(retries)s::interval[], %(results)s::text[]{logs})
        AS e(fire_id, started_at, ended_at, outcome, error, stores_data, is_last, retry_after, result{log})
),
{_HELD_UP if asks else ""}
{_COUNTABLE if counts else ""}
{followers(_ENDING) if continues else ""}
{repeatable("repeatable", _RETRIED) + "," if retries else ""}
{stored if stores else ""}
done AS (
    DELETE FROM $fired_triggers f
     USING ended e {_executing("e", "r.ctid AS row").replace("AS f", "AS own")}
     WHERE f.ctid = own.row {ends}
    RETURNING f.*, e.started_at, e.ended_at, e.outcome, e.error, e.is_last, e.retry_after, e.result{of_log}
),
history AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, started_at, ended_at, outcome, error, attempt,
        trigger_data, result, retry_at{log})
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           epoch, fired_time, scheduled_time, {_between("started_at")}, {_between("ended_at")}, outcome, error, attempt,
           trigger_data, result::jsonb, {retry_at}{log}
      FROM done
        ON CONFLICT DO NOTHING
    RETURNING fire_id
),
{freed("SELECT DISTINCT job_group, job_name, concurrency_key FROM done WHERE max_concurrent IS NOT NULL")}
    RETURNING t.trigger_state, t.next_fire_time
),
{repeated}
gone AS (
    DELETE FROM $triggers t
     USING (SELECT sched_name, trigger_group, trigger_name, generation FROM done WHERE is_last) AS d
     CROSS JOIN LATERAL (
        SELECT c.ctid AS row
          FROM $triggers c
         WHERE c.sched_name = d.sched_name AND c.trigger_group = d.trigger_group AND c.trigger_name = d.trigger_name
           AND c.generation = d.generation AND c.trigger_state || '' = 'COMPLETE' AND c.owner IS NULL
           FOR UPDATE SKIP LOCKED) AS over
     WHERE t.ctid = over.row
),
waiting AS (
    SELECT next_fire_time FROM ({" UNION ALL ".join(waiting)}) AS w
     WHERE trigger_state = 'WAITING'
)
SELECT $now,
       ARRAY(SELECT fire_id FROM done),
       ARRAY(SELECT fire_id FROM done EXCEPT SELECT fire_id FROM history),
       (SELECT min(next_fire_time) FROM waiting),
       (SELECT count(pg_notify(%(channel)s, 'scheduled'))
          FROM (SELECT FROM waiting WHERE %(wakes_others)s::bool LIMIT 1) AS told)
"""


# Executions that did not end above: still this epoch's (a row was locked), or recorded by a call whose answer was lost.
UNFINISHED = """
SELECT ARRAY(SELECT fire_id FROM $fired_triggers
              WHERE fire_id = ANY(%(fire_ids)s::bigint[]) AND epoch = %(epoch)s::bigint),
       ARRAY(SELECT fire_id FROM $executions
              WHERE fire_id = ANY(%(fire_ids)s::bigint[]) AND epoch = %(epoch)s::bigint AND outcome <> 'TERMINATED')
"""

# Resets the node deaths of jobs of which an execution has now succeeded.
ACQUIT = """
UPDATE $job_details j SET node_deaths = 0
  FROM (SELECT DISTINCT e.job_group, e.job_name
          FROM unnest(%(fire_ids)s::bigint[]) AS a(fire_id)
          JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome = 'SUCCEEDED') AS d
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = d.job_group AND o.job_name = d.job_name
       FOR NO KEY UPDATE SKIP LOCKED) AS held
 WHERE j.ctid = held.row
"""

# Appends fire times if nothing else has: the schedule, the calendar and the last instant must be those from which they
# were computed.
REFILL = """
UPDATE $triggers t
   SET upcoming = t.upcoming || r.more::timestamptz[], upcoming_is_complete = r.is_complete
  FROM (SELECT x.row, w.more, w.is_complete
          FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[],
                      %(after)s::timestamptz[], %(more)s::text[], %(complete)s::bool[], %(revisions)s::bigint[])
               AS w(trigger_group, trigger_name, generation, after, more, is_complete, revision)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row
              FROM $triggers o
             WHERE o.sched_name = %(sched)s AND o.trigger_group = w.trigger_group
               AND o.trigger_name = w.trigger_name AND o.generation = w.generation
               AND coalesce(o.upcoming[cardinality(o.upcoming)], o.next_fire_time) = w.after
               AND NOT o.upcoming_is_complete
               AND (o.calendar_name IS NULL
                    OR EXISTS (SELECT FROM $calendars c WHERE c.sched_name = o.sched_name
                                  AND c.calendar_name = o.calendar_name AND c.revision = w.revision))
               FOR NO KEY UPDATE SKIP LOCKED) AS x) AS r
 WHERE t.ctid = r.row
"""

# Triggers whose next fire follows from the end of the execution. One that was moved in the meantime does not change.
MOVE_BY_END = """
UPDATE $triggers t
   SET next_fire_time = w.next_fire_time,
       trigger_state = CASE WHEN w.next_fire_time IS NULL THEN 'COMPLETE' ELSE t.trigger_state END
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[], %(seen)s::timestamptz[],
              %(next)s::timestamptz[]) AS w(trigger_group, trigger_name, generation, seen, next_fire_time)
 WHERE t.sched_name = %(sched)s AND t.trigger_group = w.trigger_group AND t.trigger_name = w.trigger_name
   AND t.generation = w.generation AND t.next_fire_time = w.seen AND t.trigger_state NOT IN ('ACQUIRED', 'COMPLETE')
"""

# The instructions of ended jobs: a state for the trigger that fired them (its generation), or for all triggers of the
# job. The instructions of fenced executions are ignored.
SET_STATES = """
WITH asked AS (
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.error, a.all_triggers, a.state
      FROM unnest(%(fire_ids)s::bigint[], %(all)s::bool[], %(states)s::text[]) AS a(fire_id, all_triggers, state)
      JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
),
held AS (
    SELECT c.*, a.state, a.error
      FROM asked a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM $triggers o
         WHERE NOT a.all_triggers AND o.sched_name = %(sched)s AND o.trigger_group = a.trigger_group
           AND o.trigger_name = a.trigger_name AND o.generation = a.generation
           FOR NO KEY UPDATE SKIP LOCKED) AS c
    UNION ALL
    SELECT c.*, a.state, a.error
      FROM asked a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM $triggers o
         WHERE a.all_triggers AND o.sched_name = %(sched)s AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS c
),
put AS (
    UPDATE $triggers t
       SET trigger_state = held.state, fire_id = NULL,
           error = CASE held.state WHEN 'ERROR' THEN coalesce(held.error, %(not_failed)s) END
      FROM held
     WHERE t.ctid = held.row
    RETURNING held.fire_id
)
DELETE FROM $fired_triggers f USING put WHERE f.fire_id = put.fire_id AND f.state = 'ACQUIRED'
"""

# The triggers that ended jobs asked to delete, with the claims on them. As above, only the generation that fired.
DELETE_ASKED = """
WITH gone AS (
    DELETE FROM $triggers t
     USING unnest(%(fire_ids)s::bigint[]) AS a(fire_id)
      JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = e.trigger_group AND o.trigger_name = e.trigger_name
           AND o.generation = e.generation
           FOR UPDATE SKIP LOCKED) AS held
     WHERE t.ctid = held.row
    RETURNING t.fire_id
)
DELETE FROM $fired_triggers f USING gone WHERE f.fire_id = gone.fire_id AND f.state = 'ACQUIRED'
"""

# Locks non-durable jobs that seem to have no trigger left. One that is receiving a trigger is locked, and is skipped.
HOLD_ORPHANS = """
SELECT 1
  FROM unnest(%(job_groups)s::text[], %(job_names)s::text[]) AS k(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = k.job_group AND o.job_name = k.job_name AND NOT o.is_durable
       AND (SELECT true FROM $triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS j
"""
# A separate statement, because it must see a trigger that was stored between the check and the lock.
ORPHANED_JOBS = """
DELETE FROM $job_details j
 USING unnest(%(job_groups)s::text[], %(job_names)s::text[]) AS k(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = k.job_group AND o.job_name = k.job_name AND NOT o.is_durable
       AND (SELECT true FROM $triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS over
 WHERE j.ctid = over.row
"""

# Triggers that a job or a misfire ended. Declared ones are kept: their owner would store them again.
PURGE_ENDED = """
DELETE FROM $triggers t
 USING (SELECT o.ctid AS row FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_state = 'COMPLETE' AND o.fire_id IS NULL AND o.owner IS NULL
           AND coalesce(o.next_fire_time, o.prev_fire_time, o.start_time) < $now - %(older_than)s::interval
         LIMIT %(limit)s::int
           FOR UPDATE SKIP LOCKED) AS ended
 WHERE t.ctid = ended.row
RETURNING t.job_group, t.job_name
"""

# The bound is a subquery, because an index condition cannot use a volatile expression such as the clock.
PURGE = """
DELETE FROM $executions
 WHERE ctid IN (SELECT ctid FROM $executions
                 WHERE sched_name = %(sched)s AND ended_at < (SELECT $now - %(older_than)s::interval)
                 ORDER BY ended_at LIMIT %(limit)s::int)
"""


# Of the oldest: their ids increase with time.
PURGE_MISFIRES = """
DELETE FROM $misfires
 WHERE sched_name = %(sched)s
   AND id IN (SELECT id
                FROM (SELECT id, handled_at FROM $misfires
                       WHERE sched_name = %(sched)s ORDER BY id LIMIT %(limit)s::int) AS oldest
               WHERE handled_at < $now - %(older_than)s::interval)
"""


def complete(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    """End executions; see `JobStore.complete`."""
    flight = sends(session, node, completions, wakes_others=wakes_others)
    results = session.locked(*flight)
    now, done, twice, earliest, _ = results[0].rows[0]
    is_counted = any(failures.counts(c) for c in completions)
    paused = tuple(JobKey(name, group) for group, name in results[1].rows) if is_counted else ()
    for fire_id in twice:
        logger.error("the instant of fire %s was executed before; please report this", fire_id)
    if len(done) == len(completions):
        return CompletionOutcome(now, earliest_unblocked=earliest, paused=paused)
    missing = {c.fired.fire_id for c in completions}.difference(done)
    held, recorded = session.read_one(UNFINISHED, fire_ids=list(missing), epoch=node.epoch)[0]
    return CompletionOutcome(
        now,
        fenced=missing.difference(held, recorded),
        deferred=frozenset(held),
        earliest_unblocked=earliest,
        paused=paused,
    )


def sends(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
) -> list[Send]:
    """Return the statements that end executions, to be sent under TRIGGER_ACCESS."""
    asking = [c for c in completions if c.instruction is not CompletionInstruction.NOOP]
    counted = [c for c in completions if failures.counts(c)]
    counts: dict[str, Any] = {"count_fire_ids": [c.fired.fire_id for c in counted]} if counted else {}
    captures = any(c.log is not None for c in completions)
    logs: dict[str, Any] = {"logs": [c.log for c in completions]} if captures else {}
    return [
        session.send(
            complete_statement(
                asks=bool(asking),
                stores=any(c.job_data is not None for c in completions),
                retries=any(c.retry_after is not None for c in completions),
                counts=bool(counted),
                continues=any(c.fired.continues for c in completions),
                captures=captures,
            ),
            **counts,
            **logs,
            ask_fire_ids=[c.fired.fire_id for c in asking],
            ask_all=[c.instruction.is_about_all_triggers for c in asking],
            epoch=node.epoch,
            channel=session.channel,
            wakes_others=wakes_others,
            fire_ids=[c.fired.fire_id for c in completions],
            started=[c.started_at for c in completions],
            ended=[c.ended_at for c in completions],
            outcomes=[c.outcome for c in completions],
            errors=[c.error for c in completions],
            stores=[c.job_data is not None for c in completions],
            data_fire_ids=[c.fired.fire_id for c in completions if c.job_data is not None],
            data=[c.job_data for c in completions if c.job_data is not None],
            last=[c.ends_its_trigger for c in completions],
            retries=[c.retry_after for c in completions],
            results=[c.result for c in completions],
        ),
        # Its result is the second of the flight; see `complete`.
        *([failures.count(session, counted)] if counted else []),
        *_follow_ups(session, node, completions),
    ]


def _follow_ups(session: SqlSession, node: Node, completions: Sequence[Completion]) -> list[Send]:
    """Return the statements that only some completions need."""
    more = []
    asking = [c for c in completions if c.instruction.state is not None]
    if asking:
        more.append(
            session.send(
                SET_STATES,
                epoch=node.epoch,
                fire_ids=[c.fired.fire_id for c in asking],
                all=[c.instruction.is_about_all_triggers for c in asking],
                states=[c.instruction.state for c in asking],
                not_failed=NOT_FAILED,
            )
        )
    deleting = [c.fired.fire_id for c in completions if c.instruction.deletes]
    if deleting:
        more.append(session.send(DELETE_ASKED, epoch=node.epoch, fire_ids=deleting))
    survived = [c.fired.fire_id for c in completions if c.fired.node_deaths and c.outcome is Outcome.SUCCEEDED]
    if survived:
        more.append(session.send(ACQUIT, epoch=node.epoch, fire_ids=survived))
    ending = {(c.fired.job_group, c.fired.job_name) for c in completions if c.ends_its_trigger or c.instruction.deletes}
    more += orphans(session, ending)
    moving = [c for c in completions if c.moves_its_trigger()]
    if moving:
        more.append(
            session.send(
                MOVE_BY_END,
                groups=[c.fired.trigger_group for c in moving],
                names=[c.fired.trigger_name for c in moving],
                generations=[c.fired.generation for c in moving],
                seen=[c.fired.next_fire_time for c in moving],
                next=[c.next_by_end() for c in moving],
            )
        )
    if any(c.refill for c in completions):
        refilled = [(c.fired, c.refill) for c in completions if c.refill]
        more.append(
            session.send(
                REFILL,
                groups=[fired.trigger_group for fired, _ in refilled],
                names=[fired.trigger_name for fired, _ in refilled],
                generations=[fired.generation for fired, _ in refilled],
                after=[(fired.next_fire_time, *fired.upcoming.instants)[-1] for fired, _ in refilled],
                more=[refill.instants for _, refill in refilled],
                complete=[refill.is_complete for _, refill in refilled],
                revisions=[fired.calendar_revision for fired, _ in refilled],
            )
        )
    return more


def orphans(session: SqlSession, jobs: Collection[tuple[str, str]]) -> list[Send]:
    """Return the statements that remove those of the jobs that are not durable and have no trigger left."""
    keys = sorted(set(jobs))
    values = {"job_groups": [group for group, _ in keys], "job_names": [name for _, name in keys]}
    return [session.send(text, **values) for text in (HOLD_ORPHANS, ORPHANED_JOBS)] if keys else []


def purge(session: SqlSession, older_than: timedelta | None, limit: int, ended_triggers: timedelta | None) -> int:
    """Delete old history and ended triggers; see `JobStore.purge_history`."""
    history = []
    if older_than is not None:
        history = [session.send(text, older_than=older_than, limit=limit) for text in (PURGE, PURGE_MISFIRES)]
    triggers = []
    if ended_triggers is not None:
        triggers = [session.send(PURGE_ENDED, older_than=ended_triggers, limit=limit)]
    if not history and not triggers:
        return 0
    # The acquire step deletes the rows of rate limits as well, but not once no job has a limit any more.
    results = session.unlocked(*history, *triggers, session.send(PRUNE))
    gone = [key for result in results[len(history) :] for key in result.rows]
    if gone:
        session.unlocked(*orphans(session, [(group, name) for group, name in gone]))
    return sum(result.touched for result in results[: len(history)])
