"""An engine whose calls go on when a node ends: threads of this process, which all its nodes share."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from quartzpy.node.engines.protocol import Abilities, Call, EngineEvents, EngineSettings, Found
from quartzpy.node.engines.worker import run

CALLS: dict[str, Future[str]] = {}


class Lasting:
    abilities = Abilities(repeats=True, can_find=True, can_adopt=True)

    def start(self, events: EngineEvents) -> None:
        self._events = events

    def capacity(self) -> int | None:
        return 4

    def submit(self, call: Call) -> None:
        ends: Future[str] = Future()
        CALLS[call.token] = ends
        threading.Thread(target=lambda: ends.set_result(run(call.message)), daemon=True).start()
        self.adopt(call)

    def stop(self, token: str, *, kill: bool = False) -> bool:
        return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return {token: Found.DONE if CALLS[token].done() else Found.RUNNING for token in tokens if token in CALLS}

    def adopt(self, call: Call) -> bool:
        if call.token not in CALLS:
            return False
        CALLS[call.token].add_done_callback(lambda ends: self._events.ended(call.token, ends.result()))
        return True

    def close(self, timeout: float) -> None: ...


def engine(settings: EngineSettings) -> Lasting:
    return Lasting()
