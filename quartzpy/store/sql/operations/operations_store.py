"""The methods of `OperationsStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Placement
from quartzpy.states import ActionState, NodeMode
from quartzpy.store.protocol import (
    ActionEntry,
    GroupTally,
    LockRecord,
    Minutes,
    RateUsage,
    SlotUsage,
    TableRecord,
    Tallies,
)
from quartzpy.store.records import ExecutionRecord
from quartzpy.store.searches import FoundKeys, KeySearch, SearchPosition
from quartzpy.store.sql import actions
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.operations import history, search, server, usage
from quartzpy.store.sql.steps import facts


class SqlOperationsStore:
    """Aggregates for operators."""

    _session: SqlSession

    def tallies(self, most: int) -> Tallies:
        return usage.tallies(self._session, most)

    def minutes(self, since: datetime, *, most: int) -> Minutes:
        return history.minutes(self._session, since, most)

    def last_executions(self, keys: Collection[TriggerKey], limit: int) -> dict[TriggerKey, list[ExecutionRecord]]:
        return history.last_executions(self._session, keys, limit)

    def last_executions_of_job(self, key: JobKey, limit: int, *, among: int) -> list[ExecutionRecord]:
        return history.last_executions_of_job(self._session, key, limit, among)

    def attempts(self, fire_ids: Collection[int], limit: int) -> dict[int, list[ExecutionRecord]]:
        return history.attempts(self._session, fire_ids, limit)

    def executions_between(
        self, start: datetime, end: datetime, limit: int, *, margin: timedelta
    ) -> list[ExecutionRecord]:
        return history.executions_between(self._session, start, end, limit, margin)

    def slot_usage(self, limit: int) -> list[SlotUsage]:
        return usage.slot_usage(self._session, limit)

    def placements(self, keys: Collection[JobKey]) -> dict[JobKey, Placement]:
        return usage.placements(self._session, keys)

    def rate_usage(self, limit: int) -> list[RateUsage]:
        return usage.rate_usage(self._session, limit)

    def trigger_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        return usage.group_tallies(self._session, usage.TRIGGER_GROUPS, limit, after, most)

    def job_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        return usage.group_tallies(self._session, usage.JOB_GROUPS, limit, after, most)

    def find_keys(self, keys: KeySearch, after: SearchPosition | None) -> FoundKeys:
        return search.find_keys(self._session, keys, after)

    def node_facts(self) -> dict[str, dict[str, Any]]:
        return facts.read(self._session)

    def tables(self) -> list[TableRecord]:
        return server.tables(self._session)

    def locks(self, limit: int) -> list[LockRecord]:
        return server.locks(self._session, limit)

    def record_action(self, entry: ActionEntry) -> int:
        return actions.record(self._session, entry)

    def record_actions(self, entries: Sequence[ActionEntry]) -> None:
        actions.record_several(self._session, entries)

    def update_action(
        self, action_id: int, *, state: ActionState, count: int, after_text: str | None = None, error: str | None = None
    ) -> None:
        actions.update(self._session, action_id, state, count, after_text, error)

    def interrupt_actions(self, silent_for: timedelta) -> int:
        return actions.interrupt(self._session, silent_for)

    def set_node_mode(self, instance_id: str, mode: NodeMode) -> datetime | None:
        return actions.set_mode(self._session, instance_id, mode)
