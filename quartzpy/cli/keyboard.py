"""Single keys from a terminal, whose settings are restored at the end."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TextIO

POLL_SECONDS = 0.2
_KEY = re.compile(r"\x1b(?:[\[O][\d;]*[A-Za-z~])?|.", re.DOTALL)
_CONTROL = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}
_ENDS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "backtab"}
_NUMBERS = {"1": "home", "4": "end", "5": "pageup", "6": "pagedown"}
_NAMES = _CONTROL | {f"\x1b{start}{end}": name for start in "[O" for end, name in _ENDS.items()}
_NAMES |= {f"\x1b[{number}~": name for number, name in _NUMBERS.items()}


def keys_of(text: str) -> list[str]:
    """Return the keys in what a terminal sent: characters, and names for those that have none ("up", "escape")."""
    return [_NAMES.get(key, key) for key in _KEY.findall(text) if key in _NAMES or not key.startswith("\x1b")]


class Keyboard:
    """Calls `pressed` with each key, on a thread, and with "" at the end of the input. Only a terminal has keys.

    Ctrl-C still sends SIGINT.
    """

    def __init__(self, source: TextIO, pressed: Callable[[str], None]) -> None:
        self._pressed = pressed
        self._descriptor = source.fileno() if source.isatty() else None
        self._before: list[Any] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="keyboard", daemon=True)

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            self.take()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._descriptor is not None:
            self._thread.join()
            self.give_back()

    def take(self) -> None:
        """Let the terminal send each key at once, and not show it."""
        if self._descriptor is not None:
            tty.setcbreak(self._descriptor)

    def give_back(self) -> None:
        """Restore the settings of the terminal."""
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        assert self._descriptor is not None
        while not self._closed.is_set():
            readable, _, _ = select.select([self._descriptor], [], [], POLL_SECONDS)
            if not readable:
                continue
            try:
                text = os.read(self._descriptor, 1024).decode(errors="ignore")
            except OSError:
                text = ""
            for key in keys_of(text):
                self._pressed(key)
            if not text:
                self._pressed("")  # The terminal has gone.
                return


def ask_key(text: str) -> str:
    """Print a text, and return the next key."""
    keys: SimpleQueue[str] = SimpleQueue()
    with Keyboard(sys.stdin, keys.put):
        sys.stdout.write(text)
        sys.stdout.flush()
        key = keys.get()
    sys.stdout.write("\n")
    return key
