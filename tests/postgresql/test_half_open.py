"""Connections that a network has forgotten without a word are found by a probe, and replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection import pool, probing
from quartzpy.store.postgresql.connection.listen import Listener
from quartzpy.store.postgresql.connection.pool import OwnPool
from quartzpy.store.postgresql.connection.probing import answers
from quartzpy.store.protocol import Notification
from tests.database import connect_to
from tests.proxy import Proxy
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "SECONDS", 0.3)
    monkeypatch.setattr(answers, "__defaults__", (0.3,))


@pytest.fixture
def url(proxy: Proxy, postgres_dsn: str) -> str:
    return proxy.through(postgres_dsn)


@pytest.fixture
def listener(url: str) -> Iterator[Listener]:
    probed: list[float] = []
    made = Listener(
        connect_to(url),
        "half-open",
        is_current=lambda connection: True,
        probe_every=0.05,
        probed=probed.append,
    )
    yield made
    made.close()


def test_a_listener_that_is_not_answered_any_more_says_so(
    proxy: Proxy, postgres_dsn: str, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        assert not listener.wait(0.1)
    # A probe costs no notification.
    with connect_to(postgres_dsn) as other:
        received: set[Notification] = set()

        def has_arrived() -> bool:
            other.execute("SELECT pg_notify('half-open', 'cancelled')")
            received.update(listener.wait(0.05))
            return Notification.CANCELLED in received

        wait_until(has_arrived)
    proxy.swallow()
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        wait_until(lambda: listener.wait(0.1))
    assert time.monotonic() - began < 30
    assert "is replaced" in caplog.text


def test_a_listener_can_be_interrupted_during_a_probe(proxy: Proxy, listener: Listener) -> None:
    listener.wait(0.1)
    proxy.swallow()
    listener.interrupt()
    listener._probe()


@pytest.fixture
def connections(url: str) -> Iterator[OwnPool]:
    made = OwnPool(lambda: connect_to(url), lambda connection: True, size=3, seconds=5)
    yield made
    made.close()


def idle(connections: OwnPool, number: int) -> list[psycopg.Connection]:  # type: ignore[type-arg]
    leases = [connections.lease() for _ in range(number)]
    opened = [lease.connection for lease in leases]
    for lease in leases:
        lease.give_back()
    return opened


def test_a_pool_probes_what_was_idle_and_keeps_what_answers(proxy: Proxy, connections: OwnPool) -> None:
    opened = idle(connections, 3)
    connections.probe_idle(0)
    assert connections._idle == opened, "in the same order"
    assert connections.usage() == (0, 3)
    pipelines = proxy.pipelines
    connections.probe_idle(3_600)
    assert proxy.pipelines == pipelines, "what was used just now is not probed"
    proxy.swallow()
    connections.probe_idle(0)
    assert connections._idle == []
    assert connections.usage() == (0, 3)
    assert all(connection.closed for connection in opened)
    assert connections.lease().connection.execute("SELECT 7").fetchone() == (7,)


def test_a_connection_that_was_idle_for_long_is_probed_before_its_use(
    proxy: Proxy, connections: OwnPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = idle(connections, 1)
    pipelines = proxy.pipelines
    lease = connections.lease()
    assert (lease.connection, proxy.pipelines) == (first, pipelines), "without a round trip"
    lease.give_back()
    monkeypatch.setattr(pool, "PROBED_AFTER", 0.0)
    proxy.swallow()
    began = time.monotonic()
    lease = connections.lease()
    second = lease.connection
    assert second is not first
    assert second.execute("SELECT 7").fetchone() == (7,)
    assert time.monotonic() - began < 30


def test_a_session_that_has_forgotten_to_listen_is_noticed(listener: Listener) -> None:
    assert not listener.wait(0.1)
    listener._connection.execute("UNLISTEN *")
    with pytest.raises(StoreUnavailableError, match="does not listen any more"):
        list(map(listener.wait, [0.1] * 5))
