"""The rows of joins: what holds them delays the ends that they count, and no others; and who writes them together."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from quartzpy.errors import InvalidJobError, JobNotFoundError
from quartzpy.jobs.internal_entries import BatchKey, batch_entry
from quartzpy.jobs.join import ON
from quartzpy.keys import CONTINUATIONS, JobKey, TriggerKey
from quartzpy.states import JoinState
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import BatchEntry, JobEntry, NamedTriggers
from quartzpy.store.queries import JobQuery, JoinQuery, TriggerQuery
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import Connect, acquire, ended
from tests.postgresql.test_users_transactions import FREE, HELD, WAITS, a_job, due, transaction


@pytest.fixture
def impatient(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    """A store whose steps fail where they wait."""
    return make_store(lock_timeout="1s")


def started(store: SqlJobStore) -> list[JobKey]:
    return sorted(record.job_key for record in store.find(TriggerQuery(), 10) if record.key.group == CONTINUATIONS)


def waits_for_a_row(connect: Connect, thread: threading.Thread) -> None:
    """Return as soon as a thread waits for a row that somebody has locked."""
    connection = connect()
    while not connection.execute(WAITS).fetchone():
        assert thread.is_alive()


@pytest.mark.parametrize("held", ["qrtz_job_details", "qrtz_joins"])
def test_an_end_waits_for_the_rows_of_its_join_and_no_other_completion_does(
    impatient: SqlJobStore, connect: Connect, held: str
) -> None:
    store = impatient
    node = register(store)
    upstream = {name: a_job(JobKey(name)) for name in ("a1", "a2", "b1", "b2")}
    for name, job in upstream.items():
        store.store_jobs([JobEntry(job, [due(job.key, name)])], replace=False)
    for key, letter in ((HELD, "a"), (FREE, "b")):
        store.store_jobs([JobEntry(a_job(key, after=[f"{letter}1", f"{letter}2"]))], replace=False)
    # Each was stored at a moment of its own.
    connect().execute("UPDATE qrtz_triggers SET next_fire_time = (SELECT min(next_fire_time) FROM qrtz_triggers)")
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    assert not store.complete(node, [ended(fired["a1"]), ended(fired["b1"])]).deferred
    with transaction(connect) as user:
        user.execute(f"SELECT FROM {held} WHERE job_name = 'held' FOR UPDATE")
        outcome = store.complete(node, [ended(fired["a2"]), ended(fired["b2"])])
        assert set(outcome.deferred) == {fired["a2"].fire_id}
        assert started(store) == [FREE]
    assert not store.complete(node, [ended(fired["a2"])]).deferred
    assert started(store) == [FREE, HELD]
    assert [join.state for join in store.find(JoinQuery(), 10)] == [JoinState.FIRED] * 2


def test_of_two_programs_that_store_jobs_which_wait_for_the_same_neither_is_forgotten(
    store: SqlJobStore, connect: Connect
) -> None:
    """The second one waits for the row, and computes from what the first has written."""
    node = register(store)
    up = a_job(JobKey("up"))
    store.store_jobs([JobEntry(up, [due(up.key, "up")])], replace=False)
    user = connect()
    user.execute("BEGIN")
    store.within(user).store_jobs([JobEntry(a_job(FREE, after=["up"]))], replace=False)
    second = threading.Thread(
        target=store.store_jobs, args=([JobEntry(a_job(HELD, after=["up"]))],), kwargs={"replace": False}
    )
    second.start()
    waits_for_a_row(connect, second)
    user.execute("COMMIT")
    second.join()
    [fired] = acquire(store, node).fired
    assert not store.complete(node, [ended(fired)]).deferred
    assert started(store) == [FREE, HELD]


def test_a_job_is_not_stored_after_one_that_somebody_deletes_meanwhile(store: SqlJobStore, connect: Connect) -> None:
    store.store_jobs([JobEntry(a_job(JobKey("up")))], replace=False)
    user = connect()
    user.execute("BEGIN")
    store.within(user).delete_jobs([JobKey("up")])
    errors: list[BaseException] = []

    def store_one() -> None:
        try:
            store.store_jobs([JobEntry(a_job(FREE, after=["up"]))], replace=False)
        except JobNotFoundError as error:
            errors.append(error)

    other = threading.Thread(target=store_one)
    other.start()
    waits_for_a_row(connect, other)
    user.execute("COMMIT")
    other.join()
    [error] = errors
    assert "up" in str(error)
    assert not store.find(JobQuery(), 10)


def test_the_rows_of_upstreams_follow_the_jobs_that_name_them(store: SqlJobStore, connect: Connect) -> None:
    def rows() -> list[tuple[str, str]]:
        stored = "SELECT job_name, upstream_name FROM qrtz_job_upstreams ORDER BY job_name, upstream_name"
        return connect().execute(stored).fetchall()

    store.store_jobs([JobEntry(a_job(JobKey(name))) for name in "abc"], replace=False)
    store.store_jobs([JobEntry(a_job(JobKey("down"), after=["a", "b"]))], replace=False)
    assert rows() == [("down", "a"), ("down", "b")]
    store.store_jobs([JobEntry(a_job(JobKey("down"), after=["b", "c"]))], replace=True)
    assert rows() == [("down", "b"), ("down", "c")]
    store.delete_jobs([JobKey("b")])
    assert rows() == [("down", "b"), ("down", "c")], "it still waits for the job that is gone"
    store.delete_jobs([JobKey("down")])
    assert not rows()
    store.store_jobs([JobEntry(a_job(JobKey("down"), after=["a"]))], replace=False)
    store.clear()
    assert not rows()


def test_an_end_that_is_recorded_while_somebody_deletes_the_rest_of_the_batch_is_not_lost(
    impatient: SqlJobStore, connect: Connect
) -> None:
    """The step passes over the row that the open transaction has written, and counts from what it has committed."""
    store = impatient
    node = register(store)
    job = a_job(JobKey("part"))
    batch = BatchKey(FREE, "batch")
    parts = [due(job.key, name, data=batch_entry(batch)) for name in ("first", "second")]
    entries = [JobEntry(job, parts), JobEntry(a_job(FREE))]
    store.store_jobs(entries, replace=False, batch=BatchEntry(batch, 2, ON["end"]))
    store.pause(NamedTriggers([TriggerKey("second")]))
    [fired] = acquire(store, node).fired
    user = connect()
    user.execute("BEGIN")
    store.within(user).delete_triggers([TriggerKey("second")])
    assert set(store.complete(node, [ended(fired)]).deferred) == {fired.fire_id}
    assert not started(store)
    user.execute("COMMIT")
    assert not store.complete(node, [ended(fired)]).deferred
    assert started(store) == [FREE]
    [row] = store.find(JoinQuery(), 10)
    assert (row.state, row.succeeded, row.removed) == (JoinState.FIRED, 1, 1)


def test_the_deletion_of_the_last_trigger_of_a_batch_starts_its_job_when_it_is_committed(
    impatient: SqlJobStore, connect: Connect
) -> None:
    store = impatient
    node = register(store)
    batch = BatchKey(FREE, "batch")
    job = a_job(JobKey("part"))
    entries = [JobEntry(job, [due(job.key, "only", data=batch_entry(batch))]), JobEntry(a_job(FREE))]
    store.store_jobs(entries, replace=False, batch=BatchEntry(batch, 1, ON["end"]))
    user = connect()
    for end, keys in (("ROLLBACK", []), ("COMMIT", [FREE])):
        user.execute("BEGIN")
        store.within(user).delete_triggers([TriggerKey("only")])
        user.execute(end)
        assert started(store) == keys
    assert [execution.job_key for execution in acquire(store, node).fired] == [FREE]


def redefined(store: SqlJobStore, after: list[str] | None) -> None:
    store.modify_job(FREE, lambda old: old.with_values({"after": after}), keeps_data=True)


def test_a_join_that_is_redefined_in_a_transaction_starts_its_job_when_that_is_committed(
    impatient: SqlJobStore, connect: Connect
) -> None:
    store = impatient
    node = register(store)
    for name in ("a", "b"):
        store.store_jobs(
            [JobEntry(a_job(JobKey(name)), [due(JobKey(name), name)] if name == "a" else [])], replace=False
        )
    store.store_jobs([JobEntry(a_job(FREE, after=["a", "b"]))], replace=False)
    [fired] = acquire(store, node).fired
    assert not store.complete(node, [ended(fired)]).deferred
    user = connect()
    for end, keys in (("ROLLBACK", []), ("COMMIT", [FREE])):
        user.execute("BEGIN")
        redefined(store.within(user), ["a"])
        user.execute(end)
        assert started(store) == keys
    assert [execution.job_key for execution in acquire(store, node).fired] == [FREE]


@pytest.mark.parametrize("after", [["a"], ["b"], None])
def test_an_end_that_is_recorded_while_somebody_redefines_the_join_is_decided_by_the_new_rule(
    impatient: SqlJobStore, connect: Connect, after: list[str] | None
) -> None:
    """The step leaves the end to a later try, because the row of the job is held."""
    store = impatient
    node = register(store)
    for name in ("a", "b"):
        store.store_jobs([JobEntry(a_job(JobKey(name)), [due(JobKey(name), name)])], replace=False)
    store.store_jobs([JobEntry(a_job(FREE, after=["a", "b"]))], replace=False)
    connect().execute("UPDATE qrtz_triggers SET next_fire_time = (SELECT min(next_fire_time) FROM qrtz_triggers)")
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    user = connect()
    user.execute("BEGIN")
    redefined(store.within(user), after)
    assert set(store.complete(node, [ended(fired["a"])]).deferred) == {fired["a"].fire_id}
    user.execute("COMMIT")
    assert not store.complete(node, [ended(fired["a"])]).deferred
    assert started(store) == ([FREE] if after == ["a"] else [])
    assert not store.complete(node, [ended(fired["b"])]).deferred
    assert started(store) == ([] if after is None else [FREE])


def test_of_two_jobs_that_are_stored_at_once_and_wait_for_each_other_one_is_refused(
    store: SqlJobStore, connect: Connect
) -> None:
    store.store_jobs([JobEntry(a_job(key)) for key in (FREE, HELD)], replace=False)
    user = connect()
    user.execute("BEGIN")
    redefined(store.within(user), [HELD.name])
    errors: list[InvalidJobError] = []

    def store_other() -> None:
        try:
            store.modify_job(HELD, lambda old: old.with_values({"after": [FREE.name]}), keeps_data=True)
        except InvalidJobError as error:
            errors.append(error)

    other = threading.Thread(target=store_other)
    other.start()
    waits_for_a_row(connect, other)
    user.execute("COMMIT")
    other.join()
    [error] = errors
    assert str(HELD) in str(error)
