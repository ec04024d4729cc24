"""The terminal of `quartzpy top`: the alternate screen, single keys, and everything as it was at the end."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_ESCAPE = "\x1b"
_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "[H": "home",
    "[F": "end",
    "OH": "home",
    "OF": "end",
    "[1~": "home",
    "[4~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "[Z": "backtab",
}
_CONTROL = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}


def keys_of(text: str) -> list[str]:
    """Return the keys in what a terminal sent: characters, and names for those that have none ("up", "escape")."""
    found = []
    while text:
        if text[0] != _ESCAPE:
            found.append(_CONTROL.get(text[0], text[0]))
            text = text[1:]
            continue
        sequence = next((one for one in _SEQUENCES if text.startswith(one, 1)), None)
        if sequence is not None:
            found.append(_SEQUENCES[sequence])
            text = text[1 + len(sequence) :]
        elif len(text) > 1 and text[1] in "[O":
            # A key that means nothing here; its sequence ends with a letter or a tilde.
            end = next((n for n, one in enumerate(text[2:], 2) if one.isalpha() or one == "~"), len(text) - 1)
            text = text[end + 1 :]
        else:
            found.append("escape")
            text = text[1:]
    return found


class Terminal:
    """The screen and the keyboard, in a `with` block. Ctrl-Z and SIGTERM leave the terminal as it was before."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        self._last: list[str] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._input)
        for number, handler in (
            (signal.SIGTERM, self._terminated),
            (signal.SIGHUP, self._terminated),
            (signal.SIGTSTP, self._suspended),
            (signal.SIGWINCH, self._resized),
        ):
            self._handlers[number] = signal.signal(number, handler)
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._waking)

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height of the terminal."""
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def show(self, lines: Sequence[str]) -> None:
        """Replace the screen by these lines; only those that differ are written."""
        height = self.size[1]
        changed = []
        for number, line in enumerate(lines[:height]):
            if number >= len(self._last) or self._last[number] != line:
                changed.append(f"\x1b[{number + 1};1H{line}\x1b[0m\x1b[K")
        self._last = list(lines[:height])
        if changed:
            sys.stdout.write("".join(changed))
            sys.stdout.flush()

    def wait(self, seconds: float) -> list[str]:
        """Return the keys that are pressed within this time; none if `wake` is called."""
        readable, _, _ = select.select([self._input, self._woken], [], [], seconds)
        if self._woken in readable:
            os.read(self._woken, 4096)
        if self._input not in readable:
            return []
        sent = os.read(self._input, 1024)
        if not sent:
            # The terminal has gone.
            raise EOFError
        return keys_of(sent.decode(errors="ignore"))

    def wake(self) -> None:
        """End a `wait` of another thread."""
        # The pipe is full if it has woken the other thread already, and closed at the end.
        with suppress(OSError):
            os.write(self._waking, b"!")

    def _open(self) -> None:
        tty.setcbreak(self._input)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()
        self._last = []

    def _close(self) -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def _suspended(self, number: int, frame: FrameType | None) -> None:
        self._close()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # The process goes on here after `fg`.
        signal.signal(signal.SIGTSTP, self._suspended)
        self._open()

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._last = []
        sys.stdout.write("\x1b[2J")
        self.wake()
