"""Rows that make a step fail: they are found and set aside, so that the others go on.

The steps work on whole batches, and the server refuses a statement for the first row whose values it cannot compute
with or store. Such a row was edited by hand, and each step of every node would meet it. When a step has failed in this
way, it is tried again on halves of its batch, in transactions that are rolled back, until single rows are to blame.
Nothing of this happens while the steps succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import TypeVar

from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import ROLLBACK, BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.texts import storable_text

logger = logging.getLogger(__name__)

MAX_SUSPECTS = 5_000
"""The number of waiting triggers, the soonest first, among which the acquire step looks for those to blame."""
MAX_BLAMED = 20
"""The number of rows that are found at a time; if there are more, the step fails once more."""
_S = TypeVar("_S")

_SQL = SqlFile("steps/bad_rows.sql")


def to_blame(suspects: Sequence[_S], attempt: Callable[[Sequence[_S]], None]) -> dict[_S, RefusedRowError]:
    """Return the suspects for which `attempt` fails on its own, with the errors. Halves find them in few attempts.

    None is to blame unless `attempt` succeeds without any suspect and with some of them: otherwise the tables, or this
    program, are wrong, and no row is.
    """
    if _error_of(attempt, ()) is not None:
        return {}
    blamed: dict[_S, RefusedRowError] = {}
    succeeded = False
    parts = [suspects]
    while parts and len(blamed) < MAX_BLAMED:
        part = parts.pop()
        error = _error_of(attempt, part) if part else None
        if error is None:
            succeeded |= len(part) > 0
        elif len(part) == 1:
            blamed[part[0]] = error
        else:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    return blamed if succeeded else {}


def _error_of(attempt: Callable[[Sequence[_S]], None], part: Sequence[_S]) -> RefusedRowError | None:
    try:
        attempt(part)
    except RefusedRowError as error:
        return error
    return None


def rehearse(session: SqlSession, statements: Sequence[BoundStatement]) -> None:
    """Run the statements of a step under its lock, and roll them back.

    Raises:
        RefusedRowError: the server refused the values of a row.
    """
    lock = session.lock(LockName.TRIGGER_ACCESS)
    session.connections.transaction(
        lambda connection: session.connections.execute_on(connection, [lock, *statements], commit=ROLLBACK),
        session.share,
    )


def reason_of(error: RefusedRowError) -> str:
    """Return the text of the column `error` for a trigger whose row was refused."""
    return storable_text(f"the database cannot process its row: {error}")


def set_aside_waiting(
    session: SqlSession,
    at_node: dict[str, object],
    slot_pools: Sequence[str],
    look_ahead: timedelta,
    passed_over: Collection[int],
    statements: Callable[[Collection[int]], Sequence[BoundStatement]],
) -> bool:
    """Put the waiting triggers into ERROR that make an acquire step fail. Return whether there were any.

    `statements` returns the statements of the step for the generations that are passed over.
    """
    suspects = session.read_one(
        _SQL.suspects,
        **at_node,
        slot_pools=list(slot_pools),
        look_ahead=look_ahead,
        passed_over=list(passed_over),
        most=MAX_SUSPECTS,
    )
    named = {generation: (group, name) for generation, group, name in suspects}

    def attempt(part: Sequence[int]) -> None:
        rehearse(session, statements([*passed_over, *named.keys() - part]))

    blamed = to_blame(list(named), attempt)
    if not blamed:
        return False
    [done] = session.locked(
        session.bind(
            _SQL.set_aside,
            **at_node,
            groups=[named[generation][0] for generation in blamed],
            names=[named[generation][1] for generation in blamed],
            generations=list(blamed),
            reasons=[reason_of(error) for error in blamed.values()],
        )
    )
    for generation, error in blamed.items():
        _tell(*named[generation], reason_of(error))
    return bool(done.rows)


def set_aside_parked(session: SqlSession, at_node: dict[str, object]) -> bool:
    """Put the parked triggers into ERROR whose rates cannot be computed. Return whether there were any."""
    rates = [rate for (rate,) in session.read_one(_SQL.rates_of_parked, most=MAX_SUSPECTS)]

    def attempt(part: Sequence[str]) -> None:
        session.read_one(_SQL.compute_rates, rates=list(part))

    blamed = {rate: error for rate in rates if (error := _error_of(attempt, [rate])) is not None}
    if not blamed:
        return False
    reasons = [reason_of(error) for error in blamed.values()]
    [done] = session.locked(session.bind(_SQL.set_aside_parked, **at_node, rates=list(blamed), reasons=reasons))
    for group, name, reason in done.rows:
        _tell(group, name, reason)
    return bool(done.rows)


def _tell(group: str, name: str, reason: str) -> None:
    logger.error("trigger %s.%s goes to ERROR: %s", group, name, reason)
