"""The way from one subject or many to the audit log."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.log import ActionLog, Change, SliceChange
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.actor import Actor
from quartzpy.operations.redaction import Redaction
from quartzpy.operations.results import ActionFailure, ActionProgress, ActionResult
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, as_selected, named
from quartzpy.scheduler.own_transaction import OwnTransactionMethods
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord

_MOST_TRIGGERS = 20
"""The maximum number of a job's triggers whose values the audit log keeps."""
_ChangeOfOne = Callable[[OwnTransactionMethods, Any], Change]
_ChangeOfMany = Callable[[OwnTransactionMethods, Sequence[Any]], SliceChange]
_Values = Callable[[OwnTransactionMethods, Any], dict[str, Any]]


class BaseActions:
    """The actor and the audit log of all actions."""

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
        reporting = copy(self)
        reporting._log = self._log.reporting(report)
        return reporting

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

    def _one(
        self, action: str, subject: str, reason: str, change: Callable[[OwnTransactionMethods], Change]
    ) -> ActionResult:
        return self._log.one(action, ACTIONS[action].role, subject, reason, change)

    def _each(
        self,
        action: str,
        selected: Keys | Selection,
        reason: str,
        change: _ChangeOfOne,
        *,
        values: _Values | None = None,
        change_many: _ChangeOfMany | None = None,
    ) -> ActionResult:
        """Change one subject, or many: by `change_many` slice by slice, or without it by `change` one by one.

        `values` returns the values of one subject, which are recorded before and after the change. Of many, they are
        not read.
        """
        if not isinstance(selected, Keys) or len(selected.keys) > 1:
            role, past = ACTIONS[action].role, ACTIONS[action].past
            return self._log.many(action, role, selected, reason, change_many or _one_by_one(change), past)
        [key] = selected.keys

        def change_key(transaction: OwnTransactionMethods) -> Change:
            before = None if values is None else values(transaction, key)
            done = change(transaction, key)
            after = done.after if values is None else {**values(transaction, key), **(done.after or {})}
            text = done.text or f"{ACTIONS[action].past} {named(selected.kind, key)}."
            keys = (key,) if done.keys is None else done.keys
            return replace(done, text=text, before=before, after=after or None, keys=keys)

        return self._one(action, named(selected.kind, key), reason, change_key)


def _one_by_one(change: _ChangeOfOne) -> _ChangeOfMany:
    def change_each(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
        done = SliceChange()
        for key in keys:
            done.attempt(key, partial(change, transaction, key))
        return done

    return change_each


def stored(transaction: OwnTransactionMethods, selected: Keys | Selection, keys: Sequence[Any]) -> SliceChange:
    """Tell apart the subjects that are stored, which can be changed, and those that are not."""
    if isinstance(selected, Selection):
        # The query has just returned them.
        return SliceChange(list(keys))
    if selected.kind is Subject.JOB:
        return sorted_out(
            selected.kind, keys, {key for key in keys if transaction.store.job_headers([key]).get(key) is not None}
        )
    return sorted_out(selected.kind, keys, transaction.store.triggers(keys))


def sorted_out(kind: Subject, keys: Sequence[Any], found: Container[Any]) -> SliceChange:
    missing = [ActionFailure(str(key), f"{named(kind, key)} is not stored") for key in keys if key not in found]
    return SliceChange([key for key in keys if key in found], missing)


def values_of(transaction: OwnTransactionMethods, key: JobKey | TriggerKey) -> dict[str, Any]:
    """Return the values of a job or a trigger that actions change, for the audit log; none if it is not stored."""
    if isinstance(key, JobKey):
        mode = transaction.job_mode(key)
        triggers = transaction.store.find(TriggerQuery(job_key=key), _MOST_TRIGGERS)
        return {} if mode is None else {"mode": mode, "triggers": [_of_trigger(one) for one in triggers]}
    record = transaction.store.triggers([key]).get(key)
    return {} if record is None else _of_trigger(record)


def _of_trigger(record: TriggerRecord) -> dict[str, Any]:
    following = record.next_fire_time
    return {
        "trigger": str(record.key),
        "state": record.state,
        "next_fire_time": None if following is None else following.isoformat(),
    }
