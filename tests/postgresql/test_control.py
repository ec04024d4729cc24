"""The check-in's own connection, and the sessions of dead nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy.errors import AuthenticationError, LeaseLostError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.store.postgresql.connection.urls import parse_dsn
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.process_identity import own_process, session_tag
from tests.database import end_sessions
from tests.postgresql.conftest import NAME, register
from tests.proxy import Proxy, place_of

Connect = Callable[[], psycopg.Connection[Any]]
Make = Callable[..., SqlJobStore]


def test_a_check_in_waits_for_no_connection_of_the_pool(store: SqlJobStore) -> None:
    node = register(store)
    with ExitStack() as all_of_them:
        usage = store.connections()
        for _ in range(usage.most):
            all_of_them.enter_context(store._connections.checked_out())
        assert store.connections().in_use == usage.most
        assert store.check_in(node, within=5).nodes


def test_a_check_in_that_gets_no_answer_ends_by_its_deadline_and_the_next_has_a_fresh_connection(
    make_store: Make, postgres_dsn: str, proxy: Proxy
) -> None:
    remote = make_store(proxy.through(postgres_dsn))
    node = register(remote)
    remote.check_in(node)
    proxy.swallow()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknownError):
        remote.check_in(node, within=0.5)
    assert 0.4 < time.monotonic() - began < 30
    assert remote.check_in(node, within=10).nodes


def test_connecting_is_within_the_deadline_too(make_store: Make, postgres_dsn: str, proxy: Proxy) -> None:
    remote = make_store(proxy.through(postgres_dsn))
    node = register(remote)
    proxy.black_hole()
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="no connection to the database in time"):
        remote.check_in(node, within=0.5)
    assert 0.4 < time.monotonic() - began < 30
    proxy.heal()
    assert remote.check_in(node, within=10).nodes


def test_a_connection_that_was_ended_while_idle_is_not_used(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store.check_in(node)
    end_sessions(connect(), "application_name LIKE '%%:control'")
    assert store.check_in(node).nodes


def test_of_several_servers_one_that_swallows_packets_is_not_the_first_each_time(
    make_store: Make, postgres_dsn: str, proxy: Proxy
) -> None:
    url = parse_dsn(postgres_dsn)
    remote = make_store(postgres_dsn)
    node = register(remote)
    proxy.black_hole()
    host, port = place_of(make_url(postgres_dsn))
    both = {"host": f"127.0.0.1,{host}", "port": f"{proxy.port},{port}"}
    remote._connections._source._url = replace(url, parameters={**url.parameters, **both})
    with pytest.raises(StoreUnavailableError):
        remote.check_in(node, within=0.5)
    assert remote.check_in(node, within=10).nodes


def test_an_expired_epoch_costs_no_connection(store: SqlJobStore) -> None:
    node = register(store)
    store.leave(node)
    for _ in range(3):
        with pytest.raises(LeaseLostError):
            store.check_in(node)


def test_a_wrong_password_is_named_as_such(make_store: Make, postgres_dsn: str) -> None:
    store = make_store()
    node = register(store)
    url = parse_dsn(postgres_dsn)
    store._connections._source._url = replace(url, parameters={**url.parameters, "user": "nobody_of_this_name"})
    with pytest.raises((AuthenticationError, StoreUnavailableError), match="nobody_of_this_name"):
        store.check_in(node)


# --- ending sessions

DEAD_PROCESS = "boot/4026531836/7/123"


def dead_node(store: SqlJobStore, connect: Connect) -> Any:
    """A node of another process that will not check in any more, and its survivor."""
    dead = store.register(
        "dead",
        host="h",
        pid=7,
        checkin_interval=timedelta(seconds=1),
        window=timedelta(seconds=10),
        process=DEAD_PROCESS,
    )
    survivor = register(store, "survivor")
    [record] = [one for one in store.list_nodes().nodes if one.epoch == dead.epoch]
    return survivor, record


def named(connection: psycopg.Connection[Any], process: str, scheduler: str = NAME) -> psycopg.Connection[Any]:
    connection.execute(f"SET application_name = 'quartzpy:{session_tag(process, scheduler)}:{scheduler}:work'".encode())
    return connection


def lives(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def test_only_the_sessions_of_a_dead_node_are_ended(store: SqlJobStore, connect: Connect) -> None:
    survivor, dead = dead_node(store, connect)
    its, anothers, of_another_scheduler = (
        named(connect(), DEAD_PROCESS),
        named(connect(), "boot/4026531836/8/123"),
        named(connect(), DEAD_PROCESS, "another"),
    )
    its.execute("BEGIN")
    assert store.recover(survivor, [dead]).nodes == ["dead"]
    assert [lives(one) for one in (its, anothers, of_another_scheduler)] == [False, True, True]


def test_a_node_that_checked_in_meanwhile_keeps_its_sessions(store: SqlJobStore, connect: Connect) -> None:
    survivor, dead = dead_node(store, connect)
    its = named(connect(), DEAD_PROCESS)
    assert not store.recover(survivor, [replace(dead, checkin_count=dead.checkin_count - 1)]).nodes
    assert lives(its)


def test_a_dead_node_of_this_very_process_leaves_its_sessions_to_those_that_live(
    store: SqlJobStore, connect: Connect
) -> None:
    survivor, dead = dead_node(store, connect)
    ours = named(connect(), own_process())
    store.recover(survivor, [replace(dead, process=own_process())])
    assert lives(ours)


def test_recovery_works_without_the_privilege_to_end_sessions(
    store: SqlJobStore, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from quartzpy.store.postgresql.steps import recover

    survivor, dead = dead_node(store, connect)
    monkeypatch.setattr(recover._SQL, "end_sessions", "SELECT pg_terminate_backend_of_nobody(:'prefixes'::text)")
    assert store.recover(survivor, [dead]).nodes == ["dead"]
    assert "cannot terminate the database sessions" in caplog.text


def test_the_tag_of_a_long_name_survives_the_63_bytes(make_store: Make, connect: Connect) -> None:
    name = "ü" * 150
    store = make_store(name=name)
    node = register(store)
    store.check_in(node)
    names = connect().execute("SELECT application_name FROM pg_stat_activity").fetchall()
    prefix = f"quartzpy:{session_tag(own_process(), name)}:"
    ours = [one for (one,) in names if one.startswith(prefix)]
    assert {one.rpartition(":")[2] for one in ours} == {"control", "work"}
    assert max(map(len, ours)) == 63
