"""The last part of a transaction that stores: the triggers, their reconciliation under the lock, and the commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as replace_in
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from quartzpy import job_data
from quartzpy.errors import JobStoreError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store import refusals
from quartzpy.store.differences import refuse_other_trigger
from quartzpy.store.sql.batches import bound, chunks, computed_ahead, key_columns, size_of_trigger
from quartzpy.store.sql.calendars import held_revisions
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.listen import announcement, news
from quartzpy.store.sql.db.locks import LockName
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.lookups import TRIGGERS, trigger_record
from quartzpy.store.sql.removing import HOLD_JOBS, VOID_CLAIMS
from quartzpy.store.sql.steps.settling import (
    IS_ORDINARY,
    SETTLE_NEW,
    STILL_ORDINARY,
    held_by_mode,
    key_of,
    state_of,
)
from quartzpy.store.sql.storing_jobs import UNCLAIMED, UNHELD, settle_jobs
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes

# The stored trigger `t` belongs to the same job and already has the schedule that is to be stored: as it was declared,
# or as it is now.
SAME_SCHEDULE = """
((t.job_group, t.job_name) = (excluded.job_group, excluded.job_name)
 AND (t.schedule_hash = excluded.schedule_hash
      OR (t.kind, t.schedule - 'catch_up', t.start_time, t.end_time, t.calendar_name)
         IS NOT DISTINCT FROM
         (excluded.kind, excluded.schedule - 'catch_up', excluded.start_time, excluded.end_time,
          excluded.calendar_name)))
"""

_SAME_MISFIRE = """
(t.misfire_instruction, t.misfire_threshold)
    IS NOT DISTINCT FROM (excluded.misfire_instruction, excluded.misfire_threshold)
"""

# The schedule of a trigger that keeps its progress, with the new catch-up limits.
_KEPT_SCHEDULE = """
(t.schedule - 'catch_up') || CASE WHEN excluded.schedule -> 'catch_up' IS NULL THEN '{}'::jsonb
                                  ELSE jsonb_build_object('catch_up', excluded.schedule -> 'catch_up') END
"""

_KEPT_RULE = f"""
CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN excluded.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
     WHEN {_SAME_MISFIRE} AND t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
     WHEN excluded.misfire_instruction = 'ignore' THEN 'IGNORE'
     WHEN excluded.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""

_PROGRESS = (
    *("trigger_state", "next_fire_time", "prev_fire_time", "upcoming", "upcoming_is_complete", "times_triggered"),
    *("start_time", "generation", "coalesced_fire_times", "attempt", "fire_id", "error", "held_by_mode"),
    *("paused_at", "paused_by", "pause_reason"),
)

_KEPT = {
    "trigger_state": f"CASE WHEN t.concurrency_key = excluded.concurrency_key THEN t.trigger_state ELSE {UNHELD} END",
    "fire_id": f"CASE WHEN t.concurrency_key = excluded.concurrency_key THEN t.fire_id ELSE {UNCLAIMED} END",
}


_KEEP_PROGRESS = ", ".join(
    f"{name} = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT.get(name, f't.{name}')} ELSE excluded.{name} END"
    for name in _PROGRESS
)

# A trigger whose schedule did not change keeps its progress, its pause and its misfires; it keeps its generation, too,
# which is below that of all others here. Rows that exist are not returned where they may not be replaced: fewer rows
# come back than were sent. The jobs' rows are held as their foreign key will hold them, but before they are read. Each
# is looked up by LATERAL, so that a plan that was made while the table was empty does not read all jobs. All programs
# take the rows in the same order, so that two that store the same do not deadlock.
_KEY = key_of("w.data::jsonb", "j")


