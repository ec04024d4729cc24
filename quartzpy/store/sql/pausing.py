"""Pauses and resumes triggers.

Row states change by guarded updates, first without the lock and again under it: the second pass catches rows that were
stored in between, and no locked row is waited for under the lock.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Missed, TriggerState
from quartzpy.store import refusals
from quartzpy.store.protocol import NO_NOTE, Notification, PauseNote
from quartzpy.store.records import JobHeader
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.listen import announcement, news
from quartzpy.store.sql.db.locks import LockName
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.lookups import JOB_GROUPS, MATCHES, TRIGGER_GROUPS, match_values, matched_groups
from quartzpy.store.sql.steps.misfire_rule import USUAL_RULE
from quartzpy.store.sql.steps.settling import MODE_FORBIDS, UNSCHEDULED, held_by_mode, state_of
from quartzpy.store.sql.steps.void_claims import void_claims

# The triggers that a request concerns.
BY_TRIGGER = """
(t.trigger_group, t.trigger_name) IN (SELECT * FROM unnest(%(groups)s::text[], %(names)s::text[]))
"""
BY_JOB = """
(t.job_group, t.job_name) IN (SELECT * FROM unnest(%(groups)s::text[], %(names)s::text[]))
"""
SCHEDULED = f"t.trigger_group NOT IN {UNSCHEDULED}"
HELD_BY_JOBS_MODE = f"{BY_JOB} AND t.held_by_mode"
HELD_BY_MANUAL_MODE = f"{SCHEDULED} AND t.held_by_mode"
BY_JOB_SCHEDULED = f"{BY_JOB} AND {SCHEDULED}"
BY_TRIGGER_GROUP = MATCHES.format(column="t.trigger_group")
BY_JOB_GROUP = MATCHES.format(column="t.job_group")
ALL = "true"

TREATED = f"%(missed)s::text <> 'misfire' AND t.next_fire_time < $now AND {SCHEDULED}"

# A trigger that only a mode pauses can be paused by name as well: then the end of the mode does not resume it.
_MAY_BE_PAUSED = """
(t.trigger_state IN ('WAITING', 'ACQUIRED', 'BLOCKED')
 OR (t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')
     AND ((t.held_by_mode AND NOT %(by_mode)s::bool)
          OR (%(reason)s::text IS NOT NULL
              AND (t.pause_reason, t.paused_by) IS DISTINCT FROM (%(reason)s::text, %(by)s::text)))))
"""
_PAUSE = """
WITH affected AS (
    SELECT t.trigger_group, t.trigger_name, t.fire_id
      FROM $triggers t
     WHERE t.sched_name = %(sched)s AND {which} AND {may_be_paused}
       FOR NO KEY UPDATE {skip}
),
paused AS (
    UPDATE $triggers t
       SET trigger_state = CASE WHEN t.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
                                THEN 'PAUSED_BLOCKED' ELSE 'PAUSED' END,
           fire_id = NULL, held_by_mode = %(by_mode)s::bool,
           paused_at = CASE WHEN %(by_mode)s::bool THEN NULL
                            WHEN t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED') THEN coalesce(t.paused_at, $now)
                            ELSE $now END,
           paused_by = %(by)s::text, pause_reason = %(reason)s::text,
           misfire_rule = CASE t.misfire_rule WHEN 'NEW' THEN 'HELD' ELSE t.misfire_rule END
      FROM affected
     WHERE t.sched_name = %(sched)s AND t.trigger_group = affected.trigger_group
       AND t.trigger_name = affected.trigger_name
       AND {may_be_paused}
    RETURNING affected.fire_id
)
""" + void_claims("paused")

# In the second pass of `_RESUME`: triggers that stay paused by a mode would be updated again, and the foreign key of a
# row that the transaction itself has written is checked, which waits for a locked job.
_NOT_OURS = "AND t.xmin <> pg_current_xact_id()::xid"

# A trigger without a further fire time does not change. A late one becomes WAITING, and the misfire step handles it.
# Triggers without a schedule (manual fires, retries, recoveries) are not skipped. If a mode forbids a trigger to fire,
# only that mode keeps it paused from now on.
_RESUME = f"""
WITH affected AS (
    SELECT t.trigger_group, t.trigger_name, {MODE_FORBIDS.format(row="t")} AS is_forbidden
      FROM $triggers t
     WHERE t.sched_name = %(sched)s AND {{which}} AND t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')
       AND t.next_fire_time IS NOT NULL {{but}}
       FOR NO KEY UPDATE {{skip}}
)
UPDATE $triggers t
   SET held_by_mode = affected.is_forbidden, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
       trigger_state = CASE WHEN affected.is_forbidden THEN t.trigger_state
                            WHEN {state_of("t", "t", "t.concurrency_key")} IN ('BLOCKED', 'PAUSED_BLOCKED')
                            THEN 'BLOCKED' ELSE 'WAITING' END,
       misfire_rule = CASE WHEN affected.is_forbidden THEN t.misfire_rule
                           WHEN t.misfire_rule IN ('NEW', 'HELD') THEN 'NEW'
                           WHEN {TREATED} THEN upper(%(missed)s::text) ELSE {USUAL_RULE} END,
       catch_up_until = CASE WHEN {TREATED} AND NOT affected.is_forbidden THEN NULL ELSE t.catch_up_until END,
       resumed_at = CASE %(missed)s::text WHEN 'skip' THEN $now END
  FROM affected
 WHERE t.sched_name = %(sched)s AND t.trigger_group = affected.trigger_group AND t.trigger_name = affected.trigger_name
   AND t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')
