"""The completion of executions that affect nothing else: no lock is taken.

An execution ends plainly if its job has no limit, no data to store, no successors and nothing to count, and if it
does not move its trigger. Its completion deletes its own row of `fired_triggers`, adds its own row to the history, and
may append fire times to its trigger, or delete that trigger if this was its last fire. TRIGGER_ACCESS protects
decisions that depend on several rows: which triggers a node takes, whether a job is at its limit, whether a job has a
trigger left. None of them reads or writes the rows of such an execution, if the job is durable. If it is not, the end
of a trigger may be the end of its job; that is decided under the lock, because two completions of the job's last two
triggers do not see each other's deletion. The other transactions that touch the rows:

- A recovery of this node deletes the same row. Whoever locks the row first ends the execution: the recovery skips a row
  that is locked here and leaves it to its next pass, and this statement skips a row that the recovery has locked, and
  the statement under the lock finds it gone. So exactly one of them writes the history, and one that comes too late has
  no effect.
- The same completion, sent again because its answer was lost, skips the row of the first attempt in the same way.
- A request to cancel, or any transaction of a user, has locked the row: the execution is completed later, and no other
  one waits. A row that nobody has ever locked has no `xmax`, and is not locked before it is deleted, because that would
  cost a record of the log for each execution. If somebody locks it in the moment between, the statement waits for
  `lock_timeout` at most, and the next try finds the `xmax`. The executions are in the order of their ids, in which a
  request to cancel locks them, so that none of both waits for the other.
- The trigger is deleted, replaced or paused: neither the row of the execution nor that of the history refers to the
  trigger's row. `REFILL` locks that row, skips it if it is locked, and compares its generation and its last instant.
  The end of a trigger does the same and compares its generation and its state. If the row is locked, the trigger stays
  COMPLETE, as it does under the lock, and the repair of stuck triggers deletes it.
- The job is replaced by one that is not durable: `orphans` follows in the same flight, and reads the job again.
- A limit is added to the job: it holds for fires from then on, as the row of an execution keeps the limit that the job
  had at the fire. The condition is part of the statement nonetheless, so that an execution that counts for a limit is
  never ended here, whatever its node believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import psycopg

from quartzpy.errors import JobStoreError
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion, Node
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.steps import failures
from quartzpy.store.sql.steps.completion_effects import refills
from quartzpy.store.sql.steps.ended_triggers import ENDED_TRIGGERS
from quartzpy.store.sql.steps.orphans import orphans

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def between_fire_and_now(instant: str) -> str:
    """Return a node's estimate of an instant, limited to the time between the fire and now by the store's clock.

    Estimates of two nodes differ by up to a round trip. Without the limits, the history could show that an execution
    began before the previous one of a serial job had ended.
    """
    return f"least(greatest({instant}, fired_time), $now)"


def instant_of(microseconds: str) -> str:
    """Return the SQL for the instant that is so many microseconds after `EPOCH`."""
    return f"timestamptz 'epoch' + {microseconds} * interval '1 microsecond'"


@cache
def plain_statement(*, has_details: bool, ends_triggers: bool) -> str:
    """Return the statement that ends plain executions; with what only some of them need, where one of these does.

    `has_details`: one did not succeed, or has a result or log lines.
    """
    given, names, of_given = "", "", ""
    detailed, values = "", "'SUCCEEDED'"
    if has_details:
        given += ", %(outcomes)s::text[],"
        given += "\n                         %(errors)s::text[], %(results)s::text[], %(logs)s::text[]"
        names += ", outcome, error, result, log"
        of_given += ", e.outcome, e.error, e.result, e.log"
        detailed, values = ", error, result, log", "outcome, error, result::jsonb, log"
    if ends_triggers:
        given += ", %(last)s::bool[]"
        names += ", is_last"
        of_given += ", e.is_last"
    return f"""
