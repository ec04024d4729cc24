"""Actions of operators and their rows of the audit log, in one transaction of the database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.errors import JobStoreError, StoreUnavailableError
from quartzpy.keys import TriggerKey
from quartzpy.operations import Operations
from quartzpy.store.sql.store import SqlJobStore
from tests.database import execute

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

    monkeypatch.setattr(SqlJobStore, "record_action", failing)
    with pytest.raises(JobStoreError, match="the audit log is full"):
        operations.actions.pause(KEY)
    assert state(operations) == "WAITING"


def test_a_connection_that_is_lost_within_an_action_leaves_nothing_but_its_failure(
    operations: Operations, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_action = SqlJobStore.record_action
    calls = []

    def record(store: SqlJobStore, entry: object) -> int:
        calls.append(entry)
        if len(calls) == 1:
            execute(
                postgres_dsn,
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND datname = current_database() AND state LIKE 'idle in transaction%'",
            )
        return record_action(store, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlJobStore, "record_action", record)
    with pytest.raises(StoreUnavailableError):
        operations.actions.pause(KEY)
    assert state(operations) == "WAITING"
    [found] = operations.audit_log()
    assert (found.action, found.state, found.count) == ("pause", "FAILED", 0)
