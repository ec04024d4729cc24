"""Limits that jobs share, in the acquire step, in its transaction and round trip; and the limits themselves.

Triggers of jobs that share limits are in the part RATE_LIMIT of the due index, as those with a rate limit of their own:
`ACQUIRE` takes none of them unless it was admitted. `ADMIT` runs before it, and makes those ADMITTED of whose limits
each has a slot. `ACQUIRE` takes them like any others. `CHARGE` runs after it: it records which executions
use slots of which limits, moves the limits of fires on, and takes the admission back from the triggers that were not
taken. So a trigger is ADMITTED only within one transaction.

A slot is in use as long as the row of its execution is there (`limit_uses`), so that whatever ends an
execution frees its slots, and nothing can leave one behind. All is decided under TRIGGER_ACCESS, for all limits of a
trigger at once: there is no order in which limits are taken, and so no deadlock.

A scheduler without such jobs sends none of this: `NEXT_DUE` says whether there is a job that asks a limit, and
`NEXT_TURN` of the rate limits, which kinds of limits there are.
"""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit, checked_limit_name, names_from_text
from quartzpy.keys import JobKey
from quartzpy.store import refusals
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, fire_ids_of
from quartzpy.store.protocol import Completion
from quartzpy.store.records import MOST_WAITING, LimitRecord

_SQL = SqlFile("steps/shared_limits.sql")
ADMIT = _SQL("admit")
CHARGE = _SQL("charge")
NEXT_TURN = _SQL("next_turn")
FREED = _SQL("freed")
GIVE_BACK = _SQL("give_back")
LIMITS = _SQL("limits")
PUT_LIMIT = _SQL("put_limit")
DELETE_LIMIT = _SQL("delete_limit")
MISSING = _SQL("missing")


def give_back(ends: Completed) -> Flight:
    """Return what takes fires whose jobs did not begin off the rates of limits that they share."""
    handed_back = [c for c in ends.completions if c.is_handed_back]
    names = _names(handed_back)
    if not names:
        return {}
    values = {"fire_ids": fire_ids_of(handed_back), "limit_names": names}
    return {"give_back": ends.session.bind(GIVE_BACK, **values)}


def freed(ends: Completed) -> Flight:
    """Return what reads what waits for the limits of executions that have ended, if they share any."""
    names = _names(ends.completions)
    if not names:
        return {}
    values = {"limit_names": names, "epoch": ends.node.epoch, "wakes_others": ends.wakes_others}
    return {"freed_limits": ends.session.bind(FREED, **values, channel=ends.session.channel)}


def _names(completions: Collection[Completion]) -> list[str]:
    return sorted({name for completion in completions for name in names_from_text(completion.fired.limits)})


def limits(session: SqlSession) -> dict[str, LimitRecord]:
    """Return the limits that jobs share; see `QueryStore.limits`."""
    records = {}
    for name, most, rate, tat, now, waiting, groups, jobs, numbers in session.read_one(LIMITS, most=MOST_WAITING):
        limit = Limit(most, RateLimit.from_text(rate) if rate else None)
        used_by = {JobKey(job, group): number for group, job, number in zip(groups, jobs, numbers, strict=True)}
        records[name] = LimitRecord.of(name, limit, used_by, waiting, tat=tat, now=now)
    return records


def put_limit(session: SqlSession, name: str, limit: Limit) -> None:
    """Store a limit; see `SchedulingStore.put_limit`."""
    rate = limit.rate_limit.as_text() if limit.rate_limit else None
    put = session.bind(PUT_LIMIT, name=checked_limit_name(name), max_concurrent=limit.max_concurrent, rate_limit=rate)
    session.locked(put, news(session))


def delete_limit(session: SqlSession, name: str) -> bool:
    """Remove a limit; see `SchedulingStore.delete_limit`."""
    removed, *_ = session.locked(session.bind(DELETE_LIMIT, name=name))
    was_stored, groups, names = removed.rows[0]
    if names:
        raise refusals.limit_in_use(name, [JobKey(job, group) for group, job in zip(groups, names, strict=True)])
    return bool(was_stored)


def require_limits(session: SqlSession, jobs: Collection[JobDetail], transaction: Transaction | None = None) -> None:
    """Check that the limits which these jobs share are stored, in a transaction where one is given.

    Raises:
        LimitNotFoundError: one of them is not.
    """
    names = {name for job in jobs for name in job.limits}
    if not names:
        return
    look = session.bind(MISSING, limit_names=sorted(names))
    [looked_up] = session.read(look) if transaction is None else transaction.execute(look)
    missing, stored = looked_up.rows[0]
    for job in jobs:
        for name in job.limits:
            if name in missing:
                raise refusals.limit_of_job_not_stored(job.key, name, stored)
