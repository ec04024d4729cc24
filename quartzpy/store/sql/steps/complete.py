"""The complete step. Lock: TRIGGER_ACCESS. Ends executions by fire_id, if the claim still belongs to this epoch.

All effects of a completion depend on the fired row that it deletes. An execution keeps that row and is completed later
if another transaction has locked it, or a row that it must write: its job, whose data it stores or which runs again, a
trigger that it asked to end, or its own trigger, whose next fire follows from this end.

Most executions end without any effect on others; `plain_completions` ends those without the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.states import CompletionInstruction
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps import failures, plain_completions
from quartzpy.store.sql.steps.completion_effects import effects
from quartzpy.store.sql.steps.continuations import UNFOLLOWED, continued, followers
from quartzpy.store.sql.steps.ended_triggers import ENDED_TRIGGERS
from quartzpy.store.sql.steps.overlap import unblocked
from quartzpy.store.sql.steps.plain_completions import between_fire_and_now
from quartzpy.store.sql.steps.rerun import RETRY, repeatable, rerun

logger = logging.getLogger(__name__)


def _executing(of: str, columns: str) -> str:
    # LATERAL with a limit: a plain join may be planned as a scan of all fired rows for each row of `of`.
    return f"""
     CROSS JOIN LATERAL (
        SELECT {columns} FROM $fired_triggers r
         WHERE r.fire_id = {of}.fire_id AND r.epoch = %(epoch)s::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f"""


_ITS_JOB = "r.sched_name, r.job_group, r.job_name"

# If jobs give instructions, or if ends move triggers: the executions that must wait, because such a trigger is locked,
# or its job. The trigger may be updated twice, here and by a later statement; then its foreign key is checked, although
# the key does not change, and the check would wait for the job.
_WAITING_FOR_TRIGGERS = f"""
requests AS MATERIALIZED (
    SELECT a.fire_id, about.trigger_group, about.trigger_name, f.job_group, f.job_name
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
must_wait AS MATERIALIZED (
    SELECT a.fire_id
      FROM requests a
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = a.trigger_group AND o.trigger_name = a.trigger_name
           FOR NO KEY UPDATE SKIP LOCKED) AS t ON true
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j ON true
     WHERE t.is_free IS NULL OR j.is_free IS NULL
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
# An execution that somebody has asked to stop does not run again: one that was snoozed, by its job or because it was
# handed back, is CANCELLED, and a failure remains one without a further attempt.
_UNLESS_ASKED_TO_STOP = """\
SELECT e.fire_id, e.started_at, e.ended_at,
           CASE WHEN own.asked_to_stop AND e.outcome = 'SNOOZED' THEN 'CANCELLED' ELSE e.outcome END AS outcome,
           CASE WHEN own.asked_to_stop AND e.is_handed_back THEN NULL ELSE e.error END AS error,
           e.stores_data, e.is_last,
           CASE WHEN NOT own.asked_to_stop THEN e.retry_after END AS retry_after, e.result{log}, e.is_handed_back,
           own.asked_to_stop
      FROM"""
_ASKED_TO_STOP = """
     CROSS JOIN LATERAL (
        SELECT r.cancel_requested AS asked_to_stop FROM $fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = %(epoch)s::bigint AND r.state = 'EXECUTING' LIMIT 1) AS own"""
_RETRIED = f"""(
    SELECT e.fire_id, f.job_group, f.job_name FROM ended e {_executing("e", _ITS_JOB)}
     WHERE e.retry_after IS NOT NULL)"""
# Those that end for good: a failure that is retried is no end yet.
_ENDING = f"""
    SELECT e.fire_id, f.job_group, f.job_name, e.outcome FROM ended e {_executing("e", _ITS_JOB)}
     WHERE e.retry_after IS NULL"""
_IS_REPEATABLE = "(e.retry_after IS NULL OR e.fire_id IN (SELECT fire_id FROM repeatable))"
_NO_JOB = f"""
NOT EXISTS (SELECT FROM $job_details j
             WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name {BY_KEY})
"""


@cache
def complete_statement(
    *, asks: bool, stores: bool, retries: bool, counts: bool, continues: bool, captures: bool = False
) -> str:
    """The statement that ends executions; with what only some of them need, where one of these does."""
    conditions = [_IS_STORED] * stores + [_IS_REPEATABLE] * retries + [_IS_COUNTABLE] * counts
    ends = f"AND ({' AND '.join(conditions)} OR {_NO_JOB})" if conditions else ""
    if asks:
        ends += " AND e.fire_id NOT IN (SELECT fire_id FROM must_wait)"
    if continues:
        ends += f" AND e.fire_id NOT IN ({UNFOLLOWED})"
    # Most completions have no log lines, and their statement does not mention them.
    of_log, log, logs = (", e.log", ", log", ", %(logs)s::text[]") if captures else ("", "", "")
    repeated, retry_at = "", "NULL"
    ended, given, names, of_row, of_repeated, answered = "SELECT * FROM", "", "", "", "", ""
    made_waiting = ["SELECT * FROM unblocked"]
    if retries:
        retried = rerun("retried", "done WHERE retry_after IS NOT NULL", "repeatable", RETRY)
        retry_at = "CASE WHEN fire_id IN (SELECT fire_id FROM repeatable) THEN $now + retry_after END"
        repeated = f"{retried} RETURNING trigger_state, next_fire_time),"
        ended, of_row = _UNLESS_ASKED_TO_STOP.format(log=of_log), _ASKED_TO_STOP
        given, names = ", %(handed_back)s::bool[]", ", is_handed_back"
        of_repeated = ", e.is_handed_back, e.asked_to_stop"
        # Somebody may have asked meanwhile: such a row is left to the next try.
        ends += " AND f.cancel_requested = e.asked_to_stop"
        answered += ",\n       ARRAY(SELECT fire_id FROM done WHERE asked_to_stop)"
        made_waiting.append("SELECT * FROM retried")
    if counts:
        answered += f",\n       set_config('{failures.ENDED}', ARRAY(SELECT fire_id FROM done)::text, true)"
    if continues:
        repeated += f"{continued('SELECT * FROM done')} RETURNING trigger_state, next_fire_time),"
        made_waiting.append("SELECT * FROM continued")
    # A row that this statement has changed can no longer be held by it: what is to be held is held before.
    held_first = ["must_wait"] * asks + ["followers"] * continues + ["repeatable"] * retries + ["countable"] * counts
    stored = _STORED.format(after="".join(f"AND (SELECT count(*) FROM {name}) >= 0 " for name in held_first))
    return f"""
WITH ended AS MATERIALIZED (
    {ended} unnest(%(fire_ids)s::bigint[], %(started)s::timestamptz[], %(ended)s::timestamptz[],
                         %(outcomes)s::text[], %(errors)s::text[], %(stores)s::bool[], %(last)s::bool[],
                         %(retries)s::interval[], %(results)s::text[]{logs}{given})
        AS e(fire_id, started_at, ended_at, outcome, error, stores_data, is_last, retry_after, result{log}{names}
          ){of_row}
),
{_WAITING_FOR_TRIGGERS if asks else ""}
{_COUNTABLE if counts else ""}
{followers(_ENDING) if continues else ""}
{repeatable("repeatable", _RETRIED) + "," if retries else ""}
{stored if stores else ""}
-- The end of the executions: everything that follows depends on these rows.
done AS (
    DELETE FROM $fired_triggers f
     USING ended e {_executing("e", "r.ctid AS row").replace("LIMIT 1) AS f", "LIMIT 1 FOR UPDATE SKIP LOCKED) AS own")}
     WHERE f.ctid = own.row {ends}
    RETURNING f.*, e.started_at, e.ended_at, e.outcome, e.error, e.is_last, e.retry_after, e.result{of_log}{of_repeated}
),
-- A second record of the same instant is refused by a unique index, and reported.
history AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, started_at, ended_at, outcome, error, attempt,
        trigger_data, result, retry_at{log})
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           epoch, fired_time, scheduled_time, {between_fire_and_now("started_at")}, {between_fire_and_now("ended_at")},
           outcome, error, attempt, trigger_data, result::jsonb, {retry_at}{log}
      FROM done
        ON CONFLICT DO NOTHING
    RETURNING fire_id
),
{unblocked("SELECT DISTINCT job_group, job_name, concurrency_key FROM done WHERE max_concurrent IS NOT NULL")}
    RETURNING t.trigger_state, t.next_fire_time
),
{repeated}{ENDED_TRIGGERS},
-- The node takes the triggers that wait again; it notifies the others if it takes no more work.
waiting AS (
    SELECT next_fire_time FROM ({" UNION ALL ".join(made_waiting)}) AS w
     WHERE trigger_state = 'WAITING'
)
SELECT $now,
       ARRAY(SELECT fire_id FROM done),
       ARRAY(SELECT fire_id FROM done EXCEPT SELECT fire_id FROM history),
       (SELECT min(next_fire_time) FROM waiting),
       (SELECT count(pg_notify(%(channel)s, 'scheduled'))
          FROM (SELECT FROM waiting WHERE %(wakes_others)s::bool LIMIT 1) AS any_waiting){answered}
"""


# Executions that did not end above: still this epoch's (a row was locked), or recorded by a call whose answer was lost.
UNFINISHED = """
SELECT ARRAY(SELECT fire_id FROM $fired_triggers
              WHERE fire_id = ANY(%(fire_ids)s::bigint[]) AND epoch = %(epoch)s::bigint),
       ARRAY(SELECT fire_id FROM $executions
              WHERE fire_id = ANY(%(fire_ids)s::bigint[]) AND epoch = %(epoch)s::bigint AND outcome <> 'TERMINATED')
"""


def complete(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    """End executions; see `JobStore.complete`."""
    plain, others = plain_completions.divided(completions)
    now = None
    if plain:
        # What is missing here was recorded before, or is not this epoch's: the statement below finds out.
        now, missing = plain_completions.complete(session, node, plain)
        others += missing
    if now is not None and not others:
        return CompletionOutcome(now)
    return _complete_with_lock(session, node, others, wakes_others=wakes_others)


def _makes_triggers_due(completion: Completion) -> bool:
    """Return whether an end may store, release or move a trigger, so that another one is due next."""
    return (
        completion.fired.max_concurrent is not None
        or completion.fired.continues
        or completion.retry_after is not None
        or completion.instruction is not CompletionInstruction.NOOP
        or completion.moves_its_trigger()
    )


def _complete_with_lock(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    flight = sends(session, node, completions, wakes_others=wakes_others)
    results = session.locked(*flight, keeps_expectation=not any(map(_makes_triggers_due, completions)))
    now, done, twice, earliest, _, *more = results[0].rows[0]
    repeating = {c.fired.fire_id for c in completions if c.retry_after is not None}
    stopped = repeating.intersection(more[0]) if repeating else repeating
    is_counted = any(failures.counts(c) for c in completions)
    paused = tuple(JobKey(name, group) for group, name in results[1].rows) if is_counted else ()
    for fire_id in twice:
        logger.error("the instant of fire %s was executed before; please report this", fire_id)
    if len(done) == len(completions):
        return CompletionOutcome(now, earliest_unblocked=earliest, paused=paused, stopped=stopped)
    missing = {c.fired.fire_id for c in completions}.difference(done)
    held, recorded = session.read_one(UNFINISHED, fire_ids=list(missing), epoch=node.epoch)[0]
    return CompletionOutcome(
        now,
        fenced=missing.difference(held, recorded),
        deferred=frozenset(held),
        earliest_unblocked=earliest,
        paused=paused,
        stopped=stopped,
    )


def sends(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
) -> list[Send]:
    """Return the statements that end executions, to be sent under TRIGGER_ACCESS."""
    asking = [c for c in completions if c.instruction is not CompletionInstruction.NOOP or c.moves_its_trigger()]
    counted = [c for c in completions if failures.counts(c)]
    counts: dict[str, Any] = {"count_fire_ids": [c.fired.fire_id for c in counted]} if counted else {}
    retries = any(c.retry_after is not None for c in completions)
    again: dict[str, Any] = {"handed_back": [c.is_handed_back for c in completions]} if retries else {}
    captures = any(c.log is not None for c in completions)
    logs: dict[str, Any] = {"logs": [c.log for c in completions]} if captures else {}
    return [
        session.send(
            complete_statement(
                asks=bool(asking),
                stores=any(c.job_data is not None for c in completions),
                retries=retries,
                counts=bool(counted),
                continues=any(c.fired.continues for c in completions),
                captures=captures,
            ),
            **counts,
            **again,
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
        *effects(session, node, completions),
    ]
