"""The facade: every verb a user has. No SQL, and no threads of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

from quartzpy.aio.calls import VerbThreads
from quartzpy.aio.transaction import AsyncTransactionVerbs, is_asynchronous
from quartzpy.cluster_events import ClusterEvents
from quartzpy.config import checked_groups
from quartzpy.context import JobExecutionContext
from quartzpy.errors import (
    ExecutionNotFoundError,
    JobNotFoundError,
    SchedulerStateError,
    SettingsError,
    UnableToInterruptJobError,
)
from quartzpy.instants import as_span
from quartzpy.keys import JobKey, checked_key
from quartzpy.life import SchedulerLife
from quartzpy.runtime.execution import Execution
from quartzpy.store.protocol import JobStore
from quartzpy.transaction_verbs import TransactionVerbs
from quartzpy.verbs.looking import FireRef, checked_fire_id

if TYPE_CHECKING:
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


class BaseScheduler(SchedulerLife):
    """Schedules jobs in a store and, once started, runs them as a node of the cluster.

    Without `start` it is a client: everything but running jobs works. It may be used from any thread.
    """

    # --- inside a user's transaction

    @overload
    def using(self, connection: AsyncUserConnection) -> AsyncTransactionVerbs: ...

    @overload
    def using(self, connection: UserConnection) -> TransactionVerbs: ...

    def using(self, connection: Any) -> TransactionVerbs | AsyncTransactionVerbs:
        """The scheduling verbs inside a transaction of the caller's; its commit or rollback counts for them, too.

        `connection` is a SQLAlchemy `Connection`, `Session` or `scoped_session`, a psycopg connection, or Django's
        `connection` inside `atomic()`. For a SQLAlchemy `AsyncConnection` or `AsyncSession` (on psycopg or asyncpg) and
        psycopg's `AsyncConnection`, the verbs are awaited.

        Other nodes learn of the change with the commit. A slow caller holds up the triggers that it touches and no
        others, because no row of `locks` is taken.

        Raises:
            InvalidValueError: something else is given, or a connection in autocommit mode, or the store is memory://.
                From an asynchronous connection, the first verb that is awaited raises it.
        """
        if is_asynchronous(connection):
            return self.using_async(connection, self._verb_threads)
        return self._inside(self._usable_store().within(connection))

    def using_async(self, connection: Any, threads: VerbThreads) -> AsyncTransactionVerbs:
        """As `using`, with verbs that are awaited whichever connection it is; they run on `threads`."""
        return AsyncTransactionVerbs(self._usable_store, connection, self._config, self._inside, threads)

    def _inside(self, store: JobStore) -> TransactionVerbs:
        return TransactionVerbs(store, self._config, self._clock, self._job_types, self._job_defaults)

    # --- the whole cluster

    def cluster_events(self, *, look_every: timedelta | float | str = "1s") -> ClusterEvents:
        """Watch the whole cluster: iterate over what starts and ends on any node, and nodes that come and go.

        `for event in scheduler.cluster_events(): ...` blocks while nothing happens; the scheduler need not be started.
        See `ClusterEvents`. `look_every` is how often the tables are read where no notification arrives. It costs the
        nodes one notification, at most ten times a second, while somebody watches, and nothing otherwise.

        Raises:
            SettingsError: `look_every` is no span of time.
            StoreUnavailableError: the database cannot be reached now.
        """
        return ClusterEvents(self._usable_store, as_span(look_every, "look_every", SettingsError).total_seconds())

    # --- this node

    def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Limit execution groups on this node anew, as the setting `execution_groups` does; what runs goes on.

        Raises:
            SettingsError: a limit is no number from 0.
            SchedulerStateError: the scheduler was not started.
        """
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; give execution_groups as a setting")
        self._node.set_groups(checked_groups(limits))

    # --- interrupting

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """The executions that run on this node; `running` shows those of all."""
        if self._node is None:
            return []
        return [execution.context for execution in self._node.running() if execution.context is not None]

    def interrupt(self, key: JobKey | str) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there was one.

        `cancel_job` does so in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        job_key = checked_key(key, JobKey)
        return self._interrupt(lambda execution: execution.fired.job_key == job_key)

    def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it runs here.

        Raises:
            InvalidValueError: `fire_id` is not the id of any execution.
            UnableToInterruptJobError: the scheduler was not started.
        """
        wanted = checked_fire_id(fire_id)
        return self._interrupt(lambda execution: execution.fired.fire_id == wanted)

    def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on whichever node of the cluster it runs. Return whether it still runs.

        The job sees `context.cancelled`; an `async def` job that does not end is cut off at its next `await`. An
        execution that stops so is CANCELLED in the history and is not retried.

        Raises:
            InvalidValueError: `fire_id` is not the id of any execution.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        wanted = checked_fire_id(fire_id)
        asked = self._usable_store().request_cancel(wanted)
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id == wanted)
        if not asked and self.execution(str(wanted)) is None:
            raise ExecutionNotFoundError(f"fire_id {wanted}: no such execution runs, and the history has none")
        return asked

    def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all executions of a job to stop, on all nodes of the cluster, as `cancel` does for one.

        Returns the fire ids of the executions that were asked. What the job's triggers fire later is not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: no such job is stored, and none of its executions runs.
        """
        job_key = checked_key(key, JobKey)
        asked = set(self._usable_store().request_cancel_of_job(job_key))
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id in asked)
        if not asked and not self.check_exists(job_key):
            raise JobNotFoundError(f"job {job_key} is not stored, and no execution of it runs")
        return asked

    def _interrupt(self, chosen: Callable[[Execution], bool]) -> bool:
        self._check_usable()
        if self._node is None:
            raise UnableToInterruptJobError("the scheduler was not started, so that nothing runs here")
        return self._node.interrupt(chosen) > 0

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return what this scheduler is and has done, without asking the database."""
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
