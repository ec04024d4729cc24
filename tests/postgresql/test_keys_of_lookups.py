"""A row that a statement names by its whole key is looked up by it, also where the plan was made for small tables.

In a table of one page, an index on the scheduler and an instant is as good as the key. A session keeps the plan, and
reads all rows of the scheduler for each look once the table has grown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.connection.conninfo import session_settings
from quartzpy.store.postgresql.schema import sql_files
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import prepare
from quartzpy.store.postgresql.schema.tables import metadata
from tests.database import Server
from tests.postgresql.test_plans import nodes_of
from tests.postgresql.test_sql_files import FILES, switches_of

OF_ANY_FILTERS = {"page"}
"""Which index is best depends on the filters that an operator chooses; with all of them, each is as good."""
GENERIC_PLAN = 160_000
"""The first release that explains a statement without values."""
KEYS = {
    table.name.removeprefix("qrtz_"): [column.name for column in table.primary_key]
    for table in metadata.tables.values()
    if table.primary_key
}


@pytest.fixture(scope="module", params=["new tables", "tables known to be empty"])
def connection(postgres_server: Server, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    with (
        postgres_server.temporary("quartzpy_lookups", postgres_server.tables) as dsn,
        closing(postgres_server.connect(make_url(dsn).database)) as connection,
    ):
        if connection.info.server_version < GENERIC_PLAN:
            pytest.skip("this server explains no statement without values")
        for setting in session_settings(SchedulerConfig.of({"name": "lookups"})).items():
            connection.execute("SELECT set_config(%s, %s, false)", setting)
        if request.param != "new tables":
            connection.execute("VACUUM ANALYZE")
        yield connection


def statements_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each statement of a file, with no switch and with all."""
    for statement, text in sql_files._statements(name).items():
        switches = switches_of(text)
        for chosen in ({}, dict.fromkeys(switches, True)) if switches else ({},):
            yield statement, SqlFile(name)(statement, **chosen)


def conjuncts(condition: str) -> Iterator[str]:
    """Yield the parts of a condition that AND connects on its first level."""
    depth = begin = 0
    for place, character in enumerate(condition):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 1 and condition.startswith(" AND ", place):
            yield condition[begin:place].strip("( ")
            begin = place + len(" AND ")
    yield condition[begin:].strip("( ")


def compares(column: str, condition: str) -> bool:
    return re.match(rf"(?:\w+\.)?{column}\)?(?:::\w+)? = (?!ANY)", condition) is not None


def looks_elsewhere(node: dict[str, Any]) -> bool:
    """Return whether a scan compares all columns of the key of its table, and some only after it has read a row."""
    table = node.get("Relation Name", "").removeprefix("qrtz_")
    if table not in KEYS or node["Node Type"] not in ("Index Scan", "Index Only Scan", "Seq Scan"):
        return False
    by_index, by_row = (
        {column for column in KEYS[table] for one in conjuncts(node.get(field, "")) if compares(column, one)}
        for field in ("Index Cond", "Filter")
    )
    return by_index | by_row == set(KEYS[table]) and not by_row <= by_index


@pytest.mark.parametrize("name", FILES)
def test_a_row_that_is_named_by_its_key_is_looked_up_by_it(connection: psycopg.Connection[Any], name: str) -> None:
    wrong = []
    for statement, text in statements_of(name):
        if statement in OF_ANY_FILTERS:
            continue
        sql = prepare("s", text).sql
        found = connection.execute(b"EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + sql).fetchone()
        assert found is not None
        [answer] = found[0] if isinstance(found[0], list) else json.loads(found[0])
        wrong += [(statement, node) for node in nodes_of(answer["Plan"]) if looks_elsewhere(node)]
    assert not wrong, "\n".join(
        f"{statement} reads by {node.get('Index Name', node['Node Type'])} and compares {node['Filter']}"
        for statement, node in wrong
    )
