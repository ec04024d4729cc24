"""Actions of operators and their rows of the audit log, in one transaction of the database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.errors import JobStoreError, StoreUnavailableError
from quartzpy.keys import TriggerKey
from quartzpy.operations import Operations
from quartzpy.operations.actions import audit_log
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.operators import Admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from tests.database import IN_TRANSACTION, connect_to, end_sessions

KEY = TriggerKey("t")
LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def operations(postgres_dsn: str) -> Iterator[Operations]:
    scheduler = Scheduler(postgres_dsn, name="actions")
    scheduler.schedule_job(JobDetail("a:b", "job"), SimpleTrigger("t", start_time=LATER))
    yield Operations(scheduler)
    scheduler.shutdown()


def state(operations: Operations) -> str:
    record = operations.scheduler.trigger_record(KEY)
    assert record is not None
    return record.state


def test_a_change_whose_row_cannot_be_written_is_not_made(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: object) -> int:
        raise JobStoreError("the audit log is full")

    monkeypatch.setattr(Admin, "record_action", failing)
    with pytest.raises(JobStoreError, match="the audit log is full"):
        operations.actions.pause(KEY)
    assert state(operations) == "WAITING"


def test_a_connection_that_is_lost_within_an_action_leaves_nothing_but_its_failure(
    operations: Operations, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_action = Admin.record_action
    calls = []

    def record(store: Admin, entry: object) -> int:
        calls.append(entry)
        if len(calls) == 1:
            with connect_to(postgres_dsn) as other:
                end_sessions(other, IN_TRANSACTION)
        return record_action(store, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(Admin, "record_action", record)
    with pytest.raises(StoreUnavailableError):
        operations.actions.pause(KEY)
    assert state(operations) == "WAITING"
    [found] = operations.audit_log()
    assert (found.action, found.state, found.count) == ("pause", "FAILED", 0)


_PAUSES_UNTIL_KILLED = """
import sys, time
from quartzpy import Scheduler
from quartzpy.operations import Operations, Selection
from quartzpy.operations.actions import log

def report(progress):
    if progress.changed:
        print(progress.action_id, flush=True)
        time.sleep(600)

log.SLICE = 2
Operations(Scheduler(sys.argv[1], name="actions")).actions.reporting(report).pause(Selection.triggers())
"""


def test_an_action_whose_process_was_killed_is_interrupted_with_what_it_had_done(
    operations: Operations, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("u", "v", "w"):
        operations.scheduler.schedule_job(JobDetail("a:b", name), SimpleTrigger(name, start_time=LATER))
    command = [sys.executable, "-c", _PAUSES_UNTIL_KILLED, postgres_dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        action_id = int(process.stdout.readline())
        process.kill()
    assert operations.audit_entry(action_id).state == "RUNNING", "a minute has not passed"
    monkeypatch.setattr(audit_log, "ACTION_SILENCE", timedelta(0))
    found = operations.audit_entry(action_id)
    assert (found.state, found.count) == ("INTERRUPTED", 2)
    assert found.ended_at is not None
    assert found.at < found.ended_at < operations.now()
    assert "what was changed until then stays changed" in (found.error or "")
    states = [record.state for record in operations.scheduler.triggers()]
    assert sorted(states) == ["PAUSED", "PAUSED", "WAITING", "WAITING"]


def test_a_listing_of_actions_marks_those_that_were_interrupted(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operations.scheduler._usable_store()
    admin(store).record_action(ActionEntry("ann", "admin", "delete", "all triggers"))
    assert [one.state for one in operations.audit_log()] == ["RUNNING"]
    assert len(operations.audit_log(state="INTERRUPTED")) == 0
    monkeypatch.setattr(audit_log, "ACTION_SILENCE", timedelta(0))
    assert [one.state for one in operations.audit_log()] == ["INTERRUPTED"]
    admin(store).record_action(ActionEntry("ann", "admin", "delete", "all triggers"))
    assert len(operations.audit_log(state="INTERRUPTED")) == 2
