"""Not only sessions hold snapshots: prepared transactions and the slots of standbys are named, too."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.config.config import SchedulerConfig
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.operations import Operations
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to, libpq_url
from tests.waiting import wait_until
from tests.worlds.options import world_of
from tests.worlds.stage import binaries_of


@pytest.fixture
def server(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with dead rows, on a server that prepares transactions and replicates."""
    monkeypatch.setattr("quartzpy.store.postgresql.admin.catalogs.OLD_SNAPSHOT", timedelta())
    settings = {"max_prepared_transactions": "2", "wal_level": "replica", "max_wal_senders": "2"}
    with EmbeddedPostgres.temporary(binaries=binaries_of(world_of(pytestconfig)), settings=settings) as own:
        migrations.upgrade(own.dsn)
        with connect_to(own.dsn) as user:
            user.execute("ALTER TABLE qrtz_triggers SET (autovacuum_enabled = false)")
        yield own.dsn


def _is_named(dsn: str, holder: str) -> None:
    """The audit of `doctor` and the incidents, which the page shows, name what holds the snapshot."""
    with closing(SqlJobStore(dsn, SchedulerConfig.of({"name": "named"}))) as store:
        store.open()
        [finding] = [finding for finding in admin(store).audit() if finding.check == "old-snapshot"]
        assert any(holder in row for row in finding.rows)
        incidents = Operations(Scheduler(store, name="named")).incidents().incidents
        [incident] = [incident for incident in incidents if incident.kind == "old-snapshot"]
        assert any(holder in reason for reason in incident.why)


def _wait_for_slot(user: psycopg.Connection[Any], condition: str) -> None:
    asked = f"SELECT FROM pg_replication_slots WHERE slot_name = 'left' AND {condition}".encode()
    wait_until(lambda: bool(user.execute(asked).fetchall()))


def test_a_forgotten_prepared_transaction_is_named(server: str) -> None:
    with connect_to(server) as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT count(*), pg_current_xact_id() FROM qrtz_triggers")
        session.execute("PREPARE TRANSACTION 'forgotten'")
    _is_named(server, "prepared transaction 'forgotten' of")


def test_the_slot_of_a_standby_that_is_gone_is_named(server: str) -> None:
    with connect_to(server) as user:
        row = user.execute(
            "SELECT lsn::text, pg_current_xact_id()::text::bigint"
            " FROM pg_create_physical_replication_slot('left', true)"
        ).fetchone()
        assert row is not None
        place, oldest = row
        options = libpq_url(server) + "?replication=database"
        with closing(psycopg.connect(options, autocommit=True)) as standby:
            answer = standby.pgconn.exec_(f"START_REPLICATION SLOT left PHYSICAL {place}".encode())
            assert answer.status == psycopg.pq.ExecStatus.COPY_BOTH, answer.error_message
            # The feedback of a hot standby: the oldest transaction that its queries may have to see.
            standby.pgconn.put_copy_data(struct.pack("!cqIIII", b"h", 0, oldest, 0, 0, 0))
            standby.pgconn.flush()
            _wait_for_slot(user, "xmin IS NOT NULL")
        _wait_for_slot(user, "NOT active")
    _is_named(server, "replication slot left, which nobody reads")
