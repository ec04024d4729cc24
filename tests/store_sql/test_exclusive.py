"""The transaction in which declared jobs are stored, one process after the other."""

from __future__ import annotations

import psycopg
import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import StoreUnavailableError
from quartzpy.store.protocol import JobStore
from quartzpy.store.sql.db.database import parse_dsn
from quartzpy.store.sql.store import SqlJobStore


def test_a_connection_that_is_lost_in_it_is_an_error_of_ours(postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig())
    store.open()

    def loses_its_connection(inside: JobStore) -> None:
        url = parse_dsn(postgres_dsn).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
        inside.now()

    with pytest.raises(StoreUnavailableError):
        store.exclusively(loses_its_connection)
    assert store.now()
    store.close()
