"""The due query's cost grows neither with the table nor with what stands at its front and cannot be taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy.config.config import SchedulerConfig
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ENDED, PAUSED_STATES, ActionState, ExecutionState, TriggerState
from quartzpy.store.postgresql import execution_pages, lookups, misfire_pages, pages, time_off
from quartzpy.store.postgresql.admin import audit_log, expectations, history, incidents, search, usage
from quartzpy.store.postgresql.admin.records import Lanes
from quartzpy.store.postgresql.connection.conninfo import session_settings
from quartzpy.store.postgresql.connection.listen import ANNOUNCE
from quartzpy.store.postgresql.left_batches import LEAVE_ENDED
from quartzpy.store.postgresql.pausing import BY_JOB, BY_PAGE, passes
from quartzpy.store.postgresql.removing import DELETE_JOBS, DELETE_SLICE, HOLD_JOBS, HOLD_UPSTREAMS, JOIN_JOBS
from quartzpy.store.postgresql.schema.rows import job_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_text, prepare
from quartzpy.store.postgresql.slices import HOLD
from quartzpy.store.postgresql.steps.acquire import (
    ACQUIRE,
    ACQUIRE_OF_ONE_POOL,
    ACQUIRE_SHARED,
    ACQUIRE_SHARED_OF_ONE_POOL,
    ACQUIRE_UNLIMITED,
    ACQUIRE_UNLIMITED_OF_ONE_POOL,
    LAST_POOL,
    NEXT_DUE,
)
from quartzpy.store.postgresql.steps.misfire import LATE, MOVE
from quartzpy.store.postgresql.steps.node_keys import DECIDE
from quartzpy.store.postgresql.steps.purge import PURGE, PURGE_BREACHES, PURGE_INCIDENTS, PURGE_NOTIFICATIONS
from quartzpy.store.postgresql.steps.recover import ANYTHING_STUCK, OPEN_GATES, REPAIR
from quartzpy.store.postgresql.storing import COMPARE_JOBS, STORE_JOBS
from quartzpy.store.queries import (
    HISTORY,
    ActionQuery,
    AnyQuery,
    ExecutionQuery,
    IncidentQuery,
    JobQuery,
    MisfireQuery,
    Position,
    Rank,
    TriggerOrder,
    TriggerQuery,
)
from tests.database import Server
from tests.waiting import wait_until

LIMIT = 10
SUBMISSIONS, OF_WORKER = SqlFile("steps/submissions.sql"), SqlFile("worker_store.sql")
FILL_JOBS = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, persists_data,
    requests_recovery)
SELECT 'plans', 'DEFAULT', type, type, true, NULL, false, false FROM unnest(ARRAY['known', 'unknown']) AS type;
"""
FILL_TRIGGERS = """
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    placement, max_concurrent, kind, schedule, trigger_state, next_fire_time, upcoming, upcoming_is_complete,
    start_time, priority, misfire_instruction)
SELECT 'plans', n, 'DEFAULT', 't' || n, 'DEFAULT', type, type,
       CASE WHEN n BETWEEN 3001 AND 6000 THEN '{"executor":"elsewhere"}' ELSE '' END, NULL, 'simple', '{}', 'WAITING',
       now() - interval '30 s' + n * interval '1 ms', '{}', true, now(), 5, 'smart'
  FROM (SELECT n, CASE WHEN n <= 3000 THEN 'unknown' ELSE 'known' END AS type
          FROM generate_series(1, 9000) AS n) AS s;
"""
FILL_NODE = """
INSERT INTO qrtz_scheduler_state (sched_name, instance_id, epoch, host, pid, started_at, last_checkin, checkin_count,
    checkin_interval) VALUES ('plans', 'node', 1, 'here', 1, now(), now(), 0, '1 s');
UPDATE qrtz_scheduler_state
   SET runs = (SELECT array_agg(key ORDER BY key)
                 FROM (SELECT hashtextextended(type, hashtextextended('', 0)) AS key
                         FROM unnest(ARRAY['known', 'keyed']
                                     || ARRAY(SELECT 'unused-' || n FROM generate_series(1, 3000) AS n)) AS type) AS t),
       refuses = ARRAY[hashtextextended('unknown', hashtextextended('', 0))];
"""
VALUES: dict[str, Any] = {
    "sched": "plans",
    "instance": "node",
    "epoch": 1,
    "slot_pools": [""],
    "sinces": ["-infinity"],
    "met_pools": ["", '"executor":"elsewhere"'],
    "following_pools": ['"executor":"elsewhere"', LAST_POOL],
    "pool_limits": [LIMIT],
    "executors": ["default"],
    "workers": [LIMIT],
    "groups": [""],
    "group_slots": [LIMIT],
    "channel": "plans",
    "passed_over": [],
    "threshold": "10 min",
    "look_ahead": "1 s",
    "opened_groups": [],
    "opened_jobs": [],
    "opened_keys": [],
    "opened_limits": [],
    "limit": LIMIT,
    "older_than": "7 days",
    "before": None,
    "trigger_group": "DEFAULT",
    "trigger_name": "t2",
    "ended": list(ENDED),
    "since": None,
    "until": None,
}


def of_rows(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """What `MOVE` is bound with, for some triggers."""
    found = connection.execute(
        "SELECT ctid::text, trigger_name, generation, next_fire_time, '{}'::text, 'DEFAULT', true, 0, NULL, 'SKIPPED'"
        "  FROM qrtz_triggers WHERE sched_name = 'plans' ORDER BY generation LIMIT %s",
        [LIMIT],
    ).fetchall()
    rows, names, generations, instants, empty, groups, yes, zeros, none, actions = map(list, zip(*found, strict=True))
    return {
        "rows": rows,
        "groups": groups,
        "names": names,
        "generations": generations,
        "late_fire_times": instants,
        "next": instants,
        "previous": none,
        "times": zeros,
        "starts": instants,
        "schedules": empty,
        "upcoming": empty,
        "complete": yes,
        "revisions": none,
        "missed_times": empty,
        "more": yes,
        "caught_up": zeros,
        "actions": actions,
        "coalesces": yes,
        "at": instants[0],
    }


def nodes_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", []) for found in nodes_of(child))]


@dataclass(frozen=True)
class Fill:
    """What is in the tables, and what the statistics say of it."""

    more: str = ""
    statistics: str = "none"
    then: str = ""

    def __str__(self) -> str:
        return f"statistics: {self.statistics}"


TABLES = (
    "qrtz_executions, qrtz_fired_triggers, qrtz_triggers, qrtz_job_details, qrtz_misfires, qrtz_audit,"
    " qrtz_incidents, qrtz_health_runs, qrtz_expectations, qrtz_breaches, qrtz_notifications, qrtz_job_upstreams"
)


@pytest.fixture(scope="module")
def template_of(postgres_server: Server) -> Iterator[Callable[[str], str]]:
    """Name the database whose triggers are stored, and that has such statistics; "none" is what "good" begins with.

    A copy of it takes a sixth of the time that its rows and their index entries take.
    """
    with ExitStack() as stack:

        @cache
        def filled_once(statistics: str) -> str:
            dsn = stack.enter_context(postgres_server.temporary("quartzpy_plans", postgres_server.tables))
            name = str(make_url(dsn).database)
            with closing(postgres_server.connect(name)) as connection:
                for table in TABLES.split(", "):
                    connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")  # type: ignore[arg-type]
                connection.execute(FILL_JOBS + FILL_TRIGGERS + FILL_NODE)
                if statistics != "none":
                    connection.execute(EARLIER.replace("STATE", statistics))  # type: ignore[arg-type]
                    connection.execute(FILL_TRIGGERS)
            return name

        yield filled_once


@pytest.fixture(scope="module")
def connection(
    template_of: Callable[[str], str], postgres_server: Server, request: pytest.FixtureRequest
) -> Iterator[psycopg.Connection[Any]]:
    """Of a database with the tables that `Fill`, its parameter, describes; they are filled once for all its tests."""
    fill: Fill = request.param
    template = template_of("none" if fill.statistics == "good" else fill.statistics)
    with (
        postgres_server.temporary("quartzpy_plans", template) as dsn,
        closing(postgres_server.connect(make_url(dsn).database)) as connection,
    ):
        connection.prepare_threshold = None
        for setting in session_settings(SchedulerConfig.of({"name": "plans"})).items():
            connection.execute("SELECT set_config(%s, %s, false)", setting)
        connection.execute(fill.more)  # type: ignore[arg-type]
        if fill.statistics == "good":
            connection.execute(f"ANALYZE {TABLES}")  # type: ignore[arg-type]
        connection.execute(fill.then)  # type: ignore[arg-type]
        yield connection


@pytest.fixture(scope="module")
def explain(connection: psycopg.Connection[Any]) -> Callable[..., list[dict[str, Any]]]:
    """Explain statements."""

    def one(text: str, **more: Any) -> list[dict[str, Any]]:
        statement = prepare("s", text)
        values = [as_text({**VALUES, **of_rows(connection), **more}[name]) for name in statement.values]
        connection.execute(b"PREPARE s AS " + statement.sql)
        literals = b", ".join(
            b"NULL" if value is None else b"'" + value.replace(b"'", b"''") + b"'" for value in values
        )
        with connection.transaction(force_rollback=True):
            found = connection.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE s (" + literals + b")"
            ).fetchone()
        connection.execute("DEALLOCATE s")
        assert found is not None
        answer = found[0] if isinstance(found[0], list) else json.loads(found[0])
        return nodes_of(answer[0]["Plan"])

    return one


