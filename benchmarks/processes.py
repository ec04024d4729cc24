"""Processor time and memory of processes, as the kernel counts them."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, to the nanosecond; 0 if it has ended."""
    total = 0
    # The directory is gone if the process has ended.
    with suppress(OSError):
        for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                total += int(schedule.read_text().split()[0])
    return total / 1e9


def cpu_seconds_with_children(pid: int) -> float:
    """Return the processor time of a process and its children, those that have ended included.

    The kernel counts the time of a child for its parent once it has ended and the parent has waited for it, in steps of
    10 ms.
    """
    while True:
        ended = _seconds_of_ended_children(pid)
        total = ended + sum(cpu_seconds(one) for one in (pid, *_children(pid)))
        # Otherwise a child that ended meanwhile would be counted twice or not at all.
        if _seconds_of_ended_children(pid) == ended:
            return total


def _seconds_of_ended_children(pid: int) -> float:
    try:
        values = _values_of(Path(f"/proc/{pid}/stat"))
    except OSError:
        return 0.0
    return (int(values[13]) + int(values[14])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory of a process, shared pages included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20


def _children(pid: int) -> list[int]:
    """Return the ids of the child processes of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(_values_of(status)[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(status.parent.name))
    return found


def _values_of(status: Path) -> list[str]:
    """Return the values of a file `stat` that follow the name of the program; see proc(5)."""
    # The name is in parentheses and may hold spaces.
    return status.read_text().rpartition(")")[2].split()


class Heap(NamedTuple):
    """What the process that asks holds in memory, so that growth can be told from fragmentation."""

    python_blocks: int
    """The memory blocks that the interpreter has allocated."""
    malloc_used_mebibytes: float
    """Memory that glibc's malloc has handed out."""
    malloc_free_mebibytes: float
    """Memory that malloc has kept back after it was freed; fragmentation keeps it from the system."""
    threads: int
    files: int


class _MallocInformation(ctypes.Structure):
    """`struct mallinfo2` of glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def heap() -> Heap:
    """Return the figures of this process; those of malloc are 0 where the C library is not glibc 2.33 or later."""
    used = free = 0.0
    information = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if information is not None:
        information.restype = _MallocInformation
        found = information()
        used, free = (found.uordblks + found.hblkhd) / 2**20, found.fordblks / 2**20
    return Heap(sys.getallocatedblocks(), used, free, threading.active_count(), len(os.listdir("/proc/self/fd")))
