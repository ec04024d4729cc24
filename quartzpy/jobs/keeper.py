"""The process between a node and a command: it starts the command, and ends it with all its children.

`quartzpy.jobs.command` starts this file as a script, once for each command, so it imports little (json and typing would
double the time of its start), and nothing of quartzpy. The node writes an order to its standard input, and then keeps
that pipe open. A further byte asks for the end of the command, and so does the end of the pipe, which the kernel closes
when the node is gone, even if it was killed.

On Linux this process adopts the descendants of the command whose parents have ended, so that it finds all of them, also
those that have left the process group. Elsewhere it ends the process group of the command.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

SET_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36
"""Operations of Linux's prctl."""
KILL_AGAIN_AFTER = 0.05
GIVE_UP_AFTER = 5.0
"""The time, in seconds, after the first SIGKILL, after which a process that cannot be killed is left behind."""
IS_LINUX = sys.platform == "linux"


def _prctl(operation: int, value: int) -> bool:
    if not IS_LINUX:
        return False
    try:
        import ctypes
    except ImportError:  # A Python without libffi.
        return False
    return bool(ctypes.CDLL(None).prctl(operation, value, 0, 0, 0) == 0)


class Order:
    """What to run: texts that are separated by NUL, which none of them can contain."""

    def __init__(self, text: str) -> None:
        grace, alone, self.directory, self.program, number, *rest = text.split("\0")
        self.grace = float(grace)
        self.alone = float(alone)
        """The grace if the node is gone, which others must not have to wait for."""
        self.argv = rest[: int(number)]
        variables = rest[int(number) :]
        self.environment = dict(zip(variables[::2], variables[1::2], strict=True))

    @staticmethod
    def text(
        grace: float, alone: float, directory: str, program: str, argv: list[str], environment: dict[str, str]
    ) -> str:
        """Return the order for these values."""
        variables = [part for variable in environment.items() for part in variable]
        return "\0".join([str(grace), str(alone), directory, program, str(len(argv)), *argv, *variables])


class Keeper:
    """The life of one command. It ends when the command and all its children have ended."""

    def __init__(self, order: Order, report: int, node: int) -> None:
        self._order = order
        self._report = report
        self._adopts = os.path.isdir("/proc/self") and _prctl(SET_CHILD_SUBREAPER, 1)
        # The node's thread that started this process waits for it; if the thread is gone, so is the node.
        _prctl(SET_DEATH_SIGNAL, signal.SIGUSR1)
        self._is_alone = self._must_end = os.getppid() != node
        self._command = 0
        self._has_ended = False
        self._kill_at: float | None = None
        self._was_alone = False
        self._give_up_at = float("inf")

    def run(self) -> None:
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGUSR1, self._node_is_gone)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # The node gets these as well, and decides.
            signal.signal(number, _nothing)
        self._start()
        inputs = [0, woken]
        while self._remains():
            if self._must_end:
                self._terminate()
            self._kill_if_time()
            ready, _, _ = select.select(inputs, [], [], self._next_wait())
            if woken in ready:
                os.read(woken, 4_096)
            if 0 in ready and inputs[0] == 0:
                if not os.read(0, 4_096):
                    inputs.remove(0)
                    self._is_alone = True
                self._must_end = True

    def _node_is_gone(self, number: int, frame: object) -> None:
        self._is_alone = self._must_end = True

    def _tell(self, what: str, value: object) -> None:
        try:
            os.write(self._report, f"{what} {value}\n".encode())
        except OSError:  # The node is gone.
            self._is_alone = self._must_end = True

    # --- its start

    def _start(self) -> None:
        keeper = os.getpid()
        self._command = os.fork()
        if self._command:
            self._tell("pid", self._command)
            return
        try:
            self._become_the_command(keeper)
        except OSError as error:
            self._tell("refused", error.strerror or error)
        finally:
            os._exit(127)

    def _become_the_command(self, keeper: int) -> None:
        os.setsid()
        _prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != keeper:
            return
        # What Python or the node ignores or blocks, a program would inherit: a pipeline needs SIGPIPE.
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except OSError:  # The C library reserves a few.
                    continue
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(self._order.directory)
        os.execve(self._order.program, self._order.argv, self._order.environment)  # noqa: S606

    # --- its end

    def _remains(self) -> bool:
        """Note what has ended, and return whether anything is still running."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                return time.monotonic() < self._give_up_at
            if pid == self._command:
                self._has_ended = True
                self._tell("status", os.waitstatus_to_exitcode(status))
                # What a command leaves behind in the background ends with it.
                self._must_end = True
        return not self._adopts and self._group_remains() and time.monotonic() < self._give_up_at

    def _group_remains(self) -> bool:
        try:
            os.killpg(self._command, 0)
        except OSError:
            return False
        return True

    def _next_wait(self) -> float | None:
        if self._kill_at is None:
            return None if self._adopts or not self._has_ended else KILL_AGAIN_AFTER
        rest = max(self._kill_at - time.monotonic(), 0.0)
        return rest if self._adopts else min(rest, KILL_AGAIN_AFTER)

    def _terminate(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._order.grace
            self._signal_all(signal.SIGTERM)
            # One that is stopped gets the signal only if it continues.
            self._signal_all(signal.SIGCONT)

        if self._is_alone and not self._was_alone:
            # The node may go while the grace lasts, for example at the end of its drain.
            self._was_alone = True
            self._kill_at = min(self._kill_at, time.monotonic() + self._order.alone)

    def _kill_if_time(self) -> None:
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._give_up_at = min(self._give_up_at, now + GIVE_UP_AFTER)
            # Once more until nothing is there: they may have started others in the meantime.
            self._kill_at = now + KILL_AGAIN_AFTER
            self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        if self._adopts:
            for pid in _descendants():
                try:
                    os.kill(pid, number)
                except OSError:  # It has ended, or belongs to another user.
                    continue
        else:
            try:
                os.killpg(self._command, number)
            except OSError:
                return


def _nothing(number: int, frame: object) -> None: ...


def _descendants() -> list[int]:
    """Return the processes below this one, as /proc shows them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    stat = file.read()
            except OSError:  # It has ended.
                continue
            # The second field is the name of the program, in parentheses, and may contain any character.
            parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(name))
    below: list[int] = []
    rest = [os.getpid()]
    while rest:
        direct = children.pop(rest.pop(), [])
        below += direct
        rest += direct
    return below


def main(report: int, node: int, length: int) -> None:
    os.set_inheritable(report, False)
    order = bytearray()
    while len(order) < length:
        piece = os.read(0, length - len(order))
        if not piece:
            return  # The node has ended before it could say what to run.
        order += piece
    Keeper(Order(os.fsdecode(bytes(order))), report, node).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
