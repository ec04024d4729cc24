"""The misfire step. Lock: TRIGGER_ACCESS. Moves late triggers to where their misfire instruction says.

`LATE` reads a slice without the lock; the instructions are pure functions; `MOVE` writes the slice back in one
flight, each row guarded by what it was read with. What changed hands meanwhile is left to the next pass.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.keys import TriggerKey
from quartzpy.store.protocol import Lane, MisfireOutcome, Node
from quartzpy.store.sql import rows
from quartzpy.store.sql.session import SqlSession, still_standing
from quartzpy.triggers.horizon import Horizon, PreparedTrigger, covered, moved_to
from quartzpy.triggers.trigger import Trigger, TriggerProgress

logger = logging.getLogger(__name__)

LATE = """
WITH node AS MATERIALIZED (SELECT $now AS at)
SELECT node.at, late.*
  FROM node
 CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[]) AS known(job_type, placement)
 CROSS JOIN (VALUES ('SCHEDULER'), ('OWN')) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.kind, t.schedule::text, t.description,
           t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
           t.job_data::text, t.next_fire_time, t.prev_fire_time, t.times_triggered, t.generation,
           c.calendar::text, c.revision
      FROM $triggers t
      LEFT JOIN $calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
     WHERE t.sched_name = %(sched)s AND t.job_type = known.job_type AND t.placement = known.placement
       AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
       AND t.next_fire_time < CASE rule.name WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE node.at END
       AND (rule.name <> 'OWN' OR t.next_fire_time < node.at - t.misfire_threshold)
     ORDER BY t.next_fire_time, t.priority DESC
     LIMIT %(limit)s::int
 ) AS late
 ORDER BY late.next_fire_time, late.priority DESC
 LIMIT %(limit)s::int
"""

MOVE = """
WITH node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
wanted AS (
    SELECT * FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[], %(seen)s::timestamptz[],
                         %(next)s::timestamptz[], %(previous)s::timestamptz[], %(times)s::bigint[],
                         %(starts)s::timestamptz[], %(schedules)s::text[], %(upcoming)s::text[], %(complete)s::bool[],
                         %(revisions)s::bigint[], %(covers)s::text[])
        AS w(trigger_group, trigger_name, generation, seen, next_fire_time, prev_fire_time, times_triggered,
             start_time, schedule, upcoming, is_complete, revision, covers)
),
held AS MATERIALIZED (
    SELECT w.*
      FROM node
     CROSS JOIN wanted w
      JOIN $triggers t
        ON t.sched_name = %(sched)s AND t.trigger_group = w.trigger_group AND t.trigger_name = w.trigger_name
       AND t.generation = w.generation AND t.next_fire_time = w.seen AND t.trigger_state = 'WAITING'
     WHERE t.calendar_name IS NULL
        OR EXISTS (SELECT FROM $calendars c WHERE c.sched_name = t.sched_name
                      AND c.calendar_name = t.calendar_name AND c.revision = w.revision)
       FOR UPDATE OF t SKIP LOCKED
),
moved AS (
    UPDATE $triggers t
       SET next_fire_time = h.next_fire_time, prev_fire_time = h.prev_fire_time,
           times_triggered = h.times_triggered, start_time = h.start_time, schedule = h.schedule::jsonb,
           upcoming = h.upcoming::timestamptz[], upcoming_is_complete = h.is_complete,
           covers = coalesce(t.covers, h.covers::timestamptz[])
      FROM held h
     WHERE t.sched_name = %(sched)s AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NOT NULL
    RETURNING t.trigger_group, t.trigger_name
),
over AS (
    UPDATE $triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, upcoming = '{}', upcoming_is_complete = true
      FROM held h
     WHERE t.sched_name = %(sched)s AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NULL
    RETURNING t.trigger_group, t.trigger_name
)
SELECT trigger_group, trigger_name FROM moved UNION ALL SELECT trigger_group, trigger_name FROM over
"""

# No row: the epoch is gone.
GUARD = """
SELECT $now FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


@dataclass(frozen=True, slots=True)
class _Late:
    """A late trigger as it was read."""

    trigger: Trigger
    progress: TriggerProgress
    generation: int
    calendar: Calendar | None
    revision: int | None


def recover_misfires(
    session: SqlSession, node: Node, lanes: Sequence[Lane], *, threshold: timedelta, limit: int
) -> MisfireOutcome:
    """Handle one slice; see `JobStore.recover_misfires`."""
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    found, standing = session.read(
        session.send(
            LATE,
            job_types=[lane.job_type for lane in lanes],
            placements=[lane.placement for lane in lanes],
            threshold=threshold,
            limit=limit + 1,
        ),
        session.send(GUARD, **at_node),
    )
    (now,) = still_standing(node, standing)
    if not found.rows:
        return MisfireOutcome(now)
    late, moves = [], []
    for row in found.rows[:limit]:
        try:
            one = _late(row)
            moves.append(_moved(one, found.rows[0][0]))
            late.append(one)
        except Exception:
            # A library that this node lacks, a row that somebody edited: the others are handled all the same.
            logger.exception("trigger %s.%s cannot be handled here", row[1], row[2])
    if not moves:
        return MisfireOutcome(now)
    [written] = session.locked(
        session.send(
            MOVE,
            **at_node,
            groups=[m.trigger.group for m in moves],
            names=[m.trigger.name for m in moves],
            generations=[one.generation for one in late],
            seen=[one.progress.next_fire_time for one in late],
            next=[m.progress.next_fire_time for m in moves],
            previous=[m.progress.previous_fire_time for m in moves],
            times=[m.progress.times_triggered for m in moves],
            starts=[m.trigger.start_time for m in moves],
            schedules=[json.dumps(m.trigger.schedule()) for m in moves],
            upcoming=[m.horizon.instants for m in moves],
            complete=[m.horizon.is_complete for m in moves],
            revisions=[one.revision for one in late],
            covers=[
                covered(one.trigger, one.progress, m.progress, one.calendar, found.rows[0][0]) or None
                for one, m in zip(late, moves, strict=True)
            ],
        ),
    )
    done = {TriggerKey(group, name) for group, name in written.rows}
    times = [m.progress.next_fire_time for m in moves if m.trigger.key in done and m.progress.next_fire_time]
    over = tuple(m.trigger.key for m in moves if m.trigger.key in done and m.progress.next_fire_time is None)
    return MisfireOutcome(now, tuple(done), over, min(times, default=None), more=len(found.rows) > limit)


def _late(row: tuple[Any, ...]) -> _Late:
    _, group, name, job_group, job_name, *columns, following, previous, times, generation, calendar, revision = row
    trigger = rows.trigger(name, group, job_group, job_name, *columns)
    return _Late(
        trigger,
        TriggerProgress(following, previous, times),
        generation,
        rows.calendar_from_text(calendar) if calendar else None,
        revision,
    )


def _moved(late: _Late, now: datetime) -> PreparedTrigger:
    trigger, progress = late.trigger.after_misfire(late.progress, late.calendar, now=now)
    return moved_to(PreparedTrigger(trigger, progress, Horizon()), progress, late.calendar)
