"""While the server's queue of notifications is full, calls succeed without them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.connection.optional_news import with_news_if_room, without_news
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema.statement import Statement
from tests.database import connect_to
from tests.facade import jobs
from tests.worlds.options import world_of
from tests.worlds.stage import binaries_of


def test_notifications_are_cut_out_of_a_statement_or_made_conditional() -> None:
    sql = b"SELECT pg_notify($1, f($2, (1))), (SELECT count(pg_notify($1, 'x')) FROM t)"
    statement = BoundStatement(Statement("s", sql, ("channel", "news")), {})
    assert without_news(statement).statement.sql == sql.replace(b"pg_notify", b"starts_with")
    room = b"(CASE WHEN pg_notification_queue_usage() < 0.9 THEN "
    assert with_news_if_room(statement).statement.sql == (
        b"SELECT "
        + room
        + b"pg_notify($1, f($2, (1))) END), (SELECT count("
        + room
        + b"pg_notify($1, 'x') END)) FROM t)"
    )
    plain = BoundStatement(Statement("s", b"SELECT 1", ()), {})
    assert without_news(plain) == with_news_if_room(plain) == plain


def _fill(connection: psycopg.Connection[Any]) -> None:
    for number in range(1_000):
        connection.execute(
            "SELECT pg_notify('something', repeat('x', 7000) || n || '-' || %s) FROM generate_series(1, 20) n",
            (str(number),),
        )


@pytest.fixture
def full(pytestconfig: pytest.Config) -> Iterator[str]:
    """A database of a server whose queue of notifications is full: a session that listens stays in a transaction."""
    settings = {"max_notify_queue_pages": "64"}
    binaries = binaries_of(world_of(pytestconfig))
    if world_of(pytestconfig).server < 17:
        pytest.skip("before PostgreSQL 17 the queue has 8 GB")
    with EmbeddedPostgres.temporary(binaries=binaries, settings=settings) as server:
        url = server.dsn
        migrations.upgrade(url)
        with connect_to(url, autocommit=False) as holder, connect_to(url) as other:
            holder.execute("LISTEN something")
            holder.commit()
            holder.execute("SELECT 1")
            with pytest.raises(psycopg.Error, match="NOTIFY queue"):
                _fill(other)
            yield url


def test_calls_nodes_and_jobs_go_on_while_the_queue_is_full(full: str) -> None:
    arguments: dict[str, Any] = jobs.arguments(name="full")
    node, client = Scheduler(full, **arguments), Scheduler(full, **arguments)
    node.start()
    key = TriggerKey("t")
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    client.schedule_job(JobDetail(jobs.Recorded, "j", durable=True), SimpleTrigger("t", start_time=in_an_hour))
    client.trigger_job("j")
    client.pause_all()
    client.resume_all()
    with connect_to(full, autocommit=False) as connection:
        mine = client.using(connection)
        mine.trigger_job("j")
        mine.unschedule_job(key)
    assert node.wait_until_recorded(2, timedelta(seconds=30))
    [finding] = [finding for finding in admin(node._store).audit() if finding.check == "notifications"]
    assert "queue of notifications" in finding.what
    assert finding.rows[0].startswith("pid ")
    assert node.shutdown()
    client.shutdown()
