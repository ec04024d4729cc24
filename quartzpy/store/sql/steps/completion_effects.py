"""The effects of a completion that only some executions have: on their triggers, and on the deaths of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, Node
from quartzpy.store.protocol.outcomes import NOT_FAILED
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps.orphans import orphans

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
REFILL = f"""
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
                                  AND c.calendar_name = o.calendar_name AND c.revision = w.revision {BY_KEY}))
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
DELETE FROM $fired_triggers f USING changed WHERE f.fire_id = changed.fire_id AND f.state = 'ACQUIRED'
"""

# The triggers that ended jobs asked to delete, with the claims on them. As above, only the generation that fired.
DELETE_ASKED = """
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
DELETE FROM $fired_triggers f USING deleted WHERE f.fire_id = deleted.fire_id AND f.state = 'ACQUIRED'
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
                groups=[c.fired.trigger_group for c in moving],
                names=[c.fired.trigger_name for c in moving],
                generations=[c.fired.generation for c in moving],
                seen=[c.fired.next_fire_time for c in moving],
                next=[c.next_by_end() for c in moving],
            )
        )
    return more + refills(session, completions)


def refills(session: SqlSession, completions: Sequence[Completion]) -> list[Send]:
    """Return the statement that appends further fire times to triggers that have few left, if there are such."""
    refilled = [(c.fired, c.refill) for c in completions if c.refill]
    if not refilled:
        return []
    return [
        session.send(
            REFILL,
            groups=[fired.trigger_group for fired, _ in refilled],
            names=[fired.trigger_name for fired, _ in refilled],
            generations=[fired.generation for fired, _ in refilled],
            after=[fired.last_known_fire_time for fired, _ in refilled],
            more=[refill.instants for _, refill in refilled],
            complete=[refill.is_complete for _, refill in refilled],
            revisions=[fired.calendar_revision for fired, _ in refilled],
        )
    ]