def _insert_triggers(state: str, held: str) -> str:
    return f"""
WITH before AS MATERIALIZED (SELECT nextval('$fire_ids') AS generation)
INSERT INTO $triggers AS t (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
       max_concurrent, overlap_policy, placement, rate_limit,
       concurrency_key, description, kind, schedule, trigger_state, held_by_mode,
       next_fire_time, prev_fire_time, upcoming, upcoming_is_complete,
       times_triggered, start_time, end_time, priority, misfire_instruction, misfire_rule, misfire_threshold,
       calendar_name, job_data, schedule_hash)
SELECT %(sched)s, nextval('$fire_ids'), w.trigger_group, w.trigger_name, w.job_group, w.job_name, j.job_type,
       j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, {_KEY}, w.description, w.kind, w.schedule::jsonb,
       {state}, {held}, w.next_fire_time,
       w.prev_fire_time, w.upcoming::timestamptz[], w.is_complete, w.times, w.start_time, w.end_time, w.priority,
       w.misfire, CASE WHEN j.rate_limit IS NULL OR w.rule = 'NEW' THEN w.rule ELSE 'RATE_LIMIT' END, w.threshold,
       w.calendar, w.data::jsonb, w.hash
  FROM before
 CROSS JOIN unnest(%(groups)s::text[], %(names)s::text[], %(job_groups)s::text[], %(job_names)s::text[],
              %(descriptions)s::text[], %(kinds)s::text[], %(schedules)s::text[], %(next)s::timestamptz[],
              %(previous)s::timestamptz[], %(upcoming)s::text[], %(complete)s::bool[], %(times)s::bigint[],
              %(starts)s::timestamptz[], %(ends)s::timestamptz[], %(priorities)s::int[], %(misfires)s::text[],
              %(rules)s::text[], %(thresholds)s::interval[], %(calendars)s::text[], %(data)s::text[],
              %(hashes)s::bigint[])
       AS w(trigger_group, trigger_name, job_group, job_name, description, kind, schedule, next_fire_time,
            prev_fire_time, upcoming, is_complete, times, start_time, end_time, priority, misfire, rule, threshold,
            calendar, data, hash)
 CROSS JOIN LATERAL (
    SELECT * FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = w.job_group AND o.job_name = w.job_name
       FOR KEY SHARE) AS j
 WHERE before.generation > 0
 ORDER BY w.trigger_group, w.trigger_name
    ON CONFLICT (sched_name, trigger_group, trigger_name) DO """


STORE_TRIGGERS = f"""{_insert_triggers(state_of("w", "j", _KEY), held_by_mode("w"))}UPDATE
   SET {_KEEP_PROGRESS},
       schedule = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT_SCHEDULE} ELSE excluded.schedule END,
       misfire_rule = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT_RULE} ELSE excluded.misfire_rule END,
       catch_up_until = CASE WHEN {SAME_SCHEDULE} AND {_SAME_MISFIRE} THEN t.catch_up_until END,
       job_group = excluded.job_group, job_name = excluded.job_name, job_type = excluded.job_type,
       max_concurrent = excluded.max_concurrent, overlap_policy = excluded.overlap_policy,
       placement = excluded.placement, rate_limit = excluded.rate_limit,
       rate_limited_until = CASE WHEN (t.job_group, t.job_name, t.concurrency_key)
                                    = (excluded.job_group, excluded.job_name, excluded.concurrency_key)
                                 THEN t.rate_limited_until END,
       concurrency_key = excluded.concurrency_key, description = excluded.description, kind = excluded.kind,
       end_time = excluded.end_time, priority = excluded.priority, misfire_instruction = excluded.misfire_instruction,
       misfire_threshold = excluded.misfire_threshold, calendar_name = excluded.calendar_name,
       job_data = excluded.job_data, schedule_hash = excluded.schedule_hash, owner = NULL
 WHERE %(replace)s::bool
RETURNING t.trigger_group, t.trigger_name, t.generation < (SELECT generation FROM before), t.next_fire_time,
          $now, t.job_group, t.job_name, t.job_type, t.max_concurrent, t.overlap_policy, t.placement,
          t.rate_limit::text
"""
# The state is found out under the lock.
STORE_NEW_TRIGGERS = f"""{_insert_triggers("'WAITING'", "false")}NOTHING
RETURNING t.trigger_group, t.trigger_name, false, t.next_fire_time, $now
"""
# The positions of these columns in the rows that it returns.
AT_COLUMN, NOW_COLUMN = 3, 4


class NotOrdinaryError(JobStoreError):
    """The condition of `STILL_ORDINARY` is no longer true; nothing was stored."""


class WrongEstimateError(JobStoreError):
    """The database's clock differs from the estimate with which the triggers were prepared; nothing was stored."""


def _misfire_rule(prepared: PreparedTrigger, settles_later: bool) -> str:
    if settles_later:
        return "NEW"
    if prepared.trigger.ignores_misfires:
        return "IGNORE"
    return "SCHEDULER" if prepared.trigger.misfire_threshold is None else "OWN"