def filled(*fills: Fill) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("connection", fills, indirect=True, ids=str)


FILL_HISTORY = """
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
job_type,
    instance_id, fired_time, scheduled_time, ended_at, outcome)
SELECT n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 't' || n % 100, 1, 'DEFAULT', 'known',
       'known', 'node', s.at, s.at, s.at, 'SUCCEEDED'
  FROM (SELECT n, now() - interval '1 day' + n * interval '1 s' AS at FROM generate_series(1, 6000) AS n) AS s;
"""
OF_EACH_TRIGGER = 60
HISTORY_QUERIES = {
    "the latest": (HISTORY, LIMIT + 1),
    "of a trigger": (ExecutionQuery(trigger_key=TriggerKey("t2", "DEFAULT")), OF_EACH_TRIGGER + LIMIT),
    "to come": (ExecutionQuery(frozenset({ExecutionState.SCHEDULED})), 4 * LIMIT),
}


@filled(Fill(FILL_HISTORY), Fill(FILL_HISTORY, "good"))
@pytest.mark.parametrize(("wanted", "most"), HISTORY_QUERIES.values(), ids=HISTORY_QUERIES)
def test_executions_are_read_off_the_end_of_their_index(
    explain: Callable[..., list[dict[str, Any]]],
    wanted: ExecutionQuery,
    most: int,
) -> None:
    text, values = pages.text_and_values(wanted, None, LIMIT)
    assert read(explain(text, **values)) <= most


@filled(Fill(FILL_HISTORY), Fill(FILL_HISTORY, "good"))
def test_the_attempts_of_a_fire_are_looked_up_one_by_one(explain: Callable[..., list[dict[str, Any]]]) -> None:
    assert read(explain(history.ATTEMPTS, fire_ids=[2, 4_000, 6_000], limit=50)) <= 3


FILL_PAGES = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery)
SELECT 'plans', 'pages', 'j' || lpad(n::text, 4, '0'), 'known', true, false, false FROM generate_series(1, 3000) AS n;
UPDATE qrtz_triggers SET trigger_state = 'ERROR' WHERE sched_name = 'plans' AND generation % 1000 = 7;
UPDATE qrtz_triggers SET job_name = 'j0005', job_group = 'pages' WHERE sched_name = 'plans' AND generation % 1000 = 8;
UPDATE qrtz_executions SET outcome = 'FAILED' WHERE sched_name = 'plans' AND fire_id % 1000 = 0;
UPDATE qrtz_executions SET retry_at = now() WHERE sched_name = 'plans' AND fire_id % 3000 = 0;
INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, instance_id,
    handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up)
SELECT n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 't' || n % 100, 1, 'DEFAULT', 'known', 'node',
       now(), 'smart', 'SKIPPED', now(), '{}', false, 0
  FROM generate_series(1, 6000) AS n;
INSERT INTO qrtz_audit (id, sched_name, at, actor, role, action, subject, reason, state, count)
SELECT n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, now(), 'ann', 'admin', 'pause', 'trigger g.t' || n % 100,
       '', CASE n % 1000 WHEN 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 1
  FROM generate_series(1, 6000) AS n;
"""
# One execution a minute for two weeks, of which one took three hours.
FILL_OFTEN = """
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, fired_time, scheduled_time, ended_at, outcome)
SELECT 10000 + n, 'plans', 'DEFAULT', 'often', 1, 'DEFAULT', 'known', 'known', 'node', s.at, s.at,
       s.at + CASE n WHEN 19000 THEN interval '3 hours' ELSE interval '1 second' END,
       CASE n WHEN 3 THEN 'CANCELLED' ELSE 'SUCCEEDED' END
  FROM (SELECT n, now() - interval '2 days' - (20000 - n) * interval '1 minute' AS at
          FROM generate_series(1, 20000) AS n) AS s;
"""
_THEN = datetime.now(UTC) - timedelta(days=5)
_OFTEN = TriggerKey("often")
_OLD = ExecutionQuery(since=_THEN - timedelta(days=2), until=_THEN)
_EVERY_RULE = 8
BOUNDED: dict[str, tuple[AnyQuery, Position | None, int]] = {
    "of a trigger that fires often": (ExecutionQuery(trigger_key=_OFTEN), None, 61 + 4 * LIMIT),
    "of it, on a later page": (ExecutionQuery(trigger_key=_OFTEN), (False, _THEN, 12_000, "", ""), 61 + 5 * LIMIT),
    "scheduled long ago": (_OLD, None, 61 + 5 + 3 * LIMIT),
    "of no node": (ExecutionQuery(instance_id="nobody", among=500), None, 500 + 2 * LIMIT),
    "with an outcome that is rare": (
        ExecutionQuery(states=frozenset({ExecutionState.CANCELLED}), among=500),
        None,
        500 + 2 * LIMIT,
    ),
    "triggers by next fire time": (TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME), None, _EVERY_RULE * 2 * LIMIT),
    "triggers that are blocked": (TriggerQuery(states=frozenset({TriggerState.BLOCKED})), None, 0),
}


@filled(Fill(FILL_HISTORY + FILL_OFTEN), Fill(FILL_HISTORY + FILL_OFTEN, "good"))
@pytest.mark.parametrize(("query", "after", "most"), BOUNDED.values(), ids=BOUNDED)
def test_a_page_does_not_read_the_whole_history(
    explain: Callable[..., list[dict[str, Any]]],
    query: AnyQuery,
    after: Position | None,
    most: int,
) -> None:
    text, values = pages.text_and_values(query, after, LIMIT)
    assert read(explain(text, **values)) <= most


@filled(Fill(), Fill(statistics="good"))
def test_a_later_page_of_triggers_by_their_next_fire_times_is_read_from_its_cursor_on(
    connection: psycopg.Connection[Any], explain: Callable[..., list[dict[str, Any]]]
) -> None:
    row = connection.execute("SELECT next_fire_time FROM qrtz_triggers WHERE trigger_name = 't8000'").fetchone()
    assert row is not None
    after = (row[0], -5, "DEFAULT", "t8000")
    text, values = pages.text_and_values(TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME), after, LIMIT)
    assert read(explain(text, **values)) <= _EVERY_RULE * 2 * LIMIT


_CELLS: dict[str, Any] = {
    "start": _THEN - timedelta(hours=1),
    "end": _THEN,
    "margin": timedelta(hours=1),
    "cells": 10,
    "lanes": 10,
    "bars": 10,
    "limit": 1_000,
}
"""An hour of which few executions are returned in full, and the hour after it."""


@filled(Fill(FILL_HISTORY + FILL_OFTEN), Fill(FILL_HISTORY + FILL_OFTEN, "good"))
@pytest.mark.parametrize("by", Lanes)
def test_a_timeline_reads_the_executions_of_its_span_alone(
    explain: Callable[..., list[dict[str, Any]]], by: Lanes
) -> None:
    """One a minute ended in two hours of two weeks, of which the second is the margin. By job, they are read twice.

    The end of the margin is looked up before, which reads an index alone.
    """
    times = 2 if by is Lanes.JOB else 1
    assert read(explain(history.cells_text(by, in_group=False), **_CELLS, most_after=1_000)) <= 61 + 130 * times
    assert read(explain(history.cells_text(by, in_group=False), **_CELLS, most_after=5)) <= 7 + 75 * times


def is_all_visible(connection: psycopg.Connection[Any], table: str) -> bool:
    """Vacuum the table, and return whether its rows are visible to all.

    A session that just begins, of any database, counts as one that may not see them.
    """
    connection.execute(f"VACUUM {table}")  # type: ignore[arg-type]
    found = connection.execute("SELECT relallvisible = relpages FROM pg_class WHERE oid = %s::regclass", [table])
    return found.fetchone() == (True,)


@filled(Fill(FILL_HISTORY + FILL_OFTEN), Fill(FILL_HISTORY + FILL_OFTEN, "good"))
def test_a_timeline_by_node_reads_an_index_alone(
    connection: psycopg.Connection[Any], explain: Callable[..., list[dict[str, Any]]]
) -> None:
    """Of the two hours, the table has what was looked at after the span, and what is returned in full."""
    wait_until(lambda: is_all_visible(connection, "qrtz_executions"))
    plan = explain(history.cells_text(Lanes.NODE, in_group=False), **_CELLS, most_after=5)
    from_index = [node for node in plan if node["Node Type"] == "Index Only Scan"]
    assert {(node["Index Name"], node["Heap Fetches"]) for node in from_index} == {("qrtz_executions_ended", 0)}
    assert read(from_index) == pytest.approx(66, abs=1)
    assert read(plan) - read(from_index) <= 10


FILL_PAUSES = """
INSERT INTO qrtz_audit (id, sched_name, at, actor, role, action, subject, reason, state, count)
SELECT n, 'plans', now() - (20000 - n) * interval '1 minute', 'ann', 'operator',
       CASE WHEN n % 2 = 0 THEN 'pause' ELSE 'resume' END,
       CASE WHEN n IN (10000, 10001) THEN 'everything' ELSE 'trigger DEFAULT.t' || n % 1000 / 2 END, '', 'SUCCEEDED', 1
  FROM generate_series(1, 20000) AS n;
