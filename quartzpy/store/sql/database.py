"""Database URLs, and what the driver's errors mean to a user."""

from __future__ import annotations

import re

import psycopg
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from quartzpy.errors import (
    AuthenticationError,
    InvalidValueError,
    JobStoreError,
    QuartzpyError,
    SchemaError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.store.sql.locks import MISSING


class LockMissingError(SchemaError):
    """A row of `locks` is missing; nothing was changed."""


DRIVER = "postgresql+psycopg"
EXAMPLE = "postgresql+psycopg://user:password@host:5432/database"

_AUTHENTICATION = ("28",)
_NO_SUCH_DATABASE = "3D000"
# Undefined table, column, sequence or schema.
_SCHEMA = frozenset({"42P01", "42703", "3F000"})
_PRIVILEGE = "42501"
# A character that cannot be translated, or is none.
_NOT_IN_ENCODING = frozenset({"22P05", "22021"})
# What `locks.LOCK` fails with.
_NO_NUMBER = "22P02"
# Connection lost, server shutting down, out of resources, read-only, lock and deadlock, cancelled, time-outs.
_PASSING = ("08", "57P", "53", "25006", "25P03", "25P02", "55P03", "40", "57014", "58")
# A prepared statement that is there already, or is not: sessions are another's.
_PREPARED_ELSEWHERE = frozenset({"42P05", "26000"})
_POOLER_HINT = "; is there a pooler that lends connections for a transaction (PgBouncer)? Set pooled=True"
_PASSWORD = re.compile(r"(://[^:/@\s]+:)[^@\s]+(@)|(password=)\S+", re.IGNORECASE)


def parse_dsn(text: str) -> URL:
    """The URL of a PostgreSQL database, for psycopg.

    Raises:
        SettingsError: not such a URL; a password in it is not shown.
    """
    if not isinstance(text, str) or not text.strip():
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {text!r})")
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError) as error:
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {scrubbed(text)!r})") from error
    if url.drivername not in ("postgresql", "postgres", DRIVER):
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {url.render_as_string()})")
    return url.set(drivername=DRIVER)


def scrubbed(text: str) -> str:
    """A message without the passwords that it may hold."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[3]}***{found[2] or ''}", text)


def translate(error: BaseException) -> QuartzpyError:
    """The error of ours that a driver's error is, by its SQLSTATE."""
    if isinstance(error, QuartzpyError):
        return error
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    sqlstate = getattr(original, "sqlstate", None)
    message = scrubbed(str(original)).strip() or type(original).__name__
    if isinstance(error, PoolTimeoutError):
        return StoreUnavailableError(f"no connection of the pool was free in time: {message}")
    if sqlstate is None:
        return _without_code(original, message)
    if sqlstate.startswith(_AUTHENTICATION) or sqlstate == _NO_SUCH_DATABASE:
        return AuthenticationError(f"the database refused us: {message}", sqlstate=sqlstate)
    if sqlstate in _SCHEMA:
        return SchemaError(f"{message}; run `quartzpy db upgrade`")
    if sqlstate == _PRIVILEGE:
        return SchemaError(f"the database role lacks a privilege: {message}")
    if sqlstate == _NO_NUMBER and MISSING in message:
        return LockMissingError(
            "a lock row is missing: somebody deleted it; a node or client that finds it so restores it"
        )
    if sqlstate in _NOT_IN_ENCODING:
        return InvalidValueError(
            f"the database's encoding has no such character: {message}; a database with ENCODING 'UTF8' has all"
        )
    if sqlstate.startswith(_PASSING):
        return StoreUnavailableError(message, sqlstate=sqlstate)
    hint = _POOLER_HINT if sqlstate in _PREPARED_ELSEWHERE else ""
    return JobStoreError(f"unexpected error of the database ({sqlstate}): {message}{hint}")


def _without_code(error: BaseException, message: str) -> QuartzpyError:
    """An error that no server sent: the connection, or its making, failed."""
    lowered = message.lower()
    if "password authentication failed" in lowered or (
        "does not exist" in lowered and ("database" in lowered or "role" in lowered)
    ):
        return AuthenticationError(f"the database refused us: {message}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError)):
        hint = _POOLER_HINT if "unsupported startup parameter" in lowered else ""
        return StoreUnavailableError(f"the database cannot be reached: {message}{hint}")
    if isinstance(error, SQLAlchemyError):
        return StoreUnavailableError(message)
    return JobStoreError(f"unexpected error: {message}")
