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
from urllib.parse import parse_qs, quote, unquote, urlencode

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
_PASSWORD = re.compile(r"password\s*=\s*('(?:[^'\\]|\\.)*'|\"[^\"]*\"|(?:[^\s&'\"\\]|\\.)+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A URL as libpq's parameters, unescaped. Several hosts and ports are separated by commas."""

    parameters: Mapping[str, Any] = field(repr=False)

    def as_sqlalchemy(self) -> URL:
        from sqlalchemy import URL

        query = dict(self.parameters)
        user, password, database = (query.pop(name, None) for name in ("user", "password", "dbname"))
        # SQLAlchemy takes several hosts and their ports, and the directory of a socket, only from the query.
        places = query.get("host", "")
        host = None if "," in places or places.startswith("/") else query.pop("host", None)
        port = int(query.pop("port")) if query.get("port", "").isdecimal() else None
        return URL.create(DRIVER, user, password, host, port, database, query=query)


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
        raise SettingsError(f"database URL: {DRIVER}:// is expected (got {scrubbed(text)}){_hint_of(form['scheme'])}")
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
        parameters = conninfo_to_dict(f"postgresql://{userinfo}{places}{path}")
    except psycopg.Error as error:
        # Neither the message nor its cause shows a password.
        reason = scrubbed(str(error).strip())
    else:
        # PGHOST and the like take the place of an empty value.
        return DatabaseUrl(_with_places({name: value for name, value in parameters.items() if value}))
    raise SettingsError(f"database URL: {reason}; {EXAMPLE} is expected")


def _hint_of(scheme: str) -> str:
    """Return what users of another database or driver can write."""
    database, _, driver = scheme.lower().partition("+")
    if driver and database in ("postgresql", "postgres"):
        return f"; quartzpy uses psycopg, as AsyncScheduler does, so write {DRIVER}://"
    if database == "sqlite":
        return (
            "; jobs are stored in PostgreSQL: memory:// keeps them in this process, and"
            " quartzpy.embedded.EmbeddedPostgres('data') is a server whose data is in a directory"
        )
    return "" if database == "jdbc" else "; jobs are stored in PostgreSQL only"


def _with_places(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return libpq's parameters with what several hosts need.

    Raises:
        SettingsError: a port is wrong, or the number of ports is not that of the hosts.
    """
    hosts, ports = parameters.get("host", "").split(","), parameters.get("port", "").split(",")
    for port in filter(None, ports):
        if not (port.isdecimal() and 1 <= int(port) <= 65_535):
            raise SettingsError(f"database URL: a port from 1 to 65535 is expected (got {port!r})")
    if len(ports) > 1:
        if len(ports) != len(hosts):
            raise SettingsError(f"database URL: {len(hosts)} hosts and {len(ports)} ports; give a port for each host")
        parameters["port"] = ",".join(port or "5432" for port in ports)
    return {"target_session_attrs": "read-write"} | parameters if len(hosts) > 1 else parameters


def _query_of(text: str) -> dict[str, str]:
    """Return the parameters, with repeated hosts and ports joined, and the ports split off hosts such as `h1:5432`.

    Raises:
        SettingsError: another parameter is given twice.
    """
    query = parse_qs(text)
    for name, values in query.items():
        if len(values) > 1 and name not in ("host", "port"):
            raise SettingsError(f"database URL: the parameter {name} is given twice")
    if "host" in query and "port" not in query:
        matches = [_NAME_AND_PORT.fullmatch(host) for host in query["host"]]
        query["host"] = [match["host"] if match else host for match, host in zip(matches, query["host"], strict=True)]
        ports = [match["port"] if match else "" for match in matches]
        if any(ports):
            query["port"] = ports
    return {name: ",".join(values) for name, values in query.items()}


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