"""


@filled(Fill(FILL_PAUSES), Fill(FILL_PAUSES, "good"))
def test_a_timeline_by_node_reads_the_pauses_of_everything_alone(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    span = {"start": _THEN - timedelta(days=5), "end": datetime.now(UTC), "among": 20_000}
    plan = explain(audit_log.ENDED_PAUSES_OF_EVERYTHING, **span, limit=1_000)
    assert plan[0]["Actual Rows"] == 1
    assert read(plan) <= 10


@filled(Fill(FILL_PAUSES), Fill(FILL_PAUSES, "good"))
def test_a_timeline_since_whose_start_nothing_was_resumed_reads_no_pauses(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    """The last of the entries, one a minute, is a pause."""
    now = datetime.now(UTC)
    span = {"end": now + timedelta(minutes=1), "among": 20_000, "limit": 1_000}
    assert read(explain(audit_log.ENDED_PAUSES, start=now - timedelta(seconds=30), **span)) <= 10
    assert read(explain(audit_log.ENDED_PAUSES, start=now - timedelta(seconds=90), **span)) > 1_000


@filled(Fill(FILL_PAGES), Fill(FILL_PAGES, "good"))
@pytest.mark.parametrize("by", Lanes)
def test_a_timeline_counts_the_latest_misfires_alone(explain: Callable[..., list[dict[str, Any]]], by: Lanes) -> None:
    span = {"start": _THEN, "end": _THEN + timedelta(days=30), "cells": 10, "limit": _SOME}
    assert 0 < read(explain(history.misfires_text(by, in_group=False), **span)) <= _SOME


AMONG = 200
_MANY = JobKey("known")
_SOME_TIME_AGO = datetime.now(UTC) - timedelta(hours=23)
PAGES: dict[str, tuple[AnyQuery, Position | None, int]] = {
    "jobs": (JobQuery(), ("pages", "j2000"), 2 * LIMIT),
    "jobs of a group": (JobQuery(group=GroupMatcher.equals("pages")), ("pages", "j2000"), 2 * LIMIT),
    "triggers": (TriggerQuery(), ("DEFAULT", "t5000"), 2 * LIMIT),
    "triggers of a group": (TriggerQuery(group=GroupMatcher.equals("DEFAULT")), ("DEFAULT", "t5000"), 2 * LIMIT),
    "triggers in ERROR": (TriggerQuery(states=frozenset({TriggerState.ERROR})), ("DEFAULT", "t2"), 2 * LIMIT),
    "triggers of a job": (TriggerQuery(job_key=JobKey("j0005", "pages")), ("DEFAULT", "t4"), 2 * LIMIT),
    "the history": (ExecutionQuery(), (False, _SOME_TIME_AGO, 3000, "DEFAULT", "t2"), 3 * LIMIT),
    "exhausted executions": (ExecutionQuery(exhausted=True), (False, _SOME_TIME_AGO, 4000, "DEFAULT", "t0"), 3 * LIMIT),
    "misfires": (MisfireQuery(), (3000,), 2 * LIMIT),
    "misfires of a trigger": (MisfireQuery(trigger_key=TriggerKey("t2")), (3000,), 2 * LIMIT),
    "triggers with an unknown part in the name": (TriggerQuery(contains="?", among=AMONG), ("DEFAULT", "t5000"), AMONG),
    "triggers that repeat": (TriggerQuery(by_schedule=True, among=AMONG), ("DEFAULT", "t5000"), 3 * LIMIT),
    "triggers that repeat, by time": (
        TriggerQuery(by_schedule=True, order=TriggerOrder.NEXT_FIRE_TIME, among=AMONG),
        None,
        _EVERY_RULE * 2 * AMONG,
    ),
    "triggers of an unknown kind": (TriggerQuery(kind="?", among=AMONG), ("DEFAULT", "t5000"), AMONG),
    "triggers with an unknown part in the name, by time": (
        TriggerQuery(contains="?", order=TriggerOrder.NEXT_FIRE_TIME, among=AMONG),
        None,
        _EVERY_RULE * 2 * AMONG,
    ),
    "triggers of a job that has many": (TriggerQuery(job_key=_MANY, among=AMONG), ("DEFAULT", "t5000"), 2 * AMONG + 2),
    "triggers of a job that has many, by time": (
        TriggerQuery(job_key=_MANY, order=TriggerOrder.NEXT_FIRE_TIME, among=AMONG),
        None,
        (1 + _EVERY_RULE * 2) * AMONG,
    ),
    "triggers of several states": (
        TriggerQuery(states=frozenset({TriggerState.ERROR, TriggerState.PAUSED})),
        ("DEFAULT", "t2"),
        3 * LIMIT,
    ),
    "a job that has many triggers": (JobQuery(job_key=_MANY, most_triggers=50), None, 52),
    "misfires of no node": (MisfireQuery(instance_id="?", among=AMONG), (3000,), AMONG),
    "jobs with an unknown part in the name": (JobQuery(contains="?", among=AMONG), ("pages", "j2000"), AMONG),
    "actions of an unknown name": (ActionQuery(action="?", among=AMONG), (3000,), AMONG),
    "actions": (ActionQuery(), (3000,), 2 * LIMIT),
    "actions on a trigger": (ActionQuery(subject="trigger g.t2"), (3000,), 2 * LIMIT),
    "failed actions": (ActionQuery(state=ActionState.FAILED), (5000,), 2 * LIMIT),
}


@filled(Fill(FILL_HISTORY + FILL_PAGES), Fill(FILL_HISTORY + FILL_PAGES, "good"))
@pytest.mark.parametrize(("query", "after", "most"), PAGES.values(), ids=PAGES)
def test_a_page_is_read_from_its_cursor_on(
    explain: Callable[..., list[dict[str, Any]]],
    query: AnyQuery,
    after: Position | None,
    most: int,
) -> None:
    text, values = pages.text_and_values(query, after, LIMIT)
    assert 0 < read(explain(text, **values)) <= most


@filled(Fill(FILL_HISTORY + FILL_PAGES), Fill(FILL_HISTORY + FILL_PAGES, "good"))
@pytest.mark.parametrize(("text", "group"), [(lookups.NEAR_JOBS, "pages"), (lookups.NEAR_TRIGGERS, "DEFAULT")])
def test_the_hint_for_a_key_that_is_not_stored_reads_few_keys(
    explain: Callable[..., list[dict[str, Any]]],
    text: str,
    group: str,
) -> None:
    assert 0 < read(explain(text, group=group, name="t5000x", limit=LIMIT)) <= 4 * LIMIT + 10 * 5


@filled(Fill(FILL_HISTORY + FILL_PAGES), Fill(FILL_HISTORY + FILL_PAGES, "good"))
@pytest.mark.parametrize("kind", [JobKey, TriggerKey])
def test_a_page_of_the_search_reads_no_more_keys_than_it_may_examine(
    explain: Callable[..., list[dict[str, Any]]], kind: type[JobKey] | type[TriggerKey]
) -> None:
    page = {"pattern": "%nothing%", "walked": LIMIT, "among": 500, "after_group": "", "after_name": ""}
    assert read(explain(search.MATCHING[kind], **page)) <= 501
    assert read(explain(search.LAST_EXAMINED[kind], **page)) <= 501
    near = {"part": "t5", "exact_group": "DEFAULT", "exact_name": "t5", "pattern": "%t5%"}
    assert 0 < read(explain(search.NEAR[kind], **near)) <= 3 * LIMIT + 10


@filled(Fill(FILL_HISTORY + FILL_PAGES), Fill(FILL_HISTORY + FILL_PAGES, "good"))
def test_jobs_that_are_stored_again_are_looked_up_one_by_one(explain: Callable[..., list[dict[str, Any]]]) -> None:
    names = [f"j{number:04}" for number in range(1, 1001)]
    copied: dict[str, Any] = {
        "job_group_list": ["pages"] * len(names),
        "job_name_list": names,
        "job_type_list": ["known"] * len(names),
        "max_concurrent_list": [None] * len(names),
        "overlap_policy_list": ["block"] * len(names),
        "placement_list": [""] * len(names),
        "key_entry_list": [None] * len(names),
        "rate_limit_list": [None] * len(names),
        "limits_list": [None] * len(names),
    }
    plan = explain(COMPARE_JOBS, **copied)
    assert plan[0]["Actual Rows"] == len(names)
    assert read(plan) <= 2 * len(names)


FILL_JOINS = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery,
    after, joined_by)
SELECT 'plans', 'joins', kind || n, 'known', true, false, false,
       CASE kind WHEN 'down-' THEN jsonb_build_object('jobs', other.jobs, 'outcomes', '["SUCCEEDED"]'::jsonb,
                                                      'needed', 1, 'per', 'instant', 'time_zone', 'UTC') END,
       CASE kind WHEN 'up-' THEN other.jobs END
  FROM unnest(ARRAY['up-', 'down-']) AS kind
 CROSS JOIN generate_series(1, 3000) AS n
 CROSS JOIN LATERAL (
    SELECT jsonb_build_array(jsonb_build_object(
               'job_group', 'joins', 'job_name', CASE kind WHEN 'up-' THEN 'down-' ELSE 'up-' END || n)) AS jobs
     ) AS other;
INSERT INTO qrtz_job_upstreams (sched_name, job_group, job_name, upstream_group, upstream_name)
SELECT 'plans', 'joins', 'down-' || n, 'joins', 'up-' || n FROM generate_series(1, 3000) AS n;
"""


