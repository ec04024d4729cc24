"""Questions to a store that travel together: a page that is made of many of them waits for few round trips."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from quartzpy.store.protocol import JobStore

_T = TypeVar("_T")


class Deferred(Generic[_T]):
    """The answer to a question. The first one that is called sends all questions that wait.

    A call returns what the method of the store returns, or raises the error that it raises.
    """

    def __init__(self, reading: BatchedReads) -> None:
        self._reading = reading
        self._received: Callable[[], _T] | None = None
        self._decoded: list[_T] = []

    def __call__(self) -> _T:
        if not self._decoded:
            if self._received is None:
                self._reading.send()
            assert self._received is not None, "all that wait are sent"
            self._decoded.append(self._received())
        return self._decoded[0]

    def receive(self, answer: Callable[[], _T]) -> None:
        self._received = answer


class BatchedReads:
    """The questions of one page. Those that are asked before an answer is called share one round trip.

    So a page asks all that it can before it looks at an answer. The store's time is asked once, with the first
    questions. A reading belongs to one thread.
    """

    def __init__(self, store: Callable[[], JobStore]) -> None:
        self.store = store
        self._waiting: list[tuple[Callable[[JobStore], Any], Deferred[Any]]] = []
        self.now: Deferred[datetime] = self.defer(lambda store: store.now())
        """The store's time, by which everything is decided."""

    def defer(self, question: Callable[[JobStore], _T]) -> Deferred[_T]:
        """Ask a question: one call of a method of the store that reads."""
        answer: Deferred[_T] = Deferred(self)
        self._waiting.append((question, answer))
        return answer

    def send(self) -> None:
        """Send the questions that wait, in one round trip.

        Raises:
            StoreUnavailableError: the store cannot be reached; the questions wait on.
        """
        received = self.store().ask([question for question, _ in self._waiting])
        for (_, answer), result in zip(self._waiting, received, strict=True):
            answer.receive(result)
        self._waiting = []
