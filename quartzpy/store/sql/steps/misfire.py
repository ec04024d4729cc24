"""The misfire step. Lock: TRIGGER_ACCESS. Applies the misfire instructions of late triggers.

`LATE` reads a batch without the lock; the instructions are pure functions; `MOVE` writes the batch back in one flight,
guarding each row by the values with which it was read, and records the misfires in `misfires`. Rows that have changed
in the meantime are left to the next pass.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import UnknownTimeZoneError, UnsupportedKindError
from quartzpy.states import Missed
from quartzpy.store.protocol import DispatchKey, MisfireOutcome, Node
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.database import RefusedRowError
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession, require_epoch
from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps.bad_rows import reason_of, rehearse, to_blame
from quartzpy.store.sql.steps.guard import GUARD, NODE
from quartzpy.store.sql.steps.misfire_rule import USUAL_RULE
from quartzpy.texts import storable_text
from quartzpy.triggers.misfire import MOST_MISSED, Misfire, misfired
from quartzpy.triggers.simple import SimpleTrigger, similar
from quartzpy.triggers.trigger import Trigger, TriggerProgress

logger = logging.getLogger(__name__)


LATE = """
WITH node AS MATERIALIZED (SELECT $now AS at)
SELECT node.at, late.*
  FROM node
 CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[]) AS known(job_type, placement)
 CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('LATE'), ('SKIP'), ('ONCE')) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.kind, t.schedule::text, t.description,
           t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
           t.job_data::text, t.next_fire_time, t.prev_fire_time, t.times_triggered, t.generation,
           c.calendar::text, c.revision, t.coalesced_fire_times IS NOT NULL, t.ctid::text, t.misfire_rule,
           CASE t.misfire_rule WHEN 'SKIP' THEN t.resumed_at END
      FROM $triggers t
      LEFT JOIN $calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
     WHERE t.sched_name = %(sched)s AND t.job_type = known.job_type AND t.placement = known.placement
       AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
       AND t.next_fire_time < CASE rule.name WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE node.at END
       AND (rule.name <> 'OWN' OR t.next_fire_time < node.at - t.misfire_threshold)
       AND t.generation <> ALL(%(left)s::bigint[])
     ORDER BY t.next_fire_time, t.priority DESC
     LIMIT %(limit)s::int
 ) AS late
 ORDER BY late.next_fire_time, late.priority DESC
 LIMIT %(limit)s::int
