"""A harness that runs process workers without a node."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.clock import SystemClock
from quartzpy.config.pools import ExecutorKind
from quartzpy.events.events import Event, JobWasExecuted
from quartzpy.events.listeners import Listeners
from quartzpy.job_data import encode
from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.jobs.job import Job, JobDetail, JobFactory, job_types, new_instance
from quartzpy.jobs.stored_options import options_text
from quartzpy.node.engines.messages import MessageMaker
from quartzpy.node.engines.processes import engine
from quartzpy.node.engines.protocol import EngineSettings
from quartzpy.node.engines.runs import EngineRuns
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.event_loop import EventLoopThread
from quartzpy.node.workers.execution import Execution, Executor
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.states import Outcome
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Completion, Node
from quartzpy.store.store_time import StoreTime
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
CLOCK = SystemClock()


def workers(size: int = 2, *, job_factory: JobFactory = new_instance) -> EngineRuns:
    settings = EngineSettings(
        executor="test",
        kind=ExecutorKind.PROCESSES,
        address="",
        workers=size,
        name="test",
        memory_limit=None,
        max_job_data_bytes=65_536,
        job_factory=job_factory,
        tracing=None,
        monotonic=CLOCK.monotonic,
    )
    made = EngineRuns(
        "test-engine",
        engine(settings),
        executor="test",
        workers=size,
        tickets=None,
        pool=WorkerPool(size, "test"),
        store=RamJobStore(CLOCK),
        job_types=job_types,
        messages=MessageMaker({"scheduler": "test"}, None),
        touch_every=5.0,
        window=60.0,
        clock=CLOCK,
    )
    made.start()
    return made


def execution_of(
    detail: JobDetail | type[Job],
    *,
    trigger: Trigger | None = None,
    calendar: Calendar | None = None,
    stored: dict[str, Any] | None = None,
    **data: Any,
) -> Execution:
    """Return a fire as a store returns it. `data` is the job's data if `job` is a class."""
    if isinstance(detail, type):
        detail = JobDetail(detail, "job", data=data, persist_data=False)
    trigger = (trigger or SimpleTrigger("once", start_time=START)).bound_to(detail.key)
    values: dict[str, Any] = {
        "fire_id": 41,
        "trigger_group": trigger.group,
        "trigger_name": trigger.name,
        "job_group": detail.group,
        "job_name": detail.name,
        "job_type": detail.job_type,
        "generation": 1,
        "fire_time": START + timedelta(seconds=1),
        "scheduled_fire_time": START,
        "previous_fire_time": None,
        "next_fire_time": None,
        "upcoming_instants": (),
        "upcoming_is_complete": True,
        "times_triggered": 1,
        "attempt": 1,
        "placement": detail.placement.text,
        "definition": options_text(detail),
        "persists_data": bool(detail.persist_data),
        "job_data": encode(detail.data),
        "trigger_data": encode(trigger.data),
        "calendar_revision": None,
    }
    fired = LoadedFire.of(
        FireFacts(**(values | (stored or {}))),
        load_trigger=lambda: trigger,
        load_job=lambda: detail,
        load_calendar=lambda: calendar,
    )
    no_runner: Any = None  # `Runner` sets itself.
    return Execution(no_runner, fired, Epoch(Node("node", 1), CLOCK, 3600.0, CLOCK.monotonic()))


@dataclass
class Ended:
    """The end of an execution: its completion, and the last event of its listeners."""

    completion: Completion
    told: JobWasExecuted

    @property
    def result(self) -> Any:
        assert self.completion.outcome is Outcome.SUCCEEDED, self.completion.error
        return self.told.context.result

    @property
    def error(self) -> BaseException:
        assert self.told.error is not None, self.told.context.result
        return self.told.error


class Runner(JobRunner):
    """The run of one execution in a child process."""

    def __init__(self, workers: EngineRuns, execution: Execution) -> None:
        execution.runner = self
        execution.executor = Executor("test", ExecutorKind.PROCESSES, workers._pool, workers)
        self.has_ended = threading.Event()
        self.completion: Completion | None = None
        self._told: list[JobWasExecuted] = []
        self._deadlines = Deadlines("test-deadlines", CLOCK)
        listeners = Listeners()
        listeners.add_listener(self._tell, JobWasExecuted)
        super().__init__(
            job_types=job_types,
            job_factory=new_instance,
            middleware=(),
            store_time=StoreTime(CLOCK),
            loop=EventLoopThread("test-loop"),
            scheduler=None,
            deadlines=self._deadlines,
            listeners=listeners,
            store=RamJobStore(CLOCK),
            unblocked=lambda earliest: None,
            ended=self._keep,
            max_job_data_bytes=65_536,
        )
        self._begin = execution

    def _tell(self, event: Event) -> None:
        assert isinstance(event, JobWasExecuted)
        self._told.append(event)

    def _keep(self, execution: Execution, completion: Completion | None) -> None:
        self.completion = completion
        self.has_ended.set()

    def begin(self) -> Runner:
        threading.Thread(target=self._begin, daemon=True).start()
        return self

    def end(self) -> Ended:
        self.has_ended.wait()
        self._deadlines.close()
        assert self.completion is not None
        return Ended(self.completion, self._told[-1])


def begun(workers: EngineRuns, execution: Execution) -> Runner:
    """Run an execution on another thread. `end` waits for its end."""
    return Runner(workers, execution).begin()


def ended(workers: EngineRuns, execution: Execution) -> Ended:
    return begun(workers, execution).end()


def pid_said(path: str) -> int:
    return int(Path(path).read_text())


def is_there(pid: int) -> bool:
    """Return whether there is a process, or a zombie, with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