RETURNING t.job_group, t.job_name, t.next_fire_time, affected.is_forbidden
"""

REMEMBER = """
INSERT INTO $paused_groups (sched_name, scope, group_name)
SELECT %(sched)s, %(scope)s, name FROM unnest(%(names)s::text[]) AS name
    ON CONFLICT DO NOTHING
"""
FORGET = f"""
DELETE FROM $paused_groups
 WHERE sched_name = %(sched)s AND scope = %(scope)s AND {MATCHES.format(column="group_name")}
"""
FORGET_ALL = "DELETE FROM $paused_groups WHERE sched_name = %(sched)s AND scope <> 'MANUAL'"

RESET_FROM_ERROR = f"""
UPDATE $triggers t
   SET trigger_state = CASE WHEN t.next_fire_time IS NULL THEN 'COMPLETE'
                            ELSE {state_of("t", "t", "t.concurrency_key")} END, error = NULL,
       held_by_mode = {held_by_mode("t")}
 WHERE t.sched_name = %(sched)s AND t.trigger_state = 'ERROR' AND {BY_TRIGGER}
RETURNING t.trigger_group, t.trigger_name, t.next_fire_time
"""
STATE = """
SELECT trigger_state FROM $triggers
 WHERE sched_name = %(sched)s AND trigger_group = %(group)s AND trigger_name = %(name)s