def trigger_statement(
    session: SqlSession,
    prepared: Sequence[PreparedTrigger],
    text: str = STORE_TRIGGERS,
    *,
    replace: bool = False,
    settles_later: bool = False,
) -> Send:
    """Return the statement that stores triggers."""
    triggers = [p.trigger for p in prepared]
    keys = [trigger.job_key for trigger in triggers]
    return session.send(
        text,
        replace=replace,
        groups=[t.group for t in triggers],
        names=[t.name for t in triggers],
        job_groups=[key.group if key else None for key in keys],
        job_names=[key.name if key else None for key in keys],
        descriptions=[t.description for t in triggers],
        kinds=[t.kind for t in triggers],
        schedules=[rows.schedule_text(t) for t in triggers],
        next=[p.progress.next_fire_time for p in prepared],
        previous=[p.progress.previous_fire_time for p in prepared],
        upcoming=[p.upcoming.instants for p in prepared],
        complete=[p.upcoming.is_complete for p in prepared],
        times=[p.progress.times_triggered for p in prepared],
        starts=[t.start_time for t in triggers],
        ends=[t.end_time for t in triggers],
        priorities=[t.priority for t in triggers],
        misfires=[str(t.misfire) for t in triggers],
        rules=[_misfire_rule(p, settles_later) for p in prepared],
        thresholds=[t.misfire_threshold for t in triggers],
        calendars=[t.calendar for t in triggers],
        data=[job_data.encode(t.data) for t in triggers],
        hashes=[p.schedule_hash for p in prepared],
    )


def order_of(one: PreparedTrigger | UnpreparedTrigger) -> tuple[str, str | None]:
    """Return the key by which triggers are sorted before they are stored."""
    return one.trigger.group, one.trigger.name


def store_triggers(
    session: SqlSession,
    transaction: Transaction,
    given: Sequence[PreparedTrigger | UnpreparedTrigger],
    now: datetime | None = None,
    *,
    replace: bool,
    changed: Sequence[JobKey] = (),
    ordinary: bool = True,
    is_estimate: bool = False,
) -> datetime | None:
    """Store triggers and commit; return the earliest fire time.

    `ordinary`: assume that nothing is paused, limited or in manual mode, and check it. `is_estimate`: `now` is an
    estimate, to be compared with the database's clock.
    """
    names = {one.trigger.calendar for one in given if one.trigger.calendar is not None}
    revisions = held_revisions(session, transaction, names)
    parts = list(chunks(given, size_of_trigger))
    many = len(parts) > 1
    settles_later = not session.decides_at_once
    if many and not settles_later:
        # There are too many rows to reconcile under the lock, and usually none needs it.
        settles_later = not (ordinary and transaction.send(session.send(IS_ORDINARY))[0].rows[0][0])

    def batch(some: Sequence[PreparedTrigger | UnpreparedTrigger]) -> _Batch:
        prepared = [_with_current_calendar(one.prepared(now), revisions) for one in some]
        return _Batch(
            prepared, bound(trigger_statement(session, prepared, replace=replace, settles_later=settles_later))
        )

    earliest: datetime | None = None
    began: list[TriggerKey] = []
    copies: set[tuple[Any, ...]] = set()
    prepared: Sequence[PreparedTrigger] = ()
    for prepared, store in computed_ahead(batch, parts):
        stored = _store_some_triggers(session, transaction, prepared, store, replace=replace, is_estimate=is_estimate)
        times = [row.next_fire_time for row in stored if row.next_fire_time is not None]
        earliest = min(times if earliest is None else [earliest, *times], default=None)
        if many:
            copies.update(row.copies for row in stored)
        else:
            # The other triggers keep their state.
            began = [row.key for row in stored if not row.is_kept]
    last = settle_jobs(session, changed) if session.decides_at_once else []
    if changed:
        # A rate limit that was raised, for example, lets triggers fire earlier than nodes expect.
        last.append(news(session))
    if settles_later:
        last += [news(session)] if given else []
    elif many:
        last += _check_many(session, copies)
        last += [news(session)]
    elif began:
        last += [session.send(SETTLE_NEW, **key_columns(began)), *announcement(session, fire_times(prepared))]
    if last and session.decides_at_once:
        last.insert(0, session.lock(LockName.TRIGGER_ACCESS))
    try:
        transaction.commit(*last)
    except psycopg.errors.DivisionByZero as error:
        raise NotOrdinaryError("a job or trigger was paused, limited or redefined in the meantime") from error
    return earliest


