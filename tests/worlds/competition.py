"""Busy processes that compete with the tests for one CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A process whose parent was killed ends too.
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"


@contextmanager
def competition(processes: int) -> Iterator[None]:
    """Keep this process, and those that it starts, on one CPU with so many busy ones. Zero changes nothing."""
    if not processes:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()
