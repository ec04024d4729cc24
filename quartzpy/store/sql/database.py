"""Database URLs, and what the driver's errors mean to a user."""

from __future__ import annotations

import re
from urllib.parse import urlencode

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

DRIVER = "postgresql+psycopg"
_ASYNCPG = "postgresql+asyncpg"
_OF_ASYNCPG = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})
EXAMPLE = "postgresql+psycopg://user:password@host:5432/database"

_AUTHENTICATION = ("28",)
_NO_SUCH_DATABASE = "3D000"
# Undefined table, column, sequence or schema.
_SCHEMA = frozenset({"42P01", "42703", "3F000"})
INSUFFICIENT_PRIVILEGE = "42501"
# What `locks.LOCK` fails with.
_NOT_A_NUMBER = "22P02"
# A character that cannot be translated, or is none.
_NO_SUCH_CHARACTER = frozenset({"22P05", "22021"})
# Connection lost, server shutting down, out of resources, read-only, lock and deadlock, cancelled, time-outs.
_PASSING = ("08", "57P", "53", "25006", "25P03", "25P02", "55P03", "40", "57014", "58")
# A prepared statement that is there already, or is not: sessions are another's.
_PREPARED_ELSEWHERE = frozenset({"42P05", "26000"})
_POOLER_HINT = "; is there a pooler that lends connections for a transaction (PgBouncer)? Set pooled=True"
# Up to the last @ of the line: a password may hold one that nobody escaped.
_USERINFO = re.compile(r"(://[^:/@\s,?]*:).*@")
_PASSWORD = re.compile(r"password\s*=\s*('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&'\"]+)", re.IGNORECASE)
_SEVERAL_HOSTS = re.compile(
    r"(?P<head>[\w+]+://(?:[^/?]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?", re.DOTALL
)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:,\s]+)(?::(?P<port>\d{1,5}))?")


class LockRowMissingError(SchemaError):
    """There was no row to lock; nothing was done."""


def parse_dsn(text: str) -> URL:
    """The URL of a PostgreSQL database, for psycopg.

    Several hosts are written as `user:password@h1:5432,h2:5433/database` or as
    `user:password@/database?host=h1,h2&port=5432,5433`. They are tried in turn; where `target_session_attrs` does not
    say otherwise, the one is taken that can write.

    Raises:
        SettingsError: not such a URL; a password in it is not shown.
    """
    if not isinstance(text, str) or not text.strip():
        shown = repr(text) if text is None or isinstance(text, str) else f"a {type(text).__name__}"
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {shown})")
    try:
        url = make_url(_with_hosts_as_parameters(text.strip()))
    except (ArgumentError, ValueError):
        # Without its cause, which may hold the whole text.
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {scrubbed(text)!r})") from None
    if url.drivername not in ("postgresql", "postgres", DRIVER):
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {scrubbed(url.render_as_string())})")
    hosts = _hosts_of(url)
    if len(hosts) > 1 and "target_session_attrs" not in url.query:
        url = url.update_query_dict({"target_session_attrs": "read-write"})
    return url.set(drivername=DRIVER)


def url_of_async_engine(url: URL) -> str:
    """The URL for psycopg of the database that an asynchronous engine connects to.

    Raises:
        SettingsError: the engine is for another driver than psycopg or asyncpg.
    """
    if url.drivername == _ASYNCPG:
        # The parameters of asyncpg itself mean nothing to libpq, except how to encrypt.
        query = {name: value for name, value in url.query.items() if name not in _OF_ASYNCPG}
        if "ssl" in query:
            query["sslmode"] = query.pop("ssl")
        url = url.set(drivername=DRIVER, query=query)
    elif url.drivername not in (DRIVER, f"{DRIVER}_async"):
        raise SettingsError(f"engine: expected one for {DRIVER}:// or {_ASYNCPG}:// (got {url.drivername})")
    return url.set(drivername=DRIVER).render_as_string(hide_password=False)


def _with_hosts_as_parameters(text: str) -> str:
    """The same URL, with several hosts before the path moved behind it, where SQLAlchemy looks for them."""
    found = _SEVERAL_HOSTS.fullmatch(text)
    if found is None:
        return text
    hosts, ports = [], []
    for given in found["hosts"].split(","):
        one = _HOST_AND_PORT.fullmatch(given)
        if one is None or (one["port"] and not 1 <= int(one["port"]) <= 65_535):
            raise SettingsError(f"database URL: hosts as host:port,host:port are expected (got {given!r})")
        hosts.append(one["host"].strip("[]"))
        ports.append(one["port"] or "5432")
    query = found["query"] or ""
    if re.search(r"(^|&)(host|port)=", query):
        raise SettingsError("database URL: hosts are given before the path, or by host= and port=, not both ways")
    told = urlencode({"host": ",".join(hosts), "port": ",".join(ports)})
    return f"{found['head']}/{found['database'] or ''}?{told}{'&' if query else ''}{query}"


def _hosts_of(url: URL) -> list[str]:
    """All hosts of a URL. Raises SettingsError where there are not as many ports as hosts."""

    def parts(name: str) -> list[str]:
        value = url.query.get(name, ())
        return [part for text in ((value,) if isinstance(value, str) else value) for part in text.split(",")]

    hosts, ports = parts("host"), parts("port")
    for port in ports:
        if port and not (port.isdecimal() and 1 <= int(port) <= 65_535):
            raise SettingsError(f"database URL: a port is from 1 to 65535 (got {port!r})")
    if len(ports) > 1 and len(ports) != len(hosts):
        raise SettingsError(f"database URL: {len(hosts)} hosts and {len(ports)} ports; give a port for each host")
    return hosts


def scrubbed(text: str) -> str:
    """A message without the passwords that it may hold: in a URL, also one that is wrongly written; as a parameter."""
    return _PASSWORD.sub("password=***", _USERINFO.sub(r"\1***@", text))


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
        return SchemaError(f"{message}; run `quartzpy db upgrade`", sqlstate=sqlstate)
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
    if sqlstate.startswith(_PASSING):
        return StoreUnavailableError(message, sqlstate=sqlstate)
    hint = _POOLER_HINT if sqlstate in _PREPARED_ELSEWHERE else ""
    return JobStoreError(f"unexpected error of the database ({sqlstate}): {message}{hint}")


def _refuses(message: str) -> bool:
    return "password authentication failed" in message or (
        "does not exist" in message and ("database" in message or "role" in message)
    )


def _without_code(error: BaseException, message: str) -> QuartzpyError:
    """An error that no server sent: the connection, or its making, failed."""
    lowered = message.lower()
    if "invalid connection option" in lowered:
        return SettingsError(f"database URL: {message}")
    # Of several hosts all must refuse us: another one may merely be down.
    tries = [line for line in lowered.splitlines() if line.startswith("- host:")] or [lowered]
    if all(map(_refuses, tries)):
        return AuthenticationError(f"the database refused us: {message}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError)):
        hint = _POOLER_HINT if "unsupported startup parameter" in lowered else ""
        return StoreUnavailableError(f"the database cannot be reached: {message}{hint}")
    if isinstance(error, SQLAlchemyError):
        return StoreUnavailableError(message)
    return JobStoreError(f"unexpected error: {message}")
