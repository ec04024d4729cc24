"""A database for the tests: the one that SHOP_TEST_URL names, or a temporary server."""

from __future__ import annotations

import atexit
import os

import pytest
from sqlalchemy import delete


def a_database() -> str:
    """Its URL."""
    if "SHOP_TEST_URL" in os.environ:
        return os.environ["SHOP_TEST_URL"]
    from quartzpy.embedded import EmbeddedPostgres

    server = EmbeddedPostgres.temporary()
    server.start()
    atexit.register(server.stop)
    return server.dsn


# The shop reads its URL when a test module imports it, which is before any fixture runs.
os.environ["QUARTZPY_URL"] = a_database()


@pytest.fixture(autouse=True, scope="session")
def _tables() -> None:
    from quartzpy.store.postgresql import migrations
    from shop.models import URL, Base, engine

    migrations.upgrade(URL)
    Base.metadata.create_all(engine)


@pytest.fixture(autouse=True)
def _no_rows(_tables: None) -> None:
    from shop.models import DailyReport, Invoice, Order, engine
    from shop.scheduling import new_scheduler

    with engine.begin() as connection:
        for table in (Invoice, Order, DailyReport):
            connection.execute(delete(table))
    scheduler = new_scheduler()
    scheduler.clear()
    scheduler.shutdown()
