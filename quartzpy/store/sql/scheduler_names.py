"""The names of all schedulers that share a database."""

from __future__ import annotations

from quartzpy.store.sql.db.session import SqlSession

# A loose index scan: it steps from one name to the next, so its cost does not depend on the number of rows.
_STEPS = """
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM {table} ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM {table} t WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
"""
# The table of locks is left out, because even a query with a mistyped scheduler name inserts rows there.
_TABLES = ("$job_details", "$executions", "$calendars", "$scheduler_state")
NAMES = f"{' UNION '.join(_STEPS.format(table=table) for table in _TABLES)} ORDER BY 1"


def scheduler_names(session: SqlSession) -> list[str]:
    """Return the names of the schedulers that have a job, a calendar, a node or a history, sorted."""
    return [name for (name,) in session.read_one(NAMES)]
