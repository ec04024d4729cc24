"""The release before this one beside this one, each on the tables of the other, and its tables amid work."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quartzpy import JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.schema_version import HEAD, REVISIONS
from tests.database import execute, libpq_url
from tests.postgresql.releases import DUMP, NAME, ROOT, WHEEL, Start, command, nodes, unpacked
from tests.waiting import wait_until
from tests.worlds.stage import binaries_of
from tests.worlds.world import NEWEST, World

BEFORE = REVISIONS[-2]
"""The revision of the tables of the release before this one."""

pytestmark = pytest.mark.skipif(not WHEEL.exists(), reason="the archive of the sources has no wheel in it")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with nodes(tmp_path) as start:
        yield start


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "previous")


def fired_by(dsn: str, node: str) -> int:
    [(count,)] = execute(dsn, f"SELECT count(*) FROM qrtz_executions WHERE instance_id = '{node}'")
    assert isinstance(count, int)
    return count


def twice(dsn: str) -> list[tuple[object, ...]]:
    """The instants that were fired more than once."""
    return execute(
        dsn,
        "SELECT trigger_name, generation, scheduled_time, attempt, count(*) FROM qrtz_executions"
        " GROUP BY 1, 2, 3, 4 HAVING count(*) > 1",
    )


@pytest.mark.parametrize("tables", ["of the previous", "of this"])
def test_nodes_of_both_releases_fire_on_the_tables_of_either(
    fresh_database: Callable[[], str], previous: Path, start: Start, tables: str
) -> None:
    dsn = fresh_database()
    if tables == "of this":
        migrations.upgrade(dsn)
    else:
        command(previous, "db", "upgrade", "--url", dsn)
        if migrations.current(dsn) != HEAD:
            pytest.skip("this release needs its own tables, and says so: test_migrations")
    scheduler = Scheduler(dsn, name=NAME)
    for number in range(5):
        scheduler.schedule_job(JobDetail("tick", f"job-{number}"), SimpleTrigger(f"t-{number}", interval="100ms"))
    scheduler.shutdown()
    running = [start(previous, dsn, "before"), start(ROOT, dsn, "now")]
    for name in ("before", "now"):
        wait_until(lambda name=name: fired_by(dsn, name) > 20)  # type: ignore[misc]
    assert all(node.poll() is None for node in running)
    assert twice(dsn) == []
    for told in ("nodes", "jobs", "triggers", "executions"):
        assert "job-1" in command(previous, told, "--url", dsn, "--name", NAME) or told == "nodes"


def test_tables_that_were_left_in_the_middle_of_work_are_upgraded_and_go_on(
    fresh_database: Callable[[], str], previous: Path, start: Start
) -> None:
    dsn = fresh_database()
    psql = [str(binaries_of(World("", NEWEST)) / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", libpq_url(dsn)]
    subprocess.run(psql, input=gzip.decompress(DUMP.read_bytes()), check=True, capture_output=True, timeout=120)
    [(executions, running)] = execute(
        dsn, "SELECT (SELECT count(*) FROM qrtz_executions), (SELECT count(*) FROM qrtz_scheduler_state)"
    )
    assert isinstance(executions, int)
    assert executions > 50
    assert running == 2
    command(previous, "db", "adopt", "--yes", "--url", dsn)
    start(previous, dsn, "before")
    wait_until(lambda: fired_by(dsn, "before") > 0)
    migrations.upgrade(dsn)
    migrations.check(dsn)
    node = start(ROOT, dsn, "now")
    for name in ("before", "now"):
        since = fired_by(dsn, name)
        wait_until(lambda name=name, since=since: fired_by(dsn, name) > since + 5)  # type: ignore[misc]
    node.kill()
    node.wait()
    migrations.downgrade(dsn, revision=BEFORE)
    since = fired_by(dsn, "before")
    wait_until(lambda: fired_by(dsn, "before") > since + 5)
    migrations.upgrade(dsn)
    assert twice(dsn) == []
    with Scheduler(dsn, name=NAME) as scheduler:
        job = scheduler.get_job_detail(JobKey("nightly", "DEFAULT"))
        assert job is not None
        assert (job.description, str(job.timeout), job.after is not None) == ("a job", "1:00:00", True)
        assert scheduler.trigger_record(TriggerKey("paused", "DEFAULT")) is not None
        assert scheduler.get_calendar("weekdays") is not None
        assert list(scheduler.limits()) == ["erp"]
