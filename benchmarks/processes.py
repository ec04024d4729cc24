"""Processor time and memory of processes, as the kernel counts them."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, to the nanosecond; 0 if it has ended."""
    total = 0
    for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(schedule.read_text().split()[0])
        except OSError:
            continue  # the thread has ended
    return total / 1e9


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory of a process, shared pages included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20


def children(pid: int) -> list[int]:
    """Return the ids of the child processes of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of the program is in parentheses and may hold spaces.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(status.parent.name))
    return found