@filled(Fill(FILL_JOINS), Fill(FILL_JOINS, "good"), Fill("ANALYZE qrtz_job_details, qrtz_job_upstreams;" + FILL_JOINS))
def test_what_is_stored_or_deleted_reads_few_of_the_jobs_that_wait_for_others(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    again = job_columns([JobDetail("known", "up-1", group="joins"), JobDetail("known", "new", group="joins")])
    assert read(explain(STORE_JOBS, **again, replace=True, keeps_data=False, keeps_persisted=False)) <= 10
    gone = {"groups": ["joins"] * 3, "names": ["down-1", "up-2", "gone"]}
    assert read(explain(HOLD_JOBS, **gone)) <= 10
    assert read(explain(DELETE_JOBS, **gone)) <= 10
    assert read(explain(HOLD_UPSTREAMS, **gone)) <= 10
    assert read(explain(JOIN_JOBS, **gone)) <= 20


# The job of 6,000 of the 9,000 triggers is at its limit; no row of these says so.
FULL_JOB = """
UPDATE qrtz_job_details SET max_concurrent = 1 WHERE job_name = 'known';
UPDATE qrtz_triggers SET max_concurrent = 1 WHERE job_name = 'known' AND sched_name = 'plans';
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent, requests_recovery)
VALUES (1, 'plans', 'DEFAULT', 'another', 1, 'DEFAULT', 'known', 'known', 'node', 1, now(), now(), 5, 1,
    false);
"""
_SOME = 100
_BLOCKED = frozenset({TriggerState.BLOCKED})
_FIRES = frozenset({TriggerState.WAITING, TriggerState.BLOCKED})
_WAITING = frozenset({TriggerState.WAITING})
_PAUSED = frozenset({TriggerState.PAUSED})
_TIME = TriggerOrder.NEXT_FIRE_TIME
SEEN: dict[str, tuple[TriggerQuery, int]] = {
    "blocked": (TriggerQuery(states=_BLOCKED, among=_SOME), 2 * _SOME + LIMIT),
    "blocked, any number": (TriggerQuery(states=_BLOCKED), 3_000 + 2 * _SOME),
    "blocked, by time": (TriggerQuery(states=_BLOCKED, order=_TIME, among=_SOME), 8 * _SOME),
    "blocked, by time, any number": (TriggerQuery(states=_BLOCKED, order=_TIME), 3_000 + 8 * _SOME),
    "waiting, by time": (TriggerQuery(states=_WAITING, order=_TIME, among=_SOME), 8 * _SOME),
    "waiting": (TriggerQuery(states=_WAITING, among=_SOME), 2 * _SOME),
    "in all states that fire, by time": (TriggerQuery(states=_FIRES, order=_TIME), _EVERY_RULE * 2 * LIMIT),
    "paused": (TriggerQuery(states=_PAUSED), 0),
}


@filled(Fill(then=FULL_JOB), Fill(statistics="good", then=FULL_JOB))
@pytest.mark.parametrize(("query", "most"), SEEN.values(), ids=SEEN)
def test_a_page_of_a_state_reads_few_of_the_triggers_that_wait_for_a_slot(
    explain: Callable[..., list[dict[str, Any]]], query: TriggerQuery, most: int
) -> None:
    """A page that may examine any number of triggers reads the 3,000 of the other job too if they come first."""
    text, values = pages.text_and_values(query, None, LIMIT)
    assert read(explain(text, **{**values, "most_few": _SOME})) <= most


BLOCKED_JOB = "UPDATE qrtz_triggers SET trigger_state = 'BLOCKED' WHERE job_name = 'known' AND sched_name = 'plans';"


@filled(Fill(then=BLOCKED_JOB), Fill(statistics="good", then=BLOCKED_JOB))
@pytest.mark.parametrize("states", [_BLOCKED, _FIRES], ids=["blocked", "all that fire"])
def test_a_page_by_time_reads_few_of_the_6000_rows_of_one_job_that_say_that_they_wait(
    explain: Callable[..., list[dict[str, Any]]], states: frozenset[TriggerState]
) -> None:
    text, values = pages.text_and_values(TriggerQuery(states=states, order=_TIME), None, LIMIT)
    assert 0 < read(explain(text, **values)) <= _EVERY_RULE * 4 * LIMIT


@filled(Fill(then=FULL_JOB), Fill(statistics="good", then=FULL_JOB))
@pytest.mark.parametrize(
    ("text", "values", "most"),
    [
        (lookups.TRIGGERS, {"groups": ["DEFAULT"], "names": ["t5000"]}, 2),
        (lookups.LOAD, {"most": _SOME, "late_after": "5 s"}, 8 * _SOME),
        (usage.TALLIES, {"most": _SOME}, 12 * _SOME),
        (usage.OVERDUE, {"most": _SOME, "late": "10 s", "limit": 200}, 8 * _SOME),
    ],
    ids=["a trigger", "the load", "the numbers by state", "the late ones by job"],
)
def test_other_reads_read_few_of_the_triggers_that_wait_for_a_slot(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any], most: int
) -> None:
    assert 0 < read(explain(text, **values)) <= most


@filled(Fill(FILL_HISTORY), Fill(FILL_HISTORY, "good"))
@pytest.mark.parametrize(
    ("text", "values"),
    [
        (history.FAILING_JOBS, {"limit": 200, "among": _SOME, "recent": 20, "fewest": 3}),
    ],
    ids=["the jobs that fail"],
)
def test_jobs_are_judged_by_the_latest_executions_only(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any]
) -> None:
    assert 0 < read(explain(text, **values)) <= 2 * _SOME


