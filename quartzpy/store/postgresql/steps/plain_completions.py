"""The completion of executions that affect nothing else: no lock is taken.

An execution ends plainly if its job has no data to store, no successors and nothing to count, and if it does not move
its trigger. Its completion deletes its own row of `fired_triggers`,
adds its own row to the history, and may append fire times to its trigger, or delete that trigger if this was its last
fire.

TRIGGER_ACCESS protects decisions that depend on several rows. Two of them depend on such a row. Whether a job that is
not durable has a trigger left is decided under the lock. Whether a gate has a place is, too, and an end only adds one:
whoever counts may count an execution that has just ended here, and parks a trigger; the node of this end names the gate
to its next acquire step, which takes the lock after that and finds it.

The other transactions that touch the rows:

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
- The job is replaced by one that is not durable: `orphans` follows in the same round trip, and reads the job again.
- A limit is added to the job: it holds for fires from then on, as the row of an execution keeps the limit that the job
  had at the fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from quartzpy.errors import JobStoreError
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.postgresql.connection.error_translation import is_unique_violation
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.schedules import refills
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.protocol import Completion, Node

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


_SQL = SqlFile("steps/plain_completions.sql")


@cache
def plain_statement(*, has_details: bool, ends_triggers: bool) -> str:
    """Return the statement that ends plain executions; with what only some of them need, where one of these does.

    `has_details`: one did not succeed, or has a result or log lines.
    """
    return _SQL("complete", has_details=has_details, ends_triggers=ends_triggers)


def is_plain(completion: Completion) -> bool:
    """Return whether an execution ends without an effect on anything but its own rows."""
    fired = completion.fired
    return (
        completion.instruction is CompletionInstruction.NOOP
        and completion.job_data is None
        and completion.retry_after is None
        and not fired.continues
        and not fired.joins
        and (fired.job_is_durable or not completion.ends_its_trigger)
        and not completion.counts_for_pause
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
            session.bind(
                plain_statement(has_details=has_details, ends_triggers=bool(ending)),
                **values,
                epoch=node.epoch,
                fire_ids=[c.fired.fire_id for c in plain],
                started_us=[(c.started_at - EPOCH) // MICROSECOND for c in plain],
                ended_us=[(c.ended_at - EPOCH) // MICROSECOND for c in plain],
            ),
            *orphans(session, ending),
            *refills(session, plain),
        )
    except JobStoreError as error:
        if is_unique_violation(error):
            return None, list(plain)
        raise
    now, done = ended.rows[0]
    if len(done) == len(plain):
        return now, []
    ended_fire_ids = set(done)
    return now, [c for c in plain if c.fired.fire_id not in ended_fire_ids]