"""

SET_MODE = """
UPDATE $job_details SET mode = %(mode)s
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
RETURNING job_name
"""
JOB_HEADER = """
SELECT mode, job_type FROM $job_details
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
"""
FORGET_MANUAL = "DELETE FROM $paused_groups WHERE sched_name = %(sched)s AND scope = 'MANUAL'"

ALL_SCOPE, TRIGGER_SCOPE, JOB_SCOPE, MANUAL_SCOPE = "ALL", "TRIGGER", "JOB", "MANUAL"

_STATEMENTS = {
    (verb, which): (
        text.format(which=which, skip="", may_be_paused=_MAY_BE_PAUSED, but=""),
        text.format(which=which, skip="SKIP LOCKED", may_be_paused=_MAY_BE_PAUSED, but=_NOT_OURS),
    )
    for verb, text in (("pause", _PAUSE), ("resume", _RESUME))
    for which in (
        *(BY_TRIGGER, BY_JOB, BY_JOB_SCHEDULED, BY_TRIGGER_GROUP, BY_JOB_GROUP, SCHEDULED, ALL),
        *(HELD_BY_JOBS_MODE, HELD_BY_MANUAL_MODE),
    )
}


def _keys(keys: Collection[TriggerKey] | Collection[JobKey]) -> dict[str, Any]:
    return {"groups": [key.group for key in keys], "names": [key.name for key in keys]}


def _pause(
    session: SqlSession,
    which: str,
    values: dict[str, Any],
    *remember: Send,
    note: PauseNote = NO_NOTE,
    by_mode: bool = False,
) -> None:
    waiting, skipping = _STATEMENTS["pause", which]
    values = {**values, "by_mode": by_mode, "reason": note.reason, "by": note.by}

    def work(transaction: Transaction) -> None:
        transaction.send(*remember, session.send(waiting, **values))
        transaction.commit(session.lock(LockName.TRIGGER_ACCESS), session.send(skipping, **values))

    session.transaction(work)


def _resume(
    session: SqlSession, which: str, values: dict[str, Any], *forget: Send, missed: Missed = Missed.MISFIRE
) -> datetime | None:
    waiting, skipping = _STATEMENTS["resume", which]
    values = {**values, "missed": missed}

    def work(transaction: Transaction) -> datetime | None:
        first = transaction.send(*forget, session.send(waiting, **values))[-1]
        # These are announced whatever the second pass finds, because its result is known only with the commit.
        due = [(JobKey(name, group), at) for group, name, at, is_forbidden in first.rows if not is_forbidden]
        transaction.commit(
            session.lock(LockName.TRIGGER_ACCESS),
            session.send(skipping, **values),
            *announcement(session, due, Notification.RESUMED),
        )
        return min((at for _, at in due), default=None)

    return session.transaction(work)


def pause_triggers(session: SqlSession, keys: Collection[TriggerKey], note: PauseNote) -> None:
    _pause(session, BY_TRIGGER, _keys(keys), note=note)


def resume_triggers(session: SqlSession, keys: Collection[TriggerKey], missed: Missed) -> datetime | None:
    return _resume(session, BY_TRIGGER, _keys(keys), missed=missed)


def pause_jobs(session: SqlSession, keys: Collection[JobKey], note: PauseNote) -> None:
    _pause(session, BY_JOB, _keys(keys), note=note)


def resume_jobs(session: SqlSession, keys: Collection[JobKey], missed: Missed) -> datetime | None:
    return _resume(session, BY_JOB, _keys(keys), missed=missed)


def pause_groups(session: SqlSession, scope: str, matcher: GroupMatcher, note: PauseNote) -> set[str]:
    """Pause the triggers of groups (`scope` TRIGGER) or of the jobs of groups (JOB), and remember the groups."""
    of_jobs = scope == JOB_SCOPE
    existing = [row[0] for row in session.read_one(JOB_GROUPS if of_jobs else TRIGGER_GROUPS)]
    groups = matched_groups(matcher, existing)
    remember = session.send(REMEMBER, scope=scope, names=sorted(groups))
    _pause(session, BY_JOB_GROUP if of_jobs else BY_TRIGGER_GROUP, match_values(matcher), remember, note=note)
    return groups


def resume_groups(session: SqlSession, scope: str, matcher: GroupMatcher, missed: Missed) -> datetime | None:
    values = match_values(matcher)
    which = BY_JOB_GROUP if scope == JOB_SCOPE else BY_TRIGGER_GROUP
    return _resume(session, which, values, session.send(FORGET, scope=scope, **values), missed=missed)


def pause_all(session: SqlSession, note: PauseNote) -> None:
    groups = [row[0] for row in session.read_one(TRIGGER_GROUPS)]
    _pause(
        session,
        ALL,
        {},
        session.send(REMEMBER, scope=ALL_SCOPE, names=["*"]),
        session.send(REMEMBER, scope=TRIGGER_SCOPE, names=groups),
        note=note,
    )


def resume_all(session: SqlSession, missed: Missed) -> datetime | None:
    return _resume(session, ALL, {}, session.send(FORGET_ALL), missed=missed)


def set_mode(session: SqlSession, key: JobKey, mode: JobMode, missed: Missed) -> datetime | None:
    """See `JobStore.set_job_mode`."""
    change = session.send(SET_MODE, group=key.group, name=key.name, mode=mode)
    if mode is JobMode.ENABLED:
        return _resume(session, HELD_BY_JOBS_MODE, _keys([key]), change, missed=missed)
    which = BY_JOB if mode is JobMode.DISABLED else BY_JOB_SCHEDULED
    _pause(session, which, _keys([key]), change, by_mode=True)
    # If the job was disabled before, its manual fires resume.
    return None if mode is JobMode.DISABLED else _resume(session, HELD_BY_JOBS_MODE, _keys([key]), missed=missed)


def job_header(session: SqlSession, key: JobKey) -> JobHeader | None:
    """See `JobStore.job_header`."""
    for mode, job_type in session.read_one(JOB_HEADER, group=key.group, name=key.name):
        return JobHeader(key, job_type, JobMode(mode))
    return None


def set_manual(session: SqlSession, on: bool, missed: Missed) -> datetime | None:
    """See `JobStore.set_manual`."""
    if on:
        _pause(session, SCHEDULED, {}, session.send(REMEMBER, scope=MANUAL_SCOPE, names=["*"]), by_mode=True)
        return None
    return _resume(session, HELD_BY_MANUAL_MODE, {}, session.send(FORGET_MANUAL), missed=missed)


def reset_from_error(session: SqlSession, key: TriggerKey) -> datetime | None:
    """Give a trigger in ERROR the state of a newly stored one; see `JobStore.reset_from_error`.

    Raises:
        TriggerNotFoundError: the trigger is not stored.
        IllegalStateChangeError: it is not in ERROR.
    """
    reset, state, _ = session.unlocked(
        session.send(RESET_FROM_ERROR, groups=[key.group], names=[key.name]),
        session.send(STATE, group=key.group, name=key.name),
        news(session, Notification.RESUMED),
    )
    if reset.rows:
        at: datetime | None = reset.rows[0][2]
        return at
    raise refusals.not_in_error(key, TriggerState(state.rows[0][0]) if state.rows else None)


def reset_all_from_error(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Do this for all that are in ERROR; see `JobStore.reset_all_from_error`."""
    groups, names = [key.group for key in keys], [key.name for key in keys]
    reset, _ = session.unlocked(
        session.send(RESET_FROM_ERROR, groups=groups, names=names), news(session, Notification.RESUMED)
    )
    return {TriggerKey(name, group): at for group, name, at in reset.rows}
