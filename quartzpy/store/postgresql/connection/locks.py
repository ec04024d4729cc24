"""The lock rows of the table `locks`, and their order: STATE_ACCESS before TRIGGER_ACCESS.

SYNC_ACCESS serializes the synchronization of declared jobs: no step of a node takes it.

A lock is taken by a separate statement before those that read. A statement that itself waited for the lock would read
from a snapshot that is older than its wait.
"""

from __future__ import annotations

from enum import StrEnum

from quartzpy.store.postgresql.schema.sql_files import SqlFile


class LockName(StrEnum):
    """The names of the locks."""

    STATE_ACCESS = "STATE_ACCESS"
    TRIGGER_ACCESS = "TRIGGER_ACCESS"
    SYNC_ACCESS = "SYNC_ACCESS"


MISSING = "quartzpy: the row of a lock is missing"
"""The text with which `LOCK` fails if it finds no row."""

_SQL = SqlFile("connection/locks.sql")
LOCK = _SQL("lock")
NO_LOCK = _SQL("no_lock")
MAKE = _SQL("make")
MADE = _SQL("made")
