"""What an upgrade of the tables would do: its statements, and which tables they lock, in which mode, at which size.

The modes are those of PostgreSQL's manual, "Explicit Locking". Only tables that exist are locked for anybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from quartzpy.store.postgresql.schema.naming import version_table
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_query

_SIZES = as_query(SqlFile("upgrade_plan.sql")("sizes"))
_TABLE = r'(?:IF EXISTS )?(?:ONLY )?(?:"?[\w]+"?\.)?"?(?P<table>\w+)"?'
_NOBODY_WAITS = "SHARE UPDATE EXCLUSIVE"
_WRITERS_WAIT = "SHARE"
_ALL_WAIT = "ACCESS EXCLUSIVE"
_KINDS: Sequence[tuple[re.Pattern[str], str, str]] = [
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), mode, what)
    for pattern, mode, what in (
        (rf"ALTER TABLE {_TABLE} VALIDATE CONSTRAINT.*", _NOBODY_WAITS, "reads the table; nobody waits"),
        (rf"ALTER TABLE {_TABLE} ALTER COLUMN \w+ TYPE.*", _ALL_WAIT, "may write the whole table anew; all wait"),
        (
            rf"ALTER TABLE {_TABLE} ADD CONSTRAINT (?!.*NOT VALID).*(CHECK|FOREIGN KEY).*",
            _ALL_WAIT,
            "reads the table; all wait",
        ),
        (rf"ALTER TABLE {_TABLE} .*SET NOT NULL.*", _ALL_WAIT, "reads the table; all wait"),
        (rf"ALTER TABLE {_TABLE} .*", _ALL_WAIT, "changes the catalog; all wait for a moment"),
        (rf"DROP TABLE {_TABLE}.*", _ALL_WAIT, "drops the table"),
        (
            rf"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY).*? ON {_TABLE}.*",
            _WRITERS_WAIT,
            "reads the table; writers wait",
        ),
        (rf"CREATE (?:UNIQUE )?INDEX CONCURRENTLY .*? ON {_TABLE}.*", _NOBODY_WAITS, "reads the table; nobody waits"),
        (rf"CREATE TRIGGER .*? ON {_TABLE}.*", "SHARE ROW EXCLUSIVE", "changes the catalog; writers wait for a moment"),
        (rf"(?:UPDATE|DELETE FROM|INSERT INTO) {_TABLE}.*", "ROW EXCLUSIVE", "writes rows; who changes them waits"),
    )
]


@dataclass(frozen=True, slots=True)
class TableLock:
    """A table that a statement of the upgrade locks."""

    table: str
    mode: str
    what: str
    rows: int
    """About how many rows it has."""
    bytes: int
    """Its size with its indexes."""


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """What an upgrade would do."""

    before: str | None
    """The present revision; None if there are no tables."""
    statements: tuple[str, ...]
    locks: tuple[TableLock, ...]
    """The strongest lock of each table that exists."""

    @property
    def script(self) -> str:
        """The statements as a script."""
        return "".join(f"{statement};\n" for statement in self.statements)


def plan_of(
    before: str | None, script: str, connection: psycopg.Connection[Any], schema: str | None, prefix: str
) -> UpgradePlan:
    """Return the plan of the statements that a script has."""
    lines = [line for line in script.splitlines() if line.strip() and not line.startswith("--")]
    statements = tuple(each.strip() for each in re.split(r";\n", "\n".join(lines) + "\n") if each.strip())
    if statements == ("BEGIN", "COMMIT"):
        statements = ()
    sizes: dict[str, tuple[int, int]] = {
        name: (rows, size)
        for name, rows, size in connection.execute(_SIZES, {"prefix": prefix, "schema": schema or ""})
    }
    locks: dict[str, TableLock] = {}
    for statement in statements:
        for pattern, mode, what in _KINDS:
            match = pattern.fullmatch(statement)
            if match is None:
                continue
            table = match["table"]
            if table in sizes and table != version_table(prefix):
                lock = TableLock(table, mode, what, *sizes[table])
                locks[table] = max(locks.get(table, lock), lock, key=_strength)
            break
    return UpgradePlan(before, statements, tuple(locks.values()))


def _strength(lock: TableLock) -> int:
    """Return how much others wait for a lock: of two of one mode, for the one that reads the table."""
    order = ["ROW EXCLUSIVE", _NOBODY_WAITS, _WRITERS_WAIT, "SHARE ROW EXCLUSIVE", _ALL_WAIT]
    return 2 * order.index(lock.mode) + ("whole table" in lock.what or "reads" in lock.what)
