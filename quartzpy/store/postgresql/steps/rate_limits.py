"""Rate limits in the acquire step, in its transaction and round trip. A scheduler without such jobs sends none of this.

`ACQUIRE` takes no trigger of a job with a rate limit, unless the limit was asked (`Admission`). `ADMIT` runs before it,
and makes those that the limit admits ADMITTED. `ACQUIRE` takes them like any others. `SPEND` runs after it, charges the
limit for those that were fired, and takes the admission back from the rest. So a trigger is ADMITTED only
within one transaction. The exception is the trigger that
repeats a fire which a node handed back before its job began: that fire was charged, so its trigger is stored as CHARGED
and stays it. A recovery is charged anew, because nobody knows whether its job had begun.

`ADMIT` passes the admitted triggers to `SPEND` in a setting of the transaction. A trigger that is held back gets the
instant at which its turn will come (`rate_limited_until`), and no step looks at it before: however many wait, a step
reads only those whose turn it is. To hold one back takes a write, as a fire does. So a step asks the limits about 100
triggers of each slot pool: what they hold back takes less than half of the time from what may fire, and that only in
the first pass over a backlog. The instant orders the queue; only the TAT decides whether a trigger fires. A bucket is a
job and a value of its concurrency key. `quartzpy.jobs.rate_limit` describes the algorithm.

All changes of `rate_limits` are made under TRIGGER_ACCESS, and never in a transaction of a user, which would make the
cluster wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import shared_limits
from quartzpy.store.protocol import DispatchKey

_SQL = SqlFile("steps/rate_limits.sql")
ADMIT = _SQL("admit")
SPEND = _SQL("spend")
PRUNE = _SQL("prune")
NEXT_TURN = _SQL("next_turn")


@dataclass(frozen=True)
class ClaimWithinLimits:
    """An acquire statement between those that apply the limits of jobs, and what their answers say."""

    statements: list[BoundStatement]
    of_acquire: int
    """The position of the acquire statement."""
    turns: Sequence[int]
    """Those of the statements that read the next turns."""

    def note(
        self, session: SqlSession, results: Sequence[Result], now: datetime
    ) -> tuple[datetime | None, set[DispatchKey]]:
        """Keep what the next step may expect of the limits; return the next turn.

        Also return the dispatch keys of triggers that wait for their turns about which this node has said nothing.
        """
        turns = [results[position].rows[0] for position in self.turns]
        before = session.has_own_rates, session.has_shared_limits
        session.rates_have_limits, session.has_own_rates, session.has_shared_limits = turns[-1][3]
        kinds = session.has_own_rates, session.has_shared_limits
        # The first job of a kind was stored since the last step, and its limits were not asked.
        is_incomplete = any(has and not had for has, had in zip(kinds, before, strict=True))
        next_turn = now if is_incomplete else min((at for at, *_ in turns if at is not None), default=None)
        undecided = {
            DispatchKey(*key) for _, types, placements, *_ in turns for key in zip(types, placements, strict=True)
        }
        return next_turn, undecided


def around(session: SqlSession, acquire: BoundStatement) -> ClaimWithinLimits:
    """Return the acquire statement between those that apply the limits which jobs have."""
    of_turn = ("epoch", "instance", "slot_pools", "passed_over")
    names = (*of_turn, "threshold", "limit", "workers", "group_slots")
    values: dict[str, Any] = {name: acquire.values[name] for name in names}
    turn_values = {name: values[name] for name in of_turn}

    before: list[BoundStatement] = []
    after: list[BoundStatement] = []
    turns: list[BoundStatement] = []
    if session.has_own_rates:
        before.append(session.bind(ADMIT, **values))
        after += [session.bind(SPEND), session.bind(PRUNE)]
    if session.has_shared_limits:
        before.append(session.bind(shared_limits.ADMIT, **values))
        after.append(session.bind(shared_limits.CHARGE))
        turns.append(session.bind(shared_limits.NEXT_TURN, **turn_values, threshold=values["threshold"]))
    turns.append(session.bind(NEXT_TURN, **turn_values))
    statements = [*before, acquire, *after, *turns]
    first_turn = len(statements) - len(turns)
    return ClaimWithinLimits(statements, len(before), range(first_turn, len(statements)))
