"""The scheduler for programs that run on an event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from quartzpy.aio.methods import AsyncSchedulerMethods
from quartzpy.config.setting_types import OutsideSettings, Settings
from quartzpy.errors import NodeUnhealthyError, SchedulerStateError, SettingsError
from quartzpy.events.listeners import Listeners
from quartzpy.factory import Scheduler
from quartzpy.instants import Span, as_span
from quartzpy.jobs.context import Middleware
from quartzpy.jobs.function_job import JobFunction
from quartzpy.jobs.function_job import job as job_of_function
from quartzpy.jobs.job import JobFactory, new_instance
from quartzpy.jobs.options import DecoratorOptions
from quartzpy.logs.default_handler import ensure_logging
from quartzpy.name_hints import SCHEDULER_NAMES, NameHints
from quartzpy.node.health import HealthState
from quartzpy.node.run import CHECK_EVERY
from quartzpy.scheduler.async_calls import MethodThreads
from quartzpy.scheduler.awaitable.results import AsyncClusterEvents
from quartzpy.scheduler.awaitable.transaction import AsyncTransactionMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.plugin import Plugin
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.transactions import TransactionMethods
from quartzpy.store.protocol import JobStore

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

_R = TypeVar("_R")

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _synchronous(database: Any) -> str | Engine | None:
    """Return the database as it is, or the URL of an asynchronous engine."""
    if type(database).__name__ != "AsyncEngine":
        address: str | Engine | None = database
        return address
    from quartzpy.store.postgresql.connection.urls import url_of_async_engine

    return url_of_async_engine(database.url)


class AsyncScheduler(NameHints, AsyncSchedulerMethods[BaseScheduler]):
    """A scheduler whose methods are awaited: `async with AsyncScheduler(url) as scheduler: await scheduler.jobs()`.

    It does what `Scheduler` does, on the same tables: it wraps an ordinary scheduler, `scheduler.blocking`, whose
    methods run on worker threads, so the event loop is never blocked. Jobs run as on every node: functions on worker
    threads, coroutine functions on the node's own event loop, never on the caller's.

    Cancelling a task that awaits a method ends the wait at once; a method that has started still completes.

    `database` and the other parameters are those of `Scheduler`. `database` may also be an existing scheduler, the
    `SchedulerHarness` of a test, or a SQLAlchemy `AsyncEngine` on psycopg or asyncpg. Only the engine's URL is used:
    the connections of an asynchronous pool belong to its event loop, and the scheduler's threads need connections of
    their own.

    Raises:
        SettingsError: a wrong URL, an unknown setting, or a wrong value.
    """

    _quartz_sections = ("Scheduler", "Matchers and listeners")

    _name_hints = SCHEDULER_NAMES

    def __init__(
        self,
        database: str | Engine | AsyncEngine | JobStore | SchedulingMethods | None = None,
        *,
        connect: Callable[[], psycopg.Connection[Any]] | None = None,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin[Scheduler] | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if isinstance(database, SchedulingMethods):
            if isinstance(database, TransactionMethods):
                raise SettingsError(
                    "database: these are the methods of one transaction; their awaitable form is"
                    " AsyncScheduler(scheduler).using(connection)"
                )
            if settings or connect is not None:
                names = sorted([*settings, *([] if connect is None else ["connect"])])
                raise SchedulerStateError(f"{', '.join(names)}: the scheduler that is given has its settings already")
            # The scheduler of a test has all that is used here.
            self.blocking = cast(BaseScheduler, database)
        else:
            self.blocking = Scheduler(
                _synchronous(database),
                connect=connect,
                job_factory=job_factory,
                middleware=middleware,
                plugins=plugins,
                context=context,
                job_defaults=job_defaults,
                **settings,
            )
        """The ordinary scheduler that this one wraps. Other threads may use it at any time."""
        self._threads = MethodThreads(self.blocking.config.pool_size + 3)
        self._decorated: list[Callable[[], Any]] = []
        if self.blocking._awaitable is None:
            self.blocking._awaitable = self

    @classmethod
    def from_config(cls, path: str | os.PathLike[str] | None = None, **settings: Unpack[OutsideSettings]) -> Self:
        """Create a scheduler from outside configuration; parameters and errors as for `Scheduler.from_config`."""
        return cls(Scheduler.from_config(path, **settings))

    @property
    def context(self) -> dict[str, Any]:
        """The values that jobs find in `context.scheduler.context`, in this process."""
        return self.blocking.context

    @property
    def listeners(self) -> Listeners:
        """The registry of listeners; they are called on the scheduler's threads, not on the event loop."""
        return self.blocking.listeners

    @property
    def _behind(self) -> BaseScheduler:
        return self.blocking

    async def _run(self, call: Callable[[BaseScheduler], _R]) -> _R:
        return await self._threads.run(call, self.blocking)

    async def _wait(self, call: Callable[[BaseScheduler], _R]) -> _R:
        try:
            return await self._threads.wait(call, self.blocking)
        finally:
            # Not before: jobs await methods until the drain is over.
            if self.blocking._closed.is_set():
                self._threads.close()

    # --- life cycle

    async def start(self, *, standby: bool = False) -> None:
        """Start to run jobs on this node, or resume after `standby`; first store the jobs of `scheduled_job`.

        With `standby`, a scheduler that was not started joins the cluster and takes nothing until it is started again.
        Errors as for `Scheduler.start`, and as for `schedule_job` for decorated functions.
        """
        await self._run(lambda _: self.store_decorated())
        await self._run(lambda behind: behind.start(standby=standby))

    def store_decorated(self) -> None:
        """Store the jobs of `scheduled_job`; for callers that start `blocking` themselves. This method blocks.

        Errors as for `schedule_job`.
        """
        while self._decorated:
            self._decorated[0]()
            del self._decorated[0]

    def cluster_events(self, *, poll_interval: Span = "1s") -> AsyncClusterEvents:
        """Watch the whole cluster: `async for event in scheduler.cluster_events(): ...`.

        The events are those of `Scheduler.cluster_events`, from the beginning of the loop on. Leaving the loop keeps a
        connection: `async with scheduler.cluster_events() as events: ...` gives it back at its end, as does awaiting
        `events.close()`.

        Raises:
            SettingsError: `poll_interval` is no span of time; the beginning of the loop raises it.
            StoreUnavailableError: the database cannot be reached; the beginning of the loop raises it.
        """
        return AsyncClusterEvents._made_once(self, lambda behind: behind.cluster_events(poll_interval=poll_interval))

    async def run(
        self,
        *,
        drain_timeout: Span | None = "30s",
        interrupt: bool = False,
        log_level: str = "INFO",
        log_format: str = "text",
    ) -> bool:
        """Start this node, sleep until it is asked to stop, and let running executions end, as a program's last line.

        SIGTERM, SIGINT (Ctrl-C), a call of `shutdown` and the cancellation of this task ask it to stop. Executions may
        then end within `drain_timeout` (None: however long they take); with `interrupt` they are asked to stop at once.
        Executions that still run after that time, or at a second signal, are asked to stop and left for other nodes to
        recover. Signals are handled if the event loop is that of the main thread. If the program has not configured
        logging, messages of `log_level` and above go to standard error, as text or, with `log_format="json"`, as JSON.

        Returns:
            True if all executions ended.

        Raises:
            NodeUnhealthyError: a thread of the node could not be kept alive, so that only a new process helps.
            SettingsError: `drain_timeout` is not a span of time, or `log_level` or `log_format` is not a valid
                name. Others as in `start`.
        """
        timeout = None if drain_timeout is None else as_span(drain_timeout, "drain_timeout", SettingsError)
        ensure_logging(log_level, log_format)
        loop = asyncio.get_running_loop()
        stops = [asyncio.Event(), asyncio.Event()]

        def ask(number: signal.Signals) -> None:
            if not stops[0].is_set():
                logger.info(
                    "%s: stopping; running executions may end %s, and a second signal abandons them",
                    number.name,
                    "however long they take" if timeout is None else f"within {timeout.total_seconds():g} s",
                )
            (stops[1] if stops[0].is_set() else stops[0]).set()

        handled = []
        for number in _SIGNALS:
            try:
                loop.add_signal_handler(number, ask, number)
            except (NotImplementedError, RuntimeError, ValueError):
                break
            handled.append(number)
        try:
            try:
                await self.start()
            except asyncio.CancelledError:
                # The start goes on in its thread, and nobody else would stop the node.
                await self._drain(stops[1], timeout, interrupt)
                raise
            try:
                await self._first_of(stops[0].wait(), self.wait_until_shut_down(), self._until_failed())
            finally:
                failed = self.health().state is HealthState.FAILED
                drained = await self._drain(stops[1], timeout, interrupt)
            if failed:
                raise NodeUnhealthyError("a thread of this node could not be kept alive; start a new process")
            return drained
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def _until_failed(self) -> None:
        while self.health().state is not HealthState.FAILED:
            await asyncio.sleep(CHECK_EVERY)

    async def _drain(self, given_up: asyncio.Event, timeout: timedelta | None, interrupt: bool) -> bool:
        # Shielded: a task that is cancelled still lets its executions end.
        draining = asyncio.ensure_future(self.shutdown(timeout=timeout, interrupt=interrupt))
        await self._first_of(asyncio.shield(draining), given_up.wait())
        if draining.done():
            return draining.result()
        draining.cancel()
        return await self.shutdown(wait=False)

    @staticmethod
    async def _first_of(*waits: Any) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except asyncio.CancelledError:
            # The start goes on in its thread, and `__aexit__` is not called after this.
            await self.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    # --- members without an awaitable form

    def scheduled_job(
        self, triggers: Any, name: str | None = None, **options: Unpack[DecoratorOptions]
    ) -> Callable[[Callable[..., Any]], JobFunction[..., Any]]:
        """Make a job of the decorated function, which `start` schedules; parameters as for `Scheduler.scheduled_job`.

        Raises:
            SchedulerStateError: the scheduler was started already: await `schedule_job` instead.
        """
        if not isinstance(self.blocking, BaseScheduler):
            # The scheduler of a test has always been started, and its store is in memory.
            return self.blocking.scheduled_job(triggers, name, **options)
        if self.is_started:
            raise SchedulerStateError("scheduled_job: the scheduler was started already; await schedule_job instead")
        several = list(triggers) if isinstance(triggers, Iterable) and not isinstance(triggers, str) else triggers

        def scheduled(function: Callable[..., Any]) -> JobFunction[..., Any]:
            made = function if isinstance(function, JobFunction) else job_of_function(function)
            self._decorated.append(lambda: self.blocking.scheduled_job(several, name, **options)(made))
            return made

        return scheduled

    def using(self, connection: Any) -> AsyncTransactionMethods:
        """Return the scheduling methods inside the transaction of a connection or session; each method is awaited.

        `connection` is any that `Scheduler.using` accepts. The first method that is awaited raises the errors.
        """
        return self.blocking._using_async(connection, self._threads)
