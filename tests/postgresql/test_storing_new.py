"""New jobs and triggers are stored in one round trip, and everything else as if that had not been tried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.calendars.days import AnnualCalendar
from quartzpy.errors import JobNotFoundError, JobStoreError, ObjectAlreadyExistsError, OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import TriggerState
from quartzpy.store.postgresql import storing
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry, TriggerGroups
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, prepare
from tests.contract.harness import stored_job, stored_trigger
from tests.database import waiting_sessions
from tests.waiting import wait_until

NOW = datetime.now(UTC)
OLD = JobDetail("known", "old", durable=True)
NEW = JobDetail("known", "new", durable=True)


def a_trigger(name: str, job: JobDetail = NEW, **values: Any) -> PreparedTrigger:
    return prepare(SimpleTrigger(name, job_key=job.key, start_time=NOW, **values), NOW, None)


@pytest.fixture(autouse=True)
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each attempt to store everything in one round trip ended."""
    outcomes: list[str] = []
    attempt = storing.store_in_one_round_trip

    def noted(*args: Any, **named: Any) -> datetime | None:
        try:
            stored = attempt(*args, **named)
        except BaseException as error:
            outcomes.append(type(error).__name__)
            raise
        outcomes.append("stored")
        return stored

    monkeypatch.setattr(storing, "store_in_one_round_trip", noted)
    return outcomes


@pytest.fixture
def expecting(store: SqlJobStore) -> SqlJobStore:
    """A store that holds the job `old` with the trigger `old`, and that expects the next ones to be new."""
    store.store_jobs([JobEntry(OLD, [a_trigger("old", OLD)])], replace=False)
    assert _session(store).expects_new
    return store


def _session(store: SqlJobStore) -> SqlSession:
    return store._session


def test_new_jobs_and_triggers_are_stored_with_all_their_values(expecting: SqlJobStore, tried: list[str]) -> None:
    job = JobDetail("known", "whole", description="all of it", data={"region": "eu"}, max_concurrent=2)
    several = [
        a_trigger("later", job, priority=7, data={"n": 1}, interval=60, repeat_count=3),
        a_trigger("earlier", job),
    ]
    earliest = expecting.store_jobs([JobEntry(NEW), JobEntry(job, several)], replace=False)
    assert tried == ["stored"]
    assert earliest == NOW
    assert stored_job(expecting, job.key) == job
    assert stored_job(expecting, NEW.key) == NEW
    for one in several:
        record = stored_trigger(expecting, one.trigger.key)
        assert record is not None
        assert record.trigger == one.trigger
        assert record.progress == one.progress
        assert record.state is TriggerState.WAITING


def test_a_job_without_triggers_has_no_fire_time(expecting: SqlJobStore, tried: list[str]) -> None:
    assert expecting.store_jobs([JobEntry(NEW)], replace=False) is None
    assert tried == ["stored"]
    assert stored_job(expecting, NEW.key) == NEW


def test_a_trigger_of_a_stored_job_is_new(expecting: SqlJobStore, tried: list[str]) -> None:
    assert expecting.store_jobs([JobEntry(None, [a_trigger("more", OLD)])], replace=False) == NOW
    assert tried == ["stored"]


STORED_ALREADY = {
    "the same job with a new trigger": (JobEntry(OLD, [a_trigger("more", OLD)]), None),
    "the same job with the same trigger": (JobEntry(OLD, [a_trigger("old", OLD)]), None),
    "another job": (JobEntry(OLD.with_values({"description": "another"}), [a_trigger("more", OLD)]), "description"),
    "another trigger": (JobEntry(NEW, [a_trigger("old")]), "job_key"),
    "a trigger with other values": (JobEntry(None, [a_trigger("old", OLD, priority=9)]), "priority"),
}


@pytest.mark.parametrize("case", STORED_ALREADY)
def test_what_is_stored_already_is_compared_and_nothing_else_is_stored(
    expecting: SqlJobStore, tried: list[str], case: str
) -> None:
    entry, refused = STORED_ALREADY[case]
    other = JobEntry(JobDetail("known", "beside", durable=True))
    if refused is None:
        assert expecting.store_jobs([other, entry], replace=False) == NOW
    else:
        with pytest.raises(ObjectAlreadyExistsError, match=refused):
            expecting.store_jobs([other, entry], replace=False)
    assert tried == ["NotInOneRoundTripError"]
    assert (stored_job(expecting, JobKey("beside")) is None) is (refused is not None)
    assert (stored_trigger(expecting, TriggerKey("more")) is None) is ("new trigger" not in case)
    old = stored_trigger(expecting, TriggerKey("old"))
    assert old is not None
    assert old.trigger.priority == 5
    # It is not tried again until a call finds that everything is new.
    expecting.store_jobs([JobEntry(NEW)], replace=False)
    assert tried == ["NotInOneRoundTripError"]
    expecting.store_jobs([JobEntry(None, [a_trigger("last")])], replace=False)
    assert tried == ["NotInOneRoundTripError", "stored"]


def test_a_trigger_without_its_job_is_refused(expecting: SqlJobStore, tried: list[str]) -> None:
    with pytest.raises(JobNotFoundError, match="new"):
        expecting.store_jobs([JobEntry(None, [a_trigger("t")])], replace=False)
    assert tried == ["NotInOneRoundTripError"]


def test_a_trigger_with_a_calendar_is_stored_the_long_way(expecting: SqlJobStore, tried: list[str]) -> None:
    expecting.put_calendar("holidays", AnnualCalendar([(1, 1)]), replace=False)
    trigger = SimpleTrigger("t", job_key=OLD.key, start_time=NOW, calendar="holidays")
    stored = expecting.calendars({"holidays"})["holidays"]
    one = prepare(trigger, NOW, stored.calendar, stored.revision)
    expecting.store_jobs([JobEntry(None, [one])], replace=False)
    assert tried == []