@filled(Fill(FILL_HISTORY + FILL_OFTEN), Fill(FILL_HISTORY + FILL_OFTEN, "good"))
def test_the_health_of_jobs_is_read_from_a_few_executions_of_each(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    """Of a job with 3,000 triggers, the latest executions of four are looked at."""
    values = history.values_of_health([JobKey(name) for name in ("unknown", "a", "b")], _SOME)
    plan = explain(history.JOB_HEALTH, **values)
    assert _SOME < read(plan) <= _SOME + 4 + 4 * values["most_of_each"]
    assert not [node for node in plan if node["Node Type"] == "Seq Scan"]
    values = history.values_of_health([TriggerKey("t2"), TriggerKey("often"), TriggerKey("none")], _SOME)
    plan = explain(history.TRIGGER_HEALTH, **values)
    assert values["most_of_each"] < read(plan) <= 2 * values["most_of_each"]


@filled(Fill(FILL_HISTORY + FILL_OFTEN), Fill(FILL_HISTORY + FILL_OFTEN, "good"))
@pytest.mark.parametrize("by", Rank)
@pytest.mark.parametrize(
    ("query", "most"),
    [
        (ExecutionQuery(), _SOME + 1),
        (ExecutionQuery(job_key=JobKey("none"), exhausted=True), _SOME + 1),
        (ExecutionQuery(trigger_key=_OFTEN), _SOME),
        # One took three hours, and one a minute is scheduled within two days and ends within the margin.
        (_OLD, _SOME + 1),
    ],
    ids=["of all", "of a job", "of a trigger", "of a span"],
)
def test_the_longest_executions_are_found_among_the_latest(
    explain: Callable[..., list[dict[str, Any]]], query: ExecutionQuery, by: Rank, most: int
) -> None:
    values = execution_pages.values_of_executions(query, None)
    plan = explain(execution_pages.ranked_text(query, by), **{**values, "among": _SOME, "limit": LIMIT})
    assert _SOME <= read(plan) <= most


@filled(Fill(FILL_HISTORY + FILL_PAGES), Fill(FILL_HISTORY + FILL_PAGES, "good"))
@pytest.mark.parametrize(
    ("text", "values"),
    [
        (misfire_pages.RECENT, {"most": _SOME, "within": "1 day"}),
        (usage.UNSCHEDULED, {"most": _SOME, "groups": ["DEFAULT", "none"]}),
        (usage.PAUSED_OVERDUE, {"most": _SOME, "limit": 200}),
        (usage.JOB_GROUPS, {"most": _SOME, "limit": 10, "after_group": "", "among": _SOME}),
        (audit_log.NODE_ENDS, {"among": _SOME, "limit": 50}),
    ],
    ids=[
        "recent misfires",
        "unscheduled triggers",
        "the missed fires of pauses",
        "the groups of jobs",
        "the nodes that ended",
    ],
)
def test_what_the_overview_counts_is_bounded(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any]
) -> None:
    assert read(explain(text, **values)) <= 5 * _SOME


FILL_PAUSED = """
UPDATE qrtz_triggers SET trigger_state = 'PAUSED', next_fire_time = now() + generation * interval '1 hour'
 WHERE sched_name = 'plans' AND generation > 2000;
"""


@filled(Fill(FILL_PAUSED, then="VACUUM qrtz_triggers"), Fill(FILL_PAUSED, then="VACUUM (ANALYZE) qrtz_triggers"))
@pytest.mark.parametrize(
    ("text", "values", "most"),
    [
        (usage.PAUSED_OVERDUE, {"most": 10_000, "limit": 200}, 0),
        (
            *pages.text_and_values(
                TriggerQuery(states=frozenset(PAUSED_STATES), order=TriggerOrder.NEXT_FIRE_TIME), None, LIMIT
            ),
            # A look at the index and one at the row; of the index, what one group of an incremental sort takes.
            10 * LIMIT,
        ),
    ],
    ids=["those that are due", "those that fire first when they are resumed"],
)
def test_of_the_paused_triggers_an_index_has_the_order_of_the_fire_times(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any], most: int
) -> None:
    assert read(explain(text, **values)) <= most


@filled(Fill(FILL_HISTORY), Fill(FILL_HISTORY, "good"))
def test_purging_reads_nothing_of_what_stays(
    explain: Callable[[str], list[dict[str, Any]]],
) -> None:
    assert read(explain(PURGE, since="-infinity")) == 0


FILL_INCIDENTS = """
INSERT INTO qrtz_health_runs (sched_name, due_at) VALUES ('plans', '2026-01-01 00:00:00+00');
INSERT INTO qrtz_incidents (id, sched_name, kind, subject, identity, severity, cause, began_as, what, why, opened_at,
    confirmed_at, closed_at)
SELECT n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'trigger-error', 't' || n, md5(n::text), 'error', '',
       'It is.', 'It is.', '[]', now() - n * interval '1 min', now(),
       CASE WHEN n > 60 THEN now() - n * interval '1 min' END
  FROM generate_series(1, 20000) AS n;
INSERT INTO qrtz_notifications (sched_name, id, channel, event, message, created_at)
SELECT CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'n' || n, 'ops', 'began', '{}', now() - n * interval '1 min'
  FROM generate_series(1, 20000) AS n;
-- The oldest ones last.
INSERT INTO qrtz_breaches (id, sched_name, trigger_group, trigger_name, job_group, job_name, scheduled_time, kind, what,
    why, found_at, in_a_row, since, over_at)
SELECT 20001 - n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 't' || n, 'DEFAULT', 'j', now(),
       'ends-late', '', '[]', now(), 1, now(), CASE WHEN n < 19000 THEN now() - n * interval '1 min' END
  FROM generate_series(1, 20000) AS n;
"""
_A_DAY_AGO = datetime.now(UTC) - timedelta(days=1)
OF_INCIDENTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "those that last": (incidents.OPEN_INCIDENTS, {"limit": 5_000}, 30),
    "one": (incidents.INCIDENT, {"incident_id": 10_000}, 1),
    # With those that last, which each node is told.
    "a turn": (incidents.TAKE_SLOT, {"every": "5 s", "listed_every": "1 min", "most": 20}, 3 + 20),
    "the end of some": (incidents.CLOSE, {"incident_ids": [2, 4], "turn": "2026-01-01 00:00:00+00"}, 32),
    "some notifications": (incidents.NOTIFICATIONS, {"notification_ids": ["n2", "n4", "n6"]}, 3),
    "the attempt of one": (incidents.NOTE_ATTEMPT, {"notification_id": "n2", "error": None, "is_last": False}, 1),
    "the oldest notifications": (PURGE_NOTIFICATIONS, {"older_than": "30 days", "limit": 100}, 0),
    "the oldest notifications but some": (PURGE_NOTIFICATIONS, {"older_than": "10 days", "limit": 100}, 200),
    "the oldest breaches": (PURGE_BREACHES, {"older_than": "30 days", "limit": 100}, 0),
    "the oldest breaches but some": (PURGE_BREACHES, {"older_than": "10 days", "limit": 100}, 200),
    "the oldest": (PURGE_INCIDENTS, {"older_than": "30 days", "limit": 100}, 0),
    "the oldest but some": (PURGE_INCIDENTS, {"older_than": "10 days", "limit": 100}, 200),
    **{
        name: (*pages.text_and_values(query, after, LIMIT), most)
        for name, query, after, most in (
            ("the latest that are over", IncidentQuery(), None, LIMIT),
            ("of the last day", IncidentQuery(since=_A_DAY_AGO), None, LIMIT),
            ("on a later page", IncidentQuery(since=_A_DAY_AGO), (_A_DAY_AGO + timedelta(hours=1), 5), 30),
            ("with a text that none has", IncidentQuery(contains="elsewhere", among=500), None, 500),
            ("of a kind that none has", IncidentQuery(kind="dead-node", since=_A_DAY_AGO, among=500), None, 500),
        )
    },
}


FILL_ENDED = """
UPDATE qrtz_triggers SET trigger_state = 'COMPLETE', next_fire_time = NULL, prev_fire_time = now()
 WHERE trigger_name <> 't1';
UPDATE qrtz_triggers SET trigger_state = 'COMPLETE', next_fire_time = NULL WHERE trigger_name = 't1';
"""