"""

# Rows are found by the ctid with which they were read: an index scan might use another index than the primary key, and
# after an outage all late triggers may have the same fire time. A row that was updated in the meantime has moved
# elsewhere, and is skipped.
MOVE = f"""
WITH {NODE.lstrip()},
-- The new values of each trigger, with those that were read.
moves AS (
    SELECT * FROM unnest(%(rows)s::tid[], %(groups)s::text[], %(names)s::text[], %(generations)s::bigint[],
                         %(seen)s::timestamptz[], %(next)s::timestamptz[], %(previous)s::timestamptz[],
                         %(times)s::bigint[], %(starts)s::timestamptz[], %(schedules)s::text[], %(upcoming)s::text[],
                         %(complete)s::bool[], %(revisions)s::bigint[], %(missed)s::text[], %(more)s::bool[],
                         %(caught_up)s::bigint[], %(actions)s::text[], %(coalesces)s::bool[])
        AS m(row, trigger_group, trigger_name, generation, seen, next_fire_time, prev_fire_time, times_triggered,
             start_time, schedule, upcoming, is_complete, revision, missed, has_more, caught_up, action, coalesces)
),
-- The triggers that have not changed since they were read; rows that another transaction has locked are left.
late AS MATERIALIZED (
    SELECT m.*, mine.*
      FROM node
     CROSS JOIN moves m
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.misfire_instruction
          FROM $triggers t
         WHERE t.ctid = m.row
           AND t.sched_name = %(sched)s AND t.trigger_group = m.trigger_group AND t.trigger_name = m.trigger_name
           AND t.generation = m.generation AND t.next_fire_time = m.seen AND t.trigger_state = 'WAITING'
           AND t.catch_up_until IS NULL
           AND (t.calendar_name IS NULL
                OR EXISTS (SELECT FROM $calendars c WHERE c.sched_name = t.sched_name
                              AND c.calendar_name = t.calendar_name AND c.revision = m.revision {BY_KEY}))
           FOR UPDATE SKIP LOCKED) AS mine
),
-- Those that have another fire time.
moved AS (
    UPDATE $triggers t
       SET next_fire_time = l.next_fire_time, prev_fire_time = l.prev_fire_time,
           times_triggered = l.times_triggered, start_time = l.start_time, schedule = l.schedule::jsonb,
           upcoming = l.upcoming::timestamptz[], upcoming_is_complete = l.is_complete,
           coalesced_fire_times = CASE WHEN l.coalesces
                         THEN (coalesce(t.coalesced_fire_times, '{{}}') || l.missed::timestamptz[])[:{MOST_MISSED}] END,
           misfire_rule = CASE WHEN l.caught_up > 0 AND t.rate_limit IS NULL THEN 'IGNORE' ELSE {USUAL_RULE} END,
           catch_up_until = CASE WHEN l.caught_up > 0 THEN %(at)s::timestamptz END
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NOT NULL
    RETURNING l.*
),
-- Those that have no fire time left.
finalized AS (
    UPDATE $triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, upcoming = '{{}}', upcoming_is_complete = true
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NULL
    RETURNING l.*
),
-- The record of the misfires.
recorded AS (
    INSERT INTO $misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, instance_id,
        handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up, next_fire_time)
    SELECT nextval('$fire_ids'), %(sched)s, trigger_group, trigger_name, generation, job_group, job_name, %(instance)s,
           %(at)s::timestamptz, misfire_instruction, action, seen, missed::timestamptz[], has_more, caught_up,
           next_fire_time
      FROM (SELECT * FROM moved UNION ALL SELECT * FROM finalized) AS handled
)
SELECT trigger_group, trigger_name FROM moved UNION ALL SELECT trigger_group, trigger_name FROM finalized
"""

# A trigger whose fire times cannot be computed does not fire until somebody resets it.
SPOIL = """
UPDATE $triggers t SET trigger_state = 'ERROR', error = late.reason
  FROM (SELECT mine.row, m.reason
          FROM unnest(%(rows)s::tid[], %(groups)s::text[], %(names)s::text[], %(generations)s::bigint[],
                      %(reasons)s::text[]) AS m(row, trigger_group, trigger_name, generation, reason)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM $triggers o
             WHERE o.ctid = m.row
               AND o.sched_name = %(sched)s AND o.trigger_group = m.trigger_group AND o.trigger_name = m.trigger_name
               AND o.generation = m.generation AND o.trigger_state = 'WAITING'
               FOR NO KEY UPDATE SKIP LOCKED) AS mine
         WHERE EXISTS (SELECT FROM $scheduler_state s
                        WHERE s.sched_name = %(sched)s AND s.instance_id = %(instance)s AND s.epoch = %(epoch)s::bigint)
       ) AS late
 WHERE t.ctid = late.row
