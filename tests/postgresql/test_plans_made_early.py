"""A node's statements are planned when the tables are empty, and keep those plans: they must serve full tables too."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.jobs.job import JobDetail
from quartzpy.node import scheduler_thread
from quartzpy.node.completer import refill_of
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.connection.conninfo import session_settings
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, execute_pipelined
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, Gate, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.postgresql.conftest import NAME, register

TYPE = "early"
BATCH = 10
MANY = 3_000
CHEAP_TO_HASH = {
    "random_page_cost": "1000",
    "cpu_tuple_cost": "0",
    "cpu_index_tuple_cost": "0",
    "cpu_operator_cost": "0",
}
"""The planner's view of a table of one page: reading it whole, once, costs no more than one look by a key."""
MAX_READ = 20 * BATCH
"""Rows that a statement may read: what it is about several times over, and far from all."""
FILL = f"""
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, persists_data,
    requests_recovery)
SELECT '{NAME}', 'FILL', 'j' || n, '{TYPE}', true, CASE n % 2 WHEN 0 THEN 1 END, false, false
  FROM generate_series(1, {MANY}) AS n;
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    max_concurrent, kind, schedule, trigger_state, next_fire_time, upcoming, upcoming_is_complete, start_time, priority,
    misfire_instruction)
SELECT '{NAME}', n, 'FILL', 't' || n, 'FILL', 'j' || n, '{TYPE}', CASE n % 2 WHEN 0 THEN 1 END, 'simple', '{{}}',
       CASE n % 3 WHEN 0 THEN 'BLOCKED' WHEN 1 THEN 'COMPLETE' ELSE 'WAITING' END, now() + interval '1 day', '{{}}',
       true, now(), 5, 'smart'
  FROM generate_series(1, {MANY}) AS n;
"""


