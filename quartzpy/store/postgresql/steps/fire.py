"""The fire step. Lock: TRIGGER_ACCESS. Fires the claims of this node that are due.

Their new fire times have been computed before, outside the lock. A claim that was lost in the meantime (its trigger was
paused, deleted or replaced) no longer matches by state and fire_id, and its trigger does not change. One whose job has
reached its limit in the meantime is dropped, and its trigger is BLOCKED.

As in the acquire step, one statement fires triggers of jobs without a limit and leaves the others claimed, and another
one fires all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import timedelta

from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import by_outcome
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.bad_rows import reason_of, rehearse, to_blame
from quartzpy.store.postgresql.steps.holdings import FORGET, STILL_CLAIMED, reject
from quartzpy.store.protocol import FireRequest, Firing, Node

logger = logging.getLogger(__name__)

_SQL = SqlFile("steps/fire.sql")
FIRE = _SQL("fire", with_limits=True)
FIRE_UNLIMITED = _SQL("fire")


def fire(
    session: SqlSession,
    node: Node,
    moves: Sequence[FireRequest],
    *,
    early: timedelta = timedelta(),
    knows_limits: bool = False,
) -> Firing:
    """Fire the claims of `moves` that are due; see `JobStore.fire`.

    `knows_limits` says that a job of these claims may have a limit, even if it had none when they were claimed.
    """
    knows_limits = knows_limits or any(move.acquired.max_concurrent is not None for move in moves)
    try:
        fired, _, remaining = session.locked(
            *_statements(session, node, moves, early, knows_limits), keeps_next_due=True
        )
    except RefusedRowError:
        rejected = _reject_bad_rows(session, node, moves, early)
        if not rejected:
            raise
        others = [move for move in moves if move.acquired.fire_id not in rejected]
        return fire(session, node, others, early=early, knows_limits=knows_limits)
    now, still_claimed, limit_was_added = require_epoch(node, remaining)
    ran, _, skipped = by_outcome(fired.rows)
    session.next_due.note_moved(ran)
    if limit_was_added and not knows_limits:
        rest = [move for move in moves if move.acquired.fire_id in still_claimed]
        more = fire(session, node, rest, early=early, knows_limits=True)
        return Firing(more.now, (*ran, *more.fired), more.not_due, more.skipped)
    return Firing(now, ran, frozenset(still_claimed), skipped)


def _statements(
    session: SqlSession, node: Node, moves: Sequence[FireRequest], early: timedelta, knows_limits: bool
) -> list[BoundStatement]:
    fire_ids = [move.acquired.fire_id for move in moves]
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    return [
        session.bind(
            FIRE if knows_limits else FIRE_UNLIMITED,
            **at_node,
            fire_ids=fire_ids,
            early=early,
            following=[move.following.instants for move in moves],
            complete=[move.following.is_complete for move in moves],
            channel=session.channel,
        ),
        session.bind(FORGET, epoch=node.epoch, fire_ids=fire_ids),
        session.bind(STILL_CLAIMED, **at_node, fire_ids=fire_ids),
    ]


def _reject_bad_rows(
    session: SqlSession, node: Node, moves: Sequence[FireRequest], early: timedelta
) -> Collection[int]:
    """Put the claimed triggers into ERROR that make this step fail. Return the ids of their claims."""
    of_claim = {move.acquired.fire_id: move for move in moves}

    def attempt(part: Sequence[int]) -> None:
        rehearse(session, _statements(session, node, [of_claim[fire_id] for fire_id in part], early, knows_limits=True))

    blamed = to_blame(list(of_claim), attempt)
    for fire_id, error in blamed.items():
        key = of_claim[fire_id].acquired.key
        logger.error("trigger %s goes to ERROR: the database cannot process its row: %s", key, error)
    reject(session, node, {fire_id: reason_of(error) for fire_id, error in blamed.items()})
    return blamed.keys()
