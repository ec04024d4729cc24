"""The contract of a store: five protocols and the values that pass through them.

`JobStore` is what a scheduler needs. It consists of `FiringStore` (the steps of a node), `SubmissionStore` (what a node
submits to engines), `ClusterStore` (the nodes and the store's own health), `SchedulingStore` (the changes that users
make) and `QueryStore` (reading). What only operators read is no part of it: see `quartzpy.store.postgresql.admin`.

Three rules hold for every method. A store decides by one clock, its own (on a database: the database's), and by one
lock, which no caller ever holds. A method is one transaction: it takes effect as a whole or not at all. Any thread may
call any method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from quartzpy.jobs.fired_trigger import FiredTrigger, Gate
from quartzpy.store.protocol.cluster import (
    MAX_NODE_DEATHS,
    CheckIn,
    ClusterStore,
    ConnectionUsage,
    Node,
    Notification,
    Purged,
    Subscription,
)
from quartzpy.store.protocol.fires import (
    MANY,
    AvailableSlots,
    DispatchKey,
    Refill,
    SkippedTrigger,
    UnfilledTrigger,
    no_calendar,
)
from quartzpy.store.protocol.firing import FiringStore, OpenJobTransaction
from quartzpy.store.protocol.outcomes import (
    ANYTHING,
    Acquisition,
    Completion,
    CompletionOutcome,
    Expectation,
    Front,
    Holdings,
    MisfireOutcome,
    MovedFire,
    Reconciliation,
    RecoveryOutcome,
    Repairs,
    Submitted,
    TimeOff,
    ZoneRenewal,
)
from quartzpy.store.protocol.queries import NameKind, QueryStore
from quartzpy.store.protocol.scheduling import (
    EVERYTHING,
    NO_NOTE,
    BatchEntry,
    Everything,
    JobEntry,
    JobGroups,
    NamedTriggers,
    PauseNote,
    PauseSubjects,
    SchedulingStore,
    StoredCalendar,
    TriggerGroups,
    TriggerMove,
    TriggersOfJobs,
)
from quartzpy.store.protocol.submissions import SubmissionStore

_T = TypeVar("_T")


@runtime_checkable
class JobStore(FiringStore, SubmissionStore, ClusterStore, SchedulingStore, QueryStore, Protocol):
    """Keeps jobs, triggers, calendars and executions, and lets the nodes of a cluster work on them together.

    `str` of a store describes the data's place for people: kind and release of the server, and its address. It does not
    ask the server, and shows no password.
    """

    def within(self, connection: Any) -> JobStore:
        """Return this store inside a transaction of the caller's. It serves only for scheduling, pausing and queries.

        This store need not be open for it.

        Raises:
            InvalidValueError: this is no connection that has a transaction, or the store is not on a database.
        """
        ...

    def together(self, work: Callable[[JobStore], _T], *, exclusively: bool = False) -> _T:
        """Call `work` with the store inside a new transaction, commit it, and return the result.

        If `work` raises an error, a store on a database rolls back everything that `work` changed, and the memory store
        does so with `exclusively`. Inside a
        transaction of the caller's, `work` is part of that transaction, and nothing is committed.

        With `exclusively`, such calls run one after the other, in the whole cluster; no step of a node waits for them.
        They are not reentrant.
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
    "ANYTHING",
    "EVERYTHING",
    "MANY",
    "MAX_NODE_DEATHS",
    "NO_NOTE",
    "Acquisition",
    "AvailableSlots",
    "BatchEntry",
    "CheckIn",
    "ClusterStore",
    "Completion",
    "CompletionOutcome",
    "ConnectionUsage",
    "DispatchKey",
    "Everything",
    "Expectation",
    "FiredTrigger",
    "FiringStore",
    "Front",
    "Gate",
    "Holdings",
    "JobEntry",
    "JobGroups",
    "JobStore",
    "MisfireOutcome",
    "MovedFire",
    "NameKind",
    "NamedTriggers",
    "Node",
    "Notification",
    "OpenJobTransaction",
    "PauseNote",
    "PauseSubjects",
    "Purged",
    "QueryStore",
    "Reconciliation",
    "RecoveryOutcome",
    "Refill",
    "Repairs",
    "SchedulingStore",
    "SkippedTrigger",
    "StoredCalendar",
    "SubmissionStore",
    "Submitted",
    "Subscription",
    "TimeOff",
    "TriggerGroups",
    "TriggerMove",
    "TriggersOfJobs",
    "UnfilledTrigger",
    "ZoneRenewal",
    "no_calendar",
]
