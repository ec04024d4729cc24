"""The views for operators say what the API says, and stay fast however many triggers and executions there are."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import SchemaError
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.lookups import LOAD
from quartzpy.store.postgresql.schema.naming import DATABASE_CLOCK, renamed
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from tests.database import connect_to
from tests.waiting import wait_until

Look = Callable[..., list[dict[str, Any]]]
NAME = "views"
HOUR = timedelta(hours=1)
SOON = timedelta(seconds=30)
RUNNING = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent, requests_recovery)
VALUES (1, '{name}', 'DEFAULT', 'another', 1, 'DEFAULT', '{job}', '{type}', 'node', 1, now(), now(), 5, 1,
    false)
"""
gate = threading.Event()


class Held(Job):
    def execute(self, context: JobExecutionContext) -> None:
        assert gate.wait(30)


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError("on purpose")


@pytest.fixture
def look(postgres_dsn: str) -> Iterator[Look]:
    """Reads a view of this test's scheduler; `changed` is a statement to run before."""
    with connect_to(postgres_dsn, row_factory=dict_row) as connection:

        def rows(view: str, changed: str = "") -> list[dict[str, Any]]:
            if changed:
                connection.execute(changed.encode())
            name = sql.Identifier(f"qrtz_{view}")
            query = sql.SQL("SELECT * FROM {} WHERE sched_name = {}").format(name, NAME)
            return connection.execute(query).fetchall()

        yield rows


@pytest.fixture
def client(postgres_dsn: str) -> Iterator[Scheduler]:
    gate.clear()
    made = Scheduler(postgres_dsn, name=NAME, workers=1, checkin_interval="200ms")
    yield made
    gate.set()
    made.shutdown()


def triggers_in(rows: list[dict[str, Any]]) -> set[TriggerKey]:
    return {TriggerKey(row["trigger_name"], row["trigger_group"]) for row in rows}


def test_due_now_has_the_triggers_that_the_api_finds_due(client: Scheduler, look: Look) -> None:
    now = datetime.now(UTC)
    for number, kind in enumerate((Held, Failing)):
        job = JobDetail(kind, f"job-{number}")
        client.schedule_job(job, SimpleTrigger(f"due-{number}", start_time=now - HOUR, priority=7))
        client.schedule_job(JobDetail(kind, f"later-{number}"), SimpleTrigger(f"later-{number}", start_time=now + HOUR))
    client.schedule_job(JobDetail(Held, "other", execution_group="g"), SimpleTrigger("other", misfire="ignore"))
    client.schedule_job(JobDetail(Held, "paused"), SimpleTrigger("paused"))
    client.pause_trigger(TriggerKey("paused"))
    found = look("due_now")
    expected = client.triggers(state="WAITING", until=datetime.now(UTC))
    assert triggers_in(found) == {record.key for record in expected}
    assert {row["trigger_name"] for row in found} == {"due-0", "due-1", "other"}
    due = next(row for row in found if row["trigger_name"] == "due-0")
    assert due["priority"] == 7
    assert HOUR <= due["due_for"] < 2 * HOUR
    held_back = """
        UPDATE qrtz_triggers SET trigger_state = 'BLOCKED', parked_at = 'erp', limits = 'erp'
         WHERE trigger_name = 'due-1'
    """
    assert {row["trigger_name"] for row in look("due_now", held_back)} == {"due-0", "other"}


def test_late_names_the_reason_of_each(client: Scheduler, look: Look) -> None:
    ago = datetime.now(UTC) - 3 * SOON
    for name in ("blocked", "limited", "sharing", "unknown", "waits", "paused"):
        job = JobDetail("a-type-of-nobody" if name == "unknown" else Held, name, disallow_concurrent=name == "blocked")
        client.schedule_job(job, SimpleTrigger(name, start_time=ago, misfire="ignore"))
    client.schedule_job(JobDetail(Held, "in-time"), SimpleTrigger("in-time"))
    client.pause_trigger(TriggerKey("paused"))
    assert {row["reason"] for row in look("late")} == {"no node is alive"}
    node = client._store.register(
        "node", host="here", pid=1, checkin_interval=timedelta(seconds=5), window=timedelta(hours=1)
    )
    known = Held.type_name
    look(
        "late",
        f"""UPDATE qrtz_scheduler_state SET capabilities = '{{"job_types": ["{known}"]}}' WHERE epoch = {node.epoch}""",
    )
    look("late", RUNNING.format(name=NAME, job="blocked", type=known))
    look(
        "late",
        """
        UPDATE qrtz_triggers
           SET trigger_state = 'BLOCKED', rate_limit = '{"limit": 1, "per_us": 1000, "burst": 1}'
         WHERE trigger_name = 'limited'
        """,
    )
    look(
        "late",
        """
        UPDATE qrtz_triggers SET trigger_state = 'BLOCKED', limits = 'erp', parked_at = 'erp'
         WHERE trigger_name = 'sharing'
        """,
    )
    found = {row["trigger_name"]: row for row in look("late")}
    assert {name: row["reason"] for name, row in found.items()} == {
        "blocked": "its job is at its limit of concurrent executions",
        "limited": "the rate limit of its job holds it back",
        "sharing": "a limit that its job shares is used up",
        "unknown": "no live node knows its job type",
        "waits": "no worker that can run it is free",
    }
    assert all(row["late_by"] >= 3 * SOON for row in found.values())


