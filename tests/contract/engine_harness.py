"""What the contract tests need of an engine, what they submit to it, and what it tells them."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import loky

from quartzpy import Job
from quartzpy.clock import SystemClock
from quartzpy.config.engine_names import engine_reference
from quartzpy.config.pools import ExecutorConfig
from quartzpy.job_data import MAX_BYTES, decode
from quartzpy.jobs.job import new_instance
from quartzpy.node.engines.process_messages import fired_to_json
from quartzpy.node.engines.protocol import Call, Engine, EngineSettings
from quartzpy.object_references import object_at
from tests.contract.engine_jobs import Gate
from tests.engines.dask.clusters import DaskProcesses
from tests.node.processes import execution_of
from tests.waiting import LIMIT, wait_until

_FIRES = count(1)


class EngineHarness:
    """An engine for the contract tests. Two engines of a harness are those of two nodes."""

    setting = ""
    """The executor, as in the setting `executors`."""
    seconds = LIMIT
    """The longest time, in seconds, in which the engine tells what has happened."""
    watched_for = 1.0
    """The seconds for which what must not happen is watched for."""

    def new_engine(self) -> Engine:
        config = ExecutorConfig.of(self.setting)
        make = object_at(engine_reference(config.kind), self.setting, "my_package.engines:engine")
        engine: Engine = make(
            EngineSettings(
                executor="big",
                kind=config.kind,
                address=config.address,
                workers=config.workers,
                name="contract-big",
                memory_limit=None,
                max_job_data_bytes=MAX_BYTES,
                job_factory=new_instance,
                tracing=None,
                monotonic=SystemClock().monotonic,
            )
        )
        return engine

    def close(self) -> None:
        """End what the harness has started."""


class ProcessesHarness(EngineHarness):
    setting = "processes:2"


class ProcessPoolHarness(EngineHarness):
    setting = "futures:2:tests.contract.engine_harness:process_pool"


class LokyHarness(EngineHarness):
    setting = "futures:2:tests.contract.engine_harness:loky_pool"


class DaskHarness(EngineHarness):
    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="dask-")
        self._cluster = DaskProcesses(Path(self._directory.name))
        for _ in range(2):
            self._cluster.add_worker()
        self.setting = f"dask:2:{self._cluster.address}"

    def close(self) -> None:
        self._cluster.close()
        self._directory.cleanup()


OURS: dict[str, type[EngineHarness]] = {
    "processes": ProcessesHarness,
    "process-pool": ProcessPoolHarness,
    "loky": LokyHarness,
    "dask": DaskHarness,
}


def process_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def loky_pool() -> loky.ProcessPoolExecutor:
    return loky.ProcessPoolExecutor(2)


@dataclass(frozen=True)
class End:
    """An end of a call as an engine tells it."""

    how: str
    answer: str = ""
    may_have_begun: bool = True
    job_had_ended: bool = False

    @property
    def result(self) -> Any:
        assert self.how == "ended", self
        return decode(json.loads(self.answer)["ending"]["result"])["result"]


class Told:
    """Keeps what an engine tells the node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ends: dict[str, list[End]] = {}

    def _add(self, token: str, end: End) -> None:
        self.ends.setdefault(token, []).append(end)

    def began(self, token: str, worker: str) -> None: ...

    def progress(self, token: str, fraction: float | None, message: str | None) -> None: ...

    def log(self, token: str, text: str) -> None: ...

    def ended(self, token: str, answer: str) -> None:
        had_ended = any((self._directory / f"{fire_of(token)}.{how}").exists() for how in ("ended", "stopped"))
        self._add(token, End("ended", answer, job_had_ended=had_ended))

    def lost(self, token: str, reason: str, *, may_have_begun: bool, exit_code: int | None = None) -> None:
        assert reason
        self._add(token, End("lost", reason, may_have_begun))

    def killed(self, token: str) -> None:
        self._add(token, End("killed"))

    def changed(self) -> None: ...

    def unavailable(self, reason: str) -> None: ...


class Stand:
    """An engine that has started, the calls that it gets, and what it tells of them."""

    def __init__(self, harness: EngineHarness, directory: Path) -> None:
        self.harness = harness
        self.directory = directory
        self.calls: dict[str, Call] = {}
        self.told = Told(directory)
        self.engine = harness.new_engine()
        self.engine.start(self.told)

    def submit(self, job: type[Job] = Gate, *, opened: bool = False) -> str:
        """Submit a call without a ticket, and return its token. Its job runs until `open`."""
        call = self.call(job)
        if opened:
            self.open(call.token)
        self.engine.submit(call)
        return call.token

    def call(self, job: type[Job] = Gate) -> Call:
        fire_id = next(_FIRES)
        fired = execution_of(job, stored={"fire_id": fire_id}, directory=str(self.directory)).fired
        token = f"{fire_id}.1.{secrets.randbits(31)}"
        message = {
            "token": token,
            "scheduler": "contract",
            "schema": None,
            "prefix": "qrtz_",
            "fire_id": fire_id,
            "submission": None,
            "touch_every": 5.0,
            "window": 60.0,
            "within": None,
            "fired": fired_to_json(fired, job),
            "trace": {},
            "refire_count": 0,
            "instance_id": "node",
            "job_factory": None,
            "max_job_data_bytes": MAX_BYTES,
        }
        call = self.calls[token] = Call(token, json.dumps(message), str(fired.job_key), may_start=lambda: True)
        return call

    def open(self, token: str) -> None:
        """Let the job of a call return."""
        (self.directory / f"{fire_of(token)}.open").touch()

    def pids(self, token: str, what: str = "begun") -> list[int]:
        """Return the processes in which the job has begun, or "ended" or "stopped": one for each run."""
        file = self.directory / f"{fire_of(token)}.{what}"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def begun(self, token: str) -> int:
        """Wait until the job runs, and return its process."""
        return wait_until(lambda: self.pids(token), "the job begins", seconds=self.harness.seconds)[-1]

    def end_of(self, token: str) -> End:
        """Wait for the end of a call, and return it. An engine may tell it again, but not tell another one."""
        ends = wait_until(lambda: self.told.ends.get(token), "an end is told", seconds=self.harness.seconds)
        assert len({end.how for end in ends}) == 1, ends
        return ends[0]

    def run_many(self, number: int) -> list[str]:
        """Run calls, as many at a time as the engine takes, and return their tokens after they have ended."""
        tokens: list[str] = []
        for _ in range(number):
            self._wait_for_room(tokens)
            tokens.append(self.submit(opened=True))
        for token in tokens:
            self.end_of(token)
        return tokens

    def _wait_for_room(self, tokens: Collection[str]) -> None:
        capacity = self.engine.capacity() or ExecutorConfig.of(self.harness.setting).workers
        assert capacity
        wait_until(
            lambda: sum(token not in self.told.ends for token in tokens) < capacity,
            "a call ends",
            seconds=self.harness.seconds,
        )

    def close(self, timeout: float = 0.0) -> None:
        self.engine.close(timeout)


@contextmanager
def stand_of(harness: EngineHarness, directory: Path) -> Iterator[Stand]:
    stand = Stand(harness, directory)
    try:
        yield stand
    finally:
        stand.close()


def fire_of(token: str) -> str:
    return token.partition(".")[0]


def is_running(pid: int) -> bool:
    """Return whether a process is there that is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z" and pid != os.getpid()
