"""Passes the slots of jobs with a limit on to triggers that wait for one.

A fire that fills a limit changes no other trigger. A step that meets a trigger of a full job at the front of the due
index makes it BLOCKED, once, and the end of an execution makes as many of these WAITING as slots become free. Such a
trigger has the slot while it waits for the next acquire step. If it does not take the slot, another one gets it here.
"""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("steps/slots.sql")
PASS_ON = _SQL("pass_on")
PASS_ON_OF_JOBS = _SQL("pass_on", of_jobs=True)


def pass_on(session: SqlSession) -> BoundStatement:
    """Return the statement that releases triggers of all jobs that have a free slot."""
    return session.bind(PASS_ON, channel=session.channel, misfire_threshold=session.misfire_threshold)


def pass_on_of(session: SqlSession, jobs: Collection[tuple[str, str]]) -> list[BoundStatement]:
    """Return the statement that does so for these jobs, given by group and name.

    A user's transaction does not send it: until its end, it would hold triggers that it is not about. The next check-in
    of a node passes on what it takes away.
    """
    if not jobs or not session.decides_at_once:
        return []
    groups, names = zip(*sorted(jobs), strict=True)
    return [
        session.bind(
            PASS_ON_OF_JOBS,
            job_groups=list(groups),
            job_names=list(names),
            channel=session.channel,
            misfire_threshold=session.misfire_threshold,
        )
    ]
