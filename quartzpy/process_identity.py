"""Which process this is, among all of all machines: a host name and a process id are not enough for that.

Two containers with one host name both have a process 1. What tells them apart is the machine's boot, the namespace
that their process ids are of, and when they started. Where the system does not say that, a random number does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_START_FIELD = 19
"""Of /proc/PID/stat behind the command's name, which may hold anything."""

_own: dict[int, str] = {}


def _pid_space() -> str | None:
    """Where the process ids of this process mean something: this boot of this kernel, in this namespace."""
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.stat(_NAMESPACE).st_ino}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process of this pid space started, in ticks since the boot; None where nobody may know."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_FIELD]
    except (OSError, IndexError):
        return None


def own_process() -> str:
    """The identity of this process; a fork has another one."""
    pid = os.getpid()
    found = _own.get(pid)
    if found is None:
        space, started = _pid_space(), _started(pid)
        found = f"{space}/{pid}/{started}" if space and started else f"{uuid.uuid4()}//{pid}/"
        found = _own.setdefault(pid, found)
    return found


def is_known_to_be_gone(process: str) -> bool:
    """Whether a process has certainly ended. False also where nobody can tell from here."""
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
    now = _started(int(pid))
    return now is not None and now != started


def session_tag(process: str, scheduler: str) -> str:
    """What the names of a process's database sessions have in common; short, for such a name is cut at 63 bytes."""
    return hashlib.sha256(f"{process}/{scheduler}".encode()).hexdigest()[:16]


with contextlib.suppress(AttributeError):  # Not everywhere.
    os.register_at_fork(after_in_child=_own.clear)
