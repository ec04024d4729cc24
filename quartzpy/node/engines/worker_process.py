"""The node's handle of a child process: messages, liveness and termination."""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import socket
import struct
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from quartzpy.node.engines.process_messages import END, MAX_MESSAGE, pack
from quartzpy.node.engines.protocol import Call

LOOK_AFTER = 0.5
"""The interval, in seconds, of liveness checks on systems that cannot signal the end of a process."""
STALLED_AFTER = 5
"""The time, in seconds, after which a child is given up that stops in the middle of a message."""


class WorkerProcess:
    """A child process. One thread at a time communicates with it; any thread may kill it."""

    def __init__(self, process: SpawnProcess, connection: Connection[bytes, bytes]) -> None:
        self._process = process
        self._connection = connection
        self._sending = threading.Lock()
        self._is_reaped = False
        self._exit_code: int | None = None
        self.ends: int | None = None
        """A descriptor that is readable once the process has ended; None on systems without one."""
        with suppress(AttributeError, OSError):
            self.ends = os.pidfd_open(process.pid or 0)
        with socket.socket(fileno=os.dup(connection.fileno())) as pipe:
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                pipe.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", STALLED_AFTER, 0))
        self.call: Call | None = None
        self.is_ready = False
        self.has_begun = False
        """True while it runs its call."""
        self.has_worked = False
        self.is_killed = False
        self.is_asked_to_end = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def watched(self) -> list[Connection[bytes, bytes] | int]:
        """Return what becomes readable when the child sends something, or ends."""
        # Processes that a job forked inherit the other end of the pipe, and keep it open after the child's death.
        return [self._connection, *(() if self.ends is None else (self.ends,))]

    @property
    def has_sent(self) -> bool:
        """True if there is something to receive, or if the pipe has ended."""
        return self._connection.poll()

    @property
    def has_ended(self) -> bool:
        return self._has_ended_within(0.0)

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the child has ended."""
        with self._sending:
            self._connection.send_bytes(message)

    def send_end(self) -> None:
        self.is_asked_to_end = True
        with suppress(OSError):
            self.send(pack(END))

    def receive(self) -> bytes:
        """Return the next message. Raises EOFError or OSError if the child has ended, or sends what is no message."""
        return self._connection.recv_bytes(MAX_MESSAGE)

    def kill(self) -> None:
        """Kill the child and the processes that its jobs have started."""
        if self._is_reaped or (self.ends is None and self._process.exitcode is not None):
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
            if self.ends is not None:
                os.close(self.ends)
        return self._exit_code

    def _has_ended_within(self, seconds: float) -> bool:
        if self.ends is None:
            self._process.join(seconds)
            return self._process.exitcode is not None
        return bool(multiprocessing.connection.wait([self.ends], seconds))


def described_end(code: int | None, was_ready: bool) -> str:
    """Return what to say of a process that has ended with this exit code."""
    if code is None:
        how = "for an unknown reason"
    elif code < 0:
        how = f"with signal {_signal_name(-code)}"
    else:
        how = f"with exit code {code}"
    if was_ready:
        return f"the worker process ended {how}"
    return (
        f"the worker process ended {how} before it was ready; its standard error has the reason. It imports the"
        ' program\'s main module, whose startup code must be guarded by if __name__ == "__main__":'
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