@filled(Fill(FILL_ENDED), Fill(FILL_ENDED, "good"))
def test_only_triggers_that_ended_without_a_fire_are_read_for_the_batches_that_wait_for_them(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    assert read(explain(LEAVE_ENDED)) <= 1


@filled(Fill(), Fill(statistics="good"))
def test_where_nothing_is_late_no_trigger_that_waits_is_read(explain: Callable[..., list[dict[str, Any]]]) -> None:
    assert read(explain(usage.OVERDUE, most=_SOME, late="1 day", limit=200)) <= _SOME


@filled(Fill(FILL_INCIDENTS), Fill(FILL_INCIDENTS, "good"))
@pytest.mark.parametrize(("text", "values", "most"), OF_INCIDENTS.values(), ids=OF_INCIDENTS)
def test_incidents_are_read_by_their_indices(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any], most: int
) -> None:
    assert read(explain(text, **values)) <= most


FILL_EXPECTATIONS = """
INSERT INTO qrtz_health_runs (sched_name, due_at, listed_at) VALUES ('plans', now(), now());
INSERT INTO qrtz_expectations (sched_name, trigger_group, trigger_name, generation, due_at, checkpoint)
SELECT CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 'w' || n, n,
       now() + (n - 100) * interval '1 min', '{"created": "2026-01-01T00:00:00+00:00"}'
  FROM generate_series(1, 20000) AS n;
INSERT INTO qrtz_breaches (id, sched_name, trigger_group, trigger_name, job_group, job_name, scheduled_time, kind, what,
    why, found_at, in_a_row, since, over_at)
SELECT n, CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 'w' || n % 100, 'DEFAULT', 'known',
       now() - n * interval '1 min', 'starts-late', '', '[]', now(), 1, now(), CASE WHEN n > 20 THEN now() END
  FROM generate_series(1, 20000) AS n;
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery,
    expect)
SELECT 'plans', 'DEFAULT', 'job' || n, 'known', true, false, false,
       CASE WHEN n <= 3 THEN '{"starts_within_us": 5}'::jsonb END
  FROM generate_series(1, 5000) AS n;
INSERT INTO qrtz_joins (sched_name, job_group, job_name, occasion, state, opened_at, due_at)
SELECT CASE n % 2 WHEN 0 THEN 'plans' ELSE 'another' END, 'DEFAULT', 'known',
       to_char(now() - n * interval '1 min', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'WAITING', now(),
       CASE WHEN n <= 40 THEN now() - interval '1 s' WHEN n < 10000 THEN now() + n * interval '1 min' END
  FROM generate_series(1, 20000) AS n;
UPDATE qrtz_triggers SET job_name = 'job' || substr(trigger_name, 2)
 WHERE sched_name = 'plans' AND trigger_name IN ('t1', 't2', 't3');
UPDATE qrtz_triggers SET schedule = '{"expect": {"starts_within_us": 5}}'
 WHERE sched_name = 'plans' AND trigger_name IN ('t3', 't4');
"""
OF_EXPECTATIONS: dict[str, tuple[str, dict[str, Any], int]] = {
    # Each with the breach and the join of its job.
    "joins that are late": (expectations.LATE_JOINS, {"limit": 200}, 20),
    "joins that are late no more": (expectations.END_LATE_JOINS, {}, 20),
    "those that are due": (expectations.DUE_EXPECTATIONS, {"limit": 200}, 50),
    "of many that are due": (expectations.DUE_EXPECTATIONS, {"limit": 10}, 10),
    "no list, before its time": (expectations.LIST_EXPECTED, {"every": "1 h", "among": 5_000}, 2),
    # Three jobs, their triggers, and two triggers; each of the four is compared and stored.
    "a list": (expectations.LIST_EXPECTED, {"every": "-1 s", "among": 5_000}, 20),
    "what lasts": (expectations.LASTING_BREACHES, {"limit": 200}, 20),
    "what lasts of a trigger": (expectations.BREACHES_OF_TRIGGER, {"group": "DEFAULT", "name": "w4", "limit": 10}, 2),
}


@filled(Fill(FILL_EXPECTATIONS), Fill(FILL_EXPECTATIONS, "good"))
@pytest.mark.parametrize(("text", "values", "most"), OF_EXPECTATIONS.values(), ids=OF_EXPECTATIONS)
def test_what_is_not_due_and_not_expected_is_not_read(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any], most: int
) -> None:
    assert read(explain(text, **values)) <= most


def read(plan: list[dict[str, Any]]) -> int:
    """How many rows are read, those of them too that a filter drops."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in plan
        if "Scan" in node["Node Type"] and "Relation Name" in node
    )


# Of 6,000 executions that run, one on a worker.
FILL_FIRES = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, requests_recovery)
SELECT n, 'plans', 'DEFAULT', 't' || n, n, 'DEFAULT', 'known', 'known', 'node', 1, now(), now(), 5, false
  FROM generate_series(1, 6000) AS n;
UPDATE qrtz_fired_triggers SET submission = 1, worker = 'gpu:1' WHERE fire_id = 4000;
"""
ON_A_WORKER: dict[str, Any] = {"fire_id": 4_000, "scheduler": "plans", "submission": 1, "ending": "{}"}
OF_SUBMISSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "submit": (SUBMISSIONS.submit, {"fire_ids": [1, 3_000], "outlives": [True, False], "refires": [False, False]}),
    "submitted": (SUBMISSIONS.submitted, {"fire_ids": [1, 4_000]}),
    "settle": (SUBMISSIONS.settle, {"fire_ids": [1, 4_000], "submissions": [1, 1]}),
    "take": (OF_WORKER.take, {**ON_A_WORKER, "worker": "gpu:1"}),
    "touch": (
        OF_WORKER.touch,
        {
            "schedulers": ["plans", "plans"],
            "fire_ids": [1, 4_000],
            "submissions": [1, 1],
            "reports": [True, True],
            "fractions": [0.5, 0.5],
            "messages": ["", ""],
            "logs": ["", ""],
        },
    ),
    "stands": (OF_WORKER("stands", ends=True), ON_A_WORKER),
    "finish": (OF_WORKER.finish, ON_A_WORKER),
}


@filled(Fill(FILL_FIRES), Fill(FILL_FIRES, "good"), Fill(then=FILL_FIRES))
@pytest.mark.parametrize(("text", "values"), OF_SUBMISSIONS.values(), ids=OF_SUBMISSIONS)
def test_a_submission_is_found_by_its_key(
    explain: Callable[..., list[dict[str, Any]]], text: str, values: dict[str, Any]
) -> None:
    plan = explain(text, **values)
    assert read(plan) <= 8
    scans = [node for node in plan if node.get("Relation Name") == "qrtz_fired_triggers" and "Index Name" in node]
    assert {node["Index Name"] for node in scans} == {"qrtz_fired_triggers_pkey"}


EARLIER = f"""
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery)
SELECT 'earlier', job_group, job_name, job_type, is_durable, persists_data, requests_recovery FROM qrtz_job_details;
DELETE FROM qrtz_triggers;
{FILL_TRIGGERS.replace("'plans'", "'earlier'").replace("'WAITING'", "'STATE'")}
ANALYZE qrtz_triggers;
"""


def scans_of_triggers(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node for node in plan if node.get("Relation Name") == "qrtz_triggers" and "Scan" in node["Node Type"]]


def walked(node: dict[str, Any]) -> float:
    rows: float = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return rows * float(node["Actual Loops"])


TRIGGERS = "qrtz_triggers"
STATISTICS = ["none", "good", "WAITING", "PAUSED", "COMPLETE"]
TAKES = (ACQUIRE, ACQUIRE_OF_ONE_POOL, ACQUIRE_UNLIMITED, ACQUIRE_UNLIMITED_OF_ONE_POOL)


@filled(*(Fill(statistics=statistics) for statistics in STATISTICS))
@pytest.mark.parametrize(
    "text",
    [ACQUIRE, ACQUIRE_OF_ONE_POOL, ACQUIRE_UNLIMITED, ACQUIRE_UNLIMITED_OF_ONE_POOL, NEXT_DUE],
    ids=["acquire", "one pool", "without limits", "without limits, one pool", "next due"],
)
def test_due_triggers_are_read_off_the_front_of_their_index(
    explain: Callable[..., list[dict[str, Any]]], connection: psycopg.Connection[Any], text: str
) -> None:
    """Whatever the statistics say: also those of a table of other schedulers, in another state.

    The 3,000 triggers in front that the node has refused are below the floor.
    """
    plan = explain(text, sinces=[floor(connection)])
    scans = scans_of_triggers(plan)
    due = [node for node in scans if node.get("Index Name") == "qrtz_triggers_due"]
    assert due, scans
    for node in scans:
        assert walked(node) <= 3 * LIMIT, f"{node} walks over {walked(node)} rows"
    # What the node runs, 3,002 job types, is read once.
    [keys] = [node for node in plan if node.get("Subplan Name") == "CTE keys"]
    assert walked(keys) == 1, keys


