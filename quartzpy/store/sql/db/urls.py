"""Database URLs: those that SQLAlchemy accepts for psycopg, and several hosts before the path, as libpq writes them.

A URL means the same here as to SQLAlchemy's `make_url` (a test compares them), but SQLAlchemy is not imported: a
process that is given a URL does not need it. `as_sqlalchemy` converts a URL for those who do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl, unquote

from quartzpy.errors import SettingsError

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVER = "postgresql+psycopg"
EXAMPLE = "postgresql+psycopg://user:password@host:5432/database"
_SCHEMES = frozenset({"postgresql", "postgres", DRIVER})
_ASYNCPG = "postgresql+asyncpg"
_OF_ASYNCPG = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})
# Arguments of psycopg's `connect` that a text cannot give; other names that libpq does not know it refuses itself.
_NOT_OF_LIBPQ = frozenset({"autocommit", "conninfo", "context", "cursor_factory", "prepare_threshold", "row_factory"})

# A password may contain any unescaped character but @, and a user's name an @, as some providers' do.
_FORM = re.compile(
    r"(?P<scheme>[\w+]+)://"
    r"(?:(?P<username>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<places>[^/?]*)"
    r"(?:/(?P<database>[^?]*))?"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_PLACE = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:\s]*)(?::(?P<port>[^:]*))?")
_NAME_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9.-]*):(?P<port>[^:]*)")
# Up to the last @ of the line, because a password may contain an unescaped one.
_USERINFO = re.compile(r"(://[^:/@\s,?]*:).*@")
_PASSWORD = re.compile(r"password\s*=\s*('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&'\"]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The parts of a URL, unescaped. Several hosts and ports are the parameters `host` and `port`, with commas."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    def libpq_parameters(self) -> dict[str, Any]:
        """Return libpq's parameters; those of the query override the parts before it."""
        parts = {
            "host": self.host,
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "port": self.port,
        }
        return {name: value for name, value in parts.items() if value} | dict(self.query)

    def as_sqlalchemy(self) -> URL:
        from sqlalchemy import URL

        return URL.create(
            DRIVER, self.username, self.password, self.host, self.port, self.database, query=dict(self.query)
        )


def parse_dsn(text: str) -> DatabaseUrl:
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
    text = text.strip()
    found = _FORM.fullmatch(text)
    if found is None:
        _refuse(text)
    if found["scheme"] not in _SCHEMES:
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {scrubbed(text)})")
    if "@" in found["places"]:
        # The message shows none of it: what looks like a host is a part of the password.
        raise SettingsError("database URL: a host contains no @; write an @ of the password as %40")
    query = _query_of(found["query"] or "")
    host: str | None = None
    port: int | None = None
    given = found["places"].split(",")
    if len(given) > 1:
        if not query.keys().isdisjoint({"host", "port"}):
            raise SettingsError("database URL: hosts are given before the path, or by host= and port=, not both ways")
        places = [_one_of_several(one) for one in given]
        query = {"host": ",".join(one for one, _ in places), "port": ",".join(one for _, one in places)} | query
    else:
        place = _PLACE.fullmatch(given[0])
        if place is None or not (place["port"] is None or place["port"].isdecimal()):
            _refuse(text)
        host = place["host"].strip("[]") or None
        port = None if place["port"] is None else _port(place["port"])
    hosts = _hosts_of(query)
    if len(hosts) > 1:
        query = {"target_session_attrs": "read-write"} | query
    username, password, database = (
        None if part is None else unquote(part) for part in found.group("username", "password", "database")
    )
    return DatabaseUrl(username, password, host, port, database, query)


def _refuse(text: str) -> NoReturn:
    raise SettingsError(f"database URL: {EXAMPLE} is expected (got {scrubbed(text)!r})")


def _query_of(text: str) -> dict[str, str]:
    """Return the parameters, with repeated hosts and ports joined.

    Raises:
        SettingsError: another parameter is given twice, or is not one of libpq's.
    """
    found: dict[str, str] = {}
    hosts, ports = [], []
    for name, value in parse_qsl(text):
        if name == "host":
            hosts.append(value)
        elif name == "port":
            ports.append(value)
        elif name in _NOT_OF_LIBPQ:
            raise SettingsError(f"database URL: {name} is not a connection parameter of libpq")
        elif name in found:
            raise SettingsError(f"database URL: the parameter {name} is given twice")
        else:
            found[name] = value
    if not ports:
        hosts, ports = _split_off_ports(hosts)
    return found | {name: ",".join(values) for name, values in (("host", hosts), ("port", ports)) if values}


def _split_off_ports(hosts: list[str]) -> tuple[list[str], list[str]]:
    """Split the ports off hosts of the form `host=h1:5432&host=h2:5433`; there are no ports if no host has one."""
    names, ports = [], []
    for given in hosts:
        found = _NAME_AND_PORT.fullmatch(given)
        names.append(found["host"] if found else given)
        ports.append(found["port"] if found else "")
    return (names, ports) if any(ports) else (names, [])


def _one_of_several(given: str) -> tuple[str, str]:
    """Return host and port of one of several hosts before the path."""
    found = _PLACE.fullmatch(given)
    if found is None or not found["host"] or not (found["port"] is None or _is_port(found["port"])):
        raise SettingsError(f"database URL: hosts as host:port,host:port are expected (got {given!r})")
    return found["host"].strip("[]"), found["port"] or "5432"


def _is_port(text: str) -> bool:
    return text.isdecimal() and 1 <= int(text) <= 65_535


def _port(text: str) -> int:
    if not _is_port(text):
        raise SettingsError(f"database URL: a port is from 1 to 65535 (got {text!r})")
    return int(text)


def _hosts_of(query: Mapping[str, str]) -> list[str]:
    """Return the hosts of the parameters. Raises SettingsError if a port is wrong or their number does not match."""
    hosts, ports = query.get("host", "").split(","), query.get("port", "").split(",")
    for port in filter(None, ports):
        _port(port)
    if len(ports) > 1 and len(ports) != len(hosts):
        raise SettingsError(f"database URL: {len(hosts)} hosts and {len(ports)} ports; give a port for each host")
    return hosts


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


def scrubbed(text: str) -> str:
    """Return a message without passwords: in a URL, even a malformed one, or as a parameter."""
    return _PASSWORD.sub("password=***", _USERINFO.sub(r"\1***@", text))
