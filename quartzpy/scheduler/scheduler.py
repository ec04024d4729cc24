"""The scheduler: the facade with all public operations. It contains no SQL and starts no threads itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from quartzpy.config.config import checked_groups
from quartzpy.connection_types import is_asynchronous
from quartzpy.errors import (
    ExecutionNotFoundError,
    JobNotFoundError,
    SchedulerStateError,
    SettingsError,
    UnableToInterruptJobError,
)
from quartzpy.instants import Span, as_span
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.keys import JobKey, checked_key
from quartzpy.node.workers.execution import Execution
from quartzpy.scheduler.async_calls import VerbThreads
from quartzpy.scheduler.cluster_events import ClusterEvents
from quartzpy.scheduler.lifecycle import SchedulerLifecycle
from quartzpy.scheduler.methods.queries import FireRef, checked_fire_id
from quartzpy.scheduler.transaction_methods import TransactionMethods
from quartzpy.store.protocol import JobStore

if TYPE_CHECKING:
    from quartzpy.aio.transaction import AsyncTransactionMethods
    from quartzpy.connection_types import AsyncUserConnection, UserConnection


@dataclass(frozen=True, slots=True)
class SchedulerMetadata:
    """The name, state and counts of a scheduler in this process (Quartz's `SchedulerMetaData`)."""

    name: str
    instance_id: str | None
    version: str
    store: str
    is_started: bool
    is_in_standby: bool
    is_shut_down: bool
    running_since: datetime | None
    workers: int
    jobs_executed: int


class BaseScheduler(SchedulerLifecycle):
    """A scheduler: it schedules jobs in a store and, once started, runs them as a node of the cluster.

    A scheduler that is not started is a client: it can do everything except run jobs. It is thread-safe.
    """

    # --- inside a user's transaction

    @overload
    def using(self, connection: AsyncUserConnection) -> AsyncTransactionMethods: ...

    @overload
    def using(self, connection: UserConnection) -> TransactionMethods: ...

    def using(self, connection: Any) -> TransactionMethods | AsyncTransactionMethods:
        """Return the scheduling verbs inside a transaction of the caller, which commits or rolls back their changes.

        `connection` is a SQLAlchemy `Connection`, `Session` or `scoped_session`, a psycopg connection, or Django's
        `connection` inside `atomic()`. For a SQLAlchemy `AsyncConnection` or `AsyncSession` (on psycopg or asyncpg) and
        psycopg's `AsyncConnection`, the verbs are awaited.

        Other nodes learn of the changes at the commit. A long transaction delays only the triggers that it touches,
        because it locks no row of the table `locks`; only `sync` lets other calls of `sync` wait until the commit. The
        scheduler itself does not connect to its database for this.

        Raises:
            InvalidValueError: `connection` is of another type or in autocommit mode, or the store is memory://. With an
                asynchronous connection, the first awaited verb raises it.
        """
        if is_asynchronous(connection):
            return self.using_async(connection, self._verb_threads)
        return self._inside(self._unopened_store().within(connection))

    def using_async(self, connection: Any, threads: VerbThreads) -> AsyncTransactionMethods:
        """Return awaitable scheduling verbs for any kind of connection, as `using` does. They run on `threads`."""
        # Imported here, because a node without asynchronous callers has no need of these modules.
        from quartzpy.aio.transaction import AsyncTransactionMethods

        return AsyncTransactionMethods(self._unopened_store, connection, self._config, self._inside, threads)

    def _inside(self, store: JobStore) -> TransactionMethods:
        return TransactionMethods(
            store, self._config, self._clock, self._job_types, self._job_defaults, self._current_trace
        )

    # --- the whole cluster

    def cluster_events(self, *, poll_interval: Span = "1s") -> ClusterEvents:
        """Return an iterator over the events of the whole cluster; see `ClusterEvents`.

        The events are executions that start and end on any node, and nodes that join and leave. Iteration blocks until
        the next event. The scheduler need not be started. `poll_interval` is the interval at which the tables are read
        where notifications do not arrive. While there is a watcher, each node sends at most ten notifications a second;
        otherwise none.

        Raises:
            SettingsError: `poll_interval` is not a span of time.
            StoreUnavailableError: the database is unavailable.
        """
        return ClusterEvents(self._usable_store, as_span(poll_interval, "poll_interval", SettingsError).total_seconds())

    # --- this node

    def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of execution groups on this node, as given by the setting `execution_groups`.

        Running executions continue, even if there are more of them than a new limit allows.

        Raises:
            SettingsError: a limit is not a whole number of 0 or more.
            SchedulerStateError: the scheduler was not started.
        """
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; pass execution_groups as a setting instead")
        self._node.set_groups(checked_groups(limits))

    # --- cancellation

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """Return the contexts of the executions that run on this node. `running` lists those of all nodes."""
        if self._node is None:
            return []
        return [execution.context for execution in self._node.running() if execution.context is not None]

    def interrupt(self, key: JobKey | str) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there were any.

        `cancel_job` does this in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        job_key = checked_key(key, JobKey)
        return self._interrupt(lambda execution: execution.fired.job_key == job_key)

    def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it is running here.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            UnableToInterruptJobError: the scheduler was not started.
        """
        checked_id = checked_fire_id(fire_id)
        return self._interrupt(lambda execution: execution.fired.fire_id == checked_id)

    def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on any node of the cluster. Return whether it was still running.

        The job sees `context.cancelled`. An `async def` job that does not end by itself is cancelled at its next
        `await`. An execution that stops because of this is recorded as CANCELLED and is not retried. If this returns
        True, the execution does not run again by a retry, a snooze or a recovery, however it ends; and if its job has
        not begun, it does not begin.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        checked_id = checked_fire_id(fire_id)
        requested = self._usable_store().request_cancel(checked_id)
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id == checked_id)
        if not requested and self.execution(str(checked_id)) is None:
            raise ExecutionNotFoundError(f"fire_id {checked_id}: no running execution, and none in the history, has it")
        return bool(requested)

    def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all running executions of a job to stop, on all nodes of the cluster. Return their fire ids.

        Each is stopped as by `cancel`. Later fires of the job's triggers are not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: the job is not stored, and no execution of it is running.
        """
        job_key = checked_key(key, JobKey)
        requested = set(self._usable_store().request_cancel(job_key))
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id in requested)
        if not requested and not self.check_exists(job_key):
            raise JobNotFoundError(f"job {job_key} is not stored, and no execution of it is running")
        return requested

    def _interrupt(self, chosen: Callable[[Execution], bool]) -> bool:
        self._check_usable()
        if self._node is None:
            raise UnableToInterruptJobError("the scheduler was not started, so no executions run on it")
        return self._node.interrupt(chosen) > 0

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return the name, state and counts of this scheduler. It makes no round trip to the database."""
        return SchedulerMetadata(
            name=self.name,
            instance_id=self.instance_id,
            version=self._version,
            store=type(self._store).__name__,
            is_started=self.is_started,
            is_in_standby=self.is_in_standby,
            is_shut_down=self.is_shut_down,
            running_since=self._running_since,
            workers=self._config.workers,
            jobs_executed=self._node.recorded if self._node else 0,
        )
