"""The pool of a scheduler's connections, for steps and calls.

Its shares: calls of applications use a limited number of its connections, and a node's steps any.

It differs from pools for general use: a connection is tested with a round trip only if it was idle for long, because a
step that finds it broken resolves the outcome anyway. One that was idle is replaced if the server has closed it or sent
anything in the meantime, or if it leads to a server that is no longer the primary. The connection that was returned
last is used first, so that few stay warm under a low load.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection.probing import answers

PROBED_AFTER = 15.0
"""The time, in seconds, after which a connection that was idle is probed before it is used. A node probes its own more
often, so that none of its steps pays for it."""


def is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Return True if the server has sent data or closed the connection while idle, as after a server's restart."""
    if connection.closed:
        return True
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


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


class Lease(ABC):
    """The use of one connection of a pool, until `give_back` or `discard`."""

    connection: psycopg.Connection[Any]

    @abstractmethod
    def give_back(self) -> None:
        """Return the connection to the pool. After `discard`, this does nothing."""

    @abstractmethod
    def discard(self) -> None:
        """Close the connection, and let the pool open another one in its place."""


class Pool(ABC):
    """Connections for pipelined transactions."""

    @abstractmethod
    def lease(self) -> Lease:
        """Return a usable connection; wait for one if all are in use.

        Raises:
            StoreUnavailableError: none was free in time.
            psycopg.Error, QuartzpyError: none could be opened.
        """

    @abstractmethod
    def usage(self) -> tuple[int, int]:
        """Return the number of connections in use and the largest that may be; zeros if nobody counts them."""

    def probe_idle(self, seconds: float) -> None:
        """Close the connections that were idle for longer than that and on which the server does not answer."""

    @abstractmethod
    def close_idle(self) -> None:
        """Close the idle connections; the pool remains usable."""

    @abstractmethod
    def close(self) -> None:
        """Close the idle connections now, and the others when they are given back."""


class OwnPool(Pool):
    """At most `size` connections that `connect` opens. A caller waits for a free one for at most `seconds`."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        is_current: Callable[[psycopg.Connection[Any]], bool],
        *,
        size: int,
        seconds: float,
    ) -> None:
        self._size = size
        self.process = os.getpid()
        self._connect = connect
        self._is_current = is_current
        self._seconds = seconds
        # Its lock is reentrant: a lease that nobody ended may be collected on a thread that holds the lock.
        self._changed = threading.Condition()
        self._idle: list[psycopg.Connection[Any]] = []
        self._heard: weakref.WeakKeyDictionary[psycopg.Connection[Any], float] = weakref.WeakKeyDictionary()
        """When each connection was last known to work, by the monotonic clock."""
        self._in_use = 0
        self._is_closed = False

    def lease(self) -> OwnLease:
        """See `Pool.lease`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._in_use < self._size, self._seconds):
                raise StoreUnavailableError(
                    f"no connection of the pool was free in time: all {self._size} were in use for {self._seconds:g} s"
                )
            lease = OwnLease()
            # Nothing is called between the two, so that no exception of a signal handler can separate them.
            self._in_use += 1
            lease.pool = self
        try:
            lease.connection = self._idle_one() or self._connect()
        except BaseException:
            lease.discard()
            raise
        return lease

    def _idle_one(self) -> psycopg.Connection[Any] | None:
        """Take the usable connection that was returned last; close those that are not usable."""
        while True:
            with self._changed:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            is_long_idle = self._idle_for(connection) >= PROBED_AFTER
            if self._is_current(connection) and not is_stale(connection) and (not is_long_idle or answers(connection)):
                return connection
            _close(connection)

    def _idle_for(self, connection: psycopg.Connection[Any]) -> float:
        return time.monotonic() - self._heard.get(connection, 0.0)

    def probe_idle(self, seconds: float) -> None:
        """See `Pool.probe_idle`."""
        probed = 0
        while True:
            lease = OwnLease()
            with self._changed:
                # The one that was returned first is at the front.
                if self._in_use >= self._size or probed >= len(self._idle):
                    return
                connection = self._idle[probed]
                if self._idle_for(connection) < seconds:
                    probed += 1
                    continue
                self._in_use += 1
                lease.pool = self
                lease.connection = self._idle.pop(probed)
            if is_stale(connection) or not answers(connection):
                lease.discard()
                continue
            with self._changed:
                self._heard[connection] = time.monotonic()
                if not self._is_closed:
                    # It keeps its place.
                    self._idle.insert(probed, connection)
                    lease.pool = None
                    self._in_use -= 1
                    self._changed.notify()
            lease.discard()
            probed += 1

    def end(self, lease: OwnLease, *, usable: bool) -> None:
        """Count a lease as ended, and keep its connection if it is usable."""
        connection: psycopg.Connection[Any] | None = getattr(lease, "connection", None)
        reusable = usable and connection is not None and not self._is_closed and self._is_current(connection)
        if connection is not None and not reusable:
            # This precedes the end of the lease, so that the server never has more than `size` connections.
            _close(connection)
        with self._changed:
            if lease.pool is None:
                return
            if connection is not None and reusable:
                self._heard[connection] = time.monotonic()
                self._idle.append(connection)
            # Here too.
            lease.pool = None
            self._in_use -= 1
            self._changed.notify()
        if self._is_closed:
            self.close_idle()

    def usage(self) -> tuple[int, int]:
        """See `Pool.usage`."""
        return self._in_use, self._size

    def close_idle(self) -> None:
        """See `Pool.close_idle`."""
        with self._changed:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close(connection)

    def close(self) -> None:
        """See `Pool.close`."""
        self._is_closed = True
        self.close_idle()


class OwnLease(Lease):
    """A lease of `OwnPool`. If nobody ends it, as after an exception of a signal handler, it ends as garbage."""

    pool: OwnPool | None = None
    """The pool that counts this lease."""

    def give_back(self) -> None:
        """See `Lease.give_back`."""
        if self.pool is not None:
            self.pool.end(self, usable=True)

    def discard(self) -> None:
        """See `Lease.discard`."""
        if self.pool is not None:
            self.pool.end(self, usable=False)

    def __del__(self) -> None:
        # In a forked process, closing the connection would end the session of its parent.
        if self.pool is not None and self.pool.process == os.getpid():
            self.discard()


def _close(connection: psycopg.Connection[Any]) -> None:
    with contextlib.suppress(psycopg.Error, OSError):
        connection.close()
