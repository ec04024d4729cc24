"""What becomes of the columns with a table of moves (`quartzpy.states`), recorded while a test runs.

On a database, a trigger of the server's records the moves; in the store in memory, the attributes of its rows do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple

import psycopg

from quartzpy.states import (
    MISSED_POLICY_MOVES,
    UNRECONCILED_MOVES,
    Missed,
    Unreconciled,
)
from quartzpy.store.memory.rows import TriggerRow

TABLES = {
    "missed_policy": MISSED_POLICY_MOVES,
    "unreconciled": UNRECONCILED_MOVES,
}
BEGINS: dict[str, StrEnum] = {"unreconciled": Unreconciled.NEW}
"""The values other than None with which a trigger is stored."""
NEW = "(new)"
"""The value before the first one."""


class Move(NamedTuple):
    column: str
    before: str | None
    after: str | None


LISTED = {
    *(Move(column, before, after) for column, moves in TABLES.items() for before in moves for after in moves[before]),
    *(Move(column, NEW, begin) for column, begin in BEGINS.items()),
}
_RECORD = """
DROP SCHEMA IF EXISTS test_moves CASCADE;
CREATE SCHEMA test_moves;
CREATE TABLE test_moves.made (column_name text, before text, after text);
CREATE FUNCTION test_moves.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    old_row jsonb := CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) END;
    new_row jsonb := to_jsonb(NEW);
BEGIN
    INSERT INTO test_moves.made
    SELECT name, CASE TG_OP WHEN 'INSERT' THEN '(new)' ELSE old_row ->> name END, new_row ->> name
      FROM unnest(ARRAY['missed_policy', 'unreconciled']) AS name
     WHERE old_row ->> name IS DISTINCT FROM new_row ->> name;
    RETURN NULL;
END $$;
CREATE TRIGGER test_moves_inserted AFTER INSERT ON qrtz_triggers FOR EACH ROW
  WHEN (coalesce(NEW.missed_policy, NEW.unreconciled) IS NOT NULL) EXECUTE FUNCTION test_moves.record();
CREATE TRIGGER test_moves_updated AFTER UPDATE ON qrtz_triggers FOR EACH ROW
  WHEN ((OLD.missed_policy, OLD.unreconciled)
        IS DISTINCT FROM (NEW.missed_policy, NEW.unreconciled))
  EXECUTE FUNCTION test_moves.record();
"""


class MovesOfDatabase:
    """The moves of the rows of a database."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def made(self) -> set[Move]:
        rows = self._connection.execute("SELECT DISTINCT column_name, before, after FROM test_moves.made").fetchall()
        return {Move(*row) for row in rows}

    def forget(self) -> None:
        self._connection.execute("DELETE FROM test_moves.made")


@contextmanager
def recorded_in_database(connection: psycopg.Connection[Any]) -> Iterator[MovesOfDatabase]:
    """Record the moves in a database. The connection is the administrator's, with autocommit."""
    connection.execute(_RECORD)
    try:
        yield MovesOfDatabase(connection)
    finally:
        connection.execute("DROP SCHEMA test_moves CASCADE")


class _Recorded:
    """An attribute of `TriggerRow` that records its moves."""

    def __init__(self, column: str, moves: set[Move]) -> None:
        self._column = column
        self.slot = getattr(TriggerRow, column)
        self._moves = moves

    def __get__(self, row: TriggerRow | None, owner: type[TriggerRow]) -> Any:
        return self if row is None else self.slot.__get__(row, owner)

    def __set__(self, row: TriggerRow, value: Any) -> None:
        try:
            before = self.slot.__get__(row, TriggerRow)
        except AttributeError:
            before = None
        if value is not before:
            self._moves.add(Move(self._column, _stored(before), _stored(value)))
        self.slot.__set__(row, value)


def _stored(value: StrEnum | None) -> str | None:
    return None if value is None or value is Missed.MISFIRE else str(value)


class MovesInMemory:
    """The moves of the rows of stores in memory. A new row gets its values after it was made."""

    def __init__(self) -> None:
        self._moves: set[Move] = set()
        self.attributes = [(column, _Recorded(column, self._moves)) for column in TABLES if hasattr(TriggerRow, column)]

    def made(self) -> set[Move]:
        begun = {
            move._replace(before=NEW) if move.before is None and move.after in BEGINS.values() else move
            for move in self._moves
        }
        return {move for move in begun if move.before != move.after}


@contextmanager
def recorded_in_memory() -> Iterator[MovesInMemory]:
    """Record the moves in all stores in memory of this process."""
    moves = MovesInMemory()
    for column, attribute in moves.attributes:
        setattr(TriggerRow, column, attribute)
    try:
        yield moves
    finally:
        for column, attribute in moves.attributes:
            setattr(TriggerRow, column, attribute.slot)
