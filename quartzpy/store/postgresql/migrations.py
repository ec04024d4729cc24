"""The migrations of the schema, which alembic runs. Only the commands and functions that migrate import this module.

The scripts are in `schema/`, next to the package or in the wheel.
"""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.config.setting_checks import checked_schema, checked_table_prefix
from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.store.postgresql import identity
from quartzpy.store.postgresql.connection.connection_sources import connect_once
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.urls import DRIVER
from quartzpy.store.postgresql.schema.moved_tables import tables_of
from quartzpy.store.postgresql.schema.naming import renamed, renamed_sql, version_table
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from quartzpy.store.postgresql.schema.trigger_keys import TRIGGERS
from quartzpy.store.postgresql.schema_version import (
    HEAD,
    columns,
    place_of,
    schemas_with_tables,
    stamped,
    verify,
    verify_revision,
    version_place,
)
from quartzpy.store.postgresql.upgrade_plan import UpgradePlan, plan_of

if TYPE_CHECKING:
    from alembic.config import Config

    from quartzpy.store.postgresql.connection.connection_sources import Connect

Database: TypeAlias = "str | Connect"
"""The URL of a database, or a function that returns a new connection to it."""
logger = logging.getLogger(__name__)
# Alembic's context is one per process.
_ALEMBIC = threading.Lock()
_VIEW_KINDS = ["v"]
_DATABASE_TRIGGERS = (
    "SELECT tgname FROM pg_catalog.pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled IN ('O', 'A')"
)
MAX_DIFFERENCES = 10
"""The number of differences between tables that `check` lists."""
LOCK_PATIENCE = timedelta(minutes=2)
"""The time for which an upgrade tries to lock tables that are in use."""
LOCK_PAUSE = timedelta(seconds=0.5)
"""The pause between two tries, in which the waiting statements of others run."""
_SHORT_LOCK_WAIT = "SET LOCAL lock_timeout = '500ms'"
_LOCK_NOT_AVAILABLE = "55P03"
_UPGRADE_LOCK = "SELECT pg_advisory_xact_lock(hashtext('quartzpy:' || :place))"


def scripts() -> Path:
    """Return the directory of the migration scripts: in the wheel, or next to the package in a checkout.

    Raises:
        SchemaError: neither of them exists.
    """
    package = Path(str(files("quartzpy")))
    for place in (package / "_schema", package.parent / "schema"):
        if (place / "env.py").is_file():
            return place
    raise SchemaError("the migration scripts are missing from this installation; install quartzpy again")


def _config(
    schema: str | None, prefix: str, connection: Connection | None, output: io.StringIO | None = None
) -> Config:
    from alembic.config import Config

    config = Config(output_buffer=output) if output is not None else Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes.update(
        connection=connection, schema=schema, table_prefix=prefix, metadata=tables_of(schema, prefix)
    )
    if connection is not None and prefix != DEFAULT_TABLE_PREFIX:
        _apply_prefix(connection, prefix)
    return config


def _apply_prefix(connection: Connection, prefix: str) -> None:
    """Replace the default prefix, which the scripts use in all names, by this one."""

    def with_prefix(*arguments: Any) -> tuple[str, Any]:
        _, _, statement, parameters, *_ = arguments
        return renamed_sql(statement, prefix), parameters

    event.listen(connection, "before_cursor_execute", with_prefix, retval=True)


@contextmanager
def _connected(database: Database, schema: str | None, prefix: str) -> Iterator[Connection]:
    """Open a transaction that only one process at a time can have for this schema and prefix."""
    checked_schema(schema)
    checked_table_prefix(prefix)
    engine = create_engine(
        f"{DRIVER}://",
        creator=partial(connect_once, database),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
    )
    try:
        with _ALEMBIC, engine.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
            connection.execute(text(_UPGRADE_LOCK), {"place": _place(schema, prefix)})
            if schema is None:
                _stay_with_tables(connection, prefix)
            yield connection
    except (SQLAlchemyError, psycopg.Error) as error:
        raise translate(error) from error
    finally:
        engine.dispose()


