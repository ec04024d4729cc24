"""`audit` finds what was broken by hand, `repair` repairs what is safe, and `quartzpy doctor` shows both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.events.events import Event, NodesDiffer
from quartzpy.operations import Operations
from quartzpy.operations.views.system import examine
from quartzpy.placement import Capabilities, EngineCapability
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import Finding, Severity
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.steps import facts
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Repairs
from tests.database import connect_to
from tests.postgresql.conftest import NAME, register

Connect = Callable[[], psycopg.Connection[Any]]
MakeStore = Callable[..., SqlJobStore]
SOON = timedelta(seconds=30)
WRONG_NUMBER = re.compile(r"\b1 (?:\w+ )?(triggers|rows|indexes|constraints|tables|transactions|kinds|nodes)\b")
# What is so on a test server, or is nobody's fault.
ASIDE = {"durability", "no-nodes", "max-connections", "autovacuum", "dead-rows"}


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture
def stored(postgres_dsn: str, store: SqlJobStore) -> SqlJobStore:
    """With a serial job of one trigger that is due in the far future."""
    client = Scheduler(postgres_dsn, name=NAME)
    trigger = SimpleTrigger("t", start_time=datetime(2090, 1, 1, tzinfo=UTC))
    client.schedule_job(JobDetail(Nothing, "job", max_concurrent=1), trigger)
    client.shutdown()
    return store


def findings_of(store: SqlJobStore) -> dict[str, Finding]:
    found = {one.check: one for one in admin(store).audit()}
    for one in found.values():
        assert not WRONG_NUMBER.search(one.what), one.what
    return found


def checks_of(store: SqlJobStore) -> dict[str, Severity]:
    return {check: one.severity for check, one in findings_of(store).items() if check not in ASIDE}


FIRED = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, requests_recovery)
SELECT 1, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, 'gone', 4711,
       clock_timestamp(), clock_timestamp(), 5, false
  FROM qrtz_triggers
"""
BLOCKED = """
UPDATE qrtz_job_details SET overlap_policy = 'skip';
UPDATE qrtz_triggers SET overlap_policy = 'skip', trigger_state = 'BLOCKED'
"""
"""Nothing waits at the limit of such a job. What waits at others beside a free slot is found by any node."""
BROKEN = [
    ("blocked-for-nothing", BLOCKED),
    ("unknown-epoch", FIRED),
    ("stale-copies", "UPDATE qrtz_triggers SET job_type = 'another'"),
    ("stale-copies", "UPDATE qrtz_triggers SET max_concurrent = NULL"),
    (
        "stale-copies",
        """UPDATE qrtz_job_details SET rate_limit = '{"limit": 1, "per_us": 1000000, "burst": 1}'""",
    ),
    ("stale-copies", 'UPDATE qrtz_job_details SET placement = \'{"executor":"cpu"}\''),
    ("lock-rows", "DELETE FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS'"),
]


@pytest.mark.parametrize(("check", "breaking"), BROKEN)
def test_broken_rows_are_found_and_repaired(stored: SqlJobStore, connect: Connect, check: str, breaking: str) -> None:
    assert checks_of(stored) == {}
    assert stored.repair() == Repairs()
    connect().execute(breaking.encode())
    [found] = [one for one in findings_of(stored).values() if one.check not in ASIDE]
    assert (found.check, found.severity, found.repairable) == (check, Severity.ERROR, True)
    assert found.rows
    assert stored.repair().total > 0
    assert checks_of(stored) == {}
    assert stored.repair() == Repairs()


def test_what_is_parked_at_limits_that_its_job_no_longer_shares_waits_anew(
    stored: SqlJobStore, connect: Connect
) -> None:
    connect().execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED', limits = 'erp', parked_at = 'erp'")
    assert stored.repair().copies == 1
    rows = connect().execute("SELECT trigger_state, limits, parked_at FROM qrtz_triggers").fetchall()
    assert rows == [("WAITING", None, None)]


