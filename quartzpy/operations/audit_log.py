"""The audit log: what operators did, when, and why."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from quartzpy.errors import ObjectNotFoundError, QuartzpyError
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.source import EXAMINED, attempt, examined_page, page_of
from quartzpy.scheduling.paging import Page
from quartzpy.states import ActionState
from quartzpy.store.protocol import ACTION_SILENCE, JobStore
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord, RecordedAction


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


def page(store: JobStore, query: ActionQuery, limit: int, after: str | None) -> Page[AuditEntry]:
    """Return a page of the audit log; see `Operations.audit_log`."""
    query = replace(query, among=EXAMINED)
    if query.state is ActionState.INTERRUPTED:
        _end_interrupted(store)
    found = examined_page(store, "audit log", query, store.find_actions, limit, after)
    if any(record.state is ActionState.RUNNING for record in found) and _end_interrupted(store):
        found = examined_page(store, "audit log", query, store.find_actions, limit, after)
    return page_of(found, entry)


def one(store: JobStore, action_id: int) -> AuditEntry:
    """Return one entry of the audit log; see `Operations.audit_entry`."""
    found = _find(store, action_id)
    if found.state is ActionState.RUNNING and _end_interrupted(store):
        found = _find(store, action_id)
    return entry(found)


def _find(store: JobStore, action_id: int) -> ActionRecord:
    # The latest before the next id.
    found = next(iter(store.find_actions(ActionQuery(), 1, (action_id + 1,))), None)
    if found is None or found.action_id != action_id:
        raise ObjectNotFoundError(f"action {action_id} is not in the audit log, or no longer")
    return found


def _end_interrupted(store: JobStore) -> bool:
    """Mark the actions as INTERRUPTED whose processes have ended; return True if there were any.

    Nodes do this every minute; there may be none.
    """
    try:
        return store.interrupt_actions(ACTION_SILENCE) > 0
    except QuartzpyError:
        # The database's user may be one that only reads.
        return False
