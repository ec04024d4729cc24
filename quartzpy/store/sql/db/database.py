"""Database URLs, and the translation of the driver's errors into quartzpy's."""

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
from quartzpy.store.sql.db.locks import MISSING

DRIVER = "postgresql+psycopg"
_ASYNCPG = "postgresql+asyncpg"
_OF_ASYNCPG = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})
EXAMPLE = "postgresql+psycopg://user:password@host:5432/database"

_AUTHENTICATION = ("28",)
_NO_SUCH_DATABASE = "3D000"
# Undefined table, column, sequence or schema.
_SCHEMA = frozenset({"42P01", "42703", "3F000"})
INSUFFICIENT_PRIVILEGE = "42501"
# The SQLSTATE with which `locks.LOCK` fails if the row is missing.
_NOT_A_NUMBER = "22P02"
# A character that cannot be translated, or is invalid.
_NO_SUCH_CHARACTER = frozenset({"22P05", "22021"})
# Connection lost, server shutting down, out of resources, read-only, lock and deadlock, cancelled, timeouts.
_TRANSIENT = ("08", "57P", "53", "25006", "25P03", "25P02", "55P03", "40", "57014", "58")
# A prepared statement that exists already, or does not exist: a pooler has switched the session.
_PREPARED_ELSEWHERE = frozenset({"42P05", "26000"})
_POOLER_HINT = "; is there a transaction-pooling pooler (PgBouncer)? Set pooled=True (for a command: --pooled)"
# Up to the last @ of the line, because a password may contain an unescaped one.
_USERINFO = re.compile(r"(://[^:/@\s,?]*:).*@")
_PASSWORD = re.compile(r"password\s*=\s*('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&'\"]+)", re.IGNORECASE)
_SEVERAL_HOSTS = re.compile(
    r"(?P<head>[\w+]+://(?:[^/?]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?", re.DOTALL
)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:,\s]+)(?::(?P<port>\d{1,5}))?")


class LockRowMissingError(SchemaError):
    """The lock row is missing; the transaction did nothing."""


def parse_dsn(text: str) -> URL:
    """Parse the URL of a PostgreSQL database, for psycopg.

    Several hosts are written as `user:password@h1:5432,h2:5433/database` or as
    `user:password@/database?host=h1,h2&port=5432,5433`. They are tried in order; unless `target_session_attrs` says
    otherwise, the connection goes to the first one that accepts writes.

    Raises:
        SettingsError: the text is not such a URL; the message does not show a password.
    """
    if not isinstance(text, str) or not text.strip():
        shown = repr(text) if text is None or isinstance(text, str) else f"a {type(text).__name__}"
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {shown})")
    try:
        url = make_url(_with_hosts_as_parameters(text.strip()))
    except (ArgumentError, ValueError):
        # No `from`: the cause may contain the whole text, with the password.
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {scrubbed(text)!r})") from None
    if url.drivername not in ("postgresql", "postgres", DRIVER):
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {scrubbed(url.render_as_string())})")
    hosts = _hosts_of(url)
    if len(hosts) > 1 and "target_session_attrs" not in url.query:
        url = url.update_query_dict({"target_session_attrs": "read-write"})
    return url.set(drivername=DRIVER)


def url_of_async_engine(url: URL) -> str:
    """Return the URL for psycopg of the database that an asynchronous engine connects to.

    Raises:
        SettingsError: the engine is for another driver than psycopg or asyncpg.
    """
    if url.drivername == _ASYNCPG:
        # libpq does not know asyncpg's own parameters; only those for encryption are translated.
        query = {name: value for name, value in url.query.items() if name not in _OF_ASYNCPG}
        if "ssl" in query:
            query["sslmode"] = query.pop("ssl")
        url = url.set(drivername=DRIVER, query=query)
    elif url.drivername not in (DRIVER, f"{DRIVER}_async"):
        raise SettingsError(f"engine: expected one for {DRIVER}:// or {_ASYNCPG}:// (got {url.drivername})")
    return url.set(drivername=DRIVER).render_as_string(hide_password=False)


def _with_hosts_as_parameters(text: str) -> str:
    """Move several hosts from before the path to the parameters, where SQLAlchemy expects them."""
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
    parameters = urlencode({"host": ",".join(hosts), "port": ",".join(ports)})
    return f"{found['head']}/{found['database'] or ''}?{parameters}{'&' if query else ''}{query}"


def _hosts_of(url: URL) -> list[str]:
    """Return all hosts of a URL. Raises SettingsError if the number of ports does not match."""

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
    """Return a message without passwords: in a URL, even a malformed one, or as a parameter."""
    return _PASSWORD.sub("password=***", _USERINFO.sub(r"\1***@", text))


def translate(error: BaseException) -> QuartzpyError:
    """Return the quartzpy error for a driver's error, by its SQLSTATE."""
    if isinstance(error, QuartzpyError):
        return error
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    sqlstate = getattr(original, "sqlstate", None)
    message = scrubbed(str(original)).strip() or type(original).__name__
    if isinstance(error, PoolTimeoutError):
        return StoreUnavailableError(f"no connection of the pool was free in time: {message}")
    if sqlstate is None:
        return _without_sqlstate(original, message)
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
    if sqlstate.startswith(_TRANSIENT):
        return StoreUnavailableError(message, sqlstate=sqlstate)
    hint = _POOLER_HINT if sqlstate in _PREPARED_ELSEWHERE else ""
    return JobStoreError(f"unexpected error of the database ({sqlstate}): {message}{hint}")


def _is_refusal(message: str) -> bool:
    return "password authentication failed" in message or (
        "does not exist" in message and ("database" in message or "role" in message)
    )


def _without_sqlstate(error: BaseException, message: str) -> QuartzpyError:
    """Translate an error that no server has sent: the connection, or the attempt to connect, failed."""
    lowered = message.lower()
    if "invalid connection option" in lowered:
        return SettingsError(f"database URL: {message}")
    # With several hosts, it is an authentication error only if all refuse: a host that is down may accept us later.
    tries = [line for line in lowered.splitlines() if line.startswith("- host:")] or [lowered]
    if all(map(_is_refusal, tries)):
        return AuthenticationError(f"the database refused us: {message}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError)):
        hint = _POOLER_HINT if "unsupported startup parameter" in lowered else ""
        return StoreUnavailableError(f"the database cannot be reached: {message}{hint}")
    if isinstance(error, SQLAlchemyError):
        return StoreUnavailableError(message)
    return JobStoreError(f"unexpected error: {message}")
