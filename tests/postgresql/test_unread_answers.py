"""A session that holds the lock while nobody receives its answers is ended by a node that waits for the lock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING
from tests.database import connect_to, execute
from tests.waiting import wait_until

HOLD_AND_SAY_MUCH = b"BEGIN; SELECT FROM qrtz_locks FOR UPDATE; SELECT repeat('x', 100000000)"


def test_a_client_that_does_not_receive_its_answers_does_not_keep_the_lock(
    make_store: Callable[..., SqlJobStore], postgres_dsn: str
) -> None:
    store = make_store(lock_timeout=timedelta(milliseconds=200))
    deaf = connect_to(postgres_dsn, application_name="quartzpy:deaf:work")
    pid = deaf.info.backend_pid
    deaf.pgconn.send_query(HOLD_AND_SAY_MUCH)
    deaf.pgconn.flush()
    stuck = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'ClientWrite'"
    wait_until(lambda: execute(postgres_dsn, stuck) == [(1,)])

    def takes_the_lock() -> bool:
        try:
            store.pause(EVERYTHING)
        except StoreUnavailableError:
            return False
        return True

    wait_until(takes_the_lock)
    gone = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"
    wait_until(lambda: execute(postgres_dsn, gone) == [(0,)])
    deaf.close()
