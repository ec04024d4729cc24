"""An engine that runs each call twice at the same time, on threads of this process, and tells what it is asked to."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from quartzpy.node.engines.protocol import Abilities, Call, EngineEvents, EngineSettings, Found
from quartzpy.node.engines.worker import run

MUTE: list[bool] = []
"""While it has an entry, the engine forgets the answers."""


class Repeating:
    abilities = Abilities(repeats=True)

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, events: EngineEvents) -> None:
        self._events = events

    def capacity(self) -> int | None:
        return None

    def submit(self, call: Call) -> None:
        for _ in range(2):
            self._threads.append(threading.Thread(target=self._run, args=(call,), daemon=True))
            self._threads[-1].start()

    def _run(self, call: Call) -> None:
        answer = run(call.message)
        if not MUTE:
            self._events.ended(call.token, answer)

    def stop(self, token: str, *, kill: bool = False) -> bool:
        return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return {}

    def adopt(self, call: Call) -> bool:
        return False

    def close(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)


def engine(settings: EngineSettings) -> Repeating:
    return Repeating()
