"""The gates at which executions of this node have ended, until an acquire step has looked there.

An end releases nothing: what is parked at its gate waits for a step of this node. So a gate is forgotten only once the
step that named it has answered, and what ends meanwhile is named by the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from quartzpy.store.protocol import Completion, Gate


class OpenedGates:
    """Any thread may add gates; only the scheduler thread takes them."""

    def __init__(self) -> None:
        self._added: deque[Gate] = deque()
        self._named: set[Gate] = set()
        """Those of the step that is under way, or whose answer was lost."""

    def add(self, gates: Iterable[Gate]) -> None:
        self._added.extend(gates)

    def __bool__(self) -> bool:
        return bool(self._added or self._named)

    def name_all(self) -> Collection[Gate]:
        """Return the gates for a step to look at. They are kept until `answered`."""
        while self._added:
            self._named.add(self._added.popleft())
        return self._named

    def answered(self) -> None:
        """Forget what the step has looked at."""
        self._named = set()


def gates_of(completions: Iterable[Completion]) -> set[Gate]:
    """Return the gates at which these ends leave places."""
    return {gate for completion in completions if (gate := completion.fired.gate) is not None}
