"""The contract of a store: six protocols and the values that pass through them.

`JobStore` is what a scheduler needs. It consists of `FiringStore` (the steps of a node), `ClusterStore` (the nodes and
the store's own health), `SchedulingStore` (the changes that users make), `QueryStore` (reading), `OperationsStore`
(aggregates for operators) and `ActionStore` (the audit log and the commands of operators).

Three rules hold for every method. A store decides by one clock, its own (on a database: the database's), and by one
lock, which no caller ever holds. A method is one transaction: it takes effect as a whole or not at all. Any thread may
call any method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from quartzpy.jobs.fired_trigger import FiredTrigger
from quartzpy.store.protocol.actions import ACTION_SILENCE, UNHEARD, ActionEntry, ActionStore
from quartzpy.store.protocol.cluster import (
    MAX_NODE_DEATHS,
    CheckIn,
    ClusterStore,
    ConnectionUsage,
    Node,
    Notification,
    Subscription,
)
from quartzpy.store.protocol.fires import (
    MANY,
    AcquiredTrigger,
    AvailableSlots,
    DispatchKey,
    FireRequest,
    SkippedTrigger,
    no_calendar,
)
from quartzpy.store.protocol.firing import FiringStore, JobTransaction
from quartzpy.store.protocol.operations import (
    GroupTally,
    LockRecord,
    MinuteRecord,
    Minutes,
    OperationsStore,
    RateUsage,
    SlotUsage,
    TableRecord,
    Tallies,
)
from quartzpy.store.protocol.outcomes import (
    Acquisition,
    Completion,
    CompletionOutcome,
    Firing,
    Holdings,
    MisfireOutcome,
    Reconciliation,
    RecoveryOutcome,
    Repairs,
)
from quartzpy.store.protocol.queries import QueryStore
from quartzpy.store.protocol.scheduling import (
    NO_NOTE,
    JobEntry,
    PauseNote,
    SchedulingStore,
    StoredCalendar,
    TriggerMove,
)

_T = TypeVar("_T")


@runtime_checkable
class JobStore(FiringStore, ClusterStore, SchedulingStore, QueryStore, OperationsStore, ActionStore, Protocol):
    """Keeps jobs, triggers, calendars and claims, and lets the nodes of a cluster work on them together."""

    def within(self, connection: Any) -> JobStore:
        """Return this store inside a transaction of the caller's. It serves only for scheduling, pausing and queries.

        This store need not be open for it.

        Raises:
            InvalidValueError: this is no connection that has a transaction, or the store is not on a database.
        """
        ...

    def exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        """Call `work` with the store inside a new transaction, commit it, and return the result.

        Inside a transaction of the caller's, `work` is part of that transaction, and nothing is committed.

        Such calls run one after the other, in the whole cluster; no step of a node waits for them. Not reentrant.
        """
        ...

    def ask(self, questions: Sequence[Callable[[JobStore], Any]]) -> Sequence[Callable[[], Any]]:
        """Ask several questions in one round trip, and return their answers in order.

        A question is one call of a method that reads, on the store that it is given. Its answer returns what the method
        returns, or raises the error that it raises: a question that fails does not affect the others.

        Raises:
            StoreUnavailableError: the store cannot be reached, or cannot work at present.
        """
        ...


__all__ = [
    "ACTION_SILENCE",
    "MANY",
    "MAX_NODE_DEATHS",
    "NO_NOTE",
    "UNHEARD",
    "AcquiredTrigger",
    "Acquisition",
    "ActionEntry",
    "ActionStore",
    "AvailableSlots",
    "CheckIn",
    "ClusterStore",
    "Completion",
    "CompletionOutcome",
    "ConnectionUsage",
    "DispatchKey",
    "FireRequest",
    "FiredTrigger",
    "Firing",
    "FiringStore",
    "GroupTally",
    "Holdings",
    "JobEntry",
    "JobStore",
    "JobTransaction",
    "LockRecord",
    "MinuteRecord",
    "Minutes",
    "MisfireOutcome",
    "Node",
    "Notification",
    "OperationsStore",
    "PauseNote",
    "QueryStore",
    "RateUsage",
    "Reconciliation",
    "RecoveryOutcome",
    "Repairs",
    "SchedulingStore",
    "SkippedTrigger",
    "SlotUsage",
    "StoredCalendar",
    "Subscription",
    "TableRecord",
    "Tallies",
    "TriggerMove",
    "no_calendar",
]
