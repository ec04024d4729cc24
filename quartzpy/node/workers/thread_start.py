"""Starting of threads in a process that may be at its thread limit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress


class ThreadStart:
    """Starts threads of one kind. It logs once that this fails, and once that it works again."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.failures = 0
        """The number of consecutive failed attempts."""

    def of(self, target: Callable[[], None], name: str) -> threading.Thread | None:
        """Start a thread that runs `target`. Return None if that fails; the caller must try again later."""
        try:
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # CPython raises RuntimeError if the system refuses a thread, and while the interpreter shuts down.
            self.failures += 1
            if self.failures == 1:
                with suppress(Exception):
                    self._logger.error("thread %s cannot be started (%s); its work is delayed", name, error)
            return None
        if self.failures:
            with suppress(Exception):
                self._logger.warning("thread %s was started at attempt %d", name, self.failures + 1)
            self.failures = 0
        return thread
