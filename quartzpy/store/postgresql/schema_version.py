"""The version of the schema: a store that is opened checks whether it can work with the database's tables.

It checks the version table, and that every table and column exists; it needs neither alembic nor SQLAlchemy.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.errors import SchemaError
from quartzpy.store.postgresql.schema.naming import renamed, version_table
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_query
from quartzpy.store.postgresql.schema.table_columns import TABLES

REVISIONS = ("0001",)
"""All revisions that this release knows, the oldest first."""
HEAD = REVISIONS[-1]
_MARK = re.compile(r"tables of revision (\S+), usable by releases from revision (\S+) on")
_SQL = SqlFile("schema_version.sql")
_TABLE_EXISTS = as_query(_SQL("table_exists"))
_COMMENT = as_query(_SQL("comment"))
_COLUMNS = as_query(_SQL("columns"))

_TABLE_KINDS = ["r", "p"]


def version_place(schema: str | None, prefix: str) -> str:
    """Return the name of alembic's version table with its schema."""
    return f'"{schema}".{version_table(prefix)}' if schema else version_table(prefix)


def stamped(connection: psycopg.Connection[Any], schema: str | None, prefix: str) -> str | None:
    """Return the revision of the database's tables; None if there are none."""
    place = version_place(schema, prefix)
    table = connection.execute(_TABLE_EXISTS, {"table": place}).fetchone()
    if table is None or table[0] is None:
        return None
    row = connection.execute(f"SELECT version_num FROM {place}".encode()).fetchone()  # noqa: S608
    return None if row is None else str(row[0])


def verify(connection: psycopg.Connection[Any], schema: str | None, prefix: str = DEFAULT_TABLE_PREFIX) -> None:
    """Check that this release can work with the database's tables: its own, or newer ones that say so.

    Raises:
        SchemaError: tables are missing or older, or newer ones that this release cannot use; the message says what
            repairs it.
    """
    where, option = verify_revision(connection, schema, prefix)
    columns_of = columns(connection, schema, prefix, _TABLE_KINDS)
    for table, names in TABLES.items():
        name = renamed(table, prefix)
        if name not in columns_of:
            raise SchemaError(f"table {name} is missing in {where}; run `quartzpy db check{option}`")
        missing = set(names) - columns_of[name]
        if missing:
            raise SchemaError(
                f"table {name} in {where} lacks {', '.join(sorted(missing))}; run `quartzpy db check{option}`"
            )


def verify_revision(connection: psycopg.Connection[Any], schema: str | None, prefix: str) -> tuple[str, str]:
    """Check that this release can work with tables of the database's revision, whatever columns they have.

    Returns the place of the tables in words, and the options of commands that lead to it.

    Raises:
        SchemaError: as `verify`.
    """
    where = f"schema {schema}" if schema else "the database"
    option = f" --schema {schema}" if schema else ""
    if prefix != DEFAULT_TABLE_PREFIX:
        where, option = f"{where} under the prefix {prefix}", f"{option} --table-prefix {prefix}"
    revision = stamped(connection, schema, prefix)
    if revision is None:
        raise SchemaError(f"there are no quartzpy tables in {where}; run `quartzpy db upgrade{option}`")
    is_newer = revision not in REVISIONS
    if is_newer and usable_from(connection, revision, schema, prefix) not in REVISIONS:
        raise SchemaError(
            f"the tables in {where} are of revision {revision}, which is newer than this release ({HEAD}), and do not"
            " say that this release can use them; it needs a newer quartzpy"
        )
    if revision != HEAD and not is_newer:
        raise SchemaError(
            f"the tables in {where} are of revision {revision}, older than this release's {HEAD};"
            f" run `quartzpy db upgrade{option}`"
        )
    return where, option


def usable_from(connection: psycopg.Connection[Any], revision: str, schema: str | None, prefix: str) -> str | None:
    """Return the oldest revision whose release can use the tables of `revision`, as the database's tables say.

    A migration writes it into the comment of the table `scheduler_state`, with its own revision. None if the comment is
    that of an earlier revision: then the migration has not said that older releases can use its tables.
    """
    name = renamed("qrtz_scheduler_state", prefix)
    comment = connection.execute(_COMMENT, {"table": f'"{schema}".{name}' if schema else name}).fetchone()
    mark = _MARK.fullmatch((comment and comment[0]) or "")
    return mark[2] if mark is not None and mark[1] == revision else None


def columns(
    connection: psycopg.Connection[Any], schema: str | None, prefix: str, kinds: list[str]
) -> dict[str, set[str]]:
    """Return the columns of the tables or views of our prefix, by their names; `kinds` are those of pg_class."""
    columns_of: dict[str, set[str]] = {}
    for name, column in connection.execute(_COLUMNS, {"prefix": prefix, "kinds": kinds, "schema": schema}):
        columns_of.setdefault(name, set()).add(column)
    return columns_of
