"""A child process as its node sees it: what is said to it and by it, whether it lives, and its end."""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from quartzpy.errors import WorkerDiedError
from quartzpy.runtime.process_messages import END, pack

LOOK_AFTER = 0.5
"""Seconds between two looks whether a child still lives, where the system does not say when it ends."""


class WorkerProcess:
    """A child process; one thread at a time talks with it, and any may kill it."""

    def __init__(self, process: SpawnProcess, connection: Connection[bytes, bytes]) -> None:
        self._process = process
        self._connection = connection
        self._sending = threading.Lock()
        self._is_reaped = False
        self._exit_code: int | None = None
        self._ends: int | None = None
        with suppress(AttributeError, OSError):  # Where the system has none, it is asked now and then.
            self._ends = os.pidfd_open(process.pid or 0)
        self.is_ready = False

    @property
    def has_ended(self) -> bool:
        """Of one that has nothing to do: it says nothing, so what is to be read is the end."""
        return self._connection.poll() or self._has_ended_within(0.0)

    def send(self, message: bytes) -> None:
        """Raises OSError: it has ended."""
        with self._sending:
            self._connection.send_bytes(message)

    def send_end(self) -> None:
        with suppress(OSError):
            self.send(pack(END))

    def receive(self) -> bytes:
        """Raises EOFError, OSError: it has ended."""
        # What a job forked has the other end of the pipe too, and keeps it open when the child is dead.
        while not self._connection.poll():
            if self._ends is not None:
                multiprocessing.connection.wait([self._connection, self._ends])
            else:
                multiprocessing.connection.wait([self._connection], LOOK_AFTER)
            if self._has_ended_within(0.0) and not self._connection.poll():
                raise EOFError
        return self._connection.recv_bytes()

    def kill(self) -> None:
        """Kill it, and what its jobs have started."""
        if self._is_reaped or (self._ends is None and self._process.exitcode is not None):
            return
        pid = self._process.pid
        # Until it is reaped its number is nobody else's.
        with suppress(OSError):
            if pid is not None and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()

    def reap(self, seconds: float, *, as_told: bool = False) -> int | None:
        """Wait for the end, kill it after so many seconds; its exit code, None where nobody can tell.

        What its jobs have started is killed with it, unless it ended `as_told`.
        """
        if not self._is_reaped:
            if not self._has_ended_within(seconds) or not as_told:
                self.kill()
            self._process.join()
            self._is_reaped = True
            self._exit_code = self._process.exitcode
            self._connection.close()
            if self._ends is not None:
                os.close(self._ends)
        return self._exit_code

    def _has_ended_within(self, seconds: float) -> bool:
        if self._ends is None:
            self._process.join(seconds)
            return self._process.exitcode is not None
        return bool(multiprocessing.connection.wait([self._ends], seconds))


def died(code: int | None, was_ready: bool) -> WorkerDiedError:
    if code is None:
        how = "in a way that nobody can tell"
    elif code < 0:
        how = f"with signal {_signal_name(-code)}"
    else:
        how = f"with exit code {code}"
    message = f"the worker process ended {how}"
    if not was_ready:
        message += (
            " before it could begin; its standard error says why. It imports the program's main module, whose start"
            ' belongs under if __name__ == "__main__":'
        )
    return WorkerDiedError(message, exit_code=code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