WITH ended AS MATERIALIZED (
    -- The instants come as microseconds, because their texts take both sides several times as long.
    SELECT e.*, {instant_of("e.started_us")} AS started_at, {instant_of("e.ended_us")} AS ended_at
      FROM unnest(%(fire_ids)s::bigint[], %(started)s::bigint[], %(ended)s::bigint[]{given})
        AS e(fire_id, started_us, ended_us{names})
),
-- The end of the executions: the history depends on these rows. A row of another epoch, or one that counts for a limit,
-- is left as it is.
done AS (
    DELETE FROM $fired_triggers f
     USING ended e
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.xmax <> '0'::xid AS may_be_locked FROM $fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = %(epoch)s::bigint AND r.state = 'EXECUTING'
           AND r.max_concurrent IS NULL LIMIT 1) AS own
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM $fired_triggers r
         WHERE own.may_be_locked AND r.ctid = own.row FOR UPDATE SKIP LOCKED) AS locked ON true
     WHERE f.ctid = own.row AND (locked.is_free OR NOT own.may_be_locked)
    RETURNING f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name,
              f.job_type, f.instance_id, f.epoch, f.fired_time, f.scheduled_time, f.attempt, f.trigger_data,
              e.started_at, e.ended_at{of_given}
),
-- There is no ON CONFLICT, as it costs another look into each unique index and a record of the log.
history AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, started_at, ended_at, attempt, trigger_data,
        outcome{detailed})
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           epoch, fired_time, scheduled_time, {between_fire_and_now("started_at")}, {between_fire_and_now("ended_at")},
           attempt, trigger_data, {values}
      FROM done
){f",{ENDED_TRIGGERS}" if ends_triggers else ""}
SELECT $now, ARRAY(SELECT fire_id FROM done)
"""


def is_plain(completion: Completion) -> bool:
    """Return whether an execution ends without an effect on anything but its own rows."""
    fired = completion.fired
    return (
        fired.max_concurrent is None
        and completion.instruction is CompletionInstruction.NOOP
        and completion.job_data is None
        and completion.retry_after is None
        and not fired.continues
        and (fired.job_is_durable or not completion.ends_its_trigger)
        and not failures.counts(completion)
        and not (fired.node_deaths and completion.outcome is Outcome.SUCCEEDED)
        and not completion.moves_its_trigger()
    )


def _has_details(completion: Completion) -> bool:
    return (
        completion.outcome is not Outcome.SUCCEEDED
        or completion.error is not None
        or completion.result is not None
        or completion.log is not None
    )


def divided(completions: Sequence[Completion]) -> tuple[list[Completion], list[Completion]]:
    """Return the completions that are plain, and the others."""
    plain: list[Completion] = []
    others: list[Completion] = []
    for completion in completions:
        (plain if is_plain(completion) else others).append(completion)
    return plain, others


def complete(session: SqlSession, node: Node, plain: Sequence[Completion]) -> tuple[datetime | None, list[Completion]]:
    """End executions that are plain; return the time, and those that this epoch does not hold (any more).

    If the history has a record of one of these instants already, which only a bug can cause, nothing is changed, and
    all are returned: the statement under the lock records the others, and reports that one.
    """
    plain = sorted(plain, key=lambda c: c.fired.fire_id)
    ending = {(c.fired.job_group, c.fired.job_name) for c in plain if c.ends_its_trigger}
    values: dict[str, Any] = {"last": [c.ends_its_trigger for c in plain]} if ending else {}
    has_details = any(_has_details(c) for c in plain)
    if has_details:
        values |= {
            "outcomes": [c.outcome for c in plain],
            "errors": [c.error for c in plain],
            "results": [c.result for c in plain],
            "logs": [c.log for c in plain],
        }
    try:
        ended, *_ = session.unlocked(
            session.send(
                plain_statement(has_details=has_details, ends_triggers=bool(ending)),
                **values,
                epoch=node.epoch,
                fire_ids=[c.fired.fire_id for c in plain],
                started=[(c.started_at - EPOCH) // MICROSECOND for c in plain],
                ended=[(c.ended_at - EPOCH) // MICROSECOND for c in plain],
            ),
            *orphans(session, ending),
            *refills(session, plain),
        )
    except JobStoreError as error:
        if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            return None, list(plain)
        raise
    now, done = ended.rows[0]
    if len(done) == len(plain):
        return now, []
    found = set(done)
    return now, [c for c in plain if c.fired.fire_id not in found]
