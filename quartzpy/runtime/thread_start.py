"""Starts threads where that may fail: a process at its limit of threads can start none until others have ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress


class ThreadStart:
    """Starts threads of one kind; says once that it cannot, and once that it can again."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.failures = 0
        """How many attempts failed since the last that did not."""

    def of(self, target: Callable[[], None], name: str) -> threading.Thread | None:
        """A thread that runs `target`; None: none can be started now, and the caller shall try again later."""
        try:
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # CPython raises RuntimeError where the system refuses a thread, and as the interpreter ends.
            self.failures += 1
            if self.failures == 1:
                with suppress(Exception):
                    self._logger.error("thread %s cannot be started (%s); what it would do waits", name, error)
            return None
        if self.failures:
            with suppress(Exception):
                self._logger.warning("thread %s was started at attempt %d", name, self.failures + 1)
            self.failures = 0
        return thread
