"""The garbage collector of a process whose main task is a node or a page."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def present_objects_exempted() -> Iterator[None]:
    """Exempt all present objects from garbage collections.

    They are the modules and the scheduler, some 70,000 objects, which live as long as the process runs. A full
    collection would visit all of them for tens of milliseconds, in which no other thread runs.
    """
    if gc.get_freeze_count():
        # The program has made its own choice.
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
