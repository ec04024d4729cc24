"""What a user's open transaction holds delays its own triggers, and no others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import CONTINUATIONS, RETRYING_JOBS, JobKey
from quartzpy.states import CompletionInstruction, JobMode, Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import FiredTrigger, JobEntry, TriggersOfJobs
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.contract.harness import stored_job
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, OPENINGS, Connect, acquire, ended, store_due

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HELD, FREE = JobKey("held", "DEFAULT"), JobKey("free", "DEFAULT")
WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def impatient(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    """A store whose steps fail where they wait."""
    return make_store(lock_timeout="1s")


@contextmanager
def transaction(connect: Connect) -> Iterator[psycopg.Connection[Any]]:
    user = connect()
    user.execute("BEGIN")
    yield user
    user.execute("ROLLBACK")


def due(job: JobKey, name: str, **how: Any) -> PreparedTrigger:
    now = datetime.now(UTC)
    trigger = SimpleTrigger(
        name, job_key=job, start_time=now - SECOND, interval=timedelta(hours=1), repeat_count=5, **how
    )
    return prepare(trigger, now, None)


def a_job(key: JobKey, **how: Any) -> JobDetail:
    return JobDetail(how.pop("job_type", LANES[0].job_type), key.name, durable=True, **how)


DUE_AGAIN = {"due", "recover", "retry"}


def kinds(fired: Iterable[FiredTrigger], of: JobKey) -> set[str]:
    """Which of what a job's triggers are named for was fired."""
    return {kind for one in fired if one.job_key == of for kind in DUE_AGAIN if kind in one.trigger_name}


def enable_and_delete(inside: SqlJobStore) -> None:
    """The newest version of the row is locked more strongly than the one that others see."""
    inside.set_mode(HELD, JobMode.ENABLED)
    inside.delete_jobs([HELD])


USERS: dict[str, Callable[[SqlJobStore], Any]] = {
    "enable_and_delete_job": enable_and_delete,
    "delete_job": lambda inside: inside.delete_jobs([HELD]),
    "schedule": lambda inside: inside.store_jobs([JobEntry(None, [due(HELD, "new")])], replace=True),
    "replace_job": lambda inside: inside.store_jobs([JobEntry(a_job(HELD, job_type="another"))], replace=True),
    "pause_job": lambda inside: inside.pause(TriggersOfJobs([HELD])),
    "enable_job": lambda inside: inside.set_mode(HELD, JobMode.ENABLED),
    "disable_job": lambda inside: inside.set_mode(HELD, JobMode.DISABLED),
}


@pytest.mark.parametrize("does", USERS)
def test_no_step_waits_for_a_users_transaction(impatient: SqlJobStore, connect: Connect, does: str) -> None:
    store = impatient
    node, dead = register(store), register(store, "dead")

    def fire(*names: str, by: Any = node) -> dict[str, FiredTrigger]:
        for key in (FREE, HELD):
            entry = JobEntry(a_job(key, requests_recovery=True), [due(key, f"{key.name} {name}") for name in names])
            store.store_jobs([entry], replace=True)
        took = store.acquire(by, OPENINGS, limit=100, look_ahead=timedelta(), misfire_threshold=MINUTE)
        return {one.trigger_name: one for one in took.fired}

    mine = fire("fails")
    assert len(mine) == len(fire("dies", by=dead)) == 2
    for key in (FREE, HELD):
        store.store_jobs([JobEntry(None, [due(key, f"{key.name} late"), due(key, f"{key.name} due")])], replace=True)
    connect().execute(
        "UPDATE qrtz_triggers SET next_fire_time = now() - interval '1 h' WHERE trigger_name LIKE '%late'"
    )
    failed = [ended(one, retry_after=timedelta()) for one in mine.values()]
    judged = [record for record in store.list_nodes().nodes if record.instance_id == "dead"]

    with transaction(connect) as user:
        USERS[does](store.within(user))
        outcome = store.complete(node, failed)
        store.recover(node, judged)
        misfired = store.recover_misfires(node, threshold=MINUTE, limit=10).misfired
        fired = acquire(store, node).fired
        assert "free late" in {key.name for key in misfired}
        assert kinds(fired, FREE) == DUE_AGAIN
        assert not outcome.fenced

    # What had to be put off is done afterwards.
    put_off = [one for one in failed if one.fired.fire_id in outcome.deferred]
    assert not put_off or not store.complete(node, put_off).deferred
    store.recover(node, [])
    assert kinds([*fired, *acquire(store, node).fired], HELD) == DUE_AGAIN


def test_a_retry_of_a_job_that_is_being_deleted_waits_and_no_other_completion_does(
    impatient: SqlJobStore, connect: Connect
) -> None:
    store = impatient
    node = register(store)
    store_due(store, "a", job=HELD.name)
    store_due(store, "b", job=FREE.name)
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    with transaction(connect) as user:
        store.within(user).delete_jobs([HELD])
        outcome = store.complete(node, [ended(one, retry_after=timedelta()) for one in fired.values()])
        assert set(outcome.deferred) == {fired["a"].fire_id}
    assert not store.complete(node, [ended(fired["a"], retry_after=timedelta())]).deferred
    retries = [
        record.trigger.job_key for record in store.find(TriggerQuery(), 10) if record.trigger.group == RETRYING_JOBS
    ]
    assert sorted(key for key in retries if key) == [FREE, HELD]


