"""The complete step. Lock: TRIGGER_ACCESS. Ends executions by fire_id, if the claim still belongs to this epoch.

All effects of a completion depend on the fired row that it deletes. An execution keeps that row and is completed later
if another transaction has locked it, or a row that it must write: its job, whose data it stores or which runs again, a
trigger that it asked to end, or its own trigger, whose next fire follows from this end.

Most executions end without any effect on others; `plain_completions` ends those without the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.states import CompletionInstruction
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import failures, plain_completions
from quartzpy.store.postgresql.steps.completion_effects import effects
from quartzpy.store.protocol import Completion, CompletionOutcome, Node

logger = logging.getLogger(__name__)


_SQL = SqlFile("steps/complete.sql")
UNFINISHED = _SQL("unfinished")


@cache
def complete_statement(
    *, asks: bool, stores: bool, retries: bool, counts: bool, continues: bool, captures: bool = False
) -> str:
    """Return the statement that ends executions; with what only some of them need, where one of these does."""
    return _SQL(
        "complete", asks=asks, stores=stores, retries=retries, counts=counts, continues=continues, captures=captures
    )


def complete(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
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


def _asks(completion: Completion) -> bool:
    """Return whether an end may make any trigger wait that is due."""
    return completion.instruction is not CompletionInstruction.NOOP


def _makes_triggers_due(completion: Completion) -> bool:
    """Return whether an end may store, release or move a trigger, so that another one is due next."""
    return (
        completion.fired.max_concurrent is not None
        or completion.fired.continues
        or completion.retry_after is not None
        or completion.moves_its_trigger()
    )


def _earliest_of(results: list[Result]) -> datetime | None:
    """Return the soonest fire time of the triggers that the ends have released."""
    _, _, _, earliest, *_ = results[0].rows[0]
    at: datetime | None = earliest
    return at


def _complete_with_lock(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    pipeline = statements(session, node, completions, wakes_others=wakes_others)
    asks = any(map(_asks, completions))
    results = session.locked(
        *pipeline,
        keeps_next_due=not (asks or any(map(_makes_triggers_due, completions))),
        # What is stored or moved by ends that ask for nothing is due later than now, or it is the earliest.
        soonest=None if asks else _earliest_of,
    )
    now, done, twice, earliest, _, *more = results[0].rows[0]
    repeating = {c.fired.fire_id for c in completions if c.retry_after is not None}
    stopped = repeating.intersection(more[0]) if repeating else repeating
    is_counted = any(c.counts_for_pause for c in completions)
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


def statements(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
) -> list[BoundStatement]:
    """Return the statements that end executions, to be sent under TRIGGER_ACCESS."""
    asking = [c for c in completions if c.instruction is not CompletionInstruction.NOOP or c.moves_its_trigger()]
    counted = [c for c in completions if c.counts_for_pause]
    counts: dict[str, Any] = {"count_fire_ids": [c.fired.fire_id for c in counted]} if counted else {}
    retries = any(c.retry_after is not None for c in completions)
    again: dict[str, Any] = {"handed_back": [c.is_handed_back for c in completions]} if retries else {}
    captures = any(c.log is not None for c in completions)
    logs: dict[str, Any] = {"logs": [c.log for c in completions]} if captures else {}
    return [
        session.bind(
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
            misfire_threshold=session.misfire_threshold,
            fire_ids=[c.fired.fire_id for c in completions],
            started=[c.started_at for c in completions],
            ended=[c.ended_at for c in completions],
            outcomes=[c.outcome for c in completions],
            errors=[c.error for c in completions],
            stores_data=[c.job_data is not None for c in completions],
            data_fire_ids=[c.fired.fire_id for c in completions if c.job_data is not None],
            data=[c.job_data for c in completions if c.job_data is not None],
            last=[c.ends_its_trigger for c in completions],
            retry_after=[c.retry_after for c in completions],
            results=[c.result for c in completions],
        ),
        # Its result is the second of the round trip; see `complete`.
        *([failures.count(session, counted)] if counted else []),
        *effects(session, node, completions),
    ]
