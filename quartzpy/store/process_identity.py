"""An identity of this process that is unique among all processes of all machines.

A host name and a process id are not enough: two containers with the same host name may both have a process 1. The
identity consists of the boot id of the machine, the PID namespace, the process id and the start time of the process.
On a system that does not provide these, a random number replaces them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import uuid
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_START_FIELD = 19
"""The index of the start time in /proc/PID/stat after the command name, which may contain any character."""

PROCESS_WORKER = "quartzpy-process-worker"
"""The prefix of the names of the child processes of a node."""

_own: dict[int, str] = {}
_ended: set[str] = set()


def _pid_space() -> str | None:
    """Return the scope in which this machine's process ids are unique: the boot of the kernel and the PID namespace."""
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.stat(_NAMESPACE).st_ino}"
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Return the start time of a process in ticks since the boot; None if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_FIELD]
    except (OSError, IndexError):
        return None


def is_process_worker() -> bool:
    """Return whether this is the child process of a node."""
    # The child itself has imported multiprocessing. A node without a process pool does not need it.
    multiprocessing = sys.modules.get("multiprocessing")
    return multiprocessing is not None and multiprocessing.current_process().name.startswith(PROCESS_WORKER)


def own_process() -> str:
    """Return the identity of this process. A forked child has its own."""
    pid = os.getpid()
    identity = _own.get(pid)
    if identity is None:
        space, started = _pid_space(), _start_time(pid)
        identity = f"{space}/{pid}/{started}" if space and started else f"{uuid.uuid4()}//{pid}/"
        identity = _own.setdefault(pid, identity)
    return identity


def has_certainly_ended(process: str) -> bool:
    """Return True if a process has certainly ended; False if it runs or its state is unknown."""
    if process in _ended:
        return True
    space, _, rest = process.partition("/")
    namespace, _, rest = rest.partition("/")
    pid, _, started = rest.partition("/")
    if not started or not pid.isdecimal() or f"{space}/{namespace}" != _pid_space():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    now = _start_time(int(pid))
    return now is not None and now != started


def declare_ended(process: str) -> None:
    """Record, for this process, that another one has certainly ended: a lock that it held until its end is free."""
    if process:
        _ended.add(process)


def session_tag(process: str, scheduler: str) -> str:
    """Return a short tag for the names of a process's database sessions. PostgreSQL truncates a name at 63 bytes."""
    return hashlib.sha256(f"{process}/{scheduler}".encode()).hexdigest()[:16]


with contextlib.suppress(AttributeError):  # Windows has no fork.
    os.register_at_fork(after_in_child=_own.clear)
