"""A request to one execution to stop."""

from __future__ import annotations

import threading


class Cancellation:
    """A flag like `threading.Event`, whose event is created on the first wait, because most executions never wait."""

    __slots__ = ("_event", "_requested", "noticed")
    _making = threading.Lock()

    def __init__(self) -> None:
        self._requested = False
        self._event: threading.Event | None = None
        self.noticed = False
        """True once the execution itself has seen the request."""

    def set(self) -> None:
        with self._making:
            self._requested = True
            if self._event is not None:
                self._event.set()

    def is_set(self) -> bool:
        return self._requested

    def notice(self) -> bool:
        """Return whether the execution should stop, and record that it has seen the request."""
        self.noticed = self.noticed or self._requested
        return self._requested

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the request for at most `timeout` seconds. Return whether it was made."""
        with self._making:
            if self._requested:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
