"""The complete step. Lock: TRIGGER_ACCESS. Ends executions by fire_id, if the fire still belongs to this epoch.

One flight records the ends, holds the rows that they must write, sends each effect that one of them has (see
`effects`), and deletes the rows of the fires. An end that cannot hold a row is taken out of the history again: it has
no effect, the row of its fire stays, and it is completed later. Such a row is its job, whose data it stores or which
runs again, a trigger that it asked to end, its own trigger, whose next fire follows from this end, or what runs after
it.

Most executions end without any effect on others; `plain_completions` ends those without the lock. Those whose ends
change very many triggers of their job are ended by a transaction of their own; see `halts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from quartzpy.errors import JobStoreError
from quartzpy.instants import earliest
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError, is_unique_violation
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import halts, plain_completions
from quartzpy.store.postgresql.steps.effects import data, failures, instructions, others, schedules
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, Results, earliest_of, fire_ids_of
from quartzpy.store.protocol import Completion, CompletionOutcome, Node

logger = logging.getLogger(__name__)


_SQL = SqlFile("steps/complete.sql")
RECORD = _SQL("record")
RECORD_BUT_TWICE = _SQL("record", tolerates=True)
LEAVE = _SQL("leave")


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
    plain, others = plain_completions.divided(completions)
    now = None
    if plain:
        # What is missing here was recorded before, or is not this epoch's: the statement below finds out.
        now, missing = plain_completions.complete(session, node, plain)
        others += missing
    if now is not None and not others:
        return CompletionOutcome(now)
    return _complete_with_lock(session, node, others, wakes_others=wakes_others)


def _complete_with_lock(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    ends = Completed.of(session, node, completions, wakes_others=wakes_others)

    def send(*, tolerates: bool) -> dict[str, Result]:
        flight = statements(ends, tolerates=tolerates)
        return dict(zip(flight, session.locked(*flight.values()), strict=True))

    try:
        results = send(tolerates=False)
    except JobStoreError as error:
        if not is_unique_violation(error):
            raise
        results = send(tolerates=True)
    now, done, stopped = _ended(completions, results)
    ended = CompletionOutcome(
        now,
        earliest_unblocked=earliest_of(results),
        paused=failures.paused_jobs(results),
        stopped=stopped,
    )
    if len(done) == len(completions):
        return ended
    missing = {c.fired.fire_id for c in completions}.difference(done)
    held, recorded = _unfinished(session, node, missing)
    halting = halts.halting(results)
    return replace(
        ended,
        fenced=missing.difference(held, recorded),
        deferred=frozenset(held) - halting,
        halting=halting.intersection(held),
    )


def _ended(completions: Sequence[Completion], results: Results) -> tuple[datetime, set[int], set[int]]:
    """Return the time, and which executions have ended, and which of these do not run again as they were to."""
    now, stopping, twice = results["record"].rows[0]
    for fire_id in twice:
        tell_twice(fire_id)
    done = {*results["leave"].rows[0][0], *twice}
    repeating = {c.fired.fire_id for c in completions if c.retry_after is not None}
    return now, done, repeating & done & set(stopping)


def tell_twice(fire_id: int) -> None:
    """Report an execution without effects: the history has its instant already, which only a bug can cause."""
    logger.error("the instant of fire %s was executed before; please report this", fire_id)


def _unfinished(session: SqlSession, node: Node, fire_ids: set[int]) -> tuple[list[int], list[int]]:
    """Return, of executions that did not end, those that the node still holds, and those that it recorded before."""
    values = {"fire_ids": list(fire_ids), "instance": node.instance_id, "epoch": node.epoch}
    held, recorded = session.read_one(_SQL.unfinished, **values)[0]
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
        earliest_unblocked=earliest(*(part.earliest_unblocked for part in parts)),
        paused=[key for part in parts for key in part.paused],
        stopped=frozenset().union(*(part.stopped for part in parts)),
    )


def _complete_of_job(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, wakes_others: bool
) -> CompletionOutcome:
    """End executions of one job by a transaction that changes its triggers before it takes the lock."""
    fire_ids = [completion.fired.fire_id for completion in completions]
    fires = session.bind(halts.HOLD_FIRES, fire_ids=fire_ids, epoch=node.epoch)

    def work(transaction: Transaction) -> tuple[list[Completion], bool, dict[str, Result]]:
        _, held = transaction.execute(session.allow_pauses(), fires)
        ours = {fire_id for (fire_id,) in held.rows}
        own = [completion for completion in completions if completion.fired.fire_id in ours]
        if not own:
            transaction.commit()
            return own, False, {}
        paused = halts.change_all(session, transaction, own)
        ended = {"fire_ids": sorted(ours), "number": len(own), "instance": node.instance_id}
        flight = statements(Completed.of(session, node, own, wakes_others=wakes_others, at_length=True), tolerates=True)
        _, *answers, _ = transaction.commit(
            session.lock(LockName.TRIGGER_ACCESS),
            *flight.values(),
            session.bind(halts.ALL_ENDED, **ended),
        )
        return own, paused, dict(zip(flight, answers, strict=True))

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
    now, _, stopped = _ended(own, results)
    return CompletionOutcome(
        now,
        fenced=fenced,
        deferred=held,
        earliest_unblocked=earliest_of(results),
        paused=[own[0].fired.job_key] if has_paused else [],
        stopped=stopped,
    )


def statements(ends: Completed, *, tolerates: bool = False) -> Flight:
    """Return the flight that ends executions, to be sent under TRIGGER_ACCESS.

    Unless `tolerates` is set, it fails if the history has the instant of one of these already.
    """
    return {
        "record": _record(ends, tolerates=tolerates),
        **halts.hold_large_jobs(ends),
        **hold_jobs(ends.session, _changing_jobs(ends)),
        **instructions.hold_triggers(ends),
        **others.hold(ends),
        **data.store_data(ends),
        **others.change(ends),
        **failures.count_failures(ends),
        **leave(ends.session, ends.fire_ids, [c.ends_its_trigger for c in ends.completions]),
        **instructions.follow_instructions(ends),
        **data.reset_node_deaths(ends),
        **instructions.remove_orphans(ends),
        **schedules.move_by_end(ends),
        **schedules.refill(ends),
    }


def _record(ends: Completed, *, tolerates: bool) -> BoundStatement:
    completions = ends.completions
    return ends.session.bind(
        RECORD_BUT_TWICE if tolerates else RECORD,
        epoch=ends.node.epoch,
        fire_ids=ends.fire_ids,
        started=[c.started_at for c in completions],
        ended=[c.ended_at for c in completions],
        outcomes=[c.outcome for c in completions],
        errors=[c.error for c in completions],
        results=[c.result for c in completions],
        logs=[c.log for c in completions],
        retry_after=[c.retry_after for c in completions],
        handed_back=[c.is_handed_back for c in completions],
    )


def _changing_jobs(ends: Completed) -> list[int]:
    """Return the ends that write into the rows of their jobs, or after which these run again."""
    return fire_ids_of(
        c for c in ends.completions if c.job_data is not None or c.retry_after is not None or c.counts_for_pause
    )


def hold_jobs(session: SqlSession, fire_ids: Sequence[int]) -> Flight:
    """Return what takes out those of these ends whose job's row somebody else holds."""
    return {"hold_jobs": session.bind(_SQL.hold_jobs, fire_ids=fire_ids)} if fire_ids else {}


def leave(session: SqlSession, fire_ids: Sequence[int], last: Sequence[bool]) -> Flight:
    """Return what deletes the fires of the executions that are recorded; its row names these."""
    return {"leave": session.bind(LEAVE, fire_ids=fire_ids, last=last)}
