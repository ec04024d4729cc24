"""The names of our tables under another prefix or in another schema.

`tables` and the migration scripts use the default prefix in all names: of tables, sequences, indexes and constraints.
For another prefix, it is replaced in each name.
"""

from __future__ import annotations

import re

from sqlalchemy import ForeignKeyConstraint, MetaData, Table
from sqlalchemy.sql import quoted_name

from quartzpy.store.sql.tables import metadata
from quartzpy.table_names import DEFAULT_TABLE_PREFIX

_IN_SQL = re.compile(rf"(?<![A-Za-z0-9_]){DEFAULT_TABLE_PREFIX}")


def renamed(name: str, prefix: str) -> str:
    """Return the name of a table, sequence, index or constraint under this prefix."""
    return prefix + name.removeprefix(DEFAULT_TABLE_PREFIX)


def renamed_sql(statement: str, prefix: str) -> str:
    """Return a DDL statement with all its names under this prefix."""
    return statement if prefix == DEFAULT_TABLE_PREFIX else _IN_SQL.sub(prefix, statement)


def scoped(scheduler: str, prefix: str) -> str:
    """Return a name that distinguishes schedulers of the same name under different prefixes."""
    return scheduler if prefix == DEFAULT_TABLE_PREFIX else f"{prefix}/{scheduler}"


def version_table(prefix: str) -> str:
    """Return the name of alembic's version table."""
    return f"{prefix}alembic_version"


def tables_of(schema: str | None = None, prefix: str = DEFAULT_TABLE_PREFIX) -> MetaData:
    """Return the tables in this schema and under this prefix, to create them or to compare a database with them."""
    if schema is None and prefix == DEFAULT_TABLE_PREFIX:
        return metadata
    moved = MetaData(schema=schema)
    for table in metadata.sorted_tables:
        name = renamed(table.name, prefix)
        copy = table.to_metadata(moved, name=name) if schema is None else table.to_metadata(moved, schema, name=name)
        _replace_foreign_keys(table, copy, schema, prefix)
        for constraint in copy.constraints:
            constraint.name = quoted_name(renamed(str(constraint.name), prefix), quote=None)
        for index in copy.indexes:
            index.name = quoted_name(renamed(str(index.name), prefix), quote=None)
    return moved


def _replace_foreign_keys(table: Table, copy: Table, schema: str | None, prefix: str) -> None:
    """Replace the foreign keys of a copied table, which still refer to tables under the default prefix."""
    for key in list(copy.foreign_key_constraints):
        copy.constraints.discard(key)
        for element in key.elements:
            element.parent.foreign_keys.discard(element)
            copy.foreign_keys.discard(element)
    place = f"{schema}." if schema else ""
    for original in table.foreign_key_constraints:
        there = renamed(original.referred_table.name, prefix)
        columns = [f"{place}{there}.{element.column.name}" for element in original.elements]
        copy.append_constraint(ForeignKeyConstraint(original.column_keys, columns, name=original.name))
