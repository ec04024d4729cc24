"""Writes the names of the tables, their columns and the sequences: `python -m tools.table_columns`."""

from __future__ import annotations

from pathlib import Path

from quartzpy.store.postgresql.schema import tables

FILE = Path(tables.__file__).parents[1] / "table_columns.py"
_HEAD = '''"""The names of the tables, of their columns and of the sequences, without SQLAlchemy.

Generated from `tables` by `python -m tools.table_columns`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

'''


def text() -> str:
    """Return the module's text, as the formatter would write it."""
    lines = ["TABLES: Mapping[str, tuple[str, ...]] = {"]
    for table in tables.metadata.sorted_tables:
        lines += [f'    "{table.name}": (', *(f'        "{column.name}",' for column in table.columns), "    ),"]
    sequences = ", ".join(f'"{sequence.name}"' for sequence in (tables.fire_ids, tables.epochs))
    return _HEAD + "\n".join([*lines, "}", f"SEQUENCES = ({sequences})", ""])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