"""

MOST_LEFT = 10_000
# The positions of these columns in a row of LATE.
_SCHEDULE, _GENERATION, _PLACE = 6, -7, -3
_TREATED = {"SKIP": Missed.SKIP, "ONCE": Missed.ONCE}


@dataclass(frozen=True, slots=True)
class _Late:
    """A late trigger with the values that were read."""

    trigger: Trigger
    progress: TriggerProgress
    generation: int
    calendar: Calendar | None
    revision: int | None
    coalesced: bool
    """True if the late fire also represents others that were missed before it."""
    row: str
    schedule: str
    """The column `schedule`."""
    missed_policy: Missed
    resumed_at: datetime | None
    """The instant up to which fires are skipped."""


def recover_misfires(
    session: SqlSession,
    node: Node,
    dispatch_keys: Sequence[DispatchKey],
    left: set[int],
    *,
    threshold: timedelta,
    limit: int,
) -> MisfireOutcome:
    """Handle one batch; see `JobStore.recover_misfires`. `left`: generations that are left to other nodes."""
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    found, standing = session.read(
        session.send(
            LATE,
            job_types=[dispatch_key.job_type for dispatch_key in dispatch_keys],
            placements=[dispatch_key.placement for dispatch_key in dispatch_keys],
            threshold=threshold,
            limit=limit + 1,
            left=sorted(left),
        ),
        session.send(GUARD, **at_node),
    )
    (now,) = require_epoch(node, standing)
    if not found.rows:
        return MisfireOutcome(now)
    at = found.rows[0][0]
    late, misfires, spoiled = _computed(found.rows[:limit], left, at)
    if len(left) > MOST_LEFT:
        left.clear()
    more = len(found.rows) > limit
    try:
        written = _write(session, at_node, late, misfires, spoiled, at)
    except RefusedRowError:
        blamed = _bad_rows(session, at_node, late, misfires, at)
        if not blamed:
            raise
        spoiled += [(row, blamed[row[_PLACE]]) for row in found.rows if row[_PLACE] in blamed]
        misfires = [misfire for misfire, read in zip(misfires, late, strict=True) if read.row not in blamed]
        late = [read for read in late if read.row not in blamed]
        written = _write(session, at_node, late, misfires, spoiled, at)
    done = {(group, name) for group, name in written}
    handled = [one for one in misfires if (one.to.trigger.group, one.to.trigger.name) in done]
    return MisfireOutcome(
        now,
        {one.to.trigger.key: one.missed for one in handled},
        tuple(one.to.trigger.key for one in handled if one.to.progress.next_fire_time is None),
        min((at for one in handled if (at := one.to.progress.next_fire_time) is not None), default=None),
        more=more,
    )


def _computed(
    rows: Sequence[tuple[Any, ...]], left: set[int], at: datetime
) -> tuple[list[_Late], list[Misfire], list[tuple[tuple[Any, ...], str]]]:
    """Return the triggers that can be handled, what becomes of each, and the rows that cannot with the reasons.

    Generations that this node has to leave to others are added to `left`.
    """
    late, misfires, spoiled = [], [], []
    patterns: dict[tuple[Any, ...], SimpleTrigger] = {}
    for row in rows:
        try:
            read = _late(row, patterns)
            misfire = misfired(
                read.trigger,
                read.progress,
                read.calendar,
                now=read.resumed_at or at,
                coalesced=read.coalesced,
                missed_policy=read.missed_policy,
            )
        except (UnsupportedKindError, UnknownTimeZoneError) as error:
            logger.warning("trigger %s.%s is left to other nodes: %s", row[1], row[2], error)
            left.add(row[_GENERATION])
        except Exception as error:
            logger.exception("the next fire time of trigger %s.%s cannot be computed; it is in ERROR", row[1], row[2])
            spoiled.append((row, f"its next fire time cannot be computed: {type(error).__name__}: {error}"))
        else:
            late.append(read)
            misfires.append(misfire)
    return late, misfires, spoiled


def _write(
    session: SqlSession,
    at_node: dict[str, Any],
    late: Sequence[_Late],
    misfires: Sequence[Misfire],
    spoiled: Sequence[tuple[tuple[Any, ...], str]],
    at: datetime,
) -> Sequence[tuple[Any, ...]]:
    """Write a batch back. Return the keys of the triggers that were moved."""
    sends = [*_spoil(session, at_node, spoiled), *_move(session, at_node, late, misfires, at)]
    results = session.locked(*sends) if sends else []
    return results[-1].rows if misfires else []


def _bad_rows(
    session: SqlSession, at_node: dict[str, Any], late: Sequence[_Late], misfires: Sequence[Misfire], at: datetime
) -> dict[str, str]:
    """Return the ctids of the triggers that make the batch fail, with the reasons."""

    def attempt(part: Sequence[int]) -> None:
        rehearse(session, _move(session, at_node, [late[n] for n in part], [misfires[n] for n in part], at))

    blamed = to_blame(range(len(late)), attempt)
    for n, error in blamed.items():
        logger.error("trigger %s goes to ERROR: the database cannot process its row: %s", late[n].trigger.key, error)
    return {late[n].row: reason_of(error) for n, error in blamed.items()}


def _spoil(session: SqlSession, at_node: dict[str, Any], spoiled: Sequence[tuple[tuple[Any, ...], str]]) -> list[Send]:
    if not spoiled:
        return []
    return [
        session.send(
            SPOIL,
            **at_node,
            rows=[row[_PLACE] for row, _ in spoiled],
            groups=[row[1] for row, _ in spoiled],
            names=[row[2] for row, _ in spoiled],
            generations=[row[_GENERATION] for row, _ in spoiled],
            reasons=[storable_text(reason) for _, reason in spoiled],
        )
    ]


def _move(
    session: SqlSession, at_node: dict[str, Any], late: Sequence[_Late], misfires: Sequence[Misfire], at: datetime
) -> list[Send]:
    if not misfires:
        return []
    moves = [one.to for one in misfires]
    return [
        session.send(
            MOVE,
            **at_node,
            rows=[one.row for one in late],
            groups=[m.trigger.group for m in moves],
            names=[m.trigger.name for m in moves],
            generations=[one.generation for one in late],
            seen=[one.progress.next_fire_time for one in late],
            next=[m.progress.next_fire_time for m in moves],
            previous=[m.progress.previous_fire_time for m in moves],
            times=[m.progress.times_triggered for m in moves],
            starts=[m.trigger.start_time for m in moves],
            schedules=[
                one.schedule if m.trigger is one.trigger else rows.schedule_text(m.trigger)
                for one, m in zip(late, moves, strict=True)
            ],
            upcoming=[m.upcoming.instants for m in moves],
            complete=[m.upcoming.is_complete for m in moves],
            revisions=[one.revision for one in late],
            at=at,
            missed=[one.missed for one in misfires],
            more=[one.has_more for one in misfires],
            caught_up=[one.caught_up for one in misfires],
            actions=[one.action for one in misfires],
            coalesces=[one.coalesces for one in misfires],
        ),
    ]


def _late(row: tuple[Any, ...], patterns: dict[tuple[Any, ...], SimpleTrigger]) -> _Late:
    following, previous, times, generation, calendar, revision, coalesced, place, rule, resumed_at = row[-10:]
    return _Late(
        _trigger(row, patterns),
        TriggerProgress(following, previous, times),
        generation,
        rows.calendar_from_text(calendar) if calendar else None,
        revision,
        coalesced,
        place,
        row[_SCHEDULE],
        _TREATED.get(rule, Missed.MISFIRE),
        resumed_at,
    )


def _trigger(row: tuple[Any, ...], patterns: dict[tuple[Any, ...], SimpleTrigger]) -> Trigger:
    """Build the trigger of a row.

    After an outage, thousands of simple triggers may differ only in their names and start times. The first of them is
    the pattern of the others, so that the equal values are validated once.
    """
    _, group, name, job_group, job_name, kind, schedule, description, start_time, end_time, *others = row[:-10]
    # The data is not decoded: its types may be known to other programs only, and fire times do not depend on it.
    others[-1] = None
    equal = (group, job_group, job_name, kind, schedule, description, *others)
    if end_time is None and (pattern := patterns.get(equal)) is not None:
        return similar(pattern, name, start_time)
    trigger = rows.trigger(name, group, job_group, job_name, kind, schedule, description, start_time, end_time, *others)
    if end_time is None and type(trigger) is SimpleTrigger:
        patterns[equal] = trigger
    return trigger
