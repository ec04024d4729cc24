"""The people and programs that operate a scheduler, and what their roles allow."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The roles of operators. Each role may do what the role before it may do."""

    VIEWER = "viewer"
    """Reads everything."""
    OPERATOR = "operator"
    """Also triggers, pauses, resumes, skips, cancels, runs again and resets, and changes the modes of nodes."""
    ADMIN = "admin"
    """Also changes schedules, runs past fires, and enables, disables and deletes."""

    def includes(self, other: Role) -> bool:
        """Return True if this role may do everything that `other` may do."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Actor:
    """An operator. Actions record the name in the audit log."""

    name: str
    role: Role = Role.VIEWER


def local_user() -> Actor:
    """Return the user of this process as an administrator, because that user has the database's password."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container may run under a user id that has no name.
        name = "unknown"
    return Actor(name, Role.ADMIN)
