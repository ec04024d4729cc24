"""Very many triggers are stored by one call: batch by batch, all or none."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.errors import TriggerNeverFiresError
from quartzpy.jobs.job import JobDetail
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, TriggerState
from quartzpy.store.postgresql import batches, storing
from quartzpy.store.postgresql.batches import computed_ahead
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING, JobEntry, JobGroups, TriggerGroups
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, prepare
from tests.contract.harness import stored_job
from tests.waiting import wait_until

NOW = datetime.now(UTC)
CHUNK = 50
JOB = JobDetail("known", "job", durable=True)


class Counted(PreparedTrigger):
    """A prepared trigger to which a weak reference is possible."""


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK", CHUNK)


def triggers(count: int, **values: Any) -> list[Trigger]:
    return [
        SimpleTrigger(f"t{number:05}", job_key=JOB.key, start_time=NOW + timedelta(days=1), interval=60, **values)
        for number in range(count)
    ]


def entry(several: list[Trigger], prepare_one: Callable[[Trigger, datetime], PreparedTrigger]) -> JobEntry:
    return JobEntry(JOB, [UnpreparedTrigger(one, prepare_one) for one in several])


def plainly(trigger: Trigger, now: datetime) -> PreparedTrigger:
    return prepare(trigger, NOW, None)


@pytest.mark.usefixtures("small_chunks")
def test_only_a_few_batches_are_prepared_at_a_time(store: SqlJobStore) -> None:
    alive: weakref.WeakValueDictionary[str, Counted] = weakref.WeakValueDictionary()
    most = 0

    def counted(trigger: Trigger, now: datetime) -> PreparedTrigger:
        nonlocal most
        found = plainly(trigger, now)
        mine = Counted(found.trigger, found.progress, found.upcoming, found.calendar_revision, found.schedule_hash)
        alive[trigger.key.name] = mine
        most = max(most, len(alive))
        return mine

    many = triggers(20 * CHUNK)
    store.store_jobs([entry(many, counted)], replace=False)
    assert len(store.find(TriggerQuery(job_key=JOB.key), None)) == len(many)
    assert most <= 3 * CHUNK, "the batch in use, the one that is ready and the one that is being prepared"


@pytest.mark.usefixtures("small_chunks")
def test_a_long_pause_between_batches_does_not_end_the_transaction(make_store: Callable[..., SqlJobStore]) -> None:
    store = make_store(lock_timeout="100ms")
    several = triggers(4 * CHUNK)

    def slowly(trigger: Trigger, now: datetime) -> PreparedTrigger:
        if trigger.key == several[2 * CHUNK].key:
            # The server counts how long the connection is idle.
            time.sleep(0.5)
        return plainly(trigger, now)

    store.store_jobs([entry(several, slowly)], replace=False)
    assert len(store.find(TriggerQuery(job_key=JOB.key), None)) == len(several)


@pytest.mark.usefixtures("small_chunks")
def test_nothing_is_stored_if_a_late_batch_holds_a_trigger_that_never_fires(store: SqlJobStore) -> None:
    over = CronTrigger("0 0 0 1 1 ? 2020", "z", job_key=JOB.key, start_time=NOW)
    with pytest.raises(TriggerNeverFiresError, match=r"DEFAULT\.z"):
        store.store_jobs([entry([*triggers(5 * CHUNK), over], plainly)], replace=False)
    assert stored_job(store, JOB.key) is None


@pytest.mark.usefixtures("small_chunks")
def test_storing_the_same_again_keeps_all(store: SqlJobStore) -> None:
    several = triggers(3 * CHUNK)
    first = store.store_jobs([entry(several, plainly)], replace=False)
    for replacing in (False, True):
        assert store.store_jobs([entry(several, plainly)], replace=replacing) == first == NOW + timedelta(days=1)


CHANGES: dict[str, Callable[[SqlJobStore], object]] = {
    "everything": lambda store: store.pause(EVERYTHING),
    "the job's group": lambda store: store.pause(JobGroups(GroupMatcher.equals("DEFAULT"))),
    "the triggers' group": lambda store: store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT"))),
    "manual mode": lambda store: store.set_mode(None, JobMode.MANUAL),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_paused_while_many_triggers_are_written_holds_them(
    make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """They are written without the lock, so that what is paused is looked at once more when it is held."""
    store, other = make_store(), make_store()
    store.store_jobs([JobEntry(JOB)], replace=False)
    checked = storing._still_ordinary
    done: list[str] = []

    def late(*arguments: Any) -> Any:
        if not done:
            done.append(change)
            CHANGES[change](other)
        return checked(*arguments)

    monkeypatch.setattr(storing, "_still_ordinary", late)
    store.store_jobs([entry(triggers(3 * CHUNK), plainly)], replace=False)
    assert done, "the triggers are written in several batches"
    states = {record.state for record in store.find(TriggerQuery(job_key=JOB.key), None)}
    assert states == {TriggerState.PAUSED}


@pytest.mark.usefixtures("small_chunks")
def test_many_triggers_that_are_written_while_their_job_changes_obey_the_new_one(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """A statement that waits for the row of a job has read it as it was before."""
    store.store_jobs([JobEntry(JOB)], replace=False)
    other = connect()
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("SELECT FROM qrtz_job_details FOR UPDATE")
            other.execute("UPDATE qrtz_job_details SET max_concurrent = 1")
            stored = pool.submit(
                store.store_jobs, [replace(entry(triggers(3 * CHUNK), plainly), job=None)], replace=False
            )
            waiting = "SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            wait_until(lambda: other.execute(waiting).fetchone() is not None, "the statement that waits")
        stored.result(30)
    assert connect().execute("SELECT DISTINCT max_concurrent FROM qrtz_triggers").fetchall() == [(1,)]


@pytest.mark.usefixtures("small_chunks")
def test_many_triggers_obey_a_job_that_changed_after_they_were_written(
    make_store: Callable[..., SqlJobStore],
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[[], psycopg.Connection[Any]],
) -> None:
    """Whoever changes it does not see them, because they are not committed."""
    store, other = make_store(), make_store()
    store.store_jobs([JobEntry(JOB)], replace=False)
    checked = storing._still_ordinary
    done: list[None] = []

    def late(*arguments: Any) -> Any:
        if not done:
            done.append(other.store_jobs([JobEntry(JOB.with_values({"max_concurrent": 2}))], replace=True))
        return checked(*arguments)

    monkeypatch.setattr(storing, "_still_ordinary", late)
    store.store_jobs([replace(entry(triggers(3 * CHUNK), plainly), job=None)], replace=False)
    assert done, "the triggers are written in several batches"
    assert connect().execute("SELECT DISTINCT max_concurrent FROM qrtz_triggers").fetchall() == [(2,)]


def test_the_following_item_is_computed_while_one_is_used() -> None:
    computed = [threading.Event() for _ in range(5)]
    limit = 20.0

    def compute(number: int) -> int:
        computed[number].set()
        return number * number

    found = []
    for result in computed_ahead(compute, range(5)):
        ahead = len(found) + 1
        assert ahead == 5 or computed[ahead].wait(limit)
        assert not any(one.is_set() for one in computed[ahead + 1 :])
        found.append(result)
    assert found == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_of_a_batch_reaches_the_caller(count: int) -> None:
    def compute(number: int) -> int:
        if number == count - 1:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match=str(count - 1)):
        list(computed_ahead(compute, range(count)))
