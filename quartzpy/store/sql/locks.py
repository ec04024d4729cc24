"""The rows of `locks`, and the order in which they are taken: STATE_ACCESS before TRIGGER_ACCESS.

SYNC_ACCESS is for those who synchronize declared jobs, among themselves: no step of a node takes it.

A lock is a statement of its own, before the statements that look: a statement that waited for the lock itself
would choose from a snapshot older than its wait.
"""

from __future__ import annotations

from enum import StrEnum


class LockName(StrEnum):
    """What is locked."""

    STATE_ACCESS = "STATE_ACCESS"
    TRIGGER_ACCESS = "TRIGGER_ACCESS"
    SYNC_ACCESS = "SYNC_ACCESS"


MISSING = "quartzpy: the row of a lock is missing"

# An error where there is no row, so that nothing that follows is done without the lock. It is not folded into a
# constant, because it counts.
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
