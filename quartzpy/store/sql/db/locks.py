"""The lock rows of the table `locks`, and their order: STATE_ACCESS before TRIGGER_ACCESS.

SYNC_ACCESS serializes the synchronization of declared jobs: no step of a node takes it.

A lock is taken by a separate statement before those that read. A statement that itself waited for the lock would read
from a snapshot that is older than its wait.
"""

from __future__ import annotations

from enum import StrEnum


class LockName(StrEnum):
    """The names of the locks."""

    STATE_ACCESS = "STATE_ACCESS"
    TRIGGER_ACCESS = "TRIGGER_ACCESS"
    SYNC_ACCESS = "SYNC_ACCESS"


MISSING = "quartzpy: the row of a lock is missing"

# If the row is missing, the statement fails, so that nothing that follows runs without the lock. The planner cannot
# fold the expression into a constant, because it depends on the count.
LOCK = f"""
WITH held AS MATERIALIZED (
    SELECT FROM $locks WHERE sched_name = %(sched)s AND lock_name = %(lock)s FOR UPDATE
)
SELECT CASE count(*) WHEN 1 THEN 1 ELSE repeat('{MISSING}', 1 + count(*)::int)::int END FROM held
"""

MAKE = """
INSERT INTO $locks (sched_name, lock_name)
SELECT %(sched)s, name FROM unnest(%(names)s::text[]) AS name
    ON CONFLICT DO NOTHING
"""

MADE = "SELECT count(*)::int FROM $locks WHERE sched_name = %(sched)s"