def test_running_and_node_health_are_what_the_api_lists(client: Scheduler, look: Look) -> None:
    client.start()
    client.schedule_job(JobDetail(Held, "job"), SimpleTrigger("t"))
    wait_until(lambda: any(one.state == "EXECUTING" for one in client.running()))
    (record,) = client.running()
    (row,) = look("running")
    assert (row["fire_id"], row["job_name"], row["instance_id"]) == (record.fire_id, "job", client.instance_id)
    assert (row["scheduled_time"], row["fired_time"]) == (record.scheduled_fire_time, record.fire_time)
    assert row["node_is_alive"]
    assert not row["cancel_requested"]
    assert row["fired_late_by"] == record.fire_time - record.scheduled_fire_time
    (node,) = client.nodes().nodes
    (health,) = look("node_health")
    assert (health["instance_id"], health["status"], health["workers"]) == (node.instance_id, "ALIVE", 1)
    assert (health["executing"], health["claimed"]) == (1, 0)
    assert health["started_at"] == node.started_at
    assert health["release"] is not None


@pytest.mark.parametrize(
    ("silent", "interval", "window", "status"),
    # A node has its window for a check-in after the start of the server, which the tests may have started just now.
    [("1s", 5, 60, "ALIVE"), ("1s", 0.1, 20, "OVERDUE"), ("61s", 0.1, 1, "DEAD")],
)
def test_node_health_judges_as_recovery_does(
    client: Scheduler, look: Look, silent: str, interval: float, window: float, status: str
) -> None:
    client.nodes()
    cadence, lease = timedelta(seconds=interval), timedelta(seconds=window)
    client._store.register("node", host="here", pid=1, checkin_interval=cadence, window=lease)
    look("late", f"UPDATE qrtz_scheduler_state SET last_checkin = now() - interval '{silent}'")
    (row,) = look("node_health")
    assert (row["instance_id"], row["status"]) == ("node", status)


def test_errors_are_the_triggers_in_error_and_the_failures_of_a_day(client: Scheduler, look: Look) -> None:
    client.schedule_job(JobDetail(Failing, "failing"), SimpleTrigger("failing"))
    client.schedule_job(JobDetail(Held, "broken"), SimpleTrigger("broken", start_time=datetime.now(UTC) + HOUR))
    client.start()
    assert client.wait_until_recorded(1, SOON)
    broken = "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = 'no such class' WHERE trigger_name = 'broken'"
    found = {row["kind"]: row for row in look("errors", broken)}
    (failed,) = client.executions(state="FAILED")
    assert found["EXECUTION"]["fire_id"] == failed.fire_id
    assert found["EXECUTION"]["error"] == failed.error
    assert found["EXECUTION"]["ended_at"] == failed.ended_at
    (stopped,) = client.triggers(state="ERROR")
    assert found["TRIGGER"]["trigger_name"] == stopped.key.name == "broken"
    assert found["TRIGGER"]["error"] == "no such class"
    assert not [
        row
        for row in look("errors", "UPDATE qrtz_executions SET ended_at = ended_at - interval '25h'")
        if row["fire_id"]
    ]


