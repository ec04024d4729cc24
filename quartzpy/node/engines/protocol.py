"""What a node asks of an engine, and what an engine tells the node.

An engine runs calls somewhere else: in child processes, on a pool of `concurrent.futures`, on a cluster. Many engines
run a call again by themselves when a worker dies, and do not say so. So the call of such an engine takes a *ticket* in
the database before it imports the job: see `quartzpy.node.engines.worker`. An engine of another package is an entry
point of the group `quartzpy.engines`: a function that takes `EngineSettings` and returns an `Engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import JobFactory

MAX_SUBMIT_SECONDS = 1.0
"""The longest time, in seconds, for which `Engine.submit` may block."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do. The node shows what it cannot, and never pretends."""

    repeats: bool
    """True if it may run a call again by itself, so that only a call with a ticket runs the job once."""
    can_stop: bool = False
    """True if a running job notices a request to stop that `Engine.stop` passes on."""
    can_kill: bool = False
    """True if `Engine.stop(token, kill=True)` ends a running call."""
    can_find: bool = False
    """True if `Engine.find` knows the calls that this engine has submitted."""
    can_adopt: bool = False
    """True if `Engine.adopt` watches a call that another node has submitted."""


class Found(StrEnum):
    """What an engine knows about a call."""

    RUNNING = "running"
    """It waits for a worker of the engine, or runs."""
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"
    """The engine is certain that the call neither waits nor runs."""
    UNKNOWN = "unknown"
    """The engine cannot say. It is never taken for a failure."""


@dataclass(frozen=True, slots=True)
class Call:
    """An execution for an engine: the worker calls `quartzpy.node.engines.worker.run(message)`."""

    token: str
    """The name of this submission, unique for the database: fire id, attempt, and number of the submission.

    The store has it before the engine gets it. An engine with names of its own for calls uses it as the name."""
    message: str
    """All that the worker needs, as JSON."""
    job: str
    """The key of the job, to be shown."""
    may_start: Callable[[], bool | None]
    """Ask the node's lease, which an engine does that itself starts the job: False if the job must not start any more,
    None to ask again soon. A call with a ticket need not ask."""


class EngineEvents(Protocol):
    """What an engine tells the node. Any thread may call it, at any time, and more than once: each end counts once."""

    def began(self, token: str, worker: str) -> None:
        """The call has begun on a worker."""
        ...

    def progress(self, token: str, fraction: float | None, message: str | None) -> None: ...

    def log(self, token: str, text: str) -> None: ...

    def ended(self, token: str, answer: str) -> None:
        """The call has ended; `answer` is what `run` returned."""
        ...

    def lost(self, token: str, reason: str, *, may_have_begun: bool, exit_code: int | None = None) -> None:
        """The engine has lost the call, which is not an error of the job. `exit_code` is that of its process."""
        ...

    def killed(self, token: str) -> None:
        """The call was ended by `Engine.stop` with `kill`."""
        ...

    def changed(self) -> None:
        """The capacity has changed."""
        ...

    def unavailable(self, reason: str) -> None:
        """The engine cannot be reached. The node submits nothing, and calls `start` again until that succeeds."""
        ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is made from."""

    executor: str
    """The name of the executor, as in the setting `executors`."""
    kind: str
    address: str
    """What the setting says behind the kind and the number of workers; "" if nothing."""
    workers: int | None
    """The largest number of calls at the same time; None: `capacity` says it."""
    name: str
    """Begins the names of threads and processes."""
    memory_limit: int | None
    max_job_data_bytes: int
    job_factory: JobFactory
    tracing: Tracing | None
    monotonic: Callable[[], float]


class Engine(Protocol):
    """Runs calls. One thread of the node calls the methods at a time, except `submit` of an engine without tickets."""

    abilities: Abilities

    def start(self, events: EngineEvents) -> None:
        """Connect. It is called again after `unavailable`.

        Raises:
            Exception: the engine cannot be reached; the text says what cannot, and why.
        """
        ...

    def capacity(self) -> int | None:
        """Return the number of calls that may be submitted and not ended, as of now. None: the configured number."""
        ...

    def submit(self, call: Call) -> None:
        """Pass a call on, and return within `MAX_SUBMIT_SECONDS`.

        Raises:
            Exception: the call was certainly not passed on. An engine that is not certain calls `events.lost`.
        """
        ...

    def stop(self, token: str, *, kill: bool = False) -> bool:
        """Ask a call to stop, or end it. Return True only if it is certainly over."""
        ...

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        """Return what the engine knows about calls. A token that is missing in the answer is UNKNOWN."""
        ...

    def adopt(self, call: Call) -> bool:
        """Watch a call that another node has submitted, made anew for this one. Return False if it is not known."""
        ...

    def close(self, timeout: float) -> None:
        """End the connection, after calls that are running have had `timeout` seconds to end."""
        ...
