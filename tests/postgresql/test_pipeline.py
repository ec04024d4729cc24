"""A round trip decodes the results of its statements while the server commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from quartzpy.store.postgresql.connection import pipeline
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, execute_pipelined
from quartzpy.store.postgresql.schema.statement import prepare

Connect = Callable[[], psycopg.Connection[Any]]

SLOW_TO_COMMIT = """
CREATE TEMPORARY TABLE slow (n int);
CREATE FUNCTION pg_temp.rest() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_temp.rest();
"""


def sends(*texts: str) -> list[BoundStatement]:
    return [BoundStatement(prepare(f"round trip {text}", text), {}) for text in texts]


def test_rows_are_decoded_before_the_commit_is_answered(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect()
    connection.execute(SLOW_TO_COMMIT)
    decoded: list[str] = []
    load = pipeline._loaded

    def noted(loader: Any, result: Any) -> pipeline.Result:
        decoded.append(connection.info.transaction_status.name)
        return load(loader, result)

    monkeypatch.setattr(pipeline, "_loaded", noted)
    results = execute_pipelined(
        connection, sends("INSERT INTO slow VALUES (1) RETURNING n", "SELECT 2, 'b'"), seconds=10
    )
    assert [result.rows for result in results] == [[(1,)], [(2, "b")]]
    assert decoded == ["ACTIVE", "ACTIVE"], "each result is decoded once, and the transaction has not ended by then"


def test_a_value_that_cannot_be_decoded_is_reported_after_the_end_of_the_pipeline(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(psycopg.DataError):
        execute_pipelined(connection, sends("SELECT 1", "SELECT timestamptz '20000-01-01 00:00+00'"), seconds=10)
    assert connection.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF
    assert execute_pipelined(connection, sends("SELECT 3"), seconds=10)[0].rows == [(3,)]


def test_an_error_of_the_commit_is_raised_although_the_rows_were_decoded(connect: Connect) -> None:
    connection = connect()
    connection.execute(SLOW_TO_COMMIT.replace("RETURN NULL", "RAISE unique_violation"))
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute_pipelined(connection, sends("INSERT INTO slow VALUES (1) RETURNING n"), seconds=10)
    assert execute_pipelined(connection, sends("SELECT count(*) FROM slow"), seconds=10)[0].rows == [(0,)]
