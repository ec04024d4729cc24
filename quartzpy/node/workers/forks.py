"""The end of processes that a job has forked and that come back from it.

Such a child has a copy of the node, with the one thread that forked: it must not record the execution, run other jobs
or use the connections of its parent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STATUS = 70
"""The exit status of such a child (EX_SOFTWARE), unless the job asked for one by `sys.exit`."""


@contextmanager
def ended_if_forked(pid: int, what: str) -> Iterator[None]:
    """End this process after the block if it is no longer the process `pid` that began it."""
    try:
        yield
    finally:
        if os.getpid() != pid:
            end_child(pid, what)


def end_child(pid: int, what: str) -> None:
    """End a forked process, without anything that Python does at its end: that would be done for the parent."""
    error = sys.exc_info()[1]
    status = STATUS
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    try:
        # Nothing is flushed: the buffers hold what the parent writes, and their locks may be held for ever.
        if not isinstance(error, SystemExit):
            text = (
                f"quartzpy: process {os.getpid()}, which {what} of process {pid} has forked, came back from the job and"
                " ends here; end such a process by os._exit() or sys.exit(), or use subprocess or multiprocessing\n"
            )
            os.write(2, text.encode(errors="replace"))
    finally:
        os._exit(status)
