"""Batches of a large statement: the next one is computed while the server executes the one before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema.statement import array

_In = TypeVar("_In")
_Out = TypeVar("_Out")

CHUNK = 2_000
"""Rows a statement: large enough that round trips do not count, small enough for a statement's memory."""
CHUNK_BYTES = 4 * 1024 * 1024
"""The size of the rows' values from which a statement has fewer rows. A single row may be larger."""


def computed_ahead(compute: Callable[[_In], _Out], items: Sequence[_In]) -> Iterator[_Out]:
    """Yield `compute(item)` for each item, the next one being computed in a thread while the caller uses this one.

    No more than two results exist at a time.
    """
    if len(items) < 2:
        yield from map(compute, items)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="quartzpy-batch") as thread:
        following = thread.submit(compute, items[0])
        for item in items[1:]:
            ready, following = following.result(), thread.submit(compute, item)
            yield ready
            del ready
        yield following.result()


def bound(statement: BoundStatement) -> BoundStatement:
    """Return a statement whose lists are converted to the literals that are sent, so that the sending is quick."""
    values = {name: array(value) if type(value) is list else value for name, value in statement.values.items()}
    return BoundStatement(statement.statement, values)


def chunks(items: Sequence[_In], size: Callable[[_In], int] | None = None) -> Iterator[Sequence[_In]]:
    """Yield the items in parts of at most `CHUNK`, and of at most `CHUNK_BYTES` if their sizes are known."""
    start = total = 0
    if size is not None:
        for place, item in enumerate(items):
            own = size(item)
            total += own
            if place > start and (total > CHUNK_BYTES or place - start == CHUNK):
                yield items[start:place]
                start, total = place, own
    for begin in range(start, len(items), CHUNK):
        yield items[begin : begin + CHUNK]
