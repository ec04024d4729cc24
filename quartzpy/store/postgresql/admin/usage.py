"""Numbers of rows, groups and the use of limits. Each number is counted up to a maximum, along an index."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.states import TriggerState
from quartzpy.store.postgresql.admin.records import (
    BlockedTrigger,
    GroupTally,
    OverdueJob,
    PausedOverdue,
    RateUsage,
    SlotUsage,
    Tallies,
)
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import MAX_WAITING

_SQL = SqlFile("admin/usage.sql")
TALLIES = _SQL("tallies")
OVERDUE = _SQL("overdue")
PAUSED_OVERDUE = _SQL("paused_overdue")
RATES = _SQL("rates")
BLOCKED = _SQL("blocked")
JOB_GROUPS = _SQL("job_groups")
UNSCHEDULED = _SQL("unscheduled")
MAX_STOPPED = 10_000
"""The number of triggers that are paused, and of those in ERROR, by which their jobs are found."""


def tallies(session: SqlSession, most: int) -> Tallies:
    [(jobs, claimed, executing, overdue, *of_states)] = session.read_one(TALLIES, most=most)
    numbers = {state: number for state, number in zip(TriggerState, of_states, strict=True) if number}
    return Tallies(jobs, numbers, claimed, executing, overdue)


def overdue(session: SqlSession, late: timedelta, limit: int, *, most: int) -> list[OverdueJob]:
    """Return the jobs of which triggers have been due for `late`, those that wait longest first."""
    return [
        OverdueJob(JobKey(name, group), *values)
        for group, name, *values in session.read_one(OVERDUE, late=late, limit=limit, most=most)
    ]


def paused_overdue(session: SqlSession, limit: int, *, most: int) -> list[PausedOverdue]:
    """Return the triggers that are paused although they are due, by group, job and pause."""
    return [
        PausedOverdue(TriggerKey(name, group), JobKey(job_name, job_group), *values)
        for group, name, job_group, job_name, *values in session.read_one(PAUSED_OVERDUE, limit=limit, most=most)
    ]


def blocked_triggers(session: SqlSession, until: datetime, limit: int) -> list[BlockedTrigger]:
    """Return the triggers that have waited for a slot of their jobs since before `until`, the soonest first."""
    return [
        BlockedTrigger(TriggerKey(name, group), JobKey(job_name, job_group), due_at)
        for job_group, job_name, group, name, due_at in session.read_one(BLOCKED, until=until, limit=limit)
    ]


def slot_usage(session: SqlSession, limit: int) -> list[SlotUsage]:
    return [
        SlotUsage(JobKey(name, group), *values) for group, name, *values in session.read_one(_SQL.slots, limit=limit)
    ]


def rate_usage(session: SqlSession, limit: int) -> list[RateUsage]:
    return [
        RateUsage(JobKey(name, group), of_key, RateLimit.from_text(text), tat, waiting)
        for group, name, of_key, text, tat, waiting in session.read_one(RATES, limit=limit, most=MAX_WAITING)
    ]


def trigger_group_tallies(session: SqlSession, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
    """See `Admin.trigger_group_tallies`."""
    rows = session.read_one(_SQL.trigger_groups, limit=limit, after_group=after or "", most=most)
    return [GroupTally(*row) for row in rows]


def job_group_tallies(session: SqlSession, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
    """See `Admin.job_group_tallies`."""
    rows = session.read_one(JOB_GROUPS, limit=limit, after_group=after or "", most=most, among=MAX_STOPPED)
    return [GroupTally(*row) for row in rows]


def unscheduled_triggers(session: SqlSession, most: int) -> int:
    """Return the number of triggers that the scheduler itself made, up to one more than `most` in each group."""
    [(number,)] = session.read_one(UNSCHEDULED, groups=UNSCHEDULED_GROUPS, most=most)
    return int(number)
