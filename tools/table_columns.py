"""Writes the names of the tables and of their columns: `python -m tools.table_columns`."""

from __future__ import annotations

import textwrap
from pathlib import Path

from quartzpy.store.postgresql.schema import tables

FILE = Path(tables.__file__).parents[1] / "table_columns.py"
_HEAD = '''"""The names of the tables and of their columns, without SQLAlchemy.

Generated from `tables` by `python -m tools.table_columns`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

_TEXT = """
'''
_TAIL = '''"""

TABLES: Mapping[str, tuple[str, ...]] = {
    table: tuple(columns.split()) for table, columns in (line.split(": ") for line in _TEXT.strip().split("\\n"))
}
'''


def text() -> str:
    """Return the module's text, as the formatter would write it."""
    lines = (
        f"{table.name}: {' '.join(column.name for column in table.columns)}" for table in tables.metadata.sorted_tables
    )
    wrapped = ("\\\n ".join(textwrap.wrap(line, 117, break_on_hyphens=False)) for line in lines)
    return _HEAD + "\n".join([*wrapped, _TAIL])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