class _Batch(NamedTuple):
    """Triggers to be stored by one statement."""

    prepared: Sequence[PreparedTrigger]
    store: Send


def _with_current_calendar(prepared: PreparedTrigger, revisions: Mapping[str, int]) -> PreparedTrigger:
    if prepared.calendar_revision == revisions.get(prepared.trigger.calendar or ""):
        return prepared
    # Fire times computed from a calendar that was replaced in the meantime are discarded, to be computed again.
    return replace_in(prepared, upcoming=UpcomingFireTimes())


class _StoredTrigger(NamedTuple):
    """A trigger after it was stored. `is_kept`: it was stored already, with the same schedule."""

    group: str
    name: str
    is_kept: bool
    next_fire_time: datetime | None
    copies: tuple[Any, ...] = ()
    """Its job's key, and what it has copies of."""

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)


def _store_some_triggers(
    session: SqlSession,
    transaction: Transaction,
    prepared: Sequence[PreparedTrigger],
    store: Send,
    *,
    replace: bool,
    is_estimate: bool,
) -> list[_StoredTrigger]:
    """Store triggers, or check that they are stored with the same values.

    Raises:
        WrongEstimateError: the triggers were prepared with an estimate of the time that was wrong.
    """
    sends = [store]
    if replace:
        sends.append(session.send(VOID_CLAIMS, **key_columns(p.trigger.key for p in prepared)))
    before = session.clock.now()
    sent = transaction.send(*sends)[0]
    if sent.rows:
        agrees = session.clock.agrees(sent.rows[-1][NOW_COLUMN], before)
        if is_estimate and not agrees:
            raise WrongEstimateError("the estimate of the database's clock was wrong")
    stored = [_StoredTrigger(row[0], row[1], row[2], row[AT_COLUMN], row[5:]) for row in sent.rows]
    if len(stored) < len(prepared):
        there = {(one.group, one.name) for one in stored}
        stored += _same_triggers(session, transaction, [p for p in prepared if order_of(p) not in there])
    return stored


def _same_triggers(
    session: SqlSession, transaction: Transaction, missing: Sequence[PreparedTrigger]
) -> list[_StoredTrigger]:
    """Return the stored triggers that the statement did not store.

    Raises:
        JobNotFoundError: a trigger was not stored because its job is not stored.
        ObjectAlreadyExistsError: a trigger is stored with different values.
    """
    session.expects_new = False
    jobs, triggers = transaction.send(
        session.send(HOLD_JOBS, **key_columns({p.trigger.job_key for p in missing if p.trigger.job_key})),
        session.send(TRIGGERS, **key_columns(p.trigger.key for p in missing)),
    )
    present = {JobKey(row[1], row[0]) for row in jobs.rows}
    known = {record.key: record for record in map(trigger_record, triggers.rows)}
    same = []
    for p in missing:
        if p.trigger.job_key not in present:
            raise refusals.job_of_trigger_not_stored(p.trigger.key, p.trigger.job_key)
        record = known.get(p.trigger.key)
        refuse_other_trigger(p, record)
        at = None if record is None else record.progress.next_fire_time
        same.append(_StoredTrigger(p.trigger.group, p.trigger.key.name, is_kept=True, next_fire_time=at))
    return same


def _check_many(session: SqlSession, copies: Collection[tuple[Any, ...]]) -> list[Send]:
    names = ("groups", "names", "types", "limits", "overlap_policy", "placements", "rate_limits")
    copies = [one for one in copies if one]
    if not copies:
        return []
    columns = [list(column) for column in zip(*copies, strict=True)]
    return [session.send(STILL_ORDINARY, **dict(zip(names, columns, strict=True)))]


def fire_times(prepared: Sequence[PreparedTrigger]) -> list[tuple[JobKey, datetime]]:
    """Return the next fire times of triggers, each with the key of its job."""
    return [
        (p.trigger.job_key, p.progress.next_fire_time)
        for p in prepared
        if p.trigger.job_key is not None and p.progress.next_fire_time is not None
    ]
