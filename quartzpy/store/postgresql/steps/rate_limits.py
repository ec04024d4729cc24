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

from typing import Any

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("steps/rate_limits.sql")
ADMIT = _SQL("admit")
SPEND = _SQL("spend")
PRUNE = _SQL("prune")
NEXT_TURN = _SQL("next_turn")


def around(session: SqlSession, acquire: BoundStatement, *, refuses_many: bool = False) -> list[BoundStatement]:
    """Return the acquire statement between those that apply the rate limits; the last one is `NEXT_TURN`.

    `refuses_many`: the dispatch keys that the node has refused are too many to be named.
    """
    of_turn = ("epoch", "slot_pools", "refused", "passed_over")
    names = (*of_turn, "instance", "threshold", "limit", "workers", "group_slots")
    values: dict[str, Any] = {name: acquire.values[name] for name in names}
    return [
        session.bind(_SQL("admit", refuses_many=True) if refuses_many else ADMIT, **values),
        acquire,
        session.bind(SPEND),
        session.bind(PRUNE),
        session.bind(
            _SQL("next_turn", refuses_many=True) if refuses_many else NEXT_TURN,
            **{name: values[name] for name in of_turn},
        ),
    ]