@filled(*(Fill(statistics=statistics) for statistics in STATISTICS))
def test_a_decision_writes_the_row_of_its_node_alone(explain: Callable[..., list[dict[str, Any]]]) -> None:
    """It has said something about 3,003 keys."""
    plan = explain(DECIDE, job_types=["new", "known"], placements=["", ""], runs=[True, False])
    assert sum(walked(node) for node in plan if node.get("Relation Name") == "qrtz_scheduler_state") <= 4


NONE_REFUSED = "DELETE FROM qrtz_triggers WHERE job_type = 'unknown'"


@filled(*(Fill(statistics=statistics, then=NONE_REFUSED) for statistics in STATISTICS))
@pytest.mark.parametrize(
    "text", [ACQUIRE, ACQUIRE_OF_ONE_POOL, ACQUIRE_UNLIMITED, ACQUIRE_UNLIMITED_OF_ONE_POOL, NEXT_DUE]
)
def test_triggers_of_other_slot_pools_are_not_read(explain: Callable[..., list[dict[str, Any]]], text: str) -> None:
    """3,000 that another executor runs are due before those that are taken."""
    for node in scans_of_triggers(explain(text)):
        assert walked(node) <= 3 * LIMIT, f"{node['Node Type']} walks over {walked(node)} rows"


@filled(*(Fill(statistics=statistics) for statistics in STATISTICS))
def test_an_announcement_reads_few_triggers_that_are_due_before(explain: Callable[..., list[dict[str, Any]]]) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    values = {"groups": ["DEFAULT"], "names": ["known"], "instants": [soon], "news": "a"}
    scans = scans_of_triggers(explain(ANNOUNCE, **values))
    assert sum(walked(node) for node in scans) <= 4 * 20, scans


@filled(*(Fill(statistics=statistics) for statistics in STATISTICS))
def test_the_keys_of_waiting_triggers_are_found_in_few_steps(explain: Callable[..., list[dict[str, Any]]]) -> None:
    plan = explain(lookups.WAITING_DISPATCH_KEYS)
    assert 4 <= read(plan) <= 60


def floor(connection: psycopg.Connection[Any], job_type: str = "known") -> datetime:
    """The fire time before which no trigger waits that the node runs.

    Those of other schedulers were stored earlier, and wait for times before it.
    """
    [(at,)] = connection.execute(
        "SELECT min(next_fire_time) FROM qrtz_triggers WHERE sched_name = 'plans' AND job_type = %s AND placement = ''",
        [job_type],
    ).fetchall()
    assert isinstance(at, datetime)
    return at


@filled(Fill("SELECT 'of this test alone, which moves them'"))
def test_a_look_that_begins_at_the_front_reads_no_dead_entries(
    explain: Callable[..., list[dict[str, Any]]],
    connection: psycopg.Connection[Any],
    postgres_server: Server,
) -> None:
    with closing(postgres_server.connect(connection.info.dbname)) as holder:
        # As long as this transaction is open, no vacuum can remove the entries.
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT FROM qrtz_triggers LIMIT 1")
        for _ in range(4):
            connection.execute("UPDATE qrtz_triggers SET next_fire_time = next_fire_time + interval '9 s'")
        front = floor(connection)

        def blocks(since: object) -> int:
            scans = [one for one in explain(NEXT_DUE, sinces=[since]) if one.get("Index Name") == "qrtz_triggers_due"]
            return sum(int(scan["Shared Hit Blocks"]) for scan in scans)

        everything, from_front = blocks("-infinity"), blocks(front)
    assert everything > 50 * from_front > 0


@filled(*(Fill(statistics=statistics) for statistics in STATISTICS))
def test_misfired_triggers_are_moved_without_a_look_at_the_others(
    explain: Callable[[str], list[dict[str, Any]]],
) -> None:
    plan = explain(MOVE)
    assert [node["Actual Rows"] for node in plan if node.get("Relation Name") == "qrtz_misfires"] == [0], "an INSERT"
    scans = scans_of_triggers(plan)
    assert max(walked(node) for node in scans) == LIMIT, scans


KEYED = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, persists_data,
    requests_recovery, concurrency_key) VALUES ('plans', 'DEFAULT', 'keyed', 'keyed', true, 1, false, false, 'tenant');
UPDATE qrtz_triggers
   SET job_name = 'keyed', job_type = 'keyed', max_concurrent = 1, concurrency_key = 'k' || generation,
       next_fire_time = now() - interval '1 s'
 WHERE sched_name = 'plans' AND generation > 6000;
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent, concurrency_key,
    requests_recovery, attempt)
SELECT generation, 'plans', 'DEFAULT', 't' || generation, generation, 'DEFAULT', 'keyed', 'keyed', 'node', 1,
       now(), now(), 5, 1, concurrency_key, false, 1
  FROM qrtz_triggers WHERE sched_name = 'plans' AND generation > 8990;
UPDATE qrtz_triggers SET trigger_state = 'BLOCKED' WHERE sched_name = 'plans' AND generation > 7000;
"""


SHARING = """
UPDATE qrtz_job_details SET limits = 'erp' WHERE sched_name = 'plans' AND job_name = 'known';
UPDATE qrtz_triggers SET limits = 'erp', trigger_state = 'BLOCKED', parked_at = 'erp'
 WHERE sched_name = 'plans' AND job_name = 'known';
INSERT INTO qrtz_limits (sched_name, limit_name, max_concurrent) VALUES ('plans', 'erp', {most});
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, requests_recovery, limits)
SELECT -n, 'plans', 'DEFAULT', 'running-' || n, 1, 'DEFAULT', 'known', 'known', 'node', 1, now(), now(), 5,
       false, 'erp'
  FROM generate_series(1, 5) AS n;
UPDATE qrtz_job_details SET rate_limit = '{{"limit": 100, "per_us": 60000000, "burst": 5}}' WHERE job_name = 'unknown';
UPDATE qrtz_triggers t SET rate_limit = j.rate_limit, trigger_state = 'BLOCKED'
  FROM qrtz_job_details j
 WHERE j.sched_name = 'plans' AND j.job_name = t.job_name AND j.rate_limit IS NOT NULL AND t.sched_name = 'plans';
INSERT INTO qrtz_limits (sched_name, limit_name, job_group, job_name, tat, opens_at)
VALUES ('plans', '', 'DEFAULT', 'unknown', now() + interval '2.4 s', now());
"""
FULL, HAS_THREE = SHARING.format(most=5), SHARING.format(most=8)


@filled(
    *(Fill(statistics=statistics, then=FULL) for statistics in STATISTICS),
    *(Fill(statistics=statistics, then=HAS_THREE) for statistics in STATISTICS),
)
def test_a_step_meets_as_many_triggers_at_rates_and_shared_limits_as_may_fire(
    explain: Callable[..., list[dict[str, Any]]], connection: psycopg.Connection[Any]
) -> None:
    """However many are parked: 6,000 at a limit that their job shares, and 3,000 at a rate of their job's own."""
    [(most,)] = connection.execute("SELECT max_concurrent FROM qrtz_limits WHERE limit_name = 'erp'").fetchall()
    opened = {"opened_groups": [""], "opened_jobs": [""], "opened_keys": [""], "opened_limits": ["erp"]}
    for text in (ACQUIRE_SHARED, ACQUIRE_SHARED_OF_ONE_POOL):
        scans = scans_of_triggers(explain(text, **opened))
        # Each that is met is locked and written, and the first of a set or a gate is looked up a few times.
        assert sum(walked(node) for node in scans) <= 3 * (most - 5 + 1) + 2 * LIMIT, (text, scans)
    for text in (ANYTHING_STUCK, REPAIR, OPEN_GATES):
        plan = explain(text)
        assert sum(walked(node) for node in scans_of_triggers(plan)) <= 2 * LIMIT, (text, scans_of_triggers(plan))


OPENED = {
    "opened_groups": ["DEFAULT"] * LIMIT,
    "opened_jobs": ["keyed"] * LIMIT,
    "opened_keys": [f"k{7001 + number}" for number in range(LIMIT)],
}
"""Gates at which a trigger is parked and nothing runs."""


