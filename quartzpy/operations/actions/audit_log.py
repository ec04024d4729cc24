"""The audit log: what operators did, when, and why, and what undoes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from quartzpy.errors import ObjectNotFoundError, QuartzpyError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.incidents.incident import Remedy
from quartzpy.operations.read_context import EXAMINED, attempt, examined_page, page_of
from quartzpy.operations.selection import Selection
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.querying import Page
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ACTION_SILENCE, ActionRecord, RecordedAction

MAX_RUNNING = 100
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


def _entry(record: ActionRecord) -> AuditEntry:
    before, bad_before = attempt(lambda: record.before)
    after, bad_after = attempt(lambda: record.after)
    shared = {field.name: getattr(record, field.name) for field in fields(RecordedAction)}
    action = ACTIONS.get(record.action)
    was_done = record.count or record.state is ActionState.SUCCEEDED
    return AuditEntry(
        **shared,
        before=bad_before or before,
        after=bad_after or after,
        error=record.error,
        undone_by=action.undone_by if action is not None and was_done else None,
    )


def page(reading: BatchedReads, query: ActionQuery, limit: int, after: str | None) -> Page[AuditEntry]:
    """Return a page of the audit log; see `Operations.audit_log`."""
    query = replace(query, among=EXAMINED)
    running = None
    if query.state is ActionState.INTERRUPTED:
        running = reading.defer(lambda store: admin(store).find(ActionQuery(state=ActionState.RUNNING), MAX_RUNNING))

    def is_outdated(entries: Page[ActionRecord]) -> bool:
        return _end_interrupted(reading, entries if running is None else running())

    return page_of(examined_page(reading, query, limit, after, is_outdated), _entry)


def entry(reading: BatchedReads, action_id: int) -> AuditEntry:
    """Return one entry of the audit log; see `Operations.audit_entry`."""
    record = _find(reading, action_id)
    if _end_interrupted(reading, [record]):
        record = _find(reading, action_id)
    return _entry(record)


def _find(reading: BatchedReads, action_id: int) -> ActionRecord:
    # The latest before the next id.
    record = next(iter(reading.defer(lambda store: admin(store).find(ActionQuery(), 1, (action_id + 1,)))()), None)
    if record is None or record.action_id != action_id:
        raise ObjectNotFoundError(f"action {action_id} is not in the audit log, or no longer")
    return record


def _end_interrupted(reading: BatchedReads, records: Iterable[ActionRecord]) -> bool:
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


_READERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    r"everything": lambda: {"selection": Selection.everything()},
    r"trigger group ([^.*]+)": lambda group: {"selection": Selection.trigger_group(group)},
    r"job group ([^.*]+)": lambda group: {"selection": Selection.job_group(group)},
    r"trigger (?!group )([^.]+)\.([^.]+)": lambda group, name: {"selection": TriggerKey(name, group)},
    r"job (?!group )([^.]+)\.([^.]+)": lambda group, name: {"selection": JobKey(name, group)},
    r"node (.+)": lambda node: {"node": node},
    r"window (.+)": lambda window: {"window": window},
    r"incident ([0-9]+)": lambda number: {"incident": int(number)},
}
"""The texts that name one subject. Groups and names may contain dots and stars, so that others read in two ways."""


def undoing(entry: AuditEntry) -> Remedy | None:
    """Return the action that undoes an entry; None if there is none, or the entry does not name one subject exactly."""
    # The texts of long subjects are cut.
    if entry.undone_by is None or entry.subject.endswith("…"):
        return None
    for pattern, read in _READERS.items():
        if match := re.fullmatch(pattern, entry.subject, re.DOTALL):
            return Remedy(entry.undone_by, read(*match.groups()), ACTIONS[entry.undone_by].question)
    return None