class Watched:
    """Explains each statement before it is sent, on a connection that made its plans when it first saw them."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        settings: Mapping[str, str],
        tables: Collection[str] = ("qrtz_triggers", "qrtz_job_details"),
    ) -> None:
        self._connection = connection
        # What the driver prepares by itself, it deallocates at a rollback, and all else with it.
        connection.prepare_threshold = None
        self._tables = tables
        self._prepared: set[str] = set()
        self.read: dict[str, float] = {}
        """The most rows that each statement read."""
        for setting in (session_settings(SchedulerConfig.of({})) | settings).items():
            self._connection.execute("SELECT set_config(%s, %s, false)", setting)

    def execute(self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], **how: Any) -> Any:
        if how.get("begin", True) is not None:
            self._connection.execute("BEGIN")
            for send in sends:
                self._explain(send)
            self._connection.execute("ROLLBACK")
        return execute_pipelined(connection, sends, **how)

    def _explain(self, send: BoundStatement) -> None:
        name = f"e_{send.statement.name.replace('-', '_')}"
        if name not in self._prepared:
            self._connection.execute(f"PREPARE {name} AS ".encode() + send.statement.sql)
            self._prepared.add(name)
        literals = b", ".join(
            b"NULL" if value is None else b"'" + value.replace(b"'", b"''") + b"'"
            for value in send.statement.encode(send.values)
        )
        values = b"(" + literals + b")" if literals else b""
        found = self._connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {name}".encode() + values).fetchone()
        assert found is not None
        [answer] = found[0] if isinstance(found[0], list) else json.loads(found[0])
        text = send.statement.sql.decode()
        self.read[text] = max(self.read.get(text, 0), rows_read(answer["Plan"], self._tables))


def rows_read(plan: dict[str, Any], tables: Collection[str]) -> float:
    own = 0.0
    if "Scan" in plan["Node Type"] and plan.get("Relation Name") in tables:
        own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return own + sum(rows_read(child, tables) for child in plan.get("Plans", []))


def everyday_life(store: SqlJobStore, node: Node, round_: int) -> int:
    """Fires of all kinds, ended in all ways; how many."""
    now = datetime.now(UTC)
    ago = timedelta(seconds=1)

    def once(name: str, of: JobDetail, **values: Any) -> PreparedTrigger:
        return prepare(SimpleTrigger(f"{name}-{round_}", job_key=of.key, start_time=now - ago, **values), now, None)

    plain = JobDetail(TYPE, f"plain-{round_}")
    serial = JobDetail(TYPE, f"serial-{round_}", disallow_concurrent=True, persist_data=True, durable=True)
    buffered = JobDetail(TYPE, f"buffered-{round_}", max_concurrent=1, overlap_policy="buffer_one", durable=True)
    unfilled = [
        PreparedTrigger(one.trigger, one.progress, UpcomingFireTimes())
        for one in (once(f"unfilled{n}", plain, interval=timedelta(hours=1), repeat_count=9) for n in range(3))
    ]
    # What comes after something new is expected to be new as well, and stored by other statements.
    store.store_jobs([JobEntry(JobDetail(TYPE, f"new-{round_}", durable=True))], replace=False)
    store.store_jobs(
        [
            JobEntry(plain, [*(once(f"once{n}", plain) for n in range(3)), *unfilled]),
            JobEntry(serial, [once(f"serial{n}", serial) for n in range(2)]),
            JobEntry(buffered, [once(f"buffered{n}", buffered) for n in range(2)]),
        ],
        replace=False,
    )
    opening = AvailableSlots()
    fired: list[FiredTrigger] = []
    opened: list[Gate] = []
    minute = timedelta(minutes=1)
    while True:
        took = store.acquire(
            node, [opening], limit=BATCH, look_ahead=minute, misfire_threshold=10 * minute, opened=opened
        )
        if took.unfilled:
            first, *others = took.unfilled
            store.reject(node, [(first, "cannot be computed")])
            store.refill(node, [scheduler_thread.refill_of(one, took.now) for one in others])
        begun = took.fired
        if not (begun or took.unfilled):
            break
        fired += begun
        instructions = [CompletionInstruction.SET_TRIGGER_COMPLETE] + [CompletionInstruction.NOOP] * len(begun)
        completions = [
            Completion(
                one,
                took.now,
                took.now,
                Outcome.SUCCEEDED,
                instruction=instruction,
                job_data='{"a": 1}' if one.persists_data else None,
                refill=refill_of(one),
                retry_after=minute * 60 if one is begun[-1] else None,
            )
            for one, instruction in zip(begun, instructions, strict=False)
        ]
        store.complete(node, completions)
        opened = [one.gate for one in begun if one.gate is not None]
    store.acquire(node, [opening], limit=BATCH, look_ahead=minute, misfire_threshold=10 * minute)
    store.recover_misfires(node, threshold=minute, limit=BATCH)
    return len(fired)


with_early_tables = pytest.mark.parametrize(
    ("vacuumed", "costs"),
    [
        pytest.param(False, {}, id="new tables"),
        pytest.param(True, {}, id="tables known to be empty"),
        pytest.param(True, CHEAP_TO_HASH, id="tables of one page"),
    ],
)
"""What the planner may know of the tables when it makes the plans, before they are filled."""


@with_early_tables
def test_no_statement_of_a_step_reads_what_it_is_not_about(
    store: SqlJobStore,
    connect: Callable[[], psycopg.Connection[Any]],
    monkeypatch: pytest.MonkeyPatch,
    vacuumed: bool,
    costs: Mapping[str, str],
) -> None:
    other = connect()
    # Without the pages and dead entries that other tests have left in them.
    other.execute("TRUNCATE qrtz_triggers, qrtz_job_details, qrtz_fired_triggers, qrtz_executions CASCADE")
    if vacuumed:
        other.execute("VACUUM ANALYZE")
    watched = Watched(connect(), costs)
    monkeypatch.setattr(connections, "execute_pipelined", watched.execute)
    node = register(store)
    assert everyday_life(store, node, 1) >= 8
    other.execute(FILL)
    learned = set(watched.read)
    watched.read.clear()
    assert everyday_life(store, node, 2) >= 8
    assert len(learned & set(watched.read)) >= 12
    wasteful = {text: rows for text, rows in watched.read.items() if rows > MAX_READ}
    assert not wasteful, "\n".join(f"{rows:.0f} rows: {text}" for text, rows in wasteful.items())
