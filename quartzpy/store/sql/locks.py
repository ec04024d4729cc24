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


MISSING = "lock rows found: "

# An error where the row is missing, so that nothing behind it in the flight is committed without the lock.
LOCK = f"""
SELECT CASE count(*) WHEN 1 THEN 1 ELSE ('{MISSING}' || count(*))::int END
  FROM (SELECT FROM $locks WHERE sched_name = %(sched)s AND lock_name = %(lock)s FOR UPDATE) AS held
"""

MAKE = """
INSERT INTO $locks (sched_name, lock_name)
SELECT %(sched)s, name FROM unnest(%(names)s::text[]) AS name
    ON CONFLICT DO NOTHING
"""
