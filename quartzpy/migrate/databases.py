"""Reads the tables of another program's database, consistently and without changing them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from quartzpy.errors import SettingsError, StoreUnavailableError
from quartzpy.texts import quoted, reason

Row = Mapping[str, Any]
Rows = Callable[..., Iterator[Row]]
"""Runs a SELECT with parameters by name, and returns its rows with column names in lower case.

The rows come from the database as they are used, and no other SELECT may run before all are.
"""
# What values raise that are not what the other program writes: NULL, numbers beyond all bounds, cycles.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlserver": "mssql+pyodbc",
}
_JDBC = re.compile(r"jdbc:(?P<kind>\w+):(?://)?(?P<place>[^?;]*)(?:[?;](?P<options>.*))?")
_SNAPSHOT: Mapping[str, Mapping[str, Any]] = {
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    "mysql": {"isolation_level": "REPEATABLE READ"},
    "mariadb": {"isolation_level": "REPEATABLE READ"},
}


def database_url(url: str) -> str:
    """Return a SQLAlchemy URL for such a URL itself, or for a JDBC URL.

    Raises:
        SettingsError: JDBC's URL is of a database that cannot be read from Python.
    """
    if not url.startswith("jdbc:"):
        return url.replace("postgresql://", "postgresql+psycopg://", 1)
    match = _JDBC.fullmatch(url)
    kind = "" if match is None else match["kind"]
    if match is None or kind not in _DRIVERS:
        raise SettingsError(
            f"--from: jdbc:{kind} cannot be read; give the URL of SQLAlchemy, or jdbc:{', jdbc:'.join(_DRIVERS)}"
        )
    options = dict(parse_qsl((match["options"] or "").replace(";", "&")))
    place, _, database = match["place"].partition("/")
    user, password = options.get("user", ""), options.get("password", "")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + ("@" if user else "")
    # An SQL Server has the database among its options.
    return f"{_DRIVERS[kind]}://{who}{place}/{database or options.get('databaseName', '')}"


@contextmanager
def reading(url: str) -> Iterator[Rows]:
    """Yield a function that reads rows, all of them as they were at one instant where the database can do that.

    Raises:
        SettingsError: the URL is wrong, its driver is missing, or a table or a column is missing.
        StoreUnavailableError: the database does not answer.
    """
    try:
        parsed = make_url(database_url(url))
        engine = create_engine(parsed)
    except ArgumentError:
        raise SettingsError(
            "--from: must be a URL, of JDBC (jdbc:postgresql://host/database) or of SQLAlchemy"
            " (postgresql+psycopg://user@host/database)"
        ) from None
    except (NoSuchModuleError, ImportError) as error:
        raise SettingsError(f"--from: {reason(error)}") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database and not Path(parsed.database).exists():
        # SQLite would make an empty database.
        raise SettingsError(f"--from: there is no file {parsed.database}")
    try:
        with engine.connect() as connection:
            connection = connection.execution_options(**_SNAPSHOT.get(backend, {}))

            def rows(statement: str, **values: object) -> Iterator[Row]:
                streamed = text(statement).execution_options(stream_results=True)
                with connection.execute(streamed, values) as rows:
                    names = [name.lower() for name in rows.keys()]  # noqa: SIM118 - a result is not a mapping
                    for row in rows:
                        yield dict(zip(names, row, strict=True))

            yield rows
    except DBAPIError as error:
        where = parsed.render_as_string()
        if error.connection_invalidated or error.statement is None:
            raise StoreUnavailableError(f"{where}: {reason(error.orig or error)}") from error
        raise SettingsError(f"{where}: {reason(error.orig or error)}") from error
    except SQLAlchemyError as error:
        raise SettingsError(f"{parsed.render_as_string()}: {reason(error)}") from error
    finally:
        engine.dispose()


def checked_prefix(prefix: str) -> str:
    """Return the prefix of table names, which may begin with the name of a schema.

    Raises:
        SettingsError: it has other characters than those of plain names.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.$]*", prefix):
        raise SettingsError(
            f'--prefix: letters, digits, "_", "$" and, after the name of a schema, "." (got {quoted(prefix)})'
        )
    return prefix


def required(row: Row, column: str) -> str:
    """Return a text of a row.

    Raises:
        ValueError: it is NULL.
    """
    if row[column] is None:
        raise ValueError(f"{column} is NULL")
    return str(row[column])


def unreadable(error: Exception) -> str:
    """Return in words why a value cannot be read."""
    return "it is nested too deep, or contains itself" if isinstance(error, RecursionError) else reason(error)


def boolean(value: object) -> bool:
    """Return the truth of a column that is a text or a number in databases without a boolean type."""
    return str(value).strip().lower() in ("true", "t", "1", "y", "yes")