@pytest.mark.parametrize(
    ("check", "breaking"),
    [
        ("missing-index", "DROP INDEX qrtz_triggers_due"),
        ("missing-constraint", "ALTER TABLE qrtz_triggers DROP CONSTRAINT qrtz_triggers_state_check"),
        ("invalid-index", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'qrtz_triggers_job'::regclass"),
        ("dead-rows", "ALTER TABLE qrtz_triggers SET (autovacuum_enabled = false)"),
    ],
)
def test_tables_that_were_changed_are_found(
    new_database: str, make_store: MakeStore, check: str, breaking: str
) -> None:
    store = make_store(new_database)
    assert checks_of(store) == {}
    with connect_to(new_database) as user:
        user.execute(breaking.encode())
    assert check in findings_of(store)


def test_an_executor_that_jobs_name_and_no_node_has_is_found(stored: SqlJobStore, connect: Connect) -> None:
    rows = """UPDATE qrtz_job_details SET placement = '{"executor":"big","requires":["gpu"]}'"""
    connect().execute(rows.encode())
    stored.repair()
    assert checks_of(stored) == {}, "no node is alive"
    node = register(stored, "a")
    stored.publish(node, Capabilities(executors=frozenset({"default"})))
    finding = findings_of(stored)["missing-executor"]
    assert (finding.severity, finding.rows) == (Severity.WARNING, ("'big': 1, such as DEFAULT.job",))
    assert finding.what == "1 executor that jobs name is on no living node"
    stored.publish(node, Capabilities(executors=frozenset({"default", "big"})))
    assert checks_of(stored) == {}


def test_engines_that_may_run_a_job_twice_are_found_and_workers_without_a_role(
    stored: SqlJobStore, connect: Connect
) -> None:
    node = register(stored, "a")
    engines = {
        "big": EngineCapability("dask:tcp://scheduler:8786", ("kill a job",), takes_tickets=True),
        "twice": EngineCapability("dask:8:tcp://scheduler:8786", may_repeat=True),
    }
    can = Capabilities(engines=engines)
    assert Capabilities.from_text(can.as_text()) == can
    stored.publish(node, can)
    findings = findings_of(stored)
    assert findings["repeated-jobs"].severity is Severity.WARNING
    assert findings["repeated-jobs"].rows == (
        "executor 'twice' of node a: dask:8:tcp://scheduler:8786, may run a job twice",
    )
    assert findings["worker-role"].severity is Severity.INFO
    assert findings["worker-role"].rows == ("executor 'big' of node a",)
    connect().execute("CREATE ROLE takes_tickets")
    connect().execute("GRANT UPDATE (worker) ON qrtz_fired_triggers TO takes_tickets")
    try:
        assert "worker-role" not in checks_of(stored)
    finally:
        connect().execute("DROP OWNED BY takes_tickets; DROP ROLE takes_tickets")


def test_overdue_triggers_that_no_node_can_run_are_found(stored: SqlJobStore, connect: Connect) -> None:
    connect().execute("UPDATE qrtz_triggers SET next_fire_time = clock_timestamp() - interval '1 day'")
    assert checks_of(stored) == {"no-node": Severity.ERROR}
    node = register(stored)
    stored.publish(node, Capabilities(job_types=frozenset({"another"})))
    assert checks_of(stored) == {"no-node": Severity.ERROR}
    [(job_type,)] = connect().execute("SELECT job_type FROM qrtz_triggers").fetchall()
    stored.publish(node, Capabilities(job_types=frozenset({str(job_type)})))
    assert checks_of(stored) == {"overdue": Severity.WARNING}


def test_triggers_in_error_and_silent_nodes_are_found(stored: SqlJobStore, connect: Connect) -> None:
    connect().execute(
        "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = E'Traceback:\\n  File x\\nOSError: no such thing\\n'"
    )
    register(stored)
    # A node has its window for a check-in after the start of the server, which the tests may have started just now.
    connect().execute(
        "UPDATE qrtz_scheduler_state SET last_checkin = last_checkin - interval '1 hour',"
        " checkin_interval = interval '1 ms', failure_window = interval '10 ms'"
    )
    found = findings_of(stored)
    assert found["in-error"].rows[0].endswith("t: OSError: no such thing")
    assert found["silent-node"].severity is Severity.WARNING
    assert found["silent-node"].what == "1 node is silent, and none of the others has recovered its work"


def test_a_lock_that_is_held_and_a_long_transaction_are_found(
    stored: SqlJobStore, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.store.postgresql.admin.integrity.LONG_TRANSACTION", timedelta())
    monkeypatch.setattr("quartzpy.store.postgresql.admin.integrity.HELD_LONG", timedelta())
    with connect_to(postgres_dsn, autocommit=False, application_name="theirs") as user:
        user.execute("SELECT FROM qrtz_locks FOR UPDATE")
        found = findings_of(stored)
        user.rollback()
    assert any("application theirs" in row for row in found["lock-held"].rows)
    assert any("application theirs" in row for row in found["long-transaction"].rows)


def test_what_a_node_reports_about_itself_is_found(stored: SqlJobStore) -> None:
    node = register(stored, "a")
    stored.check_in(node, problems=[NodeProblem("failing-thread", "thread x does none of its work: disk full", "x")])
    [finding] = [finding for finding in admin(stored).audit() if finding.check == "unhealthy-node"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "1 node checks in and reports problems of its own"
    assert finding.rows == ("a: thread x does none of its work: disk full",)


def test_nodes_that_differ_are_reported_once(stored: SqlJobStore, connect: Connect) -> None:
    told: list[Event] = []
    stored.open(told.append)
    first, second = register(stored, "a"), register(stored, "b")
    stored.publish(first, Capabilities())
    assert told == []
    assert checks_of(stored) == {}
    other = {node_metadata.TZDATA: "1999z", node_metadata.CLOCK_AHEAD: -3600.0}
    connect().execute(
        "UPDATE qrtz_scheduler_state SET facts = facts || %s::jsonb WHERE instance_id = 'a'", [json.dumps(other)]
    )
    for _ in range(2):
        stored.publish(second, Capabilities())
    assert told == [NodesDiffer(node_metadata.TZDATA, {"1999z": ("a",), facts.tzdata_version(): ("b",)})]
    assert checks_of(stored) == {"tzdata": Severity.WARNING, "clock-skew": Severity.WARNING}


def test_settings_that_differ_are_reported(make_store: MakeStore) -> None:
    one, other = make_store(), make_store(checkin_interval="1s")
    told: list[Event] = []
    other.open(told.append)
    one.publish(register(one, "a"), Capabilities())
    other.publish(register(other, "b"), Capabilities())
    [event] = told
    assert isinstance(event, NodesDiffer)
    assert event.subject == "setting checkin_interval"


def test_the_version_of_the_time_zone_data_is_known() -> None:
    assert facts.tzdata_version()[:4].isdecimal()


def test_a_node_is_healthy_by_its_own_doctor(postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn, name=NAME, checkin_interval="200ms", failure_window="6s") as scheduler:
        scheduler.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
        assert [one for one in examine(scheduler._store).findings if one.check not in ASIDE] == []


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(args=["doctor", *arguments], prog_name="quartzpy")
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def test_the_doctor_by_command(
    stored: SqlJobStore, postgres_dsn: str, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--dsn", postgres_dsn, "--name", NAME)
    status, _ = doctor(capsys, *options)
    assert status in (0, 1)
    connect().execute(BLOCKED)
    status, text = doctor(capsys, *options)
    assert status == 2
    assert "ERROR    blocked-for-nothing: 1 trigger is BLOCKED without a running execution of its job" in text
    assert "DEFAULT.t" in text
    assert "(doctor --repair fixes it)" in text
    status, text = doctor(capsys, *options, "--json", "--repair")
    assert json.loads(text)["repairs"]["stuck"] == 1
    assert json.loads(text)["status"] == status < 2


def test_the_doctor_says_why_it_cannot_look(capsys: pytest.CaptureFixture[str]) -> None:
    secret = "c4n4ry"
    status, text = doctor(capsys, "--dsn", f"postgresql://u:{secret}@127.0.0.1:9/none")
    assert (status, secret in text) == (2, False)
    assert "StoreUnavailableError: the database cannot be reached" in text


@pytest.mark.parametrize(
    ("how", "holder"),
    [
        ("reader", "application report, idle in transaction"),
        ("none", ""),
    ],
)
def test_dead_rows_name_the_snapshot_that_keeps_them(
    stored: SqlJobStore, administrator_dsn: str, monkeypatch: pytest.MonkeyPatch, how: str, holder: str
) -> None:
    if how != "none":
        monkeypatch.setattr("quartzpy.store.postgresql.admin.catalogs.OLD_SNAPSHOT", timedelta())
    operations = Operations(Scheduler(stored, name=NAME))
    with (
        connect_to(administrator_dsn) as user,
        connect_to(administrator_dsn, application_name="report") as reader,
    ):
        user.execute("ALTER TABLE qrtz_triggers SET (autovacuum_enabled = false)")
        if how != "none":
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*), pg_current_xact_id() FROM qrtz_triggers")
        found = findings_of(stored)
        incidents = {incident.kind: incident for incident in operations.incidents().incidents}
        if how == "none":
            assert "old-snapshot" not in {*found, *incidents}
            assert found["dead-rows"].advice == "check autovacuum, or run VACUUM"
            return
        assert "dead-rows" not in found
        # A session of another test may end late, and hold an older one.
        assert any(holder in row for row in found["old-snapshot"].rows)
        assert "VACUUM removes nothing before" in found["old-snapshot"].advice
        assert any(holder in why for why in incidents["old-snapshot"].why)
