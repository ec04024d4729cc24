"""Single key presses from a terminal, whose settings are restored at the end."""

from __future__ import annotations

import os
import select
import termios
import threading
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

POLL_SECONDS = 0.2


class Keyboard:
    """Calls `pressed` with each key, on a thread. It does nothing if the input is not a terminal.

    Ctrl-C still sends SIGINT.
    """

    def __init__(self, source: TextIO, pressed: Callable[[str], None]) -> None:
        self._pressed = pressed
        self._descriptor = source.fileno() if source.isatty() else None
        self._before: list[Any] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="demo keyboard", daemon=True)

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._descriptor is not None:
            self._thread.join()
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        assert self._descriptor is not None
        while not self._closed.is_set():
            readable, _, _ = select.select([self._descriptor], [], [], POLL_SECONDS)
            if not readable:
                continue
            try:
                text = os.read(self._descriptor, 64).decode(errors="ignore")
            except OSError:
                return  # the terminal was closed
            if not text:
                return
            for key in text:
                self._pressed(key)