def _stay_with_tables(connection: Connection, prefix: str) -> None:
    """Let the transaction work in the schema in which statements find the tables, although another one comes first."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    place, first, _ = place_of(driver, None, prefix)
    if place is not None and place != first:
        connection.execute(text("SELECT set_config('search_path', quote_ident(:place), true)"), {"place": place})


def other_schemas(database: Database, *, prefix: str = DEFAULT_TABLE_PREFIX) -> list[str]:
    """Return the schemas that have tables of this prefix, if the search path leads to none of them."""
    with _connected(database, None, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        if place_of(driver, None, prefix)[0] is not None:
            return []
        return schemas_with_tables(driver, prefix)


def _place(schema: str | None, prefix: str) -> str:
    """Return the key of the lock that serializes upgrades; it is the same in all releases."""
    return (schema or "") + ("" if prefix == DEFAULT_TABLE_PREFIX else f"/{prefix}")


def upgrade(
    database: Database, schema: str | None = None, revision: str = "head", *, prefix: str = DEFAULT_TABLE_PREFIX
) -> None:
    """Create our tables, or upgrade them to a later revision. Several machines may call it at the same time.

    Raises:
        SettingsError, StoreUnavailableError, AuthenticationError: the database cannot be used.
    """
    from alembic import command

    deadline = time.monotonic() + LOCK_PATIENCE.total_seconds()
    while True:
        try:
            with _connected(database, schema, prefix) as connection:
                connection.execute(text(_SHORT_LOCK_WAIT))
                if schema is not None:
                    connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
                command.upgrade(_config(schema, prefix, connection), revision)
                return
        except StoreUnavailableError as error:
            # While a statement waits for an exclusive lock, all others wait behind it, those of nodes too.
            if error.sqlstate != _LOCK_NOT_AVAILABLE or time.monotonic() >= deadline:
                raise
            logger.info("a table is in use; the upgrade tries again: %s", error)
            time.sleep(LOCK_PAUSE.total_seconds())  # noqa: TID251 - nothing could wake us


def planned(
    database: Database, schema: str | None = None, revision: str = "head", *, prefix: str = DEFAULT_TABLE_PREFIX
) -> UpgradePlan:
    """Return what `upgrade` would do, without doing it; errors as for `upgrade`."""
    from alembic import command

    before = current(database, schema, prefix=prefix)
    output = io.StringIO()
    with _ALEMBIC:
        command.upgrade(_config(schema, prefix, None, output), f"{before or 'base'}:{revision}", sql=True)
    with _connected(database, schema, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return plan_of(before, renamed_sql(output.getvalue(), prefix), driver, schema, prefix)


def check_adoptable(database: Database, schema: str | None = None, *, prefix: str = DEFAULT_TABLE_PREFIX) -> None:
    """Check that a database may be a copy.

    Raises:
        SchemaError: there are no tables.
        IllegalStateChangeError: its tables were made for it, and nodes fire in it.
    """
    with _connected(database, schema, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        verify(driver, schema, prefix)
        identity.StoredTables(driver, schema, prefix).check_adoptable()


def adopt(
    database: Database, schema: str | None = None, *, by: str, prefix: str = DEFAULT_TABLE_PREFIX
) -> list[tuple[str, str]]:
    """Make a database that was copied, restored or moved the one of its tables: its nodes fire from now on.

    Fire ids and epochs continue far above those of the former database, and its nodes are removed.

    Returns:
        The schedulers and the names of the nodes that were removed.

    Raises:
        SchemaError: there are no tables, or this role does not own them.
    """
    with _connected(database, schema, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        verify(driver, schema, prefix)
        return identity.StoredTables(driver, schema, prefix).adopt(by)


def downgrade(
    database: Database, schema: str | None = None, revision: str = "base", *, prefix: str = DEFAULT_TABLE_PREFIX
) -> None:
    """Go back to an earlier revision; "base" removes our tables with all their rows."""
    from alembic import command

    with _connected(database, schema, prefix) as connection:
        command.downgrade(_config(schema, prefix, connection), revision)
        if revision == "base":
            connection.execute(text(f"DROP TABLE IF EXISTS {version_place(schema, prefix)}"))


def current(database: Database, schema: str | None = None, *, prefix: str = DEFAULT_TABLE_PREFIX) -> str | None:
    """Return the revision of the database; None if it has no tables of ours."""
    with _connected(database, schema, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return stamped(driver, schema, prefix)


def check(database: Database, schema: str | None = None, *, prefix: str = DEFAULT_TABLE_PREFIX) -> None:
    """Compare the database with this release, down to column types and indexes.

    Newer tables that this release can use are not compared.

    Raises:
        SchemaError: they differ; the message lists the differences.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with _connected(database, schema, prefix) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        where, option = verify_revision(driver, schema, prefix)
        if stamped(driver, schema, prefix) != HEAD:
            # The tables of a newer release, which this one can use, may have more columns.
            verify(driver, schema, prefix)
            return
        context = MigrationContext.configure(connection, opts=comparison_options(schema, prefix))
        differences = compare_metadata(context, tables_of(schema, prefix))
        if differences:
            shown = "; ".join(in_words(difference) for difference in differences[:MAX_DIFFERENCES])
            more = f"; and {len(differences) - MAX_DIFFERENCES} more" * (len(differences) > MAX_DIFFERENCES)
            raise SchemaError(
                f"the tables in {where} differ from those of revision {HEAD}: {shown}{more}. Something other than"
                " `quartzpy db upgrade` has changed them: restore them from a backup, or change them to what"
                f" `quartzpy db sql{option}` prints"
            )
        _verify_views(driver, schema, prefix)
        _verify_database_triggers(driver, schema, prefix)


