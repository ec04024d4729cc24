"""The steps of the store by themselves: the server's processor time, WAL and buffers of each statement.

One batch after the other is acquired and completed, by one connection and without running jobs. Each statement of a
round trip is sent alone, and the processor time of its backend is read from `/proc` before and after it, so that the
figures hardly depend on what else the machine does. Waiting for the disk and for locks is not part of them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args
from unittest import mock

import psycopg

from benchmarks.jobs import Nothing
from benchmarks.server import Server, running_server
from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.config.config import SchedulerConfig
from quartzpy.node.completer import refill_of
from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.connection.pipeline import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    BoundStatement,
    Result,
    execute_pipelined,
)
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, DispatchKey, Node

NAME = "bench"
JOB_TYPE = "benchmark-nothing"
"""The type of `Nothing`."""
Serial = Literal["jobs", "keys", "one"]
"""What runs once at a time: each of as many jobs as triggers, each value of a concurrency key, or the only job."""
_KEY = "tenant"
_TABLES = ("qrtz_triggers", "qrtz_fired_triggers", "qrtz_executions", "qrtz_job_details")


@dataclass
class Cost:
    """The cost of one statement, summed over all times that it was sent."""

    sent: int = 0
    cpu_ns: int = 0
    wal_bytes: int = 0


@dataclass
class Meter:
    """Sends the statements of a round trip one by one, and measures each."""

    observer: psycopg.Connection[Any]
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    pipelines: int = 0
    measures_wal: bool = True
    whole: bool = False
    """Measures whole round trips, as they are sent ordinarily, instead of single statements."""

    def execute(self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], **how: Any) -> list[Result]:
        self.pipelines += 1
        if self.whole:
            return self._measured(connection, sends, how, "whole round trips")
        results: list[Result] = []
        last = len(sends) - 1
        for place, send in enumerate(sends):
            begin = BEGIN if place == 0 else None
            commit = COMMIT if place == last else None
            alone = {**how, "begin": begin, "commit": commit, "undo_by": ROLLBACK}
            results += self._measured(connection, [send], alone, title(send.statement.sql.decode()))
        return results

    def _measured(
        self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], how: dict[str, Any], name: str
    ) -> list[Result]:
        cost = self.costs[name]
        at = self._wal() if self.measures_wal else 0
        before = processor_ns(connection.pgconn.backend_pid)
        found = execute_pipelined(connection, sends, **how)
        cost.cpu_ns += processor_ns(connection.pgconn.backend_pid) - before
        cost.wal_bytes += (self._wal() - at) if self.measures_wal else 0
        cost.sent += 1
        return found

    def _wal(self) -> int:
        found = self.observer.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()
        assert found is not None
        return int(found[0])


def processor_ns(pid: int) -> int:
    """Return the time, in nanoseconds, that a process has spent on a processor until it last went to sleep."""
    while True:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "S":
            return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def title(sql: str) -> str:
    """Return a short name for a statement: its CTEs and its verb."""
    names = re.findall(r"(\w+) AS (?:MATERIALIZED )?\(", sql)
    found = re.search(r"^(SELECT|INSERT|UPDATE|DELETE|WITH)[^\n]*", sql, re.MULTILINE)
    first = found[0] if found else ""
    comment = re.match(r"\s*-- (\w+)", sql)
    return (comment[1] if comment else f"{first[:30]} {' '.join(names[:3])}").strip()


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    with mock.patch.object(connections, "execute_pipelined", meter.execute):
        yield


def fill(
    server: Server, dsn: str, count: int, *, recurring: bool, ahead: timedelta, serial: Serial | None = None
) -> None:
    client = Scheduler(dsn, name=NAME, misfire_threshold="1d")
    client.clear()
    due = datetime.now(UTC) + ahead
    interval: dict[str, Any] = {"interval": timedelta(minutes=1), "repeat_count": None} if recurring else {}
    triggers = [
        SimpleTrigger(f"t{n}", start_time=due + n * timedelta(microseconds=10), data={_KEY: f"{n}"}, **interval)
        if serial == "keys"
        else SimpleTrigger(f"t{n}", start_time=due + n * timedelta(microseconds=10), **interval)
        for n in range(count)
    ]
    limit: dict[str, Any] = {} if serial is None else {"max_concurrent": 1}
    if serial == "jobs":
        client.schedule_jobs(
            [(JobDetail(Nothing, f"j{n}", durable=True, **limit), [t]) for n, t in enumerate(triggers)]
        )
    else:
        if serial == "keys":
            limit["concurrency_key"] = _KEY
        client.schedule_job(JobDetail(Nothing, "nothing", durable=True, **limit), triggers)
    client.shutdown()
    server.settle(dsn)


def drained(store: SqlJobStore, node: Node, batch: int, most: int) -> int:
    """Acquire and complete batches until nothing is due or `most` triggers have fired; return how many fired."""
    openings = [AvailableSlots()]
    day = timedelta(days=365)
    fires = 0
    while fires < most:
        took = store.acquire(node, openings, limit=batch, look_ahead=timedelta(seconds=0.1), misfire_threshold=day)
        if not took.fired:
            break
        fires += len(took.fired)
        store.complete(
            node,
            [Completion(one, took.now, took.now, Outcome.SUCCEEDED, refill=refill_of(one)) for one in took.fired],
        )
    return fires


def per(count: int, costs: dict[str, Cost]) -> dict[str, dict[str, float]]:
    return {
        name: {"us": round(cost.cpu_ns / 1000 / count, 2), "wal": round(cost.wal_bytes / count), "sent": cost.sent}
        for name, cost in costs.items()
    }


def with_store(dsn: str, work: Callable[[SqlJobStore, Node], None]) -> None:
    store = SqlJobStore(dsn, SchedulerConfig.of({"name": NAME, "misfire_threshold": "1d"}))
    store.open()
    node = store.register("bench", host="here", pid=1, checkin_interval=timedelta(hours=1), window=timedelta(hours=9))
    store.decide(node, {DispatchKey(JOB_TYPE): True})
    try:
        work(store, node)
    finally:
        store.leave(node)
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="the server to use; default: an embedded one")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10, help="fires of each recurring trigger")
    parser.add_argument("--empty", type=int, default=500, help="passes that find nothing")
    parser.add_argument("--serial", choices=get_args(Serial), help="what runs once at a time; default: nothing does")
    options = parser.parse_args()
    with running_server(options.url) as server:
        dsn = server.new_database()
        observer = server.connect(dsn)
        for recurring in (True, False):
            fill(server, dsn, options.count, recurring=recurring, ahead=-timedelta(minutes=50), serial=options.serial)
            meter = Meter(observer)
            fires = 0

            def drain(store: SqlJobStore, node: Node, *, meter: Meter = meter, recurring: bool = recurring) -> None:
                nonlocal fires
                drained(store, node, options.batch, options.batch)
                observer.execute("SELECT pg_stat_reset()")
                with metered(meter):
                    fires = drained(store, node, options.batch, options.count * options.rounds)

            with_store(dsn, drain)
            observer.execute("SELECT pg_stat_force_next_flush()")
            tables = {
                name: f"{inserted / fires:.2f} inserted, {updated / fires:.2f} updated ({hot / fires:.2f} HOT),"
                f" {deleted / fires:.2f} deleted"
                for name, inserted, updated, hot, deleted in observer.execute(
                    "SELECT relname, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del FROM pg_stat_user_tables"
                    " WHERE relname = ANY(%s)",
                    [list(_TABLES)],
                ).fetchall()
            }
            report(
                triggers="recurring" if recurring else "one-shot",
                serial=options.serial,
                fires=fires,
                batch=options.batch,
                pipelines_per_batch=meter.pipelines / (fires / options.batch),
                us_per_fire=round(sum(cost.cpu_ns for cost in meter.costs.values()) / 1000 / fires, 1),
                wal_per_fire=round(sum(cost.wal_bytes for cost in meter.costs.values()) / fires),
                statements=per(fires, meter.costs),
                tables=tables,
                postgresql=server.version,
            )
        fill(server, dsn, 1_000, recurring=True, ahead=timedelta(hours=1))
        meters = [Meter(observer, measures_wal=False, whole=whole) for whole in (True, False)]

        def look(store: SqlJobStore, node: Node) -> None:
            drained(store, node, options.batch, 1)
            drained(store, node, options.batch, 1)
            for meter in meters:
                with metered(meter):
                    for _ in range(options.empty):
                        drained(store, node, options.batch, 1)

        with_store(dsn, look)
        report(
            triggers="nothing due",
            passes=options.empty,
            pipelines_per_pass=meters[0].pipelines / options.empty,
            us_per_pass=round(sum(cost.cpu_ns for cost in meters[0].costs.values()) / 1000 / options.empty, 1),
            statements=per(options.empty, meters[1].costs),
        )


if __name__ == "__main__":
    main()
