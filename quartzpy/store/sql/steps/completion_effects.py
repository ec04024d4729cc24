"""The effects of a completion that only some executions have: on their triggers, and on the deaths of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, FiredTrigger, Node
from quartzpy.store.protocol.outcomes import NOT_FAILED
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps.orphans import orphans
from quartzpy.store.sql.steps.void_claims import void_claims
from quartzpy.triggers.upcoming import UpcomingFireTimes

# Resets the node deaths of jobs of which an execution has now succeeded.
ACQUIT = """
UPDATE $job_details j SET node_deaths = 0
  FROM (SELECT DISTINCT e.job_group, e.job_name
          FROM unnest(%(fire_ids)s::bigint[]) AS a(fire_id)
          JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome = 'SUCCEEDED') AS d
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = d.job_group AND o.job_name = d.job_name
       FOR NO KEY UPDATE SKIP LOCKED) AS survivor
 WHERE j.ctid = survivor.row
"""

# Appends fire times if nothing else has: the schedule, the calendar and the last instant must be those from which they
# were computed.
_REFILL = f"""
UPDATE $triggers t
   SET upcoming = t.upcoming || r.more::timestamptz[], upcoming_is_complete = r.is_complete
  FROM (SELECT x.row, w.more, w.is_complete
          FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[],
                      %(after)s::timestamptz[], %(more)s::text[], %(complete)s::bool[], %(revisions)s::bigint[])
               AS w(trigger_group, trigger_name, generation, after, more, is_complete, revision)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name
              FROM $triggers o
             WHERE o.sched_name = %(sched)s AND o.trigger_group = w.trigger_group
               AND o.trigger_name = w.trigger_name AND o.generation = w.generation
               AND coalesce(o.upcoming[cardinality(o.upcoming)], o.next_fire_time) = w.after
               AND NOT o.upcoming_is_complete
               AND (o.calendar_name IS NULL
                    OR EXISTS (SELECT FROM $calendars c WHERE c.sched_name = o.sched_name
                                  AND c.calendar_name = o.calendar_name AND c.revision = w.revision {BY_KEY}))
               FOR NO KEY UPDATE SKIP LOCKED) AS x{{and_job}}) AS r
 WHERE t.ctid = r.row
"""
REFILL = _REFILL.format(and_job="")
# The end of an execution that counts for a limit may have released its trigger. A row that this transaction has written
# has its foreign key checked at the next update, so the job's row is locked, or the trigger passed over.
REFILL_OF_LIMITED = _REFILL.format(
    and_job="""
         CROSS JOIN LATERAL (
            SELECT FROM $job_details j
             WHERE j.sched_name = %(sched)s AND j.job_group = x.job_group AND j.job_name = x.job_name
               FOR NO KEY UPDATE SKIP LOCKED) AS job"""
)

# Triggers whose next fire follows from the end of the execution. One that was moved in the meantime does not change.
# The execution ends only if its trigger's row is free, so no row is skipped here whose execution has ended.
MOVE_BY_END = """
UPDATE $triggers t
   SET next_fire_time = w.next_fire_time,
       trigger_state = CASE WHEN w.next_fire_time IS NULL THEN 'COMPLETE' ELSE t.trigger_state END
  FROM unnest(%(fire_ids)s::bigint[], %(seen)s::timestamptz[], %(next)s::timestamptz[])
           AS w(fire_id, seen, next_fire_time)
  JOIN $executions e ON e.fire_id = w.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $triggers o
     WHERE o.sched_name = %(sched)s AND o.trigger_group = e.trigger_group AND o.trigger_name = e.trigger_name
       AND o.generation = e.generation AND o.next_fire_time = w.seen
       AND o.trigger_state || '' NOT IN ('ACQUIRED', 'COMPLETE')
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row
"""

# The instructions of ended jobs: a state for the trigger that fired them (its generation), or for all triggers of the
# job. The instructions of fenced executions are ignored.
SET_STATES = f"""
WITH requests AS (
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.error, a.all_triggers, a.state
      FROM unnest(%(fire_ids)s::bigint[], %(all)s::bool[], %(states)s::text[]) AS a(fire_id, all_triggers, state)
      JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
),
locked AS (
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM $triggers o
         WHERE NOT a.all_triggers AND o.sched_name = %(sched)s AND o.trigger_group = a.trigger_group
           AND o.trigger_name = a.trigger_name AND o.generation = a.generation
           FOR NO KEY UPDATE SKIP LOCKED) AS c
    UNION ALL
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM $triggers o
         WHERE a.all_triggers AND o.sched_name = %(sched)s AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS c
),
changed AS (
    UPDATE $triggers t
       SET trigger_state = locked.state, fire_id = NULL,
           error = CASE locked.state WHEN 'ERROR' THEN coalesce(locked.error, %(not_failed)s) END
      FROM locked
     WHERE t.ctid = locked.row
    RETURNING locked.fire_id
)
{void_claims("changed")}
"""

# The triggers that ended jobs asked to delete, with the claims on them. As above, only the generation that fired.
DELETE_ASKED = f"""
WITH deleted AS (
    DELETE FROM $triggers t
     USING unnest(%(fire_ids)s::bigint[]) AS a(fire_id)
      JOIN $executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = e.trigger_group AND o.trigger_name = e.trigger_name
           AND o.generation = e.generation
           FOR UPDATE SKIP LOCKED) AS asked
     WHERE t.ctid = asked.row
    RETURNING t.fire_id
)
{void_claims("deleted")}
"""


def effects(session: SqlSession, node: Node, completions: Sequence[Completion]) -> list[Send]:
    """Return the statements that only some completions need, to be sent after the one that ended the executions."""
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
                epoch=node.epoch,
                fire_ids=[c.fired.fire_id for c in moving],
                seen=[c.fired.next_fire_time for c in moving],
                next=[c.next_by_end() for c in moving],
            )
        )
    return more + refills(session, completions)


def refills(session: SqlSession, completions: Sequence[Completion]) -> list[Send]:
    """Return the statements that append further fire times to triggers that have few left, if there are such."""
    more = []
    for text, is_limited in ((REFILL, False), (REFILL_OF_LIMITED, True)):
        some = [
            (c.fired, c.refill) for c in completions if c.refill and (c.fired.max_concurrent is not None) is is_limited
        ]
        if some:
            more.append(_refill(session, text, some))
    return more


def _refill(session: SqlSession, text: str, refilled: Sequence[tuple[FiredTrigger, UpcomingFireTimes]]) -> Send:
    return session.send(
        text,
        groups=[fired.trigger_group for fired, _ in refilled],
        names=[fired.trigger_name for fired, _ in refilled],
        generations=[fired.generation for fired, _ in refilled],
        after=[fired.last_known_fire_time for fired, _ in refilled],
        more=[refill.instants for _, refill in refilled],
        complete=[refill.is_complete for _, refill in refilled],
        revisions=[fired.calendar_revision for fired, _ in refilled],
    )
