"""The definitions of our tables under another prefix or in another schema."""

from __future__ import annotations

from sqlalchemy import ForeignKeyConstraint, MetaData, Table
from sqlalchemy.sql import quoted_name

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.store.postgresql.schema.naming import renamed
from quartzpy.store.postgresql.schema.tables import metadata


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
