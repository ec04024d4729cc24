"""Writes what the real Quartz stored into files, so that tests read its bytes where there is no Java.

`python -m tests.migrate.dump` fills a database by `quartz/Made.java`, and writes its tables as SQL to
`data/quartz-2.3.2.sql`, and the fire times that Quartz's triggers compute to `data/quartz-2.3.2-fires.tsv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from quartzpy.embedded import EmbeddedPostgres
from tests.database import connect_to
from tests.migrate import java_quartz

DATA = Path(__file__).with_name("data")
TABLES = DATA / "quartz-2.3.2.sql"
FIRES = DATA / "quartz-2.3.2-fires.tsv"
# Berlin's clock is moved from 2:00 to 3:00 in the middle.
HOUR = ("2030-03-31T00:30:00Z", "2030-03-31T01:30:00Z")


def load(dsn: str) -> None:
    """Create Quartz's tables in a database, as the real Quartz has filled them."""
    with connect_to(dsn) as connection:
        connection.execute(TABLES.read_bytes())


def expected_fires(lines: list[str]) -> dict[str, list[int]]:
    """Return the fire times by trigger, in milliseconds, of lines that `quartz/Fires.java` has printed."""
    cells = [line.split("\t") for line in lines]
    return {key: [int(one) for one in times] for key, *times in cells}


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with EmbeddedPostgres.temporary() as server:
        java_quartz.run("Made", server.dsn)
        FIRES.write_text("".join(f"{line}\n" for line in sorted(java_quartz.run("Fires", server.dsn, *HOUR))))
        with connect_to(server.dsn, autocommit=False) as connection:
            TABLES.write_text("\n".join(_statements(connection)) + "\n")


def _statements(connection: psycopg.Connection[Any]) -> list[str]:
    lines = []
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " ORDER BY table_name, ordinal_position"
    ):
        columns.setdefault(table, []).append((column, kind))
    for table, found in columns.items():
        described = ", ".join(f"{column} {kind}" for column, kind in found)
        lines.append(f"CREATE TABLE {table} ({described});")
        written = " || ', ' || ".join(f"quote_nullable({column})" for column, _ in found)
        rows = connection.execute(f"SELECT {written} FROM {table} ORDER BY 1")
        lines += [f"INSERT INTO {table} VALUES ({row});" for (row,) in rows]
    return lines


if __name__ == "__main__":
    main()
