"""The names of our tables under another prefix.

`tables` and the migration scripts use the default prefix in all names: of tables, sequences, indexes and constraints.
For another prefix, it is replaced in each name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from quartzpy.config.config import DEFAULT_TABLE_PREFIX

DATABASE_CLOCK = "clock_timestamp()"
_IN_SQL = re.compile(rf"(?<![A-Za-z0-9_]){DEFAULT_TABLE_PREFIX}")


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in our statements stand for in one database."""

    schema: str | None = None
    prefix: str = DEFAULT_TABLE_PREFIX
    now: str = DATABASE_CLOCK
    """The store's clock, an expression."""
    before_each: str = field(init=False)
    """What precedes the names of tables and sequences, in place of the default prefix."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "before_each", f'"{self.schema}".{self.prefix}' if self.schema else self.prefix)


DEFAULT_NAMES = Names()


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
