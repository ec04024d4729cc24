"""The processes of a server: all those whose working directory lies in the server's own.

PostgreSQL's and Patroni's processes leave the session of whoever started them, but not their directory. Run as a
program, this module is the guard of a directory: once its starter is gone, however it ended, all that works there is
killed and the directory is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def processes_in(directory: Path) -> list[int]:
    """The ids of the processes whose working directory is `directory` or lies in it."""
    root = os.path.realpath(directory)
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        try:
            place = os.readlink(f"/proc/{entry}/cwd").removesuffix(" (deleted)")
        except OSError:
            continue
        if place == root or place.startswith(f"{root}/"):
            found.append(int(entry))
    return found


def title(pid: int) -> str:
    """How a process calls itself; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def signal_all(directory: Path, number: signal.Signals) -> None:
    """Send a signal to every process of a directory."""
    for pid in processes_in(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(directory: Path) -> None:
    """Stop every process of a directory, those too that one of them starts meanwhile."""
    stopped: set[int] = set()
    while new := set(processes_in(directory)) - stopped:
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= new


def thaw(directory: Path) -> None:
    signal_all(directory, signal.SIGCONT)


def kill(directory: Path, *, seconds: float = 20.0) -> None:
    """Kill every process of a directory at one instant, as a machine that loses its power."""
    freeze(directory)
    deadline = time.monotonic() + seconds
    while processes_in(directory):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of {directory} outlive SIGKILL: {processes_in(directory)}")
        signal_all(directory, signal.SIGKILL)
        time.sleep(0.02)


def start_guard(directory: Path) -> subprocess.Popen[bytes]:
    """Start the process that clears `directory` once our end of its pipe is closed."""
    return subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__)), str(directory)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


if __name__ == "__main__":
    guarded = Path(sys.argv[1])
    sys.stdin.buffer.read()
    kill(guarded)
    shutil.rmtree(guarded, ignore_errors=True)
