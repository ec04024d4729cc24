"""Statements without their notifications.

A notification only speeds up what polling does as well, so that it must not fail a transaction. The server refuses the
commit of one that notifies while its queue of notifications is full, because some session that listens has stayed in a
transaction for long.
"""

from __future__ import annotations

from functools import lru_cache

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema.statement import Statement

QUEUE_FULL = "54000"
"""The SQLSTATE of a commit for whose notifications there is no room."""
_NOTIFY = b"pg_notify("
_NOTHING = b"starts_with("
"""A function of two texts that does nothing."""
_ROOM = b"(CASE WHEN pg_notification_queue_usage() < 0.9 THEN "


def is_for_want_of_room(error: BaseException) -> bool:
    """Return whether a translated error is that of a commit for whose notifications there is no room."""
    return getattr(error.__cause__, "sqlstate", None) == QUEUE_FULL


def without_news(statement: BoundStatement) -> BoundStatement:
    """Return the statement without its notifications."""
    return statement._replace(statement=_without_news(statement.statement))


def with_news_if_room(statement: BoundStatement) -> BoundStatement:
    """Return the statement with its notifications only while there is room: for a commit that is not repeated."""
    return statement._replace(statement=_with_news_if_room(statement.statement))


@lru_cache(maxsize=1_000)
def _without_news(statement: Statement) -> Statement:
    if _NOTIFY not in statement.sql:
        return statement
    return Statement(f"{statement.name}-without", statement.sql.replace(_NOTIFY, _NOTHING), statement.values)


@lru_cache(maxsize=1_000)
def _with_news_if_room(statement: Statement) -> Statement:
    if _NOTIFY not in statement.sql:
        return statement
    first, *rest = statement.sql.split(_NOTIFY)
    sql = first
    for part in rest:
        end = _end_of_arguments(part)
        sql += _ROOM + _NOTIFY + part[:end] + b" END)" + part[end:]
    return Statement(f"{statement.name}-if-room", sql, statement.values)


def _end_of_arguments(sql: bytes) -> int:
    """Return the place behind the parenthesis that closes the one before this text."""
    depth = 1
    for place, letter in enumerate(sql):
        depth += (letter == ord("(")) - (letter == ord(")"))
        if not depth:
            return place + 1
    raise ValueError("the parentheses of a statement are not balanced")
