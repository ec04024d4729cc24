"""The translation of the errors of psycopg and SQLAlchemy into quartzpy's."""

from __future__ import annotations

import sys

import psycopg

from quartzpy.errors import (
    AuthenticationError,
    InvalidValueError,
    JobStoreError,
    QuartzpyError,
    SchemaError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.store.postgresql.connection.locks import MISSING
from quartzpy.store.postgresql.connection.urls import scrubbed

_AUTHENTICATION = ("28",)
_NO_SUCH_DATABASE = "3D000"
# Undefined table, column, sequence or schema.
_SCHEMA = frozenset({"42P01", "42703", "3F000"})
INSUFFICIENT_PRIVILEGE = "42501"
# The SQLSTATE with which `locks.LOCK` fails if the row is missing.
_NOT_A_NUMBER = "22P02"
# A character that cannot be translated, or is invalid.
_NO_SUCH_CHARACTER = frozenset({"22P05", "22021"})
# Values that cannot be computed with or converted, and constraints.
_REFUSED_ROW = ("22", "23")
# Connection lost, server shutting down, out of resources, read-only, lock and deadlock, cancelled, timeouts.
_TRANSIENT = ("08", "57P", "53", "25006", "25P03", "25P02", "55P03", "40", "57014", "58")
# A prepared statement that exists already, or does not exist: a pooler has switched the session.
_PREPARED_ELSEWHERE = frozenset({"42P05", "26000"})
_POOLER_HINT = "; is there a transaction-pooling pooler (PgBouncer)? Set pooled=True (for a command: --pooled)"


class LockRowMissingError(SchemaError):
    """The lock row is missing; the transaction did nothing."""


class RefusedRowError(JobStoreError):
    """The server cannot compute with the values of a row, or refuses to store them; the transaction did nothing."""


def is_unique_violation(error: QuartzpyError) -> bool:
    """Return whether a translated error says that a unique index refused a row."""
    return isinstance(error.__cause__, psycopg.errors.UniqueViolation)


def translate(error: BaseException) -> QuartzpyError:
    """Return the quartzpy error for an error of psycopg or SQLAlchemy, by its SQLSTATE."""
    if isinstance(error, QuartzpyError):
        return error
    # An error is one of SQLAlchemy's only if somebody has imported it, and most nodes do not need its memory. An import
    # statement would wait for a job's thread that is importing it: for longer than a failure window on a slow machine.
    exc = sys.modules.get("sqlalchemy.exc")
    if exc is not None and hasattr(exc, "DBAPIError"):
        if isinstance(error, exc.DBAPIError) and error.orig is not None:
            error = error.orig
        elif isinstance(error, exc.SQLAlchemyError):
            what = "no connection of the pool was free in time: " if isinstance(error, exc.TimeoutError) else ""
            return StoreUnavailableError(f"{what}{_message(error)}")
    return _of_driver(error)


def _message(error: BaseException) -> str:
    return scrubbed(str(error)).strip() or type(error).__name__


def _of_driver(original: BaseException) -> QuartzpyError:
    """Translate an error of psycopg or of the operating system."""
    sqlstate = getattr(original, "sqlstate", None)
    message = _message(original)
    if sqlstate is None:
        return _without_sqlstate(original, message)
    if sqlstate.startswith(_AUTHENTICATION) or sqlstate == _NO_SUCH_DATABASE:
        return AuthenticationError(f"the database refused us: {message}", sqlstate=sqlstate)
    if sqlstate in _SCHEMA:
        # Without the statement, which the further lines quote.
        return SchemaError(f"{message.splitlines()[0]}; run `quartzpy db upgrade`", sqlstate=sqlstate)
    if sqlstate == INSUFFICIENT_PRIVILEGE:
        return SchemaError(
            f"the database role lacks a privilege: {message}; `quartzpy db roles` prints what each role needs",
            sqlstate=sqlstate,
        )
    if sqlstate == _NOT_A_NUMBER and MISSING in message:
        return LockRowMissingError(
            "a row of the table of locks is missing; run `quartzpy doctor --repair`", sqlstate=sqlstate
        )
    if sqlstate in _NO_SUCH_CHARACTER:
        return InvalidValueError(
            f"the database's encoding has no such character: {message}; a database with ENCODING 'UTF8' has all"
        )
    if sqlstate.startswith(_TRANSIENT):
        return StoreUnavailableError(message, sqlstate=sqlstate)
    if sqlstate.startswith(_REFUSED_ROW):
        return RefusedRowError(f"unexpected error of the database ({sqlstate}): {message}")
    hint = _POOLER_HINT if sqlstate in _PREPARED_ELSEWHERE else ""
    return JobStoreError(f"unexpected error of the database ({sqlstate}): {message}{hint}")


def is_login_refused(error: psycopg.Error) -> bool:
    """Return whether a server, or one of several, refused the login, so that another password may help."""
    return isinstance(_of_driver(error), AuthenticationError) or any(map(_is_refusal, _tries(_message(error).lower())))


def _tries(message: str) -> list[str]:
    """Return what each host has answered, by the message of a connection that failed."""
    return [line for line in message.splitlines() if line.startswith("- host:")] or [message]


def _is_refusal(message: str) -> bool:
    # "password authentication failed for user", and that of PAM, LDAP, GSSAPI, certificates, which providers use for
    # tokens. PgBouncer says "SASL authentication failed".
    return "authentication failed" in message or (
        "does not exist" in message and ("database" in message or "role" in message)
    )


def _without_sqlstate(error: BaseException, message: str) -> QuartzpyError:
    """Translate an error that no server has sent: the connection, or the attempt to connect, failed."""
    lowered = message.lower()
    if "invalid connection option" in lowered:
        return SettingsError(f"database URL: {message}")
    if "local user" in lowered:
        # libpq takes the name of the user of this process where the URL has none, and this user id has no name.
        return SettingsError(f"database URL: name the user, as in postgresql+psycopg://USER@host/database: {message}")
    # With several hosts, it is an authentication error only if all refuse: a host that is down may accept us later.
    if all(map(_is_refusal, _tries(lowered))):
        return AuthenticationError(f"the database refused us: {message}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError)):
        hint = _POOLER_HINT if "unsupported startup parameter" in lowered else ""
        return StoreUnavailableError(f"the database cannot be reached: {message}{hint}")
    return JobStoreError(f"unexpected error: {message}")