@filled(*(Fill(statistics=statistics, then=KEYED) for statistics in STATISTICS))
@pytest.mark.parametrize("text", [ACQUIRE, ACQUIRE_OF_ONE_POOL])
@pytest.mark.parametrize("values", [{}, OPENED, {**OPENED, "limit": 0}], ids=["front", "opened", "no room"])
def test_a_limit_of_a_key_costs_nothing_for_the_triggers_of_other_keys(
    explain: Callable[..., list[dict[str, Any]]],
    connection: psycopg.Connection[Any],
    text: str,
    values: dict[str, Any],
) -> None:
    """However many triggers the job has: 3,000 here, each with a key of its own, of which 2,000 are parked."""
    plan = explain(text, **values, sinces=[floor(connection, "keyed")])
    scans = scans_of_triggers(plan)
    assert LIMIT <= sum(walked(node) for node in scans) <= 8 * LIMIT, scans
    fired = [
        node for node in plan if node.get("Relation Name") == "qrtz_fired_triggers" and "Scan" in node["Node Type"]
    ]
    assert sum(walked(node) for node in fired) <= 2 * LIMIT, fired


CROWD = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, persists_data,
    requests_recovery) VALUES ('plans', 'DEFAULT', 'crowd', 'known', true, 1, false, false);
UPDATE qrtz_triggers
   SET job_name = 'crowd', job_type = 'known', placement = '', max_concurrent = 1, trigger_state = 'BLOCKED',
       next_fire_time = now() + generation * interval '1 ms'
                        - CASE WHEN generation % 2 = 0 THEN interval '20 s' ELSE interval '1 h' END
 WHERE sched_name = 'plans' AND generation > 6000;
"""
RUNNING = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent, requests_recovery,
    attempt)
VALUES (8991, 'plans', 'DEFAULT', 't8991', 8991, 'DEFAULT', 'crowd', 'known', 'node', 1, now(), now(), 5,
        1, false, 1);
"""
ONE_LATE = "UPDATE qrtz_triggers SET trigger_state = 'WAITING' WHERE generation = 6001;"
MISFIRING = {"since": "-infinity", "limit": LIMIT}


@filled(
    *(Fill(statistics=statistics, then=CROWD + RUNNING) for statistics in STATISTICS),
    *(Fill(statistics=statistics, then=CROWD) for statistics in STATISTICS),
)
def test_a_step_finds_the_next_trigger_at_a_gate_however_many_wait(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    """A serial job has 3,000 triggers that are parked, half of them so late that they are misfires."""
    opened = {"opened_groups": ["DEFAULT"], "opened_jobs": ["crowd"], "opened_keys": [""]}
    for text in (ACQUIRE, ACQUIRE_OF_ONE_POOL):
        plan = explain(text, **opened, sinces=[datetime.now(UTC)])
        assert sum(walked(node) for node in scans_of_triggers(plan)) <= 4 * LIMIT, (text, scans_of_triggers(plan))
    for text in (ANYTHING_STUCK, REPAIR, OPEN_GATES):
        plan = explain(text)
        assert sum(walked(node) for node in scans_of_triggers(plan)) <= 2 * LIMIT, (text, scans_of_triggers(plan))


@filled(*(Fill(statistics=statistics, then=CROWD + ONE_LATE) for statistics in STATISTICS))
def test_a_place_that_nothing_takes_is_found_and_late_ones_are_handled_in_batches(
    explain: Callable[..., list[dict[str, Any]]],
) -> None:
    for text in (ANYTHING_STUCK, OPEN_GATES):
        plan = explain(text)
        assert sum(walked(node) for node in scans_of_triggers(plan)) <= 2 * LIMIT, (text, scans_of_triggers(plan))
    plan = explain(LATE, **MISFIRING)
    assert sum(walked(node) for node in scans_of_triggers(plan)) <= 4 * LIMIT, scans_of_triggers(plan)


PAUSED = "UPDATE qrtz_triggers SET trigger_state = 'PAUSED' WHERE sched_name = 'plans' AND job_name = 'unknown'"
OF_JOB = {
    "groups": ["DEFAULT"],
    "names": ["unknown"],
    "reason": None,
    "by": None,
    "by_mode": False,
    "alone": True,
    "until": None,
    "missed": "misfire",
}


@filled(Fill(statistics="good"), *(Fill(statistics=statistics, then=PAUSED) for statistics in STATISTICS[:3]))
@pytest.mark.parametrize("number", [0, 1], ids=["without the lock", "under the lock"])
def test_a_pause_and_a_resumption_read_each_trigger_a_few_times(
    explain: Callable[..., list[dict[str, Any]]], number: int
) -> None:
    """The job has 3,000 of 9,000 triggers. The same rows read once for each of them would be 9,000,000."""
    for name in ("pause", "resume"):
        plan = explain(passes(name, BY_JOB)[number], **OF_JOB)
        scans = [node for node in plan if "Scan" in node["Node Type"]]
        assert sum(walked(node) for node in scans) <= 10 * 9_000, scans


IN_STATE = "UPDATE qrtz_triggers SET trigger_state = '{}' WHERE sched_name = 'plans' AND job_name = 'unknown'"


@filled(
    *(Fill(statistics=statistics, then=IN_STATE.format("WAITING")) for statistics in ("none", "PAUSED", "COMPLETE")),
    *(Fill(statistics=statistics, then=IN_STATE.format("PAUSED")) for statistics in ("good", "WAITING")),
)
def test_a_slice_reads_its_own_triggers_alone(
    explain: Callable[..., list[dict[str, Any]]], connection: psycopg.Connection[Any]
) -> None:
    """Of a job with 3,000 triggers among 9,000, whatever the statistics say of their states."""
    rows = connection.execute(
        "SELECT trigger_group, trigger_name, generation FROM qrtz_triggers"
        " WHERE sched_name = 'plans' AND job_name = 'unknown' ORDER BY generation LIMIT %s",
        [LIMIT],
    ).fetchall()
    groups, names, generations = (list(column) for column in zip(*rows, strict=True))
    slice_of = {"groups": groups, "names": names, "generations": generations}
    texts = *passes("pause", BY_PAGE), *passes("resume", BY_PAGE), DELETE_SLICE, HOLD
    walks = []
    for text in texts:
        scans = scans_of_triggers(explain(text, **{**OF_JOB, **slice_of}))
        walks.append(sum(walked(node) for node in scans))
        assert walks[-1] <= 4 * LIMIT, (text, scans)
    # Those of the other state read nothing.
    assert sum(number >= LIMIT for number in walks) >= 4


ENDS = (
    "UPDATE qrtz_triggers SET trigger_state = 'PAUSED', pause_missed = 'misfire', pause_until = now() {}"
    " WHERE sched_name = 'plans' AND job_name = 'unknown'"
)


@filled(
    *(Fill(statistics=statistics, then=ENDS.format("+ interval '1 h'")) for statistics in ("none", "good", "PAUSED"))
)
def test_the_next_end_of_a_pause_is_read_off_its_index(explain: Callable[..., list[dict[str, Any]]]) -> None:
    assert read(explain(time_off.NEXT_CHANGE)) <= 2
    assert read(explain(time_off.END_OWN_PAUSES, limit=LIMIT, actor="node")) == 0


@filled(
    *(Fill(statistics=statistics, then=ENDS.format("- interval '1 h'")) for statistics in ("none", "good", "PAUSED"))
)
def test_a_slice_of_pauses_that_end_reads_its_own_triggers_alone(explain: Callable[..., list[dict[str, Any]]]) -> None:
    scans = scans_of_triggers(explain(time_off.END_OWN_PAUSES, limit=LIMIT, actor="node"))
    assert sum(walked(node) for node in scans) <= 4 * LIMIT, scans


@filled(Fill(FILL_PAGES), Fill(FILL_PAGES, "good"))
def test_a_scheduler_without_rate_limits_reads_nothing_about_them(
    explain: Callable[[str], list[dict[str, Any]]],
) -> None:
    for text in (ACQUIRE, ACQUIRE_OF_ONE_POOL, ACQUIRE_UNLIMITED, ACQUIRE_UNLIMITED_OF_ONE_POOL, NEXT_DUE):
        plan = explain(text)
        relations = {node.get("Relation Name") for node in plan}
        assert text is NEXT_DUE or "qrtz_limits" not in relations
        assert "qrtz_triggers_parked" not in {node.get("Index Name") for node in plan}
    [opens] = [node for node in plan if node.get("Relation Name") == "qrtz_limits"]
    assert opens["Index Name"] == "qrtz_limits_opens"
    assert walked(opens) == 0
    [look] = [node for node in plan if node.get("Index Name") == "qrtz_job_details_rate_limit"]
    assert walked(look) == 0
