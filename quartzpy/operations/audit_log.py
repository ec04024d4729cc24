"""The audit log: what operators did, when, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from quartzpy.errors import ObjectNotFoundError, QuartzpyError
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.source import EXAMINED, attempt, examined_page, page_of
from quartzpy.scheduler.paging import Page
from quartzpy.scheduler.reading import Reading
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.steps.purge import ACTION_SILENCE
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ActionQuery, Position
from quartzpy.store.records import ActionRecord, RecordedAction

MOST_RUNNING = 100
"""The largest number of running actions that are looked through for those whose processes have ended."""


@dataclass(frozen=True, slots=True)
class AuditEntry(RecordedAction):
    """An action of an operator."""

    before: Any
    """The values before the action, without secrets; None if there are none."""
    after: Any
    error: str | None
    undone_by: str | None
    """The name of the action that undoes it; None if it was not done, or nothing undoes it."""


def entry(record: ActionRecord) -> AuditEntry:
    before, bad_before = attempt(lambda: record.before)
    after, bad_after = attempt(lambda: record.after)
    shared = {one.name: getattr(record, one.name) for one in fields(RecordedAction)}
    action = ACTIONS.get(record.action)
    was_done = record.count or record.state is ActionState.SUCCEEDED
    return AuditEntry(
        **shared,
        before=bad_before or before,
        after=bad_after or after,
        error=record.error,
        undone_by=action.undone_by if action is not None and was_done else None,
    )


def page(reading: Reading, query: ActionQuery, limit: int, after: str | None) -> Page[AuditEntry]:
    """Return a page of the audit log; see `Operations.audit_log`."""
    query = replace(query, among=EXAMINED)
    running = None
    if query.state is ActionState.INTERRUPTED:
        running = reading.ask(lambda store: admin(store).find(ActionQuery(state=ActionState.RUNNING), MOST_RUNNING))

    def is_outdated(found: Page[ActionRecord]) -> bool:
        return _end_interrupted(reading, found if running is None else running())

    return page_of(examined_page(reading, "audit log", query, _actions, limit, after, is_outdated), entry)


def _actions(store: JobStore, query: ActionQuery, limit: int | None, after: Position | None) -> list[ActionRecord]:
    return admin(store).find(query, limit, after)


def one(reading: Reading, action_id: int) -> AuditEntry:
    """Return one entry of the audit log; see `Operations.audit_entry`."""
    found = _find(reading, action_id)
    if _end_interrupted(reading, [found]):
        found = _find(reading, action_id)
    return entry(found)


def _find(reading: Reading, action_id: int) -> ActionRecord:
    # The latest before the next id.
    found = next(iter(reading.ask(lambda store: admin(store).find(ActionQuery(), 1, (action_id + 1,)))()), None)
    if found is None or found.action_id != action_id:
        raise ObjectNotFoundError(f"action {action_id} is not in the audit log, or no longer")
    return found


def _end_interrupted(reading: Reading, records: Iterable[ActionRecord]) -> bool:
    """Mark actions as INTERRUPTED whose processes have ended, if these are among them; return True if there were any.

    Nodes do this every minute; there may be none.
    """
    if not any(_is_silent(record, reading.now()) for record in records):
        return False
    try:
        return admin(reading.store()).interrupt_actions(ACTION_SILENCE) > 0
    except QuartzpyError:
        # The database's user may be one that only reads.
        return False


def _is_silent(record: ActionRecord, now: datetime) -> bool:
    at = record.updated_at
    return record.state is ActionState.RUNNING and at is not None and at < now - ACTION_SILENCE
