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

REVISIONS = ("0001", "0002")
"""All revisions that this release knows, the oldest first."""
HEAD = REVISIONS[-1]
_MARK = re.compile(r"tables of revision (\S+), usable by releases from revision (\S+) on")
_SQL = SqlFile("schema_version.sql")
_TABLE_EXISTS = as_query(_SQL("table_exists"))
_COMMENT = as_query(_SQL("comment"))
_COLUMNS = as_query(_SQL("columns"))
_PLACE = as_query(_SQL("place"))
_SCHEMAS = as_query(_SQL("schemas"))
_HIDING = as_query(_SQL("hiding"))

_TABLE_KINDS = ["r", "p"]


def version_place(schema: str | None, prefix: str) -> str:
    """Return the name of alembic's version table with its schema."""
    return f'"{schema}".{version_table(prefix)}' if schema else version_table(prefix)


def stamped(connection: psycopg.Connection[Any], schema: str | None, prefix: str) -> str | None:
    """Return the revision of the database's tables; None if there are none.

    Raises:
        SchemaError: the tables are there, and their revision is not: row level security hides it, or it was deleted.
    """
    place = version_place(schema, prefix)
    if not _exists(connection, place):
        return None
    row = connection.execute(f"SELECT version_num FROM {place}".encode()).fetchone()  # noqa: S608
    if row is not None:
        return str(row[0])
    if not _exists(connection, _anchor(schema, prefix)):
        return None
    refuse_hidden_rows(connection, schema, prefix)
    raise SchemaError(
        f"table {place} has no row, although the other tables are there: restore it from a backup, or, if nothing else"
        f" was changed, give it a row with the revision of the tables, which is {HEAD!r} for this release"
    )


def _exists(connection: psycopg.Connection[Any], table: str) -> bool:
    row = connection.execute(_TABLE_EXISTS, {"table": table}).fetchone()
    return row is not None and row[0] is not None


def _anchor(schema: str | None, prefix: str) -> str:
    """Return the name of the table in whose schema the others are looked for."""
    name = renamed("qrtz_scheduler_state", prefix)
    return f'"{schema}".{name}' if schema else name


def place_of(
    connection: psycopg.Connection[Any], schema: str | None, prefix: str
) -> tuple[str | None, str | None, str]:
    """Return the schema in which statements find the tables, the one in which new ones are made, and the search path.

    Without tables, or without a schema in the path that exists, it is None.
    """
    row = connection.execute(_PLACE, {"table": version_place(schema, prefix)}).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def schemas_with_tables(connection: psycopg.Connection[Any], prefix: str) -> list[str]:
    """Return the schemas that have tables of this prefix, whether or not the search path leads to them."""
    return [name for (name,) in connection.execute(_SCHEMAS, {"name": version_table(prefix)})]


def refuse_hidden_rows(
    connection: psycopg.Connection[Any], schema: str | None, prefix: str, commands: str = "r"
) -> None:
    """Check that row level security hides no rows from this role, nor refuses what it writes.

    `commands` are those that the role needs, as letters: r(ead), a(ppend), w(rite), d(elete).

    Raises:
        SchemaError: it does; the message names the tables, and says how to end it.
    """
    values = {"prefix": prefix, "table": _anchor(schema, prefix), "commands": list(commands)}
    tables = [name for (name,) in connection.execute(_HIDING, values)]
    if not tables:
        return
    place = f'"{schema}".' if schema else ""
    named = ", ".join(tables[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else "")
    raise SchemaError(
        f"row level security hides rows of {named} from role {connection.info.user}. The tables need none: as their"
        f" owner, run ALTER TABLE {place}{tables[0]} DISABLE ROW LEVEL SECURITY for each; or let the role past it by"
        f" CREATE POLICY quartzpy ON {place}{tables[0]} TO {connection.info.user} USING (true)"
    )


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
        raise SchemaError(_without_tables(connection, schema, prefix, where, option))
    refuse_hidden_rows(connection, schema, prefix)
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


def _without_tables(
    connection: psycopg.Connection[Any], schema: str | None, prefix: str, where: str, option: str
) -> str:
    others = schemas_with_tables(connection, prefix)
    if not others:
        return f"there are no quartzpy tables in {where}; run `quartzpy db upgrade{option}`"
    path = "" if schema else f", where the search path {place_of(connection, schema, prefix)[2]!r} leads to"
    named = f"schema {others[0]} has" if len(others) == 1 else f"the schemas {', '.join(others)} have"
    return (
        f"there are no quartzpy tables in {where}{path}, but {named} some: set schema={others[0]!r}, or give --schema"
        f" {others[0]}"
    )


def usable_from(connection: psycopg.Connection[Any], revision: str, schema: str | None, prefix: str) -> str | None:
    """Return the oldest revision whose release can use the tables of `revision`, as the database's tables say.

    A migration writes it into the comment of the table `scheduler_state`, with its own revision. None if the comment is
    that of an earlier revision: then the migration has not said that older releases can use its tables.
    """
    comment = connection.execute(_COMMENT, {"table": _anchor(schema, prefix)}).fetchone()
    mark = _MARK.fullmatch((comment and comment[0]) or "")
    return mark[2] if mark is not None and mark[1] == revision else None


def columns(
    connection: psycopg.Connection[Any], schema: str | None, prefix: str, kinds: list[str]
) -> dict[str, set[str]]:
    """Return the columns of the tables or views of our prefix, by their names; `kinds` are those of pg_class."""
    columns_of: dict[str, set[str]] = {}
    for name, column in connection.execute(
        _COLUMNS, {"prefix": prefix, "kinds": kinds, "table": _anchor(schema, prefix)}
    ):
        columns_of.setdefault(name, set()).add(column)
    return columns_of
