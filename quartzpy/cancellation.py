"""A request to stop, seen by the one execution it is for."""

from __future__ import annotations

import threading


class Cancellation:
    """As a `threading.Event`, but made only when somebody waits: most executions never look."""

    __slots__ = ("_asked", "_event", "noticed")
    _making = threading.Lock()

    def __init__(self) -> None:
        self._asked = False
        self._event: threading.Event | None = None
        self.noticed = False
        """True if the execution looked, and learned that it should stop."""

    def set(self) -> None:
        with self._making:
            self._asked = True
            if self._event is not None:
                self._event.set()

    def is_set(self) -> bool:
        return self._asked

    def notice(self) -> bool:
        """The execution itself asks whether it should stop."""
        self.noticed = self.noticed or self._asked
        return self._asked

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the request up to `timeout` seconds; whether it came."""
        with self._making:
            if self._asked:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
