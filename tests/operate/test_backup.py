"""What `docs/operate/backup.md` promises, tried with pg_dump and a restored database."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.calendars.days import DayOfWeek
from quartzpy.states import Outcome
from quartzpy.store.postgresql import migrations
from tests.database import connect_to, libpq_url
from tests.docs.code_blocks import ROOT
from tests.worlds import current
from tests.worlds.stage import binaries_of

SETTINGS = {"name": "shop", "checkin_interval": "200ms", "lock_timeout": "1s", "failure_window": "2s"}
SOON = timedelta(seconds=60)
PAGE = ROOT / "docs" / "operate" / "backup.md"
begun, gate = threading.Event(), threading.Event()


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Long(Job):
    def execute(self, context: JobExecutionContext) -> None:
        begun.set()
        gate.wait(60)


def copied(source: str, target: str, directory: Path) -> None:
    """Dump a database and restore it into an empty one, with the commands of the page."""
    dump = directory / "backup.dump"
    # Those of the server's own version: it does not take what newer ones write.
    programs = binaries_of(current.or_newest())
    for name, *arguments in (
        ("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={libpq_url(source)}"),
        ("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={libpq_url(target)}", str(dump)),
    ):
        program = programs / name
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def source(new_database: str) -> Iterator[str]:
    begun.clear()
    gate.clear()
    yield new_database
    gate.set()


def test_a_restored_database_continues_where_the_dump_was_made(
    source: str, fresh_database: Callable[[], str], tmp_path: Path
) -> None:
    node = Scheduler(source, **SETTINGS)
    node.start()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    node.add_calendar("weekly", WeeklyCalendar({DayOfWeek.of((tomorrow + timedelta(days=1)).date())}))
    node.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("done"))
    assert node.wait_until_recorded(1, SOON)
    later = SimpleTrigger("later", start_time=tomorrow, calendar="weekly")
    node.schedule_job(JobDetail(Quick, "later"), later)
    node.schedule_job(JobDetail(Long, "again", requests_recovery=True), SimpleTrigger("again"))
    assert begun.wait(60)
    # While the node runs: a dump is one snapshot.
    restored = fresh_database()
    copied(source, restored, tmp_path)
    gate.set()
    node.shutdown()

    migrations.check(restored)
    second = Scheduler(restored, **SETTINGS)
    record = second.trigger_record(TriggerKey("later"))
    assert record is not None
    assert record.next_fire_time == next_fire_time_in(source, "later")
    assert [one.outcome for one in second.executions(job=JobKey("quick"))] == [Outcome.SUCCEEDED]
    # What ran while the dump was made belongs to a node that is dead in the copy.
    begun.clear()
    second.start()
    assert any("db adopt" in problem for problem in second.health().problems)
    migrations.adopt(restored, by="test")
    assert begun.wait(60), "the job that requests recovery runs again"
    second.shutdown()


def next_fire_time_in(dsn: str, name: str) -> datetime | None:
    client = Scheduler(dsn, **SETTINGS)
    record = client.trigger_record(TriggerKey(name))
    client.shutdown()
    assert record is not None
    return record.next_fire_time


def test_the_command_of_the_page_keeps_fencing_tokens_rising(
    source: str, fresh_database: Callable[[], str], tmp_path: Path
) -> None:
    """Fires after the dump have ids that the restored database would give again."""
    restored = fresh_database()
    copied(source, restored, tmp_path)
    with Scheduler(source, **SETTINGS) as node:
        node.schedule_job(JobDetail(Quick, "job"), SimpleTrigger("t"))
        assert node.wait_until_recorded(1, SOON)
        [execution] = node.executions()
        used = execution.fire_id
    assert used is not None
    with connect_to(restored) as connection:
        before = connection.execute("SELECT nextval('qrtz_fire_ids')").fetchone()
        assert before is not None
        assert before[0] <= used, "without the command an id is used twice"
    assert 'quartzpy db adopt --url "$RESTORED"' in PAGE.read_text()
    migrations.adopt(restored, by="test")
    with Scheduler(restored, **SETTINGS) as node:
        node.schedule_job(JobDetail(Quick, "job"), SimpleTrigger("t"))
        assert node.wait_until_recorded(1, SOON)
        [execution] = node.executions()
        assert execution.fire_id is not None
        assert execution.fire_id > used + 1_000_000
