"""What all actions of operators have in common: permission, selection, one change or many, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from quartzpy.operations.actions.action import Actor
from quartzpy.operations.actions.log import (
    ActionFailure,
    ActionLog,
    ActionProgress,
    ActionResult,
    SliceChange,
    SubjectChange,
)
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, as_selected, named
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.secret_texts import Redaction

ChangeOfOne = Callable[[OwnTransactionMethods, Any], SubjectChange]
ChangeOfMany = Callable[[OwnTransactionMethods, Sequence[Any]], SliceChange]
ReadValues = Callable[[OwnTransactionMethods, Any], dict[str, Any]]


class ActionMethods:
    """The scheduler and the actor of the actions, and how these change what they are about."""

    def __init__(
        self,
        scheduler: BaseScheduler,
        actor: Actor,
        *,
        read_only: bool = False,
        redaction: Redaction | None = None,
    ) -> None:
        self._log = ActionLog(scheduler, actor, read_only=read_only)
        self._redaction = redaction or Redaction()

    def reporting(self, report: Callable[[ActionProgress], None]) -> Self:
        """Return the same actions, which call `report` before each slice of an action on many subjects.

        If `report` raises an error, the action ends: it is recorded as failed, with the number of its changes so far.
        """
        actions = copy(self)
        actions._log = self._log.reporting(report)
        return actions

    def permits(self, action: str) -> bool:
        """Return True if the actor may do this action, by its name."""
        return self._log.permits(ACTIONS[action].role)

    def check_permitted(self, action: str) -> None:
        """Check that the actor may do this action, by its name, before it is tried. An attempt checks it as well.

        Raises:
            ForbiddenError: the actor may not; the message says who may.
        """
        self._log.check(action, ACTIONS[action].role)

    def count(self, selection: Selected) -> int:
        """Return the number of subjects that a selection has now: of a group, its jobs or triggers.

        Raises:
            InvalidValueError: the selection is wrong.
        """
        selected = as_selected(selection, *Subject)
        if isinstance(selected, Keys):
            return len(selected.keys)
        return selected.query(self._log.scheduler).count()

    def _selected(self, action: str, selection: Selected) -> Keys | Selection:
        return as_selected(selection, *ACTIONS[action].subjects)

    def _change_one(
        self, action: str, subject: str, reason: str, change: Callable[[OwnTransactionMethods], SubjectChange]
    ) -> ActionResult:
        return self._log.change_one(action, ACTIONS[action].role, subject, reason, change)

    def _change_each(
        self,
        action: str,
        selected: Keys | Selection,
        reason: str,
        change: ChangeOfOne,
        *,
        values: ReadValues | None = None,
        change_many: ChangeOfMany | None = None,
    ) -> ActionResult:
        """Change one subject, or many: by `change_many` slice by slice, or without it by `change` one by one.

        `values` returns the values of one subject, which are recorded before and after the change. Of many, they are
        not read.
        """
        if not isinstance(selected, Keys) or len(selected.keys) > 1:
            role, past = ACTIONS[action].role, ACTIONS[action].past_tense
            return self._log.change_many(action, role, selected, reason, change_many or _one_by_one(change), past)
        [key] = selected.keys

        def change_key(transaction: OwnTransactionMethods) -> SubjectChange:
            before = None if values is None else values(transaction, key)
            done = change(transaction, key)
            after = done.after if values is None else {**values(transaction, key), **(done.after or {})}
            text = done.text or f"{ACTIONS[action].past_tense} {named(selected.kind, key)}."
            keys = (key,) if done.keys is None else done.keys
            return replace(done, text=text, before=before, after=after or None, keys=keys)

        return self._change_one(action, named(selected.kind, key), reason, change_key)


def _one_by_one(change: ChangeOfOne) -> ChangeOfMany:
    def change_each(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
        done = SliceChange()
        for key in keys:
            done.attempt(key, partial(change, transaction, key))
        return done

    return change_each


def by_presence(kind: Subject, keys: Sequence[Any], changed: Container[Any]) -> SliceChange:
    """Tell apart the subjects that were changed and those that are not stored."""
    missing = [ActionFailure(str(key), f"{named(kind, key)} is not stored") for key in keys if key not in changed]
    return SliceChange([key for key in keys if key in changed], missing)
