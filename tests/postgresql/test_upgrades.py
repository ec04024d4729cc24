"""Tables are upgraded while nodes run: the plan, short waits for locks, and nodes of two releases."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql import migrations, schema_version
from quartzpy.store.postgresql.schema_version import HEAD
from tests.database import connect_to, execute
from tests.next_release import NEXT, ROOT, copy_as_next, scripts_of_next
from tests.postgresql.releases import Start, nodes
from tests.waiting import wait_until


@pytest.fixture
def of_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process be the next release."""
    scripts = scripts_of_next(tmp_path)
    monkeypatch.setattr(migrations, "scripts", lambda: scripts)
    monkeypatch.setattr(schema_version, "REVISIONS", (*schema_version.REVISIONS, NEXT))
    monkeypatch.setattr(schema_version, "HEAD", NEXT)


def test_the_plan_of_new_tables_locks_nothing(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    done = CliRunner().invoke(cli, ["db", "upgrade", "--plan", "--url", dsn])
    assert "CREATE TABLE qrtz_triggers" in done.stdout
    assert "no table that exists is locked" in done.stderr
    assert migrations.current(dsn) is None
    execute(dsn, done.stdout)
    migrations.check(dsn)
    done = CliRunner().invoke(cli, ["db", "upgrade", "--plan", "--url", dsn])
    assert (done.stdout, "there is nothing to do" in done.stderr) == ("", True)


@pytest.mark.parametrize(("schema", "prefix"), [(None, "qrtz_"), ("billing", "jobs_")])
@pytest.mark.usefixtures("of_next")
def test_the_plan_of_an_upgrade_says_what_it_locks(
    fresh_database: Callable[[], str], schema: str | None, prefix: str
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, schema, HEAD, prefix=prefix)
    plan = migrations.planned(dsn, schema, prefix=prefix)
    assert plan.before == HEAD
    assert [(lock.table, lock.mode) for lock in plan.locks] == [
        (f"{prefix}triggers", "ACCESS EXCLUSIVE"),
        (f"{prefix}executions", "SHARE"),
    ]
    assert all(lock.bytes > 0 for lock in plan.locks)
    assert migrations.current(dsn, schema, prefix=prefix) == HEAD
    execute(dsn, plan.script)
    assert migrations.current(dsn, schema, prefix=prefix) == NEXT
    migrations.downgrade(dsn, schema, HEAD, prefix=prefix)
    assert migrations.current(dsn, schema, prefix=prefix) == HEAD


@pytest.mark.usefixtures("of_next")
def test_an_upgrade_that_waits_for_a_table_makes_nobody_wait_for_long(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, revision=HEAD)
    with ExitStack() as stack:
        holder = stack.enter_context(connect_to(dsn, autocommit=False))
        reader = stack.enter_context(connect_to(dsn))
        holder.execute("SELECT count(*) FROM qrtz_triggers")
        upgrade = threading.Thread(target=migrations.upgrade, args=[dsn])
        upgrade.start()
        # Other tests upgrade their databases of this server.
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'qrtz_triggers'::regclass AND database = "
        waits += "(SELECT oid FROM pg_database WHERE datname = current_database())"
        wait_until(lambda: execute(dsn, waits))
        slowest = 0.0
        for _ in range(10):
            began = time.monotonic()
            reader.execute("SELECT count(*) FROM qrtz_triggers")
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.2)
        # The limit of 30 seconds that the transaction begins with would be the wait of all.
        assert slowest < 10
        assert upgrade.is_alive()
        holder.rollback()
        upgrade.join(60)
    assert migrations.current(dsn) == NEXT


@pytest.mark.usefixtures("of_next")
def test_an_upgrade_gives_up_with_nothing_changed(
    fresh_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, revision=HEAD)
    monkeypatch.setattr(migrations, "LOCK_PATIENCE", migrations.LOCK_PAUSE)
    with connect_to(dsn, autocommit=False) as holder:
        holder.execute("LOCK TABLE qrtz_executions")
        with pytest.raises(StoreUnavailableError, match="lock timeout"):
            migrations.upgrade(dsn)
    assert migrations.current(dsn) == HEAD


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """A copy of this release that knows one more revision, and needs its column."""
    return copy_as_next(tmp_path / "next")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with nodes(tmp_path) as start:
        yield start


def test_nodes_of_two_releases_fire_while_the_tables_are_upgraded_and_downgraded(
    fresh_database: Callable[[], str], next_release: Path, start: Start
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    scheduler = Scheduler(dsn, name="two")
    for number in range(10):
        scheduler.schedule_job(JobDetail("tick", f"job-{number}"), SimpleTrigger(f"t-{number}", interval="100ms"))
    old = start(ROOT, dsn, "old")
    wait_until(lambda: fired_by(dsn, "old") > 20)

    def of_next(*arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "quartzpy", "db", *arguments, "--url", dsn],
            cwd=next_release,
            check=True,
            capture_output=True,
            timeout=120,
        )

    of_next("upgrade")
    assert migrations.current(dsn) == NEXT
    start(next_release, dsn, "new")
    for name in ("old", "new"):
        since = fired_by(dsn, name)
        wait_until(lambda name=name, since=since: fired_by(dsn, name) > since + 20)  # type: ignore[misc]
    again = start(ROOT, dsn, "old-again")
    since = fired_by(dsn, "old-again")
    wait_until(lambda: fired_by(dsn, "old-again") > since + 5)
    for node in (old, again):
        assert node.poll() is None
    # An end is recorded later than that of the next instant, which another node may have run.
    scheduler.pause_all()
    wait_until(lambda: execute(dsn, "SELECT count(*) FROM qrtz_fired_triggers") == [(0,)])
    scheduler.shutdown()
    gaps = execute(
        dsn,
        "SELECT trigger_name, scheduled_time, count(*) FROM qrtz_executions GROUP BY 1, 2 HAVING count(*) > 1",
    )
    assert gaps == []
    # Each instant from the first to the last one of each trigger has been fired, or handled as a misfire.
    missing = execute(
        dsn,
        "SELECT trigger_name, round(extract(epoch FROM max(scheduled_time) - min(scheduled_time)) * 10) + 1 - count(*)"
        " FROM qrtz_executions GROUP BY 1"
        " HAVING round(extract(epoch FROM max(scheduled_time) - min(scheduled_time)) * 10) + 1 <> count(*)",
    )
    assert missing == []


def fired_by(dsn: str, node: str) -> int:
    [(count,)] = execute(dsn, f"SELECT count(*) FROM qrtz_executions WHERE instance_id = '{node}'")
    assert isinstance(count, int)
    return count
