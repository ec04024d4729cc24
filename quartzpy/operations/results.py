"""The answers to actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_KEYS = 100
"""The maximum number of keys, and of failures, that a result names."""


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """One of several subjects to which an action was not applied, and the reason."""

    key: str
    error: str


@dataclass(frozen=True, slots=True)
class ActionProgress:
    """How far an action on many subjects is."""

    action_id: int
    """Identifies its entry in the audit log."""
    changed: int
    """The number of subjects that are changed."""
    failed: int
    """The number of those that could not be changed."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action.

    `keys` are the subjects that it changed, at most the first 100 of them; `count` is their number. `text` is a
    sentence for people. `action_id` identifies the row of the audit log.
    """

    action: str
    keys: tuple[Any, ...]
    count: int
    text: str
    action_id: int
    failed: int = 0
    """The number of subjects, of several, to which the action could not be applied. A single one raises its error."""
    failures: tuple[ActionFailure, ...] = field(default=())
    """The first of them, with their reasons."""

    def __str__(self) -> str:
        return self.text
