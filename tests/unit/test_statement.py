from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy.errors import InvalidMatcherError
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.store.postgresql.schema.naming import DEFAULT_NAMES, Names
from quartzpy.store.postgresql.schema.statement import as_query, as_text, prepare, with_values_as

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, b"t"),
        (7, b"7"),
        ("a'b", b"a'b"),
        (timedelta(days=1, milliseconds=5), b"86400005000 microseconds"),
        (timedelta(days=36_525, seconds=3_599, microseconds=999_999), b"3155763599999999 microseconds"),
        (-timedelta(microseconds=1), b"-1 microseconds"),
        (datetime(2026, 1, 1, tzinfo=UTC), b"2026-01-01T00:00:00+00:00"),
        ([], b"{}"),
        ([1, None, 2], b"{1,NULL,2}"),
        (["a", "b c", "", "null", 'q"\\', "{,}"], b'{a,"b c","","null","q\\"\\\\","{,}"}'),
        (["a", "b c", "", "null", "{,}"], b'{"a","b c","","null","{,}"}'),
        (["q\\"], b'{"q\\\\"}'),
        (['"', "a"], b'{"\\"",a}'),
        (["a", None], b"{a,NULL}"),
        ([[1, 2], []], b'{"{1,2}","{}"}'),
        ([(NOON, NOON), ()], b'{"{2026-01-01T12:00:00+00:00,2026-01-01T12:00:00+00:00}","{}"}'),
        ([(NOON, None), (NOON,)], b'{"{2026-01-01T12:00:00+00:00,NULL}","{2026-01-01T12:00:00+00:00}"}'),
        ([(NOON,), None], b'{"{2026-01-01T12:00:00+00:00}",NULL}'),
        ((False, True), b"{f,t}"),
    ],
)
def test_values_in_the_text_form_of_postgresql(value: Any, text: bytes | None) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("names", "sent"),
    [
        (DEFAULT_NAMES, "SELECT clock_timestamp() FROM qrtz_triggers, my_qrtz_table, 'qrtz_locks'::regclass"),
        (
            Names("app", "jobs_", "now()"),
            """SELECT now() FROM "app".jobs_triggers, my_qrtz_table, '"app".jobs_locks'::regclass""",
        ),
    ],
)
def test_the_clock_and_the_tables_are_those_of_the_database(names: Names, sent: str) -> None:
    text = "SELECT :now FROM qrtz_triggers, my_qrtz_table, 'qrtz_locks'::regclass"
    assert prepare("x", text, names).sql.decode() == sent


def test_values_are_numbered_in_the_order_of_their_first_use() -> None:
    statement = prepare("x", "SELECT 'now'::text, a[:n], '$1' WHERE a = :'b'::text[] AND b = :'a' OR c = :'b'")
    assert statement.sql == b"SELECT 'now'::text, a[:n], '$1' WHERE a = $1::text[] AND b = $2 OR c = $1"
    assert statement.encode({"a": 1, "b": None}) == [None, b"1"]
    with pytest.raises(KeyError):
        statement.encode({"a": 1})


def test_psycopg_takes_the_values_of_a_text_by_name() -> None:
    assert as_query("SELECT :'a'::text FROM qrtz_t WHERE b LIKE '%' || :'a'") == (
        b"SELECT %(a)s::text FROM qrtz_t WHERE b LIKE '%%' || %(a)s"
    )


def test_expressions_stand_for_some_of_the_values() -> None:
    replaced = with_values_as("SELECT $1::int + $1, $2::text, $3", {1: "a.n", 3: "a.word"})
    assert replaced == "SELECT (a.n)::int + (a.n)::int, $2::text, (a.word)"


def test_matchers_take_every_character_literally() -> None:
    assert GroupMatcher.starts_with("a%").matches("a%b")
    assert not GroupMatcher.starts_with("a%").matches("ab")
    assert GroupMatcher.ends_with("_z").matches("x_z")
    assert GroupMatcher.contains("b").matches("abc")
    assert GroupMatcher.anything().matches("")
    assert as_group_matcher("g") == GroupMatcher.equals("g")
    with pytest.raises(InvalidMatcherError):
        as_group_matcher(None)  # type: ignore[arg-type]
