"""Shares of the pool: the calls of applications use a limited number of its connections, a node's steps any."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from quartzpy.errors import StoreUnavailableError


class PoolShare:
    """A share of the pool without a limit: that of a node's steps, which its few threads take one at a time."""

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place of this share, which is taken before a connection of the pool.

        Raises:
            StoreUnavailableError: none was free in time.
        """
        yield


class LimitedShare(PoolShare):
    """A share of `size` connections. A call waits for its place for at most `seconds`."""

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._places = threading.BoundedSemaphore(size)

    @contextmanager
    def place(self) -> Iterator[None]:
        """See `PoolShare.place`."""
        if not self._places.acquire(timeout=self._seconds):
            raise StoreUnavailableError(
                f"no connection of the pool was free in time: {self._size} calls of this program used all that calls"
                f" may use for {self._seconds:g} s; a larger pool_size allows more"
            )
        try:
            yield
        finally:
            self._places.release()
