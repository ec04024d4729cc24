"""The limits that jobs share, as they are stored and shown. The acquire step decides by them."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit, checked_limit_name
from quartzpy.keys import JobKey
from quartzpy.store import refusals
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import MAX_WAITING, LimitRecord

_SQL = SqlFile("steps/limits.sql")
LIMITS = _SQL("limits")


def limits(session: SqlSession) -> dict[str, LimitRecord]:
    """Return the limits that jobs share; see `QueryStore.limits`."""
    records = {}
    rows = session.read_one(LIMITS, most=MAX_WAITING)
    for name, most, rate, tat, now, waiting, groups, jobs, numbers, since in rows:
        limit = Limit(most, RateLimit.from_text(rate) if rate else None)
        used_by = {JobKey(job, group): number for group, job, number in zip(groups, jobs, numbers, strict=True)}
        records[name] = LimitRecord.of(name, limit, used_by, waiting, tat=tat, used_since=since, now=now)
    return records


def put_limit(session: SqlSession, name: str, limit: Limit) -> None:
    """Store a limit; see `SchedulingStore.put_limit`."""
    rate = limit.rate_limit.as_text() if limit.rate_limit else None
    put = session.bind(
        _SQL.put_limit, name=checked_limit_name(name), max_concurrent=limit.max_concurrent, rate_limit=rate
    )
    session.locked(put, news(session))


def delete_limit(session: SqlSession, name: str) -> bool:
    """Remove a limit; see `SchedulingStore.delete_limit`."""
    removed, *_ = session.locked(session.bind(_SQL.delete_limit, name=name))
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
    look = session.bind(_SQL.missing, limit_names=sorted(names))
    [looked_up] = session.read(look) if transaction is None else transaction.execute(look)
    missing, stored = looked_up.rows[0]
    for job in jobs:
        for name in job.limits:
            if name in missing:
                raise refusals.limit_of_job_not_stored(job.key, name, stored)
