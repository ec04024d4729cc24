"""The in-memory store: each method of `JobStore` calls a function of a step's module under one lock.

It is meant for tests, and for programs with a single process whose jobs need not survive it. Several nodes of one
process can share it. It decides as the SQL store does: both pass the same contract tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from quartzpy.clock import Clock
from quartzpy.errors import InvalidValueError, SchedulerStateError
from quartzpy.events.events import Event
from quartzpy.jobs.context import Progress
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Capabilities
from quartzpy.states import ActionState, NodeMode
from quartzpy.store.findings import Finding
from quartzpy.store.memory import (
    acquire,
    actions,
    complete,
    fire,
    misfire,
    recover,
    scheduling,
)
from quartzpy.store.memory.notifications import Notifications
from quartzpy.store.memory.operations_store import RamOperationsStore
from quartzpy.store.memory.query_store import RamQueryStore
from quartzpy.store.memory.scheduling_store import RamSchedulingStore
from quartzpy.store.protocol import (
    MAX_NODE_DEATHS,
    Acquisition,
    ActionEntry,
    AvailableSlots,
    CheckIn,
    Completion,
    CompletionOutcome,
    DispatchKey,
    FireRequest,
    Firing,
    Holdings,
    JobStore,
    JobTransaction,
    MisfireOutcome,
    Node,
    Notification,
    Reconciliation,
    RecoveryOutcome,
    Repairs,
    Subscription,
)
from quartzpy.store.records import (
    NodeRecord,
    Owned,
)

_T = TypeVar("_T")


class RamJobStore(RamSchedulingStore, RamQueryStore, RamOperationsStore):
    """Keeps a scheduler's jobs in the memory of this process, with the time of `clock`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._opened_by: int | None = None
        self._notifications = Notifications()

    def within(self, connection: Any) -> JobStore:
        raise InvalidValueError("using: memory:// has no transactions; use a database")

    def exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        return self.together(work)

    def together(self, work: Callable[[JobStore], _T]) -> _T:
        with self._lock:
            return work(self)

    def ask(self, questions: Sequence[Callable[[JobStore], Any]]) -> list[Callable[[], Any]]:
        return [partial(question, self) for question in questions]

    def owned(self, owner: str) -> Owned:
        with self._lock:
            return scheduling.owned(self._tables, owner)

    def own(
        self,
        owner: str,
        jobs: Collection[JobKey],
        triggers: Collection[TriggerKey],
        *,
        calendars: Collection[str] = (),
        version: str | None = None,
    ) -> None:
        with self._lock:
            scheduling.own(self._tables, owner, jobs, triggers, calendars, version)

    def begin_job_transaction(self) -> JobTransaction:
        raise InvalidValueError("transaction: memory:// has no transactions; use a database")

    def snapshot(self) -> Callable[[], None]:
        """Copy all rows; return a function that restores them."""
        with self._lock:
            kept = self._tables.copied()

        def put_back() -> None:
            with self._lock:
                kept.continue_numbers_of(self._tables)
                self._tables = kept

        return put_back

    # --- membership of a node

    def check_tables(self) -> None:
        """Do nothing: there are no tables that another release could change."""

    def open(self) -> None:
        if self._opened_by not in (None, os.getpid()):
            raise SchedulerStateError(
                f"memory:// belongs to process {self._opened_by}, which used it first; process {os.getpid()} has only a"
                " copy of it. Use it only after the fork, or use a database"
            )
        self._opened_by = os.getpid()

    def close(self) -> None:
        pass

    def audit(self) -> list[Finding]:
        """Return no findings: only this process writes here, and each step is atomic."""
        return []

    def repair(self) -> Repairs:
        return Repairs()

    def on_event(self, emit: Callable[[Event], None]) -> None:
        """Do nothing: the memory has no events to report."""

    def now(self) -> datetime:
        return self._tables.now()

    def register(
        self,
        instance_id: str,
        *,
        host: str,
        pid: int,
        checkin_interval: timedelta,
        window: timedelta,
        process: str = "",
        ended_epoch: int | None = None,
        max_node_deaths: int = MAX_NODE_DEATHS,
    ) -> Node:
        with self._lock:
            return recover.register(
                self._tables,
                instance_id,
                host=host,
                pid=pid,
                checkin_interval=checkin_interval,
                window=window,
                process=process,
                ended_epoch=ended_epoch,
                max_node_deaths=max_node_deaths,
            )

    def check_in(self, node: Node, *, within: float | None = None) -> CheckIn:
        with self._lock:
            return recover.check_in(self._tables, node)

    def publish(self, node: Node, capabilities: Capabilities) -> None:
        with self._lock:
            recover.publish(self._tables, node, capabilities)

    def recover(
        self, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
    ) -> RecoveryOutcome:
        with self._lock:
            return recover.recover(self._tables, node, dead, max_node_deaths=max_node_deaths)

    def forgive(self, jobs: Collection[JobKey]) -> None:
        with self._lock:
            recover.forgive(self._tables, jobs)

    def describe(self) -> str:
        return "none; everything is in the memory of this process and ends with it"

    def connections(self) -> None:
        return None

    def leave(self, node: Node) -> None:
        with self._lock:
            recover.leave(self._tables, node)

    def holdings(self, node: Node) -> Holdings:
        with self._lock:
            return fire.holdings(self._tables, node)

    def reconcile(self, node: Node, *, claims: Collection[int], executions: Collection[int]) -> Reconciliation:
        with self._lock:
            return fire.reconcile(self._tables, node, claims, executions)

    # --- the five steps

    def acquire(
        self,
        node: Node,
        available_slots: Sequence[AvailableSlots],
        *,
        limit: int,
        look_ahead: timedelta,
        misfire_threshold: timedelta,
        passed_over: Collection[int] = (),
    ) -> Acquisition:
        with self._lock:
            acquisition = acquire.acquire(
                self._tables,
                node,
                available_slots,
                limit=limit,
                look_ahead=look_ahead,
                misfire_threshold=misfire_threshold,
                passed_over=passed_over,
            )
        self._notify()
        return acquisition

    def _notify(self) -> None:
        """Send the notifications of a step, after its lock has been released."""
        with self._lock:
            notifications, self._tables.notifications = self._tables.notifications, set()
        if notifications:
            self._notifications.send(notifications)

    def fire(self, node: Node, moves: Sequence[FireRequest], *, early: timedelta = timedelta()) -> Firing:
        with self._lock:
            firing = fire.fire(self._tables, node, moves, early)
        self._notify()
        return firing

    def release(self, node: Node, fire_ids: Collection[int]) -> Collection[int]:
        with self._lock:
            return fire.release(self._tables, node, fire_ids)

    def reject(self, node: Node, reasons: Mapping[int, str]) -> None:
        with self._lock:
            fire.reject(self._tables, node, reasons)

    def complete(
        self, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
    ) -> CompletionOutcome:
        with self._lock:
            return complete.complete(self._tables, node, completions)

    def request_cancel(self, fire_id: int) -> bool:
        with self._lock:
            found = complete.request_cancel(self._tables, fire_id)
        self._notify()
        return found

    def request_cancel_of_job(self, job: JobKey) -> Collection[int]:
        with self._lock:
            return complete.request_cancel_of_job(self._tables, job)

    def cancel_requests(self, node: Node) -> set[int]:
        with self._lock:
            return complete.cancel_requests(self._tables, node)

    def report_progress(
        self, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
    ) -> Collection[int]:
        with self._lock:
            return complete.report_progress(self._tables, node, reports, logs or {})

    def recover_misfires(
        self, node: Node, dispatch_keys: Sequence[DispatchKey], *, threshold: timedelta, limit: int
    ) -> MisfireOutcome:
        with self._lock:
            return misfire.recover_misfires(self._tables, node, dispatch_keys, threshold=threshold, limit=limit)

    def purge_history(
        self,
        older_than: timedelta | None,
        *,
        limit: int,
        ended_triggers: timedelta | None = None,
        actions: timedelta | None = None,
        before: datetime | None = None,
    ) -> int:
        with self._lock:
            return complete.purge(self._tables, older_than, limit, ended_triggers or older_than, actions, before)

    def history_cutoff(self, keep: int) -> datetime | None:
        with self._lock:
            return complete.history_cutoff(self._tables, keep)

    # --- the actions of operators

    def record_action(self, entry: ActionEntry) -> int:
        with self._lock:
            return actions.record(self._tables, entry)

    def record_actions(self, entries: Sequence[ActionEntry]) -> None:
        with self._lock:
            for entry in entries:
                actions.record(self._tables, entry)

    def update_action(
        self, action_id: int, *, state: ActionState, count: int, after_text: str | None = None, error: str | None = None
    ) -> None:
        with self._lock:
            actions.update(self._tables, action_id, state, count, after_text, error)

    def interrupt_actions(self, silent_for: timedelta) -> int:
        with self._lock:
            return actions.interrupt(self._tables, silent_for)

    def set_node_mode(self, instance_id: str, mode: NodeMode) -> datetime | None:
        with self._lock:
            since = actions.set_mode(self._tables, instance_id, mode)
        self._notify()
        return since

    # --- notifications

    def notify(self, notification: Notification) -> None:
        self._notifications.send([notification])

    def subscribe(self) -> Subscription:
        return self._notifications.subscribe()