def test_an_end_waits_for_the_job_that_runs_after_it_and_no_other_completion_does(
    impatient: SqlJobStore, connect: Connect
) -> None:
    store = impatient
    node = register(store)
    store.store_jobs([JobEntry(a_job(HELD)), JobEntry(a_job(FREE))], replace=False)
    for name, follower in (("a", HELD), ("b", FREE)):
        first = a_job(JobKey(name), continuations=[follower])
        store.store_jobs([JobEntry(first, [due(first.key, name)])], replace=False)
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    with transaction(connect) as user:
        store.within(user).delete_jobs([HELD])
        outcome = store.complete(node, [ended(one) for one in fired.values()])
        assert set(outcome.deferred) == {fired["a"].fire_id}
    assert not store.complete(node, [ended(fired["a"])]).deferred
    after = [record.trigger for record in store.find(TriggerQuery(), 10)]
    assert sorted(one.job_key for one in after if one.job_key and one.group == CONTINUATIONS) == [FREE, HELD]


def test_a_trigger_of_a_users_transaction_has_the_key_that_its_job_has_when_it_is_settled(
    store: SqlJobStore, connect: Connect
) -> None:
    node = register(store)
    keyed = {"concurrency_key": "customer"}
    store.store_jobs([JobEntry(a_job(FREE, **keyed), [due(FREE, "x1", data={"customer": "x"})])], replace=False)
    [running] = acquire(store, node).fired
    with connect() as user:
        user.execute("BEGIN")
        for name in ("x2", "y1"):
            store.within(user).store_jobs(
                [JobEntry(None, [due(FREE, name, data={"customer": name[0]})])], replace=False
            )
        user.execute("COMMIT")
    assert [one.trigger_name for one in acquire(store, node).fired] == ["y1"]
    store.complete(node, [ended(running)])
    assert running.gate is not None
    assert [one.trigger_name for one in acquire(store, node, opened=[running.gate]).fired] == ["x2"]


def test_an_execution_is_recorded_only_with_its_data(store: SqlJobStore, connect: Connect) -> None:
    """Whatever else is changed in the job's row at the same time."""
    node = register(store)
    job = a_job(HELD, persist_data=True)
    store.store_jobs([JobEntry(job)], replace=False)
    stop = threading.Event()

    def hammer() -> None:
        mine = connect()
        while not stop.is_set():
            mine.execute("UPDATE qrtz_job_details SET owner = clock_timestamp()::text")

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for thread in threads:
        thread.start()
    lost = []
    try:
        for n in range(150):
            store.store_jobs([JobEntry(None, [due(HELD, "t")])], replace=True)
            [fired] = acquire(store, node).fired
            while store.complete(node, [ended(fired, job_data=f'{{"n": {n}}}')]).deferred:
                pass
            stored = stored_job(store, HELD)
            assert stored is not None
            if stored.data != {"n": n}:
                lost.append(n)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not lost


def test_what_a_job_asks_of_its_triggers_waits_for_one_that_is_held(impatient: SqlJobStore, connect: Connect) -> None:
    store = impatient
    node = register(store)
    store_due(store, "a", "b")
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    asks = ended(fired["a"], instruction=CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE)
    with transaction(connect) as user:
        user.execute("UPDATE qrtz_triggers SET description = 'mine' WHERE trigger_name = 'b'")
        assert set(store.complete(node, [asks, ended(fired["b"])]).deferred) == {fired["a"].fire_id}
    assert not store.complete(node, [asks]).deferred
    assert {record.state for record in store.find(TriggerQuery(), 10)} == {"COMPLETE"}


def test_a_jobs_own_transaction_waits_for_the_row_of_the_job(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "a", job="writes", persist=True)
    [fired] = acquire(store, node).fired
    user = connect()
    user.execute("BEGIN")
    user.execute("SELECT 1 FROM qrtz_job_details FOR UPDATE")
    work = store.begin_job_transaction()
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(work.complete(node, ended(fired, job_data='{"n": 1}'))))
    thread.start()
    # A transaction sees other sessions as they were when it looked first.
    watching = connect()
    try:
        while not watching.execute(WAITS).fetchone() and thread.is_alive():
            threading.Event().wait(0.01)
    finally:
        user.execute("COMMIT")
        thread.join(60)
        work.close()
    assert outcomes, "it was not refused"
    job = stored_job(store, fired.job_key)
    assert job is not None
    assert job.data == {"n": 1}


def test_a_failure_is_counted_once_its_jobs_row_is_free_and_no_other_completion_waits(
    impatient: SqlJobStore, connect: Connect
) -> None:
    store = impatient
    node = register(store)
    store.store_jobs(
        [
            JobEntry(a_job(HELD, pause_after_failures=1), [due(HELD, "a")]),
            JobEntry(a_job(FREE, pause_after_failures=1), [due(FREE, "b")]),
        ],
        replace=False,
    )
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    failed = {name: replace(ended(one), outcome=Outcome.FAILED) for name, one in fired.items()}
    with transaction(connect) as user:
        store.within(user).modify_job(HELD, lambda one: one.with_values({"pause_after_failures": 2}), keeps_data=True)
        outcome = store.complete(node, list(failed.values()))
        assert set(outcome.deferred) == {fired["a"].fire_id}
        assert set(outcome.paused) == {FREE}
    outcome = store.complete(node, [failed["a"]])
    assert not outcome.deferred
    assert set(outcome.paused) == {HELD}
