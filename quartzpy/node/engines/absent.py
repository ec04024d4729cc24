"""What stands for the engine of an executor that this node does not have.

A node may adopt executions of an executor that no living node has: their rows say how they end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quartzpy.errors import SchedulerStateError
from quartzpy.node.engines.protocol import Abilities, Call, EngineEvents, EngineSettings, Found


class AbsentEngine:
    """Cannot be reached: calls are judged by their rows, and a job that is to run again is left to other nodes."""

    abilities = Abilities(repeats=True)

    def __init__(self, settings: EngineSettings | None = None) -> None: ...

    def start(self, events: EngineEvents) -> None:
        raise SchedulerStateError("this node does not have the executor of the job")

    def capacity(self) -> int | None:
        return None

    def submit(self, call: Call) -> None: ...

    def stop(self, token: str, *, kill: bool = False) -> bool:
        return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return {}

    def adopt(self, call: Call) -> bool:
        return False

    def close(self, timeout: float) -> None: ...
