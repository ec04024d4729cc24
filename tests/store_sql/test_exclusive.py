"""The transaction in which declared jobs are stored, one process after the other."""

from __future__ import annotations

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import StoreUnavailableError
from quartzpy.store.protocol import JobStore
from quartzpy.store.sql.store import SqlJobStore
from tests.database import connect_to


def test_a_connection_that_is_lost_in_it_is_an_error_of_ours(postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig())
    store.open()

    def loses_its_connection(inside: JobStore) -> None:
        with connect_to(postgres_dsn) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
        inside.now()

    with pytest.raises(StoreUnavailableError):
        store.exclusively(loses_its_connection)
    assert store.now()
    store.close()
