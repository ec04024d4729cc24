"""What every benchmark needs: a database, repeats, medians, and a record of where it ran."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.sql import migrations


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """A database with our tables: the one given, or an embedded one with durable settings."""
    if dsn is not None:
        migrations.upgrade(dsn)
        yield dsn
        return
    with (
        tempfile.TemporaryDirectory(prefix="quartzpy-bench-") as directory,
        EmbeddedPostgres(Path(directory), durable=True, settings={"shared_buffers": "256MB"}) as server,
    ):
        Path(directory).chmod(0o755)
        migrations.upgrade(server.dsn)
        yield server.dsn


def server_version(dsn: str) -> str:
    engine = sqlalchemy.create_engine(dsn)
    with engine.connect() as connection:
        version = str(connection.execute(sqlalchemy.text("SHOW server_version")).scalar_one())
    engine.dispose()
    return version


def vacuum(dsn: str) -> None:
    """Begin each repeat from tables without dead rows, with statistics, and a fresh checkpoint."""
    engine = sqlalchemy.create_engine(dsn, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("VACUUM ANALYZE"))
        connection.execute(sqlalchemy.text("CHECKPOINT"))
    engine.dispose()


def repeated(times: int, measure: Callable[[], float]) -> dict[str, float]:
    """The median of several repeats, with the least and the most."""
    values = [measure() for _ in range(times)]
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "cores": os.cpu_count(), "system": platform.system()}


def report(name: str, **facts: Any) -> None:
    print(json.dumps({"benchmark": name, **facts}), flush=True)
