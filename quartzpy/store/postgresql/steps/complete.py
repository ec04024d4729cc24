"""The complete step. Lock: TRIGGER_ACCESS. Ends executions by fire_id, if the claim still belongs to this epoch.

All effects of a completion depend on the fired row that it deletes. An execution keeps that row and is completed later
if another transaction has locked it, or a row that it must write: its job, whose data it stores or which runs again, a
trigger that it asked to end, or its own trigger, whose next fire follows from this end.

Most executions end without any effect on others; `plain_completions` ends those without the lock. Those whose ends
change very many triggers of their job are ended by a transaction of their own; see `halts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any

from quartzpy.errors import JobStoreError
from quartzpy.keys import JobKey
from quartzpy.states import CompletionInstruction
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError, is_unique_violation
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import failures, halts, plain_completions, shared_limits
from quartzpy.store.postgresql.steps.completion_effects import effects
from quartzpy.store.protocol import Completion, CompletionOutcome, Node

logger = logging.getLogger(__name__)


_SQL = SqlFile("steps/complete.sql")
UNFINISHED = _SQL("unfinished")


@cache
def complete_statement(
    *,
    asks: bool,
    stores: bool,
    retries: bool,
    counts: bool,
    continues: bool,
    joins: bool = False,
    captures: bool = False,
    may_halt: bool = False,
    tolerates: bool = False,
) -> str:
    """Return the statement that ends executions; with what only some of them need, where one of these does."""
    return _SQL(
        "complete",
        asks=asks,
        stores=stores,
        retries=retries,
        counts=counts,
        continues=continues or joins,
        joins=joins,
        captures=captures,
        may_halt=may_halt,
        tolerates=tolerates,
    )


def complete(
    session: SqlSession,
    node: Node,
    completions: Sequence[Completion],
    *,
    wakes_others: bool = False,
    at_length: bool = False,
) -> CompletionOutcome:
    """End executions; see `JobStore.complete`."""
    if at_length:
        return _complete_at_length(session, node, completions, wakes_others=wakes_others)
    plain, others = plain_completions.divided(completions, session.awaited_jobs)
    now = None
    if plain:
        # Something waits for what is missing here, or it was recorded before, or is not this epoch's: the statement
        # below finds out.
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
        or completion.fired.limits is not None
        or completion.fired.continues
        or completion.fired.joins
        or completion.retry_after is not None
        or completion.moves_its_trigger()
    )


def earliest_of(completions: Sequence[Completion], results: Sequence[Result]) -> datetime | None:
    """Return the soonest fire time of the triggers that the ends have released, or that wait for limits of theirs.

    `results` are those of `statements`.
    """
    _, _, _, released, *_ = results[0].rows[0]
    # What waits for limits that jobs share is read by the last statement.
    asking = results[-1].rows[0][0] if any(c.fired.limits for c in completions) else None
    earliest: datetime | None = min((at for at in (released, asking) if at is not None), default=None)
    return earliest


def _complete_with_lock(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    asks = any(map(_asks, completions))

    def send(*, tolerates: bool) -> list[Result]:
        return session.locked(
            *statements(session, node, completions, wakes_others=wakes_others, tolerates=tolerates),
            keeps_next_due=not (asks or any(map(_makes_triggers_due, completions))),
            # What is stored or moved by ends that ask for nothing is due later than now, or it is the earliest.
            soonest=None if asks else partial(earliest_of, completions),
        )

    try:
        results = send(tolerates=False)
    except JobStoreError as error:
        if not is_unique_violation(error):
            raise
        results = send(tolerates=True)
    now, done, twice, _, _, *more = results[0].rows[0]
    earliest = earliest_of(completions, results)
    repeating = {c.fired.fire_id for c in completions if c.retry_after is not None}
    stopped = repeating.intersection(more[0]) if repeating else repeating
    is_counted = any(c.counts_for_pause for c in completions)
    paused = tuple(JobKey(name, group) for group, name in results[1].rows) if is_counted else ()
    for fire_id in twice:
        logger.error("the instant of fire %s was executed before; please report this", fire_id)
    if len(done) == len(completions):
        return CompletionOutcome(now, earliest_unblocked=earliest, paused=paused, stopped=stopped)
    missing = {c.fired.fire_id for c in completions}.difference(done)
    held, recorded = _unfinished(session, node, missing)
    halting = frozenset(more[-1]) if any(map(halts.may_halt, completions)) else frozenset()
    return CompletionOutcome(
        now,
        fenced=missing.difference(held, recorded),
        deferred=frozenset(held) - halting,
        earliest_unblocked=earliest,
        paused=paused,
        stopped=stopped,
        halting=halting.intersection(held),
    )


def _unfinished(session: SqlSession, node: Node, fire_ids: set[int]) -> tuple[list[int], list[int]]:
    """Return, of executions that did not end, those that the node still holds, and those that it recorded before."""
    values = {"fire_ids": list(fire_ids), "instance": node.instance_id, "epoch": node.epoch}
    held, recorded = session.read_one(UNFINISHED, **values)[0]
    return held, recorded


def _complete_at_length(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    # It takes long, and the steps of the node need the connections of their own.
    session = session.of_calls()
    parts = [_complete_of_job(session, node, part, wakes_others=wakes_others) for part in halts.by_job(completions)]
    return CompletionOutcome(
        parts[-1].now,
        fenced=frozenset().union(*(part.fenced for part in parts)),
        deferred=frozenset().union(*(part.deferred for part in parts)),
        earliest_unblocked=min((at for part in parts if (at := part.earliest_unblocked) is not None), default=None),
        paused=[key for part in parts for key in part.paused],
        stopped=frozenset().union(*(part.stopped for part in parts)),
    )


def _complete_of_job(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    """End executions of one job by a transaction that changes its triggers before it takes the lock."""
    fire_ids = [completion.fired.fire_id for completion in completions]
    claims = session.bind(halts.HOLD_CLAIMS, fire_ids=fire_ids, epoch=node.epoch)

    def work(transaction: Transaction) -> tuple[list[Completion], bool, list[Result]]:
        _, held = transaction.execute(session.allow_pauses(), claims)
        ours = {fire_id for (fire_id,) in held.rows}
        own = [completion for completion in completions if completion.fired.fire_id in ours]
        if not own:
            return own, False, transaction.commit()
        paused = halts.change_all(session, transaction, own)
        ended = {"fire_ids": sorted(ours), "number": len(own), "instance": node.instance_id}
        results = transaction.commit(
            session.lock(LockName.TRIGGER_ACCESS),
            *statements(session, node, own, wakes_others=wakes_others, at_length=True, tolerates=True),
            session.bind(halts.ALL_ENDED, **ended),
        )
        return own, paused, results

    try:
        own, has_paused, results = session.transaction(work)
    except halts.HeldError:
        return CompletionOutcome(session.now(), deferred=frozenset(fire_ids))
    except RefusedRowError as error:
        if not halts.is_unended(error):
            raise
        return CompletionOutcome(session.now(), deferred=frozenset(fire_ids))
    others = set(fire_ids).difference(completion.fired.fire_id for completion in own)
    fenced: set[int] = set()
    held: list[int] = []
    if others:
        held, recorded = _unfinished(session, node, others)
        fenced = others.difference(held, recorded)
    if not own:
        return CompletionOutcome(session.now(), fenced=fenced, deferred=held)
    now, _, twice, _, _, *more = results[1].rows[0]
    for fire_id in twice:
        logger.error("the instant of fire %s was executed before; please report this", fire_id)
    repeating = {c.fired.fire_id for c in own if c.retry_after is not None}
    return CompletionOutcome(
        now,
        fenced=fenced,
        deferred=held,
        earliest_unblocked=earliest_of(own, results[1:-1]),
        paused=[own[0].fired.job_key] if has_paused else [],
        stopped=repeating.intersection(more[0]) if repeating else repeating,
    )


def statements(
    session: SqlSession,
    node: Node,
    completions: Sequence[Completion],
    *,
    wakes_others: bool = False,
    at_length: bool = False,
    tolerates: bool = False,
) -> list[BoundStatement]:
    """Return the statements that end executions, to be sent under TRIGGER_ACCESS.

    With `at_length`, the same transaction has changed before what the ends change of all triggers of a job. Unless
    `tolerates` is set, they fail if the history has the instant of one of these already.
    """
    asking = [
        c
        for c in completions
        if (c.instruction is not CompletionInstruction.NOOP or c.moves_its_trigger())
        and not (at_length and c.instruction.is_about_all_triggers)
    ]
    halting = [] if at_length else [c for c in completions if halts.may_halt(c)]
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
                joins=any(c.fired.joins for c in completions),
                captures=captures,
                may_halt=bool(halting),
                tolerates=tolerates,
            ),
            **(halts.values_of(halting) if halting else {}),
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
        *([failures.count(session, counted, at_length=at_length)] if counted else []),
        *effects(session, node, completions, at_length=at_length),
        # Its result is the last of the round trip; see `earliest_of`.
        *shared_limits.freed(session, node, completions, wakes_others=wakes_others),
    ]
