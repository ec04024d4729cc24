"""Events of an engine, written down, and the calls and settings of tests."""

from __future__ import annotations

import json
import threading
import time

from quartzpy.jobs.job import new_instance
from quartzpy.node.engines.protocol import Call, EngineSettings
from tests.waiting import LIMIT


def settings(address: str, workers: int | None = None) -> EngineSettings:
    return EngineSettings(
        executor="big",
        kind="dask",
        address=address,
        workers=workers,
        name="quartzpy-a-big",
        memory_limit=None,
        max_job_data_bytes=65_536,
        job_factory=new_instance,
        tracing=None,
        monotonic=time.monotonic,
    )


def call(token: str, **does: object) -> Call:
    return Call(token, json.dumps(does), "reports.monthly", lambda: True)


class RecordedEvents:
    """What an engine has told, in its order."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self._told = threading.Condition()

    def _tell(self, *event: object) -> None:
        with self._told:
            self.all.append(event)
            self._told.notify_all()

    def began(self, token: str, worker: str) -> None:
        self._tell("began", token, worker)

    def progress(self, token: str, fraction: float | None, message: str | None) -> None:
        self._tell("progress", token, fraction, message)

    def log(self, token: str, text: str) -> None:
        self._tell("log", token, text)

    def ended(self, token: str, answer: str) -> None:
        self._tell("ended", token, answer)

    def lost(self, token: str, reason: str, *, may_have_begun: bool, exit_code: int | None = None) -> None:
        self._tell("lost", token, reason, may_have_begun)

    def killed(self, token: str) -> None:
        self._tell("killed", token)

    def changed(self) -> None:
        self._tell("changed")

    def unavailable(self, reason: str) -> None:
        self._tell("unavailable", reason)

    def of(self, token: str) -> list[tuple[object, ...]]:
        return [event for event in self.all if token in event[1:2]]

    def wait_for(self, *beginning: object, seconds: float = LIMIT) -> tuple[object, ...]:
        """Return the first event that begins so."""

        def found() -> tuple[object, ...] | None:
            return next((event for event in self.all if event[: len(beginning)] == beginning), None)

        with self._told:
            event = self._told.wait_for(found, seconds)
        assert event is not None, f"{beginning} was not told; told was {self.all}"
        return event