def test_what_is_too_large_for_one_round_trip_is_stored_the_long_way(
    expecting: SqlJobStore, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "CHUNK_BYTES", 100)
    job = JobDetail("known", "large", data={"text": "x" * 60})
    trigger = a_trigger("large", job, data={"text": "y" * 60})
    assert expecting.store_jobs([JobEntry(job, [trigger])], replace=False) == NOW
    assert tried == ["NotInOneRoundTripError"]
    assert stored_job(expecting, job.key) == job


def test_a_key_that_is_given_twice_is_not_stored_once(expecting: SqlJobStore, tried: list[str]) -> None:
    with pytest.raises(JobStoreError):
        expecting.store_jobs([JobEntry(NEW), JobEntry(NEW.with_values({"description": "another"}))], replace=False)
    assert tried == []
    assert stored_job(expecting, NEW.key) is None


def test_a_late_pipeline_is_repeated_with_the_real_time(
    expecting: SqlJobStore, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "LATENESS", timedelta(seconds=-1))
    unprepared = UnpreparedTrigger(
        SimpleTrigger("t", job_key=OLD.key), lambda trigger, now: prepare(trigger, now, None)
    )
    expecting.now()
    began = expecting.now()
    assert began <= (expecting.store_jobs([JobEntry(None, [unprepared])], replace=False) or began) <= expecting.now()
    assert tried == ["NotInOneRoundTripError"]


def test_a_lost_row_of_a_lock_is_restored(
    expecting: SqlJobStore, tried: list[str], connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    connect().execute("DELETE FROM qrtz_locks")
    expecting.store_jobs([JobEntry(NEW, [a_trigger("t")])], replace=False)
    assert tried == ["stored"]


def test_a_pause_that_is_committed_while_the_pipeline_waits_for_the_lock_counts(
    expecting: SqlJobStore,
    make_store: Callable[..., SqlJobStore],
    connect: Callable[[], psycopg.Connection[Any]],
    tried: list[str],
) -> None:
    holder = connect()
    holder.execute("BEGIN")
    holder.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
    # The pause waits for the lock before the round trip does, so it is committed first.
    pausing = threading.Thread(target=make_store().pause, args=(TriggerGroups(GroupMatcher.equals("DEFAULT")),))
    storing = threading.Thread(
        target=expecting.store_jobs, args=([JobEntry(NEW, [a_trigger("t")])],), kwargs={"replace": False}
    )
    observer = connect()
    for number, thread in enumerate((pausing, storing), start=1):
        thread.start()
        wait_until(lambda number=number: waiting_sessions(observer) == number)
    holder.execute("ROLLBACK")
    pausing.join()
    storing.join()
    record = stored_trigger(expecting, TriggerKey("t"))
    assert record is not None
    assert record.state is TriggerState.PAUSED
    assert tried == ["stored"]


def test_a_row_that_another_transaction_holds_is_awaited_without_the_lock(
    expecting: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], tried: list[str]
) -> None:
    holder, observer = connect(), connect()
    holder.execute("BEGIN")
    holder.execute("SELECT FROM qrtz_job_details WHERE job_name = 'old' FOR UPDATE")
    storing = threading.Thread(
        target=expecting.store_jobs, args=([JobEntry(None, [a_trigger("t", OLD)])],), kwargs={"replace": False}
    )
    storing.start()
    wait_until(lambda: waiting_sessions(observer) == 1)
    with observer.transaction():
        observer.execute("SELECT FROM qrtz_locks FOR UPDATE NOWAIT")
    holder.execute("ROLLBACK")
    storing.join()
    assert tried == ["stored"]
    assert stored_trigger(expecting, TriggerKey("t")) is not None


@pytest.mark.parametrize("commits", [True, False])
def test_a_key_that_another_transaction_is_storing_is_new_only_if_that_one_rolls_back(
    expecting: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], tried: list[str], commits: bool
) -> None:
    observer = connect()
    storing = threading.Thread(
        target=expecting.store_jobs, args=([JobEntry(NEW, [a_trigger("t")])],), kwargs={"replace": False}
    )
    holder = connect()
    holder.execute("BEGIN")
    holder.execute(
        "INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data,"
        " requests_recovery)"
        " SELECT sched_name, job_group, 'new', job_type, is_durable, persists_data, requests_recovery"
        " FROM qrtz_job_details j WHERE j.job_name = 'old'"
    )
    storing.start()
    wait_until(lambda: waiting_sessions(observer) == 1)
    holder.execute("COMMIT" if commits else "ROLLBACK")
    storing.join()
    assert tried == ["NotInOneRoundTripError" if commits else "stored"]
    assert stored_trigger(expecting, TriggerKey("t")) is not None


def test_what_was_stored_before_its_answer_was_lost_is_there_and_may_be_stored_again(
    expecting: SqlJobStore, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = JobEntry(NEW, [a_trigger("t")])
    execute_on = expecting._connections.execute_on

    def lost(*args: Any, **named: Any) -> Any:
        execute_on(*args, **named)
        raise OutcomeUnknownError("the connection broke during the commit")

    with monkeypatch.context() as patched:
        patched.setattr(expecting._connections, "execute_on", lost)
        with pytest.raises(OutcomeUnknownError):
            expecting.store_jobs([entry], replace=False)
    assert tried == ["OutcomeUnknownError"]
    assert stored_trigger(expecting, TriggerKey("t")) is not None
    assert expecting.store_jobs([entry], replace=False) == NOW
