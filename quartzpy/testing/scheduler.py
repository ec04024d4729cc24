"""A scheduler in memory that runs jobs on the calling thread when its clock is moved: a month in milliseconds.

The store, the triggers and the running of jobs are those of production; what is left out is threads and waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.config import SchedulerConfig
from quartzpy.errors import InvalidValueError
from quartzpy.events import Event
from quartzpy.instants import Span, as_instant, as_span
from quartzpy.job import JobTypes, checked_defaults, job_types
from quartzpy.job_factory import JobFactory, new_instance
from quartzpy.listeners import Listeners
from quartzpy.middleware import Middleware
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.runtime.deadlines import Deadlines
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.event_loop import LoopWork
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.fire_requests import fire_request_of, refill_of
from quartzpy.runtime.job_runner import JobRunner
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import AvailableSlots, Completion, DispatchKey, FiredTrigger, JobStore
from quartzpy.store.ram.store import RamJobStore
from quartzpy.store.records import ExecutionRecord
from quartzpy.verbs.scheduling import SchedulingVerbs

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
A_CENTURY = 100 * 366 * 86_400.0
MOST_AT_ONCE = 1_000
MOST_EXECUTIONS = 1_000_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self._start = self._now = as_instant(start, "start")

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def move_to(self, instant: datetime) -> None:
        """Set the clock. Raises InvalidValueError: it would go back."""
        if instant < self._now:
            raise InvalidValueError(f"clock: {instant.isoformat()} is before {self._now.isoformat()}")
        self._now = instant


class SchedulerHarness(SchedulingVerbs):
    """All scheduling verbs on a store in memory, and a clock: `harness.advance(timedelta(days=30))`.

    Jobs run on the calling thread, one after the other, each at its instant of the moved clock; `async def` jobs in
    an event loop of their own. Nothing misfires while the clock is advanced; `advance(..., running=False)` is a time in
    which no node is up, and what is late afterwards is handled as its misfire instruction says. Timeouts never strike,
    as the clock stands still while a job runs.
    """

    def __init__(
        self,
        start: datetime = DEFAULT_START,
        *,
        job_types: JobTypes = job_types,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        self.clock = ManualClock(start)
        self.listeners = Listeners()
        self._clock = self.clock
        self._config = SchedulerConfig.of({"name": "testing", **settings})
        self._store = RamJobStore(self.clock)
        self._job_types = job_types
        self._job_defaults = checked_defaults(job_defaults)
        self._node = self._store.register(
            "testing",
            host="testing",
            pid=0,
            checkin_interval=self._config.checkin_interval,
            window=self._config.failure_window,
        )
        self._epoch = Epoch(self._node, self.clock, A_CENTURY, 0.0)
        self._ended: list[Completion] = []
        self._runner = JobRunner(
            job_types=job_types,
            job_factory=job_factory,
            middleware=middleware,
            store_time=StoreTime(self.clock),
            loop=_OwnLoop(),
            deadlines=_NoDeadlines("no deadlines", self.clock),
            listeners=self.listeners,
            store=self._store,
            unblocked=lambda earliest: None,
            scheduler=self,
            ended=self._take,
            max_job_data_bytes=self._config.max_job_data_bytes,
        )

    # --- time

    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return self.clock.now()

    def advance(self, span: Span, *, running: bool = True) -> list[ExecutionRecord]:
        """Move the clock on by `span`, a length of time; the executions of that time, in order. See `advance_to`."""
        return self.advance_to(self.now + as_span(span, "span"), running=running)

    def advance_to(self, instant: datetime, *, running: bool = True) -> list[ExecutionRecord]:
        """Move the clock to `instant` and run what is due on the way; these executions, in order.

        With `running=False` nothing runs, as if no node were up.

        Raises:
            InvalidValueError: `instant` is in the past, or more than a million executions came.
        """
        if not running:
            self.clock.move_to(instant)
            return []
        executions: list[ExecutionRecord] = []
        if instant < self.now:
            self.clock.move_to(instant)
        while True:
            self._handle_misfires()
            due = self._store.acquire(
                self._node,
                [AvailableSlots(*dispatch_key) for dispatch_key in self._dispatch_keys()],
                limit=MOST_AT_ONCE,
                look_ahead=timedelta(),
                misfire_threshold=self._config.misfire_threshold,
            )
            moves = [fire_request_of(claim, self.now) for claim in due.acquired]
            fired = [*due.fired, *(self._store.fire(self._node, moves).fired if moves else ())]
            executions += [record for one in fired for record in self._run(one)]
            if len(executions) > MOST_EXECUTIONS:
                raise InvalidValueError(f"advance: more than {MOST_EXECUTIONS} executions; advance in smaller steps")
            if fired:
                continue
            if due.next_due is None or due.next_due > instant:
                self.clock.move_to(instant)
                return executions
            self.clock.move_to(max(due.next_due, self.now))

    def run_pending(self) -> list[ExecutionRecord]:
        """Run what is due now, without moving the clock."""
        return self.advance_to(self.now)

    def _handle_misfires(self) -> None:
        more = True
        while more:
            outcome = self._store.recover_misfires(
                self._node,
                self._dispatch_keys(),
                threshold=self._config.misfire_threshold,
                limit=self._config.misfire_batch_size,
            )
            more = outcome.more

    def _dispatch_keys(self) -> list[DispatchKey]:
        """All that wait for a job that is known here: wherever it may run, it runs here."""
        names = set(self._job_types.names())
        return sorted(dispatch_key for dispatch_key in self._store.waiting_lanes() if dispatch_key.job_type in names)

    def _run(self, fired: FiredTrigger) -> list[ExecutionRecord]:
        self._runner.run(Execution(fired, self._epoch))
        completions, self._ended = self._ended, []
        for completion in completions:
            completion.refill = refill_of(fired)
        self._store.complete(self._node, completions)
        return self._store.list_executions(len(completions))

    def _take(self, execution: Execution, completion: Completion | None) -> None:
        if completion is not None:
            self._ended.append(completion)

    # --- what the verbs need

    def _usable_store(self) -> RamJobStore:
        self._store.check_in(self._node)
        wanted = [placement_from_text(dispatch_key.placement) for dispatch_key in self._dispatch_keys()]
        can = Capabilities(
            frozenset(self._job_types.names()),
            frozenset(one.executor for one in wanted),
            frozenset(label for one in wanted for label in one.requires),
        )
        self._store.publish(self._node, can)
        return self._store

    def _changed(self, earliest: datetime | None) -> None:
        """It runs when the clock is moved."""

    def _rest(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def _inside(self, store: JobStore) -> SchedulingVerbs:
        return self

    def _tell(self, event: Event) -> None:
        self.listeners.emit(event)


class _OwnLoop:
    """Runs an `async def` job at once, to its end."""

    def run(self, work: Coroutine[Any, Any, None], name: str, done: Callable[[], None]) -> LoopWork | None:
        asyncio.run(work)
        done()
        return None


class _NoDeadlines(Deadlines):
    """The clock stands still while a job runs."""

    def add(self, seconds: float, action: Any) -> int:
        return 0
