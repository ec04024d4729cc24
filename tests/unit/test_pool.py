"""The pool of connections for steps and calls, on connections that are pairs of sockets."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection.pool import Lease, OwnPool
from tests.waiting import wait_until


class Connection:
    """What the pool uses of psycopg's connection; `server` is the other end."""

    def __init__(self) -> None:
        self._socket, self.server = socket.socketpair()
        self.pgconn = SimpleNamespace(socket=self._socket.fileno())
        self.closed = False
        self.is_current = True

    def close(self) -> None:
        self.closed = True
        self._socket.close()
        self.server.close()


class World:
    """A pool, and all connections that it has opened."""

    def __init__(self) -> None:
        self.opened: list[Connection] = []
        self.refuses = False
        self.pool = OwnPool(self.connect, lambda one: one.is_current, size=2, seconds=0.05)  # type: ignore[attr-defined]

    def connect(self) -> Any:
        if self.refuses:
            raise OSError("refused")
        self.opened.append(Connection())
        return self.opened[-1]

    @property
    def open(self) -> list[Connection]:
        return [one for one in self.opened if not one.closed]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for one in made.open:
        one.close()


def used(lease: Lease) -> Any:
    return lease.connection


def test_the_connection_that_was_given_back_last_is_used_first(world: World) -> None:
    first, second = world.pool.lease(), world.pool.lease()
    warm = used(second)
    first.give_back()
    second.give_back()
    assert used(world.pool.lease()) is warm
    assert len(world.opened) == 2


def test_no_more_connections_are_opened_than_the_pool_is_large(world: World) -> None:
    held = [world.pool.lease(), world.pool.lease()]
    with pytest.raises(StoreUnavailableError, match=r"free in time: all 2 were in use for 0\.05 s"):
        world.pool.lease()
    assert world.pool.usage() == (2, 2)
    held[0].give_back()
    world.pool.lease().give_back()
    assert len(world.opened) == 2


def test_who_waits_gets_the_next_connection_that_is_given_back(world: World) -> None:
    world.pool._seconds = 60
    held = [world.pool.lease(), world.pool.lease()]
    got: list[Lease] = []
    waiting = threading.Thread(target=lambda: got.append(world.pool.lease()))
    waiting.start()
    wait_until(lambda: len(world.pool._changed._waiters) == 1, "the thread to wait")  # type: ignore[attr-defined]
    connection = used(held[0])
    held[0].give_back()
    waiting.join(60)
    assert used(got[0]) is connection


@pytest.mark.parametrize("happens", ["closed by the server", "data from the server", "closed here", "another primary"])
def test_a_connection_that_is_not_usable_any_more_is_replaced(world: World, happens: str) -> None:
    lease = world.pool.lease()
    old = used(lease)
    lease.give_back()
    if happens == "closed by the server":
        old.server.close()
    elif happens == "data from the server":
        old.server.send(b"terminating")
    elif happens == "closed here":
        old.close()
    else:
        old.is_current = False
    lease = world.pool.lease()
    assert used(lease) is not old
    assert old.closed
    assert world.pool.usage() == (1, 2)


def test_a_connection_to_the_former_primary_is_closed_when_it_is_given_back(world: World) -> None:
    lease = world.pool.lease()
    used(lease).is_current = False
    lease.give_back()
    assert not world.open


def test_a_discarded_connection_is_closed_and_leaves_its_place(world: World) -> None:
    lease = world.pool.lease()
    lease.discard()
    lease.give_back()
    assert not world.open
    assert world.pool.usage() == (0, 2)


def test_a_connection_that_cannot_be_opened_takes_no_place(world: World) -> None:
    world.refuses = True
    for _ in range(5):
        with pytest.raises(OSError, match="refused"):
            world.pool.lease()
    world.refuses = False
    held = [world.pool.lease(), world.pool.lease()]
    assert [used(one) for one in held] == world.opened


def test_a_lease_that_nobody_ended_ends_as_garbage(world: World) -> None:
    """An exception of a signal handler may separate a lease from the block that would have ended it."""
    for _ in range(5):
        world.pool.lease()
        gc.collect()
    assert not world.open
    assert world.pool.usage() == (0, 2)


def test_a_lease_that_another_thread_held_during_a_fork_does_not_end_the_session_of_the_parent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: -1)
    world.pool.lease()
    gc.collect()
    assert len(world.open) == 1


def test_a_closed_pool_keeps_no_connection(world: World) -> None:
    idle, busy = world.pool.lease(), world.pool.lease()
    idle.give_back()
    world.pool.close()
    assert world.open == [used(busy)]
    busy.give_back()
    assert not world.open
    # A call after the shutdown still works.
    world.pool.lease().give_back()
    assert not world.open


def test_threads_never_share_a_connection(world: World) -> None:
    world.pool._seconds = 60
    shared, users = [], set()

    def use() -> None:
        for number in range(300):
            lease = world.pool.lease()
            connection = used(lease)
            if connection in users:
                shared.append(connection)
            users.add(connection)
            users.discard(connection)
            lease.discard() if number % 50 == 0 else lease.give_back()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not shared
    assert world.pool.usage() == (0, 2)
    assert len(world.open) <= 2
