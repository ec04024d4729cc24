"""The audit log: what operators did, when, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from quartzpy.operations.source import EXAMINED, attempt, examined_page, page_of
from quartzpy.scheduling.paging import Page
from quartzpy.states import ActionState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action of an operator."""

    action_id: int
    at: datetime
    ended_at: datetime | None
    actor: str
    role: str
    action: str
    subject: str
    """What it was applied to: "trigger DEFAULT.nightly", "node app-1"."""
    reason: str
    state: ActionState
    count: int
    """The number of objects that it has changed so far."""
    before: Any
    """The values before the action, without secrets; None if there are none."""
    after: Any
    error: str | None


def entry(record: ActionRecord) -> AuditEntry:
    before, bad_before = attempt(lambda: record.before)
    after, bad_after = attempt(lambda: record.after)
    return AuditEntry(
        action_id=record.action_id,
        at=record.at,
        ended_at=record.ended_at,
        actor=record.actor,
        role=record.role,
        action=record.action,
        subject=record.subject,
        reason=record.reason,
        state=record.state,
        count=record.count,
        before=bad_before or before,
        after=bad_after or after,
        error=record.error,
    )


def page(store: JobStore, query: ActionQuery, limit: int, after: str | None) -> Page[AuditEntry]:
    """Return a page of the audit log; see `Operations.audit_log`."""
    query = replace(query, among=EXAMINED)
    return page_of(examined_page(store, "audit log", query, store.find_actions, limit, after), entry)
