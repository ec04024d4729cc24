"""Names and keys are compared by their bytes, so no locale makes an index slower, another order, or out of date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.schema import tables
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from tests.database import Server

NAMES = ["B", "a", "a b", "a-b", "ab", "b", "É", "é", "日"]
"""Names in the order of Python, which a language has in another."""
LOCALE = "en_US.UTF-8"
LATER = datetime(2090, 1, 1, tzinfo=UTC)
INDEXED = """
SELECT index_of.relname || '.' || a.attname, c.collname
  FROM pg_index i
  JOIN pg_class index_of ON index_of.oid = i.indexrelid
  JOIN pg_class of_table ON of_table.oid = i.indrelid
 CROSS JOIN LATERAL unnest(i.indcollation::oid[]) WITH ORDINALITY AS entry(collation_id, place)
  JOIN pg_collation c ON c.oid = entry.collation_id
  JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = entry.place
 WHERE of_table.relname = ANY(%s) AND pg_table_is_visible(of_table.oid)
"""
STORED = """
SELECT of_table.relname || '.' || a.attname, c.collname
  FROM pg_attribute a
  JOIN pg_class of_table ON of_table.oid = a.attrelid
  JOIN pg_collation c ON c.oid = a.attcollation
 WHERE of_table.relname = ANY(%s) AND pg_table_is_visible(of_table.oid) AND a.attnum > 0 AND NOT a.attisdropped
"""


def collations(connection: psycopg.Connection[tuple[str, str]], statement: str) -> dict[str, str]:
    return dict(connection.execute(statement.encode(), [list(tables.metadata.tables)]).fetchall())


def test_each_indexed_text_is_compared_by_its_bytes(connect: Callable[[], psycopg.Connection[tuple[str, str]]]) -> None:
    found = collations(connect(), INDEXED)
    assert "qrtz_triggers_pkey.trigger_name" in found
    assert {name for name, collation in found.items() if collation != "C"} == set()


def test_the_columns_have_the_collations_that_the_tables_declare(
    connect: Callable[[], psycopg.Connection[tuple[str, str]]],
) -> None:
    stored = collations(connect(), STORED)
    declared = {
        f"{table.name}.{column.name}": getattr(column.type, "collation", None) or "default"
        for table in tables.metadata.tables.values()
        for column in table.columns
        if f"{table.name}.{column.name}" in stored
    }
    assert stored == declared


@pytest.fixture
def dsn_of_a_language(postgres_server: Server) -> Iterator[str]:
    """The URL of a database whose text has the order of a language; skips where the server knows none."""
    with ExitStack() as stack:
        try:
            dsn = stack.enter_context(postgres_server.temporary("quartzpy_of_a_language", "template0", LOCALE))
        except psycopg.errors.WrongObjectType as error:
            pytest.skip(f"the server has no locale {LOCALE}: {error}")
        migrations.upgrade(dsn)
        yield dsn


def test_in_a_database_of_a_language_lists_have_the_order_of_python(
    dsn_of_a_language: str, make_store: Callable[..., SqlJobStore], postgres_server: Server
) -> None:
    with closing(postgres_server.connect(make_url(dsn_of_a_language).database)) as connection:
        of_the_language = connection.execute("SELECT name FROM unnest(%s::text[]) AS name ORDER BY name", [NAMES])
        assert [name for (name,) in of_the_language] != NAMES
    store = make_store(dsn_of_a_language)
    scheduler = Scheduler(dsn_of_a_language, name=store._session.scheduler)
    for name in NAMES:
        scheduler.schedule_job(JobDetail("x:y", name), SimpleTrigger(name, start_time=LATER))
    scheduler.shutdown()
    query = TriggerQuery()
    found: list[TriggerRecord] = []
    while page := store.find(query, 2, query.position(found[-1]) if found else None):
        found += page
    assert [record.key.name for record in found] == NAMES
