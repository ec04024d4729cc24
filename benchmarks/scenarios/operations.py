"""Operations: the pages, the commands, the JSON API and the SQL views for operators beside a long history."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Goal, Result, Table, percentile, rounded
from benchmarks.operated import commands, pages, readers, reads, rows, views
from benchmarks.operated.commands import Command
from quartzpy.garbage import present_objects_exempted
from quartzpy.operations import Operations

MAX_MS = 100.0
_COLUMNS = ("", "p50", "p95", "most")


def run(bench: Bench) -> Result:
    scale = bench.scale
    url, crowded = bench.new_database(), bench.new_database()
    began = time.perf_counter()
    rows.fill(bench, url, scale.operated_triggers, scale.operated_executions)
    rows.fill_crowded(bench, crowded, scale.operated_triggers)
    filled = time.perf_counter() - began
    result = _measured(bench, url, crowded, filled)
    bench.server.drop(url)
    bench.server.drop(crowded)
    return result


def _measured(bench: Bench, url: str, crowded: str, filled: float) -> Result:
    scale = bench.scale
    executions = scale.operated_executions
    # As `quartzpy dashboard` does.
    with client(url) as scheduler, client(crowded) as of_crowd, present_objects_exempted():
        of_reads = reads.measure(scheduler, executions) | reads.measure_crowded(of_crowd, scale.operated_triggers)
        of_pages = pages.measure(scheduler, executions)
    of_readers = readers.measure(url, pages.all_pages(executions), scale.readers_seconds)
    of_commands = commands.measure(bench, url, executions)
    with tempfile.TemporaryDirectory() as directory:
        of_whole = commands.measure_whole(url, Path(directory))
        size = Path(directory, "all.toml").stat().st_size / 2**20
    with bench.server.connect(url) as connection:
        of_views = views.measure(connection)
    sizes = _sizes(url)
    # The last measurement, because it changes the rows.
    with client(url) as scheduler:
        of_views |= views.measure_deletion(url, scheduler)
    beside = f"{scale.operated_triggers:,} triggers and {executions:,} executions"
    return Result(
        "operations",
        goals=[
            _goal("page or read", beside, of_reads | of_pages),
            Goal(
                f"{MAX_MS:g} ms, of the round trips of the slowest command beside {beside}",
                1.0,
                MAX_MS / max(command.database or 0.0 for command in of_commands.values()),
            ),
        ],
        tables=[
            Table(f"Milliseconds of a read beside {beside}", _COLUMNS, _rows(of_reads)),
            Table(f"Milliseconds of a page or resource beside {beside}", _COLUMNS, _rows(of_pages)),
            Table(
                f"Milliseconds of a page that {readers.READERS} readers have open beside {beside}",
                _COLUMNS,
                _rows(of_readers),
            ),
            _table(f"Milliseconds of a command beside {beside}", of_commands),
            _table(f"Milliseconds of a command that reads all rows beside {beside}", of_whole),
            Table(f"Milliseconds of a view or deletion beside {beside}", _COLUMNS, _rows(of_views)),
            Table("Megabytes of tables with their indexes", ("", "table", "indexes"), tuple(sizes)),
        ],
        charts=[],
        notes=[
            f"The rows were made in {filled:.0f} s.",
            f"`quartzpy export` wrote {size:,.0f} MiB.",
            *(
                f"`{name}` used at most {command.mebibytes:,.0f} MiB of memory."
                for name, command in of_whole.items()
                if command.mebibytes is not None
            ),
        ],
        figures={
            "reads, ms": of_reads,
            "pages, ms": of_pages,
            f"pages with {readers.READERS} readers, ms": of_readers,
            "commands, ms": {name: command.wall for name, command in (of_commands | of_whole).items()},
            "views, ms": of_views,
        },
    )


def _goal(what: str, beside: str, times: Mapping[str, list[float]]) -> Goal:
    slowest = max(percentile(values, 95) for values in times.values())
    return Goal(f"{MAX_MS:g} ms, of the p95 of the slowest {what} beside {beside}", 1.0, MAX_MS / slowest)


def _rows(times: Mapping[str, list[float]]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, *_spread(values)) for name, values in times.items())


def _spread(values: list[float]) -> tuple[str, str, str]:
    return rounded(percentile(values, 50)), rounded(percentile(values, 95)), rounded(max(values))


def _table(title: str, of: Mapping[str, Command]) -> Table:
    found = [
        (name, *_spread(command.wall), "-" if command.database is None else rounded(command.database))
        for name, command in of.items()
    ]
    return Table(title, (*_COLUMNS, "of which round trips"), tuple(found))


def _sizes(url: str) -> list[tuple[Any, ...]]:
    with client(url) as scheduler:
        tables = Operations(scheduler).system().tables
    return [
        (table.name, rounded((table.size_bytes - table.index_bytes) / 1e6), rounded(table.index_bytes / 1e6))
        for table in tables[:4]
    ]
