"""The action that brings the store into line with a file of declarations."""

from __future__ import annotations

import json
from typing import Any

from quartzpy.calendars.registry import calendar_to_json
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.base import BaseActions, values_of
from quartzpy.operations.actions.log import Change, Recorded
from quartzpy.operations.actor import Role
from quartzpy.operations.changed_values import changed_values
from quartzpy.scheduler import sync
from quartzpy.scheduler.sync import Declarations, Existing, SyncPlan
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.texts import quoted

_LONGEST_VALUE = 1_000
"""The length, in characters of JSON, above which the audit log has only the beginning of a value."""


class DeclaringActions(BaseActions):
    """Declared jobs, triggers and calendars."""

    def apply(
        self,
        declared: Declarations,
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        reason: str = "",
    ) -> SyncPlan:
        """Make the store match the declarations, all or nothing, as `Scheduler.sync` does; return what was changed.

        Each change is one row of the audit log, in the same transaction. A plan without changes leaves no row.

        Raises:
            As `Scheduler.sync`; the action is recorded as failed then.
        """

        def work(transaction: OwnTransactionMethods) -> Recorded[SyncPlan]:
            rows: list[tuple[str, Change]] = []

            def note(plan: SyncPlan) -> None:
                # What is removed can only be read before it is removed.
                rows.extend((f"{one.kind} {one.key}", self._recorded(transaction, one, owner)) for one in plan.changes)

            done = transaction.sync(
                declared.jobs,
                calendars=declared.calendars,
                owner=owner,
                prune=prune,
                existing=existing,
                version=version,
                announce=note,
            )
            return Recorded(done, rows)

        return self._log.several("apply", Role.ADMIN, f"owner {owner}", reason, work)

    def _recorded(self, transaction: OwnTransactionMethods, change: sync.Change, owner: str) -> Change:
        if change.sign == "-":
            return Change(str(change), before=_before_removal(transaction, change.key))
        values = changed_values(change, self._redaction)
        before = {one.name: _bounded(one.stored) for one in values if change.sign == "~"}
        after = {one.name: _bounded(one.declared) for one in values} or {"owner": owner}
        return Change(str(change), before or None, after)


def _before_removal(transaction: OwnTransactionMethods, key: sync.Subject) -> dict[str, Any]:
    if isinstance(key, JobKey | TriggerKey):
        return values_of(transaction, key)
    calendar = transaction._readable_calendar(key)
    return {} if calendar is None else {name: _bounded(one) for name, one in calendar_to_json(calendar).items()}


def _bounded(value: Any) -> Any:
    text = json.dumps(value, default=str)
    return json.loads(text) if len(text) <= _LONGEST_VALUE else quoted(value)
