"""The transaction in which declared jobs are stored, one process after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from quartzpy.errors import InvalidValueError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING, JobStore
from tests.database import IN_TRANSACTION, connect_to, end_sessions
from tests.postgresql.conftest import register

MakeStore = Callable[..., SqlJobStore]


def test_a_connection_that_is_lost_in_it_is_an_error_of_ours(store: SqlJobStore, postgres_dsn: str) -> None:
    def loses_its_connection(inside: JobStore) -> None:
        with connect_to(postgres_dsn) as other:
            end_sessions(other, IN_TRANSACTION)
        inside.now()

    with pytest.raises(StoreUnavailableError):
        store.together(loses_its_connection, exclusively=True)
    assert store.now()


def test_a_connection_that_is_lost_at_the_commit_leaves_the_outcome_unknown(
    store: SqlJobStore, postgres_dsn: str
) -> None:
    def loses_its_connection(inside: JobStore) -> None:
        inside.pause(EVERYTHING)
        with connect_to(postgres_dsn) as other:
            end_sessions(other, IN_TRANSACTION)

    with pytest.raises(OutcomeUnknownError):
        store.together(loses_its_connection)
    assert store.now()


def test_an_error_in_it_rolls_back_and_keeps_the_connection(store: SqlJobStore) -> None:
    def fails(inside: JobStore) -> None:
        inside.pause(EVERYTHING)
        raise InvalidValueError("of the caller")

    opened = store.connections().opened
    for _ in range(3):
        with pytest.raises(InvalidValueError, match="of the caller"):
            store.together(fails)
    assert store.connections().opened == opened
    assert store.connections().in_use == 0


def test_such_transactions_leave_connections_for_the_steps_of_a_node(make_store: MakeStore) -> None:
    store = make_store(pool_size=3)
    node = register(store)
    store._connections.calls._seconds = 0.2
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(store._connections.call_transaction())
        with pytest.raises(StoreUnavailableError, match="3 calls of this program used all"):
            store.together(lambda inside: inside.now())
        assert not store.holdings(node).executions
    assert store.together(lambda inside: inside.now())


def test_the_connection_of_such_a_transaction_has_the_settings_of_the_steps_behind_a_pooler(
    make_store: MakeStore,
) -> None:
    for settings in ({}, {"pooled": True}):
        store = make_store(**settings)
        with store._connections.call_transaction() as connection:
            shown = connection.execute(
                "SELECT current_setting('enable_seqscan'), current_setting('transaction_isolation')"
            ).fetchone()
        assert shown == ("off", "read committed")
