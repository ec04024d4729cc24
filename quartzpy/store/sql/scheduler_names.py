"""The names of all schedulers that share a database."""

from __future__ import annotations

from quartzpy.store.sql.session import SqlSession

# From one name to the next along an index: as quick with a million rows as with ten.
_STEPS = """
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM {table} ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM {table} t WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
"""
# Rows of locks say nothing: whoever looks for a scheduler by a wrong name makes them.
_TABLES = ("$job_details", "$executions", "$calendars", "$scheduler_state")
NAMES = f"{' UNION '.join(_STEPS.format(table=table) for table in _TABLES)} ORDER BY 1"


def scheduler_names(session: SqlSession) -> list[str]:
    """Return the names of the schedulers that have a job, a calendar, a node or a history, in order."""
    return [name for (name,) in session.read_one(NAMES)]
