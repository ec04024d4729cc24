"""Records which jobs, triggers and calendars belong to an owner, who declares all of them at once (`sync`)."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.records import Owned
from quartzpy.store.sql.columns import key_columns
from quartzpy.store.sql.db.session import SqlSession

OWNED_JOBS = """
SELECT job_group, job_name FROM $job_details WHERE sched_name = %(sched)s AND owner = %(owner)s
"""

OWNED_TRIGGERS = """
SELECT trigger_group, trigger_name FROM $triggers WHERE sched_name = %(sched)s AND owner = %(owner)s
"""

OWNED_CALENDARS = "SELECT calendar_name FROM $calendars WHERE sched_name = %(sched)s AND owner = %(owner)s"

VERSION_OF_OWNER = "SELECT version FROM $owners WHERE sched_name = %(sched)s AND owner = %(owner)s"

KEEP_VERSION = """
INSERT INTO $owners (sched_name, owner, version) VALUES (%(sched)s, %(owner)s, %(version)s)
    ON CONFLICT (sched_name, owner) DO UPDATE SET version = excluded.version
"""

OWN_JOBS = """
UPDATE $job_details j SET owner = %(owner)s
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
"""

OWN_TRIGGERS = """
UPDATE $triggers t SET owner = %(owner)s
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
"""

OWN_CALENDARS = """
UPDATE $calendars SET owner = %(owner)s
 WHERE sched_name = %(sched)s AND calendar_name = ANY(%(names)s::text[])
"""


def owned(session: SqlSession, owner: str) -> Owned:
    """Return the jobs, triggers and calendars of an owner; see `JobStore.owned`."""
    texts = OWNED_JOBS, OWNED_TRIGGERS, OWNED_CALENDARS, VERSION_OF_OWNER
    jobs, triggers, calendars, version = session.read(*(session.send(text, owner=owner) for text in texts))
    found = version.first()
    return Owned(
        frozenset(JobKey(row[1], row[0]) for row in jobs.rows),
        frozenset(TriggerKey(row[1], row[0]) for row in triggers.rows),
        frozenset(name for (name,) in calendars.rows),
        None if found is None else found[0],
    )


def own(
    session: SqlSession,
    owner: str,
    jobs: Collection[JobKey],
    triggers: Collection[TriggerKey],
    calendars: Collection[str],
    version: str | None,
) -> None:
    """Record the owner; see `JobStore.own`."""
    keys = (OWN_JOBS, jobs), (OWN_TRIGGERS, triggers)
    sends = [session.send(text, owner=owner, **key_columns(some)) for text, some in keys]
    if calendars:
        sends.append(session.send(OWN_CALENDARS, owner=owner, names=list(calendars)))
    if version is not None:
        sends.append(session.send(KEEP_VERSION, owner=owner, version=version))
    session.unlocked(*sends)
