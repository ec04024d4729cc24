"""The audit log: what operators did, when, and why."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from quartzpy.errors import ObjectNotFoundError
from quartzpy.operations.source import EXAMINED, attempt, examined_page, page_of
from quartzpy.scheduling.paging import Page
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord, RecordedAction


@dataclass(frozen=True, slots=True)
class AuditEntry(RecordedAction):
    """An action of an operator."""

    before: Any
    """The values before the action, without secrets; None if there are none."""
    after: Any
    error: str | None


def entry(record: ActionRecord) -> AuditEntry:
    before, bad_before = attempt(lambda: record.before)
    after, bad_after = attempt(lambda: record.after)
    shared = {one.name: getattr(record, one.name) for one in fields(RecordedAction)}
    return AuditEntry(**shared, before=bad_before or before, after=bad_after or after, error=record.error)


def page(store: JobStore, query: ActionQuery, limit: int, after: str | None) -> Page[AuditEntry]:
    """Return a page of the audit log; see `Operations.audit_log`."""
    query = replace(query, among=EXAMINED)
    return page_of(examined_page(store, "audit log", query, store.find_actions, limit, after), entry)


def one(store: JobStore, action_id: int) -> AuditEntry:
    """Return one entry of the audit log; see `Operations.audit_entry`."""
    # The latest before the next id.
    found = next(iter(store.find_actions(ActionQuery(), 1, (action_id + 1,))), None)
    if found is None or found.action_id != action_id:
        raise ObjectNotFoundError(f"action {action_id} is not in the audit log, or no longer")
    return entry(found)
