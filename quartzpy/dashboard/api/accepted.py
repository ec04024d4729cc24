"""The response to an action on many subjects that goes on after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AcceptedAction:
    """An action that is going on. The header `Location` has the address of its entry in the audit log."""

    action_id: int
    changed: int
    """The number of subjects that are changed so far."""
    failed: int
    """The number of those that could not be changed."""
    total: int
    """The number of subjects when the action began."""
