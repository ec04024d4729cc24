"""The in-memory store: most methods of `JobStore` are functions of the tables, which stand in the modules beside.

It is meant for tests, and for programs with a single process whose jobs need not survive it. Several nodes of one
process can share it. It decides as the SQL store does: both pass the same contract tests.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial, update_wrapper
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from quartzpy.clock import Clock
from quartzpy.errors import InvalidValueError, SchedulerStateError
from quartzpy.events.events import Event
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.store.memory import acquire as acquire_step
from quartzpy.store.memory import calendars as memory_calendars
from quartzpy.store.memory import complete as complete_step
from quartzpy.store.memory import holdings as held
from quartzpy.store.memory import limits as memory_limits
from quartzpy.store.memory import lookups, misfire, pages, pausing, scheduling, time_off
from quartzpy.store.memory import recover as recover_step
from quartzpy.store.memory.joins import settle_left_batches
from quartzpy.store.memory.listen import Notifications
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import (
    BatchEntry,
    JobEntry,
    JobStore,
    Node,
    Notification,
    OpenJobTransaction,
    Repairs,
    Submitted,
    Subscription,
    ZoneRenewal,
)
from quartzpy.store.queries import Position, RecordQuery
from quartzpy.store.records import NotedZone

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Key = TypeVar("_Key", JobKey, TriggerKey)
_Record = TypeVar("_Record")


def _locked(function: Callable[Concatenate[Tables, _P], _R]) -> Callable[Concatenate[RamJobStore, _P], _R]:
    """Return the method that calls a function on the tables under the lock, and then sends its notifications."""

    def method(store: RamJobStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with store._lock:
            answer = function(store._tables, *args, **kwargs)
            if store._tables.left_batches:
                settle_left_batches(store._tables)
            notifications, store._tables.notifications = store._tables.notifications, set()
        if notifications:
            store._notifications.send(notifications)
        return answer

    update_wrapper(method, function)
    return method


class RamJobStore:
    """Keeps a scheduler's jobs in the memory of this process, with the time of `clock`."""

    has_tickets = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables(clock)
        self._lock = threading.RLock()
        self._opened_by: int | None = None
        self._notifications = Notifications()

    def __str__(self) -> str:
        return "none; everything is in the memory of this process and ends with it"

    def within(self, connection: Any) -> JobStore:
        raise InvalidValueError("using: memory:// has no transactions; use a database")

    def together(self, work: Callable[[JobStore], _T], *, exclusively: bool = False) -> _T:
        with self._lock:
            if not exclusively:
                return work(self)
            restore = self.snapshot()
            try:
                return work(self)
            except BaseException:
                restore()
                raise

    def ask(self, questions: Sequence[Callable[[JobStore], Any]]) -> list[Callable[[], Any]]:
        return [partial(question, self) for question in questions]

    def begin_job_transaction(self) -> OpenJobTransaction:
        raise InvalidValueError("transaction: memory:// has no transactions; use a database")

    def submit(self, node: Node, fires: Mapping[int, bool], *, refires: Collection[int] = ()) -> NoReturn:
        raise InvalidValueError("memory:// has no engines that need tickets; use a database")

    def submitted(self, node: Node, fire_ids: Collection[int]) -> dict[int, Submitted]:
        return {}

    def settle(self, node: Node, submissions: Mapping[int, int]) -> dict[int, str | None]:
        return {}

    def snapshot(self) -> Callable[[], None]:
        """Copy all rows; return a function that restores them."""
        with self._lock:
            copied = self._tables.copied()

        def restore() -> None:
            with self._lock:
                copied.continue_numbers_of(self._tables)
                self._tables = copied

        return restore

    # --- membership of a node

    def open(self, emit: Callable[[Event], None] | None = None) -> None:
        if self._opened_by not in (None, os.getpid()):
            raise SchedulerStateError(
                f"memory:// belongs to process {self._opened_by}, which used it first; process {os.getpid()} has only a"
                " copy of it. Use it only after the fork, or use a database"
            )
        self._opened_by = os.getpid()

    def close(self) -> None:
        pass

    def check_tables(self) -> None:
        """Do nothing: there are no tables that another release could change."""

    def renew_zones(self, node: Node) -> ZoneRenewal:
        """Renew nothing: this process has computed all by its own rules."""
        return ZoneRenewal()

    def noted_zones(self) -> list[NotedZone]:
        return []

    def repair(self) -> Repairs:
        """Repair nothing: only this process writes here, and each step is atomic."""
        return Repairs()

    def connections(self) -> None:
        return None

    def now(self) -> datetime:
        return self._tables.now()

    register = _locked(recover_step.register)
    check_in = _locked(recover_step.check_in)
    publish = _locked(recover_step.publish)
    recover = _locked(recover_step.recover)
    apply_time_off = _locked(time_off.apply_time_off)
    subtract_node_deaths = _locked(recover_step.subtract_node_deaths)
    leave = _locked(recover_step.leave)
    list_nodes = _locked(recover_step.list_nodes)
    set_node_mode = _locked(recover_step.set_node_mode)
    purge_history = _locked(complete_step.purge_history)

    # --- the steps

    decide = _locked(acquire_step.decide)
    acquire = _locked(acquire_step.acquire)
    refill = _locked(held.refill)
    reject = _locked(held.reject)
    wake_others = _locked(held.wake_others)
    holdings = _locked(held.holdings)
    reconcile = _locked(held.reconcile)
    request_cancel = _locked(complete_step.request_cancel)
    cancel_requests = _locked(complete_step.cancel_requests)
    report_progress = _locked(complete_step.report_progress)
    complete = _locked(complete_step.complete)
    recover_misfires = _locked(misfire.recover_misfires)

    # --- what schedules

    def store_jobs(
        self, entries: Sequence[JobEntry], *, replace: bool, batch: BatchEntry | None = None
    ) -> datetime | None:
        now = self._clock.now()
        prepared = [trigger.prepared(now) for entry in entries for trigger in entry.triggers]
        with self._lock:
            soonest = scheduling.store_jobs(self._tables, entries, prepared, replace=replace, batch=batch)
            settle_left_batches(self._tables)
            return soonest

    modify_job = _locked(scheduling.modify_job)
    replace_trigger = _locked(scheduling.replace_trigger)
    delete_triggers = _locked(scheduling.delete_triggers)
    delete_jobs = _locked(scheduling.delete_jobs)
    clear = _locked(scheduling.clear)
    owned = _locked(scheduling.owned)
    own = _locked(scheduling.own)
    put_calendar = _locked(memory_calendars.put_calendar)
    delete_calendar = _locked(memory_calendars.delete_calendar)
    put_limit = _locked(memory_limits.put_limit)
    delete_limit = _locked(memory_limits.delete_limit)
    move_triggers = _locked(memory_calendars.move_triggers)
    pause = _locked(pausing.pause)
    resume = _locked(pausing.resume)
    set_mode = _locked(pausing.set_mode)
    set_window = _locked(time_off.set_window)
    reset_from_error = _locked(pausing.reset_from_error)

    # --- what is read

    jobs = _locked(lookups.jobs)
    job_headers = _locked(lookups.job_headers)
    triggers = _locked(lookups.triggers)
    names = _locked(lookups.names)
    pauses = _locked(lookups.pauses)
    windows = _locked(time_off.windows)
    calendars = _locked(memory_calendars.calendars)
    limits = _locked(memory_limits.limits)
    waiting_dispatch_keys = _locked(lookups.waiting_dispatch_keys)
    list_running = _locked(lookups.list_running)
    execution = _locked(lookups.execution)
    count = _locked(pages.count)
    cluster_load = _locked(lookups.cluster_load)

    def keys(self, kind: type[_Key], matcher: GroupMatcher) -> set[_Key]:
        with self._lock:
            return lookups.keys(self._tables, kind, matcher)

    def ahead(self, key: TriggerKey) -> int:
        with self._lock:
            return lookups.ahead(self._tables, key)

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        with self._lock:
            return lookups.near_keys(self._tables, key, limit)

    def find(self, query: RecordQuery[_Record], limit: int | None, after: Position | None = None) -> list[_Record]:
        with self._lock:
            return pages.find(self._tables, query, limit, after)

    # --- notifications

    def notify(self, notification: Notification) -> None:
        self._notifications.send([notification])

    def subscribe(self) -> Subscription:
        return self._notifications.subscribe()