def in_words(difference: Any) -> str:
    """Return a difference that alembic found, from the tables as they should be: "table t lacks column c (TEXT)"."""
    match difference:
        case ("add_table", table):
            return f"table {table.name} is missing"
        case ("remove_table", table):
            return f"table {table.name} does not belong there"
        case ("add_column", _, table, column):
            return f"table {table} lacks column {column.name} ({column.type})"
        case ("remove_column", _, table, column):
            return f"column {column.name} of table {table} does not belong there"
        case ("add_index", index):
            return f"index {index.name} of table {index.table.name} is missing or different"
        case ("remove_index", index):
            return f"index {index.name} of table {index.table.name} does not belong there or is different"
        case [(str(kind), _, table, column, _, actual, expected), *_]:
            return f"{kind.removeprefix('modify_')} of column {column} of table {table} is {actual}, not {expected}"
        case _:
            return str(difference)


def comparison_options(schema: str | None, prefix: str) -> dict[str, Any]:
    """Return the options that restrict alembic's comparison to our tables in our schema."""
    wanted = {table.name for table in tables_of(schema, prefix).sorted_tables}

    def ours(name: str | None, kind: str, parents: Any) -> bool:
        if kind == "schema":
            return name == schema
        if kind == "table":
            return name in wanted
        return True

    return {
        "version_table": version_table(prefix),
        "version_table_schema": schema,
        "include_schemas": schema is not None,
        "include_name": ours,
        "compare_type": True,
    }


def sql(schema: str | None = None, *, prefix: str = DEFAULT_TABLE_PREFIX) -> str:
    """Return the statements that create all tables, for users who run DDL by hand. No database is needed."""
    from alembic import command

    checked_schema(schema)
    checked_table_prefix(prefix)
    output = io.StringIO()
    with _ALEMBIC:
        command.upgrade(_config(schema, prefix, None, output), "head", sql=True)
    lines = [
        line.rstrip()
        for line in renamed_sql(output.getvalue(), prefix).splitlines()
        if not line.startswith("-- Running upgrade")
    ]
    return "\n".join(lines).strip() + "\n"


def _verify_views(connection: psycopg.Connection[Any], schema: str | None, prefix: str) -> None:
    columns_of = columns(connection, schema, prefix, _VIEW_KINDS)
    for view, described in VIEWS.items():
        name = renamed(view, prefix)
        if columns_of.get(name) != set(described.columns):
            raise SchemaError(
                f"view {name} is missing, or is not this release's; create it with the statement that"
                " `quartzpy db sql` prints"
            )


def _verify_database_triggers(connection: psycopg.Connection[Any], schema: str | None, prefix: str) -> None:
    table = renamed("qrtz_triggers", prefix)
    place = f'"{schema}".{table}' if schema else table
    enabled = {name for (name,) in connection.execute(_DATABASE_TRIGGERS, [place])}
    for trigger in TRIGGERS:
        name = renamed(trigger, prefix)
        if name not in enabled:
            raise SchemaError(
                f"database trigger {name} on table {table} is missing or disabled, so two triggers may get the same"
                " key; create it with the statement that `quartzpy db sql` prints, or enable it"
            )
