"""Database URLs: libpq's own, and those that SQLAlchemy accepts for psycopg.

libpq parses them. Before that, what only SQLAlchemy's `make_url` accepts is rewritten (a test compares the two): the
scheme with a driver, unescaped characters of a password, blanks as `+`, and hosts of the query with their ports.
SQLAlchemy is not imported: a process that is given a URL does not need it. `as_sqlalchemy` converts a URL for those who
do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from quartzpy.errors import SettingsError

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVER = "postgresql+psycopg"
EXAMPLE = "postgresql+psycopg://user:password@host:5432/database"
_SCHEMES = frozenset({"postgresql", "postgres", DRIVER})
_ASYNCPG = "postgresql+asyncpg"
_OF_ASYNCPG = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})
# A password may contain any unescaped character but @, and a user's name an @, as some providers' do.
_FORM = re.compile(
    r"(?P<scheme>[\w+]+)://"
    r"(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<places>[^/?]*)"
    r"(?:/(?P<database>[^?]*))?"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
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

        query, port = dict(self.query), self.port
        if query.get("port", "").isdecimal():
            # SQLAlchemy takes a port for all hosts only from before the path.
            port = int(query.pop("port"))
        return URL.create(DRIVER, self.username, self.password, self.host, port, self.database, query=query)


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
    form = _FORM.fullmatch(text)
    if form is None:
        raise SettingsError(f"database URL: {EXAMPLE} is expected (got {scrubbed(text)!r})")
    if form["scheme"] not in _SCHEMES:
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {scrubbed(text)})")
    places = form["places"]
    if "@" in places:
        # The message shows none of it: what looks like a host is a part of the password.
        raise SettingsError("database URL: a host contains no @; write an @ of the password as %40")
    query = _query_of(form["query"] or "")
    if "," in places:
        if not query.keys().isdisjoint({"host", "port"}):
            raise SettingsError("database URL: hosts are given before the path, or by host= and port=, not both ways")
        if "" in (place.partition(":")[0] for place in places.split(",")):
            raise SettingsError(f"database URL: hosts as host:port,host:port are expected (got {places!r})")
    if re.search(r":(,|$)", places):
        raise SettingsError("database URL: a port from 1 to 65535 is expected (got '')")
    user, password, database = (
        None if part is None else quote(unquote(part), safe="") for part in form.group("user", "password", "database")
    )
    userinfo = "" if user is None else f"{user}@" if password is None else f"{user}:{password}@"
    path = f"/{database or ''}?{urlencode(query, quote_via=quote)}"
    try:
        return _url_of(conninfo_to_dict(f"postgresql://{userinfo}{places}{path}"))
    except psycopg.Error as error:
        # Neither the message nor its cause shows a password.
        reason = scrubbed(str(error).strip())
    raise SettingsError(f"database URL: {reason}; {EXAMPLE} is expected")


def _url_of(parameters: dict[str, Any]) -> DatabaseUrl:
    """Return the URL of libpq's parameters. Raises SettingsError if a port is wrong or their number does not match."""
    user, password, database = (parameters.pop(name, None) for name in ("user", "password", "dbname"))
    hosts, ports = parameters.get("host", "").split(","), parameters.get("port", "").split(",")
    for port in filter(None, ports):
        if not (port.isdecimal() and 1 <= int(port) <= 65_535):
            raise SettingsError(f"database URL: a port from 1 to 65535 is expected (got {port!r})")
    if len(ports) > 1:
        if len(ports) != len(hosts):
            raise SettingsError(f"database URL: {len(hosts)} hosts and {len(ports)} ports; give a port for each host")
        parameters["port"] = ",".join(port or "5432" for port in ports)
    if len(hosts) > 1:
        return DatabaseUrl(user, password, database=database, query={"target_session_attrs": "read-write"} | parameters)
    if hosts[0].startswith("/"):
        # SQLAlchemy writes the directory of a socket as a parameter.
        return DatabaseUrl(user, password, database=database, query=parameters)
    host, port = parameters.pop("host", None), parameters.pop("port", None)
    return DatabaseUrl(user, password, host, int(port) if port else None, database, parameters)


def _query_of(text: str) -> dict[str, str]:
    """Return the parameters, with repeated hosts and ports joined.

    Raises:
        SettingsError: another parameter is given twice.
    """
    query: dict[str, str] = {}
    hosts, ports = [], []
    for name, value in parse_qsl(text):
        if name == "host":
            hosts.append(value)
        elif name == "port":
            ports.append(value)
        elif name in query:
            raise SettingsError(f"database URL: the parameter {name} is given twice")
        else:
            query[name] = value
    if not ports:
        hosts, ports = _split_off_ports(hosts)
    return query | {name: ",".join(values) for name, values in (("host", hosts), ("port", ports)) if values}


def _split_off_ports(hosts: list[str]) -> tuple[list[str], list[str]]:
    """Split the ports off hosts of the form `host=h1:5432&host=h2:5433`; there are no ports if no host has one."""
    names, ports = [], []
    for host in hosts:
        match = _NAME_AND_PORT.fullmatch(host)
        names.append(match["host"] if match else host)
        ports.append(match["port"] if match else "")
    return (names, ports) if any(ports) else (names, [])


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