def test_next_24h_has_the_fire_times_that_the_trigger_computes(client: Scheduler, look: Look) -> None:
    hourly = CronTrigger("0 0 * * * ?", "hourly", time_zone="UTC")
    client.schedule_job(JobDetail(Held, "hourly"), hourly)
    client.schedule_job(JobDetail(Held, "once"), SimpleTrigger("once", start_time=datetime.now(UTC) + HOUR))
    client.schedule_job(JobDetail(Held, "far"), SimpleTrigger("far", start_time=datetime.now(UTC) + 25 * HOUR))
    found = look("next_24h")
    times = sorted(row["fire_time"] for row in found if row["trigger_name"] == "hourly")
    assert len(times) > 3
    record = client.trigger_record(TriggerKey("hourly"))
    assert record is not None
    assert times[0] == record.next_fire_time
    assert times == [times[0] + number * HOUR for number in range(len(times))]
    more = {row["fire_time"] for row in found if row["trigger_name"] == "hourly" and row["more_follow"]}
    assert more == {times[-1]}
    assert [row["more_follow"] for row in found if row["trigger_name"] == "once"] == [False]
    assert "far" not in {row["trigger_name"] for row in found}


@pytest.fixture
def many(client: Scheduler, postgres_dsn: str) -> None:
    """3,000 triggers, a half of them paused, and one that is due."""
    now = datetime.now(UTC)
    far = [
        SimpleTrigger(f"t{number}", "paused" if number % 2 else "DEFAULT", start_time=now + 48 * HOUR, interval="1h")
        for number in range(3_000)
    ]
    client.schedule_jobs({JobDetail(Held, "job", durable=True): far})
    client.pause_trigger_group("paused")
    client.schedule_job(JobDetail(Failing, "due"), SimpleTrigger("due", start_time=now - HOUR, misfire="ignore"))
    # A server that saw the table while it was empty takes each of its indexes for equally cheap.
    with connect_to(postgres_dsn) as connection:
        connection.execute("ANALYZE qrtz_triggers")


def read_by(connection: psycopg.Connection[Any], query: str) -> tuple[str, list[float]]:
    """The plan of a query, and the numbers of rows that each of its parts has read."""
    # The table is small, so the planner may prefer to read all of it. Where no index serves, it still has to.
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_bitmapscan = off")
    plan = "\n".join(str(line) for (line,) in connection.execute(f"EXPLAIN (ANALYZE, TIMING off) {query}".encode()))
    rows = [float(count) for count in re.findall(r"actual rows=([\d.]+)", plan)]
    return plan, rows + [float(count) for count in re.findall(r"Rows Removed by Filter: (\d+)", plan)]


@pytest.mark.parametrize("view", ["due_now", "late", "next_24h"])
def test_a_view_reads_only_what_it_shows_of_many_triggers(
    many: None, connect: Callable[[], psycopg.Connection[Any]], view: str
) -> None:
    plan, read = read_by(connect(), f"SELECT * FROM qrtz_{view}")
    assert "Seq Scan on qrtz_triggers" not in plan
    assert max(read) < 50, plan
    assert "next_fire_time" in " ".join(re.findall(r"Index Cond: .*", plan)), plan


def test_the_load_of_the_cluster_reads_little_of_many_triggers(
    many: None, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    values = {"sched": f"'{NAME}'", "most": "100", "late_after": "'5 seconds'"}
    query = re.sub(r":'(\w+)'", lambda found: values[found[1]], LOAD).replace(":now", DATABASE_CLOCK)
    plan, read = read_by(connect(), query)
    assert "Seq Scan on qrtz_triggers" not in plan
    assert max(read) <= 100, f"at most what the limit allows of the paused ones: {plan}"


@pytest.mark.parametrize("prefix", ["qrtz_", "jobs_"])
@pytest.mark.parametrize("schema", [None, "Billing"])
def test_the_views_of_a_schema_and_prefix_are_checked(
    fresh_database: Callable[[], str], schema: str | None, prefix: str
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, schema, prefix=prefix)
    place = f'"{schema}".' if schema else ""
    with connect_to(dsn) as connection:
        for view, described in VIEWS.items():
            name = renamed(view, prefix)
            columns = connection.execute(f"SELECT * FROM {place}{name}".encode()).description
            assert [column.name for column in columns or ()] == list(described.columns)
        connection.execute(f"DROP VIEW {place}{prefix}late".encode())
    client = Scheduler(dsn, schema=schema, table_prefix=prefix)
    assert client.jobs().first() is None
    client.shutdown()
    with pytest.raises(SchemaError, match=rf"view {prefix}late is missing.*`quartzpy db sql`"):
        migrations.check(dsn, schema, prefix=prefix)
