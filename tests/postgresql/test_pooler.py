"""Behind a pooler that lends a server connection for one transaction, as PgBouncer does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger
from quartzpy.cli.main import main
from quartzpy.errors import SettingsError, StoreUnavailableError
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots
from tests.pooler import Pooler
from tests.postgresql.conftest import NAME, register

SOON = timedelta(seconds=20)
QUICK = {"checkin_interval": "200ms", "lock_timeout": "1s", "failure_window": "2s", "name": NAME}


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> str:
        return "\u00e9"


class InItsTransaction(Job):
    """Reads what its session is told, and writes its own row."""

    def execute(self, context: JobExecutionContext) -> None:
        with context.fenced_transaction() as connection:
            context.job_detail_data["fenced"] = connection.execute(text("SHOW lock_timeout")).scalar_one()
        with context.transaction() as connection:
            told = connection.execute(text("SELECT current_setting('timezone'), current_setting('jit')")).one()
            context.job_detail_data["told"] = list(told)


@pytest.fixture
def pooler(postgres_dsn: str) -> Iterator[Pooler]:
    with Pooler(postgres_dsn) as running:
        yield running


def test_a_node_lives_behind_a_pooler(pooler: Pooler, postgres_dsn: str, store: SqlJobStore) -> None:
    with Scheduler(pooler.through(postgres_dsn), pooled=True, workers=20, **QUICK) as scheduler:
        often = [
            SimpleTrigger(f"t{n}", interval=timedelta(milliseconds=100), repeat_count=9, misfire="ignore")
            for n in range(20)
        ]
        serial = SimpleTrigger("serial", interval=timedelta(milliseconds=50), repeat_count=9, misfire="ignore")
        scheduler.schedule_jobs(
            [(JobDetail(Quick, "quick"), often), (JobDetail(Quick, "serial", max_concurrent=1), [serial])]
        )
        assert scheduler.wait_until_recorded(210, SOON)
        found = scheduler.executions().page(500)
        assert {(record.outcome, record.result) for record in found} == {(Outcome.SUCCEEDED, "\u00e9")}
        assert len(found) == 210
        assert {record.scheduled_fire_time.utcoffset() for record in found} == {timedelta()}
        assert scheduler.sync([(JobDetail(Quick, "kept"), SimpleTrigger("later", start_time=_later()))], owner="me")
        assert not scheduler.sync([(JobDetail(Quick, "kept"), SimpleTrigger("later", start_time=_later()))], owner="me")
        scheduler.pause_all()
        scheduler.resume_all(missed="skip")
        assert len(scheduler.nodes().nodes) == 1
    assert store.list_nodes().nodes == ()


def test_commands_work_behind_a_pooler(
    pooler: Pooler, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUARTZPY_URL", pooler.through(postgres_dsn))
    with Scheduler(postgres_dsn, name=NAME) as direct:
        direct.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("later", start_time=_later()))

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        written = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, written.out + written.err

    status, text = run("triggers", "--name", NAME)
    assert status
    assert "--pooled" in text, "the error names the option of the command"
    assert "DEFAULT.later" in run("triggers", "--name", NAME, "--pooled")[1]
    monkeypatch.setenv("QUARTZPY_POOLED", "true")
    for command in (["triggers"], ["doctor"], ["why", "DEFAULT.later"]):
        status, text = run(*command, "--name", NAME)
        assert "StoreUnavailableError" not in text, text


def _later() -> datetime:
    return datetime(2090, 1, 1, tzinfo=UTC)


def test_a_jobs_own_transactions_have_the_time_zone_and_no_timeout(pooler: Pooler, postgres_dsn: str) -> None:
    with Scheduler(pooler.through(postgres_dsn), pooled=True, **QUICK) as scheduler:
        job = JobDetail(InItsTransaction, "job", persist_data=True, durable=True)
        scheduler.schedule_job(job, SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
        [record] = scheduler.executions()
        assert record.outcome is Outcome.SUCCEEDED, record.error
        stored = scheduler.get_job_detail(job.key)
        assert stored is not None
        assert stored.data == {"fenced": "0", "told": ["UTC", "on"]}


def test_each_transaction_has_our_limits(
    pooler: Pooler,
    postgres_dsn: str,
    make_store: Callable[..., SqlJobStore],
    connect: Callable[[], psycopg.Connection[Any]],
) -> None:
    store = make_store(pooler.through(postgres_dsn), pooled=True, lock_timeout="300ms")
    node = register(store)
    user = connect()
    user.execute("BEGIN")
    user.execute("SELECT FROM qrtz_locks FOR UPDATE")
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="lock timeout"):
        store.acquire(node, [AvailableSlots()], limit=1, look_ahead=timedelta(), misfire_threshold=timedelta(minutes=1))
    assert time.monotonic() - began < 30
    user.execute("ROLLBACK")


def test_without_the_setting_the_error_says_what_to_do(pooler: Pooler, postgres_dsn: str) -> None:
    scheduler = Scheduler(pooler.through(postgres_dsn), start_timeout="100ms", **QUICK)
    with pytest.raises(StoreUnavailableError, match="pooled=True"):
        scheduler.start()
    scheduler.shutdown()


def test_a_direct_connection_beside_the_pooler_receives_notifications(pooler: Pooler, postgres_dsn: str) -> None:
    through = pooler.through(postgres_dsn)
    slow = {**QUICK, "idle_wait": "30s"}
    with Scheduler(through, pooled=True, listen_url=postgres_dsn, **slow) as node:
        client = Scheduler(through, pooled=True, **slow)
        client.schedule_job(JobDetail(Quick, "first", durable=True), SimpleTrigger("t"))
        assert node.wait_until_recorded(1, SOON)
        # It sleeps by now, for longer than this test waits.
        client.trigger_job(JobKey("first", "DEFAULT"))
        assert node.wait_until_recorded(2, SOON)
        client.shutdown()


def test_no_listener_runs_where_notifications_do_not_arrive(
    make_store: Callable[..., SqlJobStore], postgres_dsn: str
) -> None:
    assert make_store(pooled=True).subscribe() is None
    listening = make_store(pooled=True, listen_url=postgres_dsn).subscribe()
    assert listening is not None
    listening.close()


@pytest.mark.parametrize("wrong", [{"pooled": "yes"}, {"pooled": 1}, {"listen_url": "mysql://here"}])
def test_wrong_settings_are_refused(postgres_dsn: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Scheduler(postgres_dsn, **wrong)
