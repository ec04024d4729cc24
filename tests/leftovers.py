"""Nodes that a test leaves running: they take the jobs of the tests after it, which then fail in their place."""

from __future__ import annotations

import gc
import threading
import time

from quartzpy.node.node import SchedulerNode

_PATIENCE = 30.0
"""Seconds for threads that have been told to end."""


def _node_threads() -> list[str]:
    """Return the names of the check-in threads, of which each node of this process has one until it has stopped."""
    return sorted(
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("quartzpy-") and thread.name.endswith("-check-in")
    )


def stop_leftover_nodes() -> list[str]:
    """Stop the nodes that still run in this process, and return the names of their check-in threads."""
    deadline = time.monotonic() + _PATIENCE
    while (left := _node_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        # A node whose threads have ended may still be referred to; one on a clock that stands still would never drain.
        for node in [found for found in gc.get_objects() if issubclass(type(found), SchedulerNode)]:
            if f"{node.parts.name}-check-in" in left:
                node.stop(wait=True, timeout=1, interrupt=True)
    return left
