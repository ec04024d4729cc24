"""Rate limits in the acquire step, in its transaction and round trip. A scheduler without such jobs sends none of this.

`ACQUIRE` takes no trigger of a job with a rate limit, unless the limit was asked (`Admission`). `ADMIT` runs before it,
and makes those that the limit admits ADMITTED. `ACQUIRE` takes them like any others. `SPEND` runs after it, charges the
limit for those that were fired or claimed, and takes the admission back from the rest. So a trigger is ADMITTED only
within one transaction, and a claim is charged even if it is released and never fires. The exception is the trigger that
repeats a fire which a node handed back before its job began: that fire was charged, so its trigger is stored as CHARGED
and stays it. A recovery is charged anew, because nobody knows whether its job had begun.

`ADMIT` passes the admitted triggers to `SPEND` in a setting of the transaction. A trigger that is held back gets the
instant at which its turn will come (`rate_limited_until`), and no step looks at it before: however many wait, a step
reads only those whose turn it is. That instant orders the queue; only the TAT decides whether a trigger fires. A bucket
is a job and a value of its concurrency key. `quartzpy.jobs.rate_limit` describes the algorithm.

All changes of `rate_limits` are made under TRIGGER_ACCESS, and never in a transaction of a user, which would make the
cluster wait for it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("steps/rate_limits.sql")
ADMIT = _SQL("admit")
SPEND = _SQL("spend")
PRUNE = _SQL("prune")
NEXT_TURN = _SQL("next_turn")


LOOKS_AT, LOOKS_AT_BESIDE = 500, 50
"""The number of due triggers of each slot pool that a step asks the limits about.

To hold one back takes a write, as a fire does. So beside a backlog of other jobs it is a small one while the limits
admit few, or what the limits hold back would take the time of what may fire.
"""


def note_admissions(session: SqlSession, admitted: Result, turn: Result) -> tuple[datetime | None, bool]:
    """Keep what the next step may expect of the limits; return the answer of `NEXT_TURN`.

    That is the next turn, and whether this node has yet to say whether it runs the trigger.
    """
    _, session.rate_limits_are_short = admitted.rows[0]
    next_turn, meets_undecided, session.rates_have_limits = turn.rows[0]
    return next_turn, bool(meets_undecided)


def around(session: SqlSession, acquire: BoundStatement, *, refuses_many: bool = False) -> list[BoundStatement]:
    """Return the acquire statement between those that apply the rate limits; the last one is `NEXT_TURN`.

    `refuses_many`: the dispatch keys that the node has refused are too many to be named.
    """
    of_turn = ("epoch", "slot_pools", "refused", "passed_over")
    names = (*of_turn, "instance", "threshold", "limit", "workers", "group_slots")
    values: dict[str, Any] = {name: acquire.values[name] for name in names}
    is_beside_backlog = session.has_backlog and session.rate_limits_are_short is not False
    return [
        session.bind(
            _SQL("admit", refuses_many=True) if refuses_many else ADMIT,
            **values,
            looks_at=LOOKS_AT_BESIDE if is_beside_backlog else LOOKS_AT,
        ),
        acquire,
        session.bind(SPEND),
        session.bind(PRUNE),
        session.bind(
            _SQL("next_turn", refuses_many=True) if refuses_many else NEXT_TURN,
            **{name: values[name] for name in of_turn},
        ),
    ]
