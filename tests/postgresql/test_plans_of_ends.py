"""Ends of executions, by themselves and by the deaths of nodes, read what they are about, however much is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import prepare as prepared
from quartzpy.store.postgresql.steps import recover
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Acquisition, AvailableSlots, Completion, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.postgresql.conftest import NAME, register
from tests.postgresql.test_plans_made_early import FILL, MANY, MAX_READ, TYPE, Watched, with_early_tables

TABLES = (
    "qrtz_triggers, qrtz_job_details, qrtz_fired_triggers, qrtz_executions, qrtz_joins, qrtz_job_upstreams,"
    " qrtz_scheduler_state"
)
LIVING = "living"
FILL_MORE = f"""
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, retry_at)
SELECT -n, '{NAME}', 'FILL', 't' || n, n, 'FILL', 'j' || n, '{TYPE}', 'former', now(), now(), now(), 'TERMINATED',
       now()
  FROM generate_series(1, {MANY}) AS n;
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, requests_recovery, attempt)
SELECT -{MANY} - n, '{NAME}', 'FILL', 't' || n, n, 'FILL', 'j' || n, '{TYPE}', '{LIVING}', s.epoch, now(),
       now(), 5, false, 1
  FROM qrtz_scheduler_state AS s CROSS JOIN generate_series(1, {MANY}) AS n
 WHERE s.sched_name = '{NAME}' AND s.instance_id = '{LIVING}';
INSERT INTO qrtz_joins (sched_name, job_group, job_name, occasion, state, opened_at, ended)
SELECT '{NAME}', 'FILL', 'j' || n, '2026-01-01', 'WAITING', now(), '{{}}' FROM generate_series(1, {MANY}) AS n;
INSERT INTO qrtz_job_upstreams (sched_name, job_group, job_name, upstream_group, upstream_name)
SELECT '{NAME}', 'FILL', 'j' || n, 'FILL', 'j' || n + 1 FROM generate_series(1, {MANY}) AS n;
"""
READ_ALL_EXECUTIONS = (recover.LOST, recover.RECORD_LOST)
"""Nothing but the table of running executions says whose they are."""
ENDS = {
    "steps/complete.sql": ("record", "hold_jobs", "leave"),
    "steps/halts.sql": ("hold_large_jobs",),
    "steps/effects/data.sql": ("store_data", "reset_node_deaths"),
    "steps/effects/failures.sql": ("count",),
    "steps/effects/followers.sql": ("hold_followers", "start_followers"),
    "steps/effects/joins.sql": ("hold_joins", "count_joins", "start_joined"),
    "steps/effects/retries.sql": ("repeat",),
    "steps/recover.sql": (
        "lost",
        "record",
        "count_deaths",
        "forget_repeated",
        "record_lost",
        "remove_dead",
        "quarantine",
    ),
}
"""The statements that are to be sent."""


def text_of(sql: str) -> str:
    """The text as a connection sees it."""
    return prepared("s", sql).sql.decode()


def ends(store: SqlJobStore, node: Node, survivor: Node, round_: int) -> int:
    """Executions of all kinds: some end by themselves, in all ways, the others with their node. How many there were."""
    now = datetime.now(UTC)

    def once(name: str, of: JobDetail) -> PreparedTrigger:
        start = now - timedelta(seconds=1)
        return prepare(SimpleTrigger(f"{name}-{round_}", job_key=of.key, start_time=start), now, None)

    def job(name: str, **values: Any) -> JobDetail:
        return JobDetail(TYPE, f"{name}-{round_}", durable=True, **values)

    def acquire(by: Node) -> Acquisition:
        minute = timedelta(minutes=1)
        return store.acquire(by, [AvailableSlots()], limit=50, look_ahead=minute, misfire_threshold=10 * minute)

    after = job("after")
    lead = job("lead", continuations=[Continuation(after.key)], requests_recovery=True, persist_data=True)
    other = job("other", continuations=[Continuation(after.key)], max_concurrent=4, pause_after_failures=3)
    store.store_jobs([JobEntry(after)], replace=False)
    store.store_jobs(
        [JobEntry(one, [once(f"{one.name}{n}", one) for n in range(5)]) for one in (lead, other)], replace=False
    )
    store.store_jobs([JobEntry(job("joined", after=[lead.key, other.key], expect=None))], replace=False)
    took = acquire(node)
    for name in ("lead", "other"):
        of_job = [one for one in took.fired if one.job_name == f"{name}-{round_}"]
        first, *others = of_job[: len(of_job) - 1]
        completions = [
            Completion(first, took.now, took.now, Outcome.FAILED, error="no", retry_after=timedelta(hours=1)),
            *(
                Completion(
                    one,
                    took.now,
                    took.now,
                    Outcome.FAILED if name == "other" else Outcome.SUCCEEDED,
                    error="no" if name == "other" else None,
                    job_data='{"a": 1}' if one.persists_data else None,
                )
                for one in others
            ),
        ]
        assert not store.complete(node, completions).fenced
    dead = [record for record in store.list_nodes().nodes if record.instance_id == node.instance_id]
    outcome = store.recover(survivor, dead)
    assert outcome.recovered
    assert outcome.lost
    again = acquire(survivor)
    assert not store.complete(
        survivor, [Completion(one, again.now, again.now, Outcome.SUCCEEDED) for one in again.fired]
    ).fenced
    return len(took.fired)


@with_early_tables
def test_no_end_reads_what_it_is_not_about(
    store: SqlJobStore,
    connect: Callable[[], psycopg.Connection[Any]],
    monkeypatch: pytest.MonkeyPatch,
    vacuumed: bool,
    costs: Mapping[str, str],
) -> None:
    other = connect()
    # Without the pages and dead entries that other tests have left in them.
    other.execute(f"TRUNCATE {TABLES} CASCADE")
    if vacuumed:
        other.execute("VACUUM ANALYZE")
    watched = Watched(connect(), costs, TABLES.split(", "))
    monkeypatch.setattr(connections, "execute_pipelined", watched.execute)
    survivor = register(store, LIVING)
    assert ends(store, register(store, "first"), survivor, 1) >= 6
    other.execute(FILL + FILL_MORE)
    watched.read.clear()
    assert ends(store, register(store, "second"), survivor, 2) >= 6
    wanted = {text_of(SqlFile(path)(name)): f"{path}:{name}" for path, names in ENDS.items() for name in names}
    assert wanted.keys() <= watched.read.keys(), [wanted[text] for text in wanted.keys() - watched.read.keys()]
    everything = {text_of(text) for text in READ_ALL_EXECUTIONS}
    wasteful = {
        name: watched.read[text]
        for text, name in wanted.items()
        if watched.read[text] > MAX_READ and text not in everything
    }
    assert not wasteful
