"""Round trips that are larger than the buffers of their connection, in either direction."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from quartzpy.store.postgresql.connection.pipeline import BoundStatement, execute_pipelined, undo
from quartzpy.store.postgresql.schema.statement import prepare

Connect = Callable[[], psycopg.Connection[Any]]
MEGABYTE = 1_000_000


def narrowed(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Make the buffers of a connection small."""
    with socket.socket(fileno=socket.dup(connection.fileno())) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    return connection


def question(text: str, **values: Any) -> BoundStatement:
    return BoundStatement(prepare(f"large {text}", text), values)


@pytest.mark.parametrize("prepared", [True, False])
def test_a_large_value_is_sent_to_its_end(connect: Connect, prepared: bool) -> None:
    value = "x" * 8 * MEGABYTE
    asked = question("SELECT length(:'value'::text)", value=value)
    assert execute_pipelined(narrowed(connect()), [asked], seconds=300, prepared=prepared)[0].rows == [(len(value),)]


def test_many_statements_are_sent_while_their_answers_arrive(connect: Connect) -> None:
    value = "x" * MEGABYTE
    asked = [question("SELECT :'value'::text", value=value) for _ in range(8)]
    results = execute_pipelined(narrowed(connect()), asked, seconds=300)
    assert [len(result.rows[0][0]) for result in results] == [MEGABYTE] * 8


def test_an_error_in_the_middle_of_a_large_pipeline_is_reported(connect: Connect) -> None:
    connection = narrowed(connect())
    large = question("SELECT length(:'value'::text)", value="x" * 2 * MEGABYTE)
    with pytest.raises(psycopg.errors.DivisionByZero):
        execute_pipelined(connection, [large, question("SELECT 1 / 0"), large], seconds=300)
    assert execute_pipelined(connection, [question("SELECT 1")], seconds=300)[0].rows == [(1,)]


def test_a_large_statement_that_ends_a_transaction_is_sent_to_its_end(connect: Connect) -> None:
    connection = narrowed(connect())
    undo(connection.pgconn, b"ROLLBACK /* " + b"x" * 8 * MEGABYTE + b" */", 300)
    assert execute_pipelined(connection, [question("SELECT 1")], seconds=300)[0].rows == [(1,)]
