"""The node's handle of a child process: messages, liveness and termination."""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from quartzpy.errors import WorkerDiedError
from quartzpy.node.engines.process_messages import END, MAX_MESSAGE, pack

LOOK_AFTER = 0.5
"""The interval, in seconds, of liveness checks on systems that cannot signal the end of a process."""


class WorkerProcess:
    """A child process. One thread at a time communicates with it; any thread may kill it."""

    def __init__(self, process: SpawnProcess, connection: Connection[bytes, bytes]) -> None:
        self._process = process
        self._connection = connection
        self._sending = threading.Lock()
        self._is_reaped = False
        self._exit_code: int | None = None
        self._ends: int | None = None
        with suppress(AttributeError, OSError):  # Without pidfd, `receive` polls.
            self._ends = os.pidfd_open(process.pid or 0)
        self.is_ready = False

    @property
    def has_ended(self) -> bool:
        """True if an idle child has ended. An idle child sends nothing, so readable data means the end of the pipe."""
        return self._connection.poll() or self._has_ended_within(0.0)

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the child has ended."""
        with self._sending:
            self._connection.send_bytes(message)

    def send_end(self) -> None:
        with suppress(OSError):
            self.send(pack(END))

    def receive(self) -> bytes:
        """Return the next message. Raises EOFError or OSError if the child has ended, or sends what is no message."""
        # Processes that a job forked inherit the other end of the pipe, and keep it open after the child's death.
        while not self._connection.poll():
            if self._ends is not None:
                multiprocessing.connection.wait([self._connection, self._ends])
            else:
                multiprocessing.connection.wait([self._connection], LOOK_AFTER)
            if self._has_ended_within(0.0) and not self._connection.poll():
                raise EOFError
        return self._connection.recv_bytes(MAX_MESSAGE)

    def kill(self) -> None:
        """Kill the child and the processes that its jobs have started."""
        if self._is_reaped or (self._ends is None and self._process.exitcode is not None):
            return
        pid = self._process.pid
        # The process id cannot be reused before the child is reaped.
        with suppress(OSError):
            if pid is not None and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()

    def reap(self, seconds: float, *, on_request: bool = False) -> int | None:
        """Wait for the child to end, and kill it after `seconds`. Return its exit code, or None if unknown.

        The processes that its jobs have started are killed too, unless the child ended in time `on_request`.
        """
        if not self._is_reaped:
            if not self._has_ended_within(seconds) or not on_request:
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
        how = "for an unknown reason"
    elif code < 0:
        how = f"with signal {_signal_name(-code)}"
    else:
        how = f"with exit code {code}"
    message = f"the worker process ended {how}"
    if not was_ready:
        message += (
            " before it was ready; its standard error has the reason. It imports the program's main module, whose"
            ' startup code must be guarded by if __name__ == "__main__":'
        )
    return WorkerDiedError(message, exit_code=code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
