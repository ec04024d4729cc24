"""Numbers of rows, groups and the use of limits. Each number is counted up to a maximum, along an index."""

from __future__ import annotations

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey
from quartzpy.states import TriggerState
from quartzpy.store.postgresql.admin.records import GroupTally, RateUsage, SlotUsage, Tallies
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("admin/usage.sql")
TALLIES = _SQL("tallies")
SLOTS = _SQL("slots")
RATES = _SQL("rates")
TRIGGER_GROUPS = _SQL("trigger_groups")
JOB_GROUPS = _SQL("job_groups")


def tallies(session: SqlSession, most: int) -> Tallies:
    [(jobs, claimed, executing, overdue, *of_states)] = session.read_one(TALLIES, most=most)
    numbers = {state: number for state, number in zip(TriggerState, of_states, strict=True) if number}
    return Tallies(jobs, numbers, claimed, executing, overdue)


def slot_usage(session: SqlSession, limit: int) -> list[SlotUsage]:
    return [SlotUsage(JobKey(name, group), *values) for group, name, *values in session.read_one(SLOTS, limit=limit)]


def rate_usage(session: SqlSession, limit: int) -> list[RateUsage]:
    return [
        RateUsage(JobKey(name, group), of_key, RateLimit.from_text(text), tat, queued_until)
        for group, name, of_key, text, tat, queued_until in session.read_one(RATES, limit=limit)
    ]


def trigger_group_tallies(session: SqlSession, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
    """See `Admin.trigger_group_tallies`."""
    return _group_tallies(session, TRIGGER_GROUPS, limit, after, most)


def job_group_tallies(session: SqlSession, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
    """See `Admin.job_group_tallies`."""
    return _group_tallies(session, JOB_GROUPS, limit, after, most)


def _group_tallies(session: SqlSession, text: str, limit: int, after: str | None, most: int) -> list[GroupTally]:
    return [GroupTally(*row) for row in session.read_one(text, limit=limit, after_group=after or "", most=most)]
