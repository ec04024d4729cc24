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


LOCK = """
SELECT lock_name FROM $locks WHERE sched_name = %(sched)s AND lock_name = %(lock)s FOR UPDATE
"""

MAKE = """
INSERT INTO $locks (sched_name, lock_name)
SELECT %(sched)s, name FROM unnest(%(names)s::text[]) AS name
    ON CONFLICT DO NOTHING
"""

MADE = "SELECT count(*)::int FROM $locks WHERE sched_name = %(sched)s"
