"""Keep the tables of quartzpy out of your own migrations.

`alembic revision --autogenerate` compares the database with your models and would drop every table that they do not
have. Pass the filter of this module to `context.configure` in your `env.py`, online and offline:

    from quartzpy.alembic import exclude_quartzpy_tables

    context.configure(..., include_name=exclude_quartzpy_tables())
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Literal, TypeAlias

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.config.setting_checks import checked_table_prefix

Kind: TypeAlias = Literal["schema", "table", "column", "index", "unique_constraint", "foreign_key_constraint"]
ParentNames: TypeAlias = MutableMapping[Literal["schema_name", "table_name", "schema_qualified_table_name"], str | None]
IncludeName: TypeAlias = Callable[[str | None, Kind, ParentNames], bool]


def exclude_quartzpy_tables(
    include_name: IncludeName | None = None, *, table_prefix: str = DEFAULT_TABLE_PREFIX
) -> IncludeName:
    """A filter for alembic's `include_name` that leaves out all tables whose names begin with `table_prefix`.

    Args:
        include_name: your own filter, which is called for all other names.
        table_prefix: the scheduler's setting `table_prefix`.

    Raises:
        SettingsError: `table_prefix` cannot be a prefix.
    """
    checked_table_prefix(table_prefix)

    def filtered(name: str | None, kind: Kind, parents: ParentNames) -> bool:
        if kind == "table" and name is not None and name.startswith(table_prefix):
            return False
        return include_name is None or include_name(name, kind, parents)

    return filtered
