"""What the network and other users of the database may do to a step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.errors import (
    InstanceIdInUseError,
    InvalidValueError,
    JobNotFoundError,
    LeaseLostError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.connection import session
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
    EVERYTHING,
    Acquisition,
    AvailableSlots,
    Completion,
    DispatchKey,
    FiredTrigger,
    Gate,
    JobEntry,
    NamedTriggers,
    Node,
)
from quartzpy.store.queries import HISTORY, MisfireQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.contract.harness import stored_job
from tests.database import Server, connect_to
from tests.postgresql.conftest import NAME, register
from tests.proxy import Proxy

LANES = [DispatchKey("report")]
OPENINGS = [AvailableSlots()]
Connect = Callable[[], psycopg.Connection[Any]]


def store_due(store: SqlJobStore, *names: str, job: str = "job", serial: bool = False, persist: bool = False) -> None:
    now = datetime.now(UTC)
    detail = JobDetail(LANES[0].job_type, job, durable=True, disallow_concurrent=serial, persist_data=persist)
    triggers = [
        SimpleTrigger(
            name, job_key=detail.key, start_time=now - timedelta(seconds=1), interval=timedelta(hours=1), repeat_count=5
        )
        for name in names
    ]
    store.store_jobs([JobEntry(detail, [prepare(trigger, now, None) for trigger in triggers])], replace=True)


def acquire(store: SqlJobStore, node: Node, *, opened: Collection[Gate] = ()) -> Acquisition:
    return store.acquire(
        node,
        OPENINGS,
        limit=100,
        look_ahead=timedelta(),
        misfire_threshold=timedelta(minutes=1),
        opened=opened,
    )


def ended(fired: FiredTrigger, **how: Any) -> Completion:
    now = datetime.now(UTC)
    return Completion(fired, started_at=now, ended_at=now, outcome=Outcome.SUCCEEDED, **how)


def fired_names(took: Acquisition) -> list[str]:
    return sorted(one.trigger_name for one in took.fired)


def test_a_commit_whose_answer_was_lost_is_found_by_a_query(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy
) -> None:
    remote = make_store(proxy.through(postgres_dsn))
    node = register(remote)
    acquire(remote, node)
    store_due(remote, "a", "b")
    proxy.cut_after = b"COMMIT"
    with pytest.raises(OutcomeUnknownError):
        acquire(remote, node)
    assert [row.state for row in store.list_running()] == ["EXECUTING"] * 2, "it was committed"
    found = remote.reconcile(node, executions=[])
    assert sorted(one.trigger_name for one in found.fired) == ["a", "b"]
    assert remote.reconcile(node, executions=[one.fire_id for one in found.fired]).fired == ()

    proxy.cut_after = b"COMMIT"
    completions = [ended(one) for one in found.fired]
    with pytest.raises(OutcomeUnknownError):
        remote.complete(node, completions)
    again = remote.complete(node, completions)
    assert not again.fenced, "recorded by the round trip whose answer was lost"
    assert len(store.find(HISTORY, 10)) == 2


def test_an_abandoned_round_trip_cannot_commit_after_its_outcome_was_decided(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy, connect: Connect
) -> None:
    remote = make_store(proxy.through(postgres_dsn), lock_timeout="300ms", statement_timeout="300ms")
    node = register(remote)
    acquire(remote, node)
    store_due(remote, "a")
    proxy.hold_back = b"COMMIT"
    with pytest.raises(OutcomeUnknownError):
        acquire(remote, node)
    assert proxy.held_back.is_set()
    assert not remote.reconcile(node, executions=[]).fired, "it did not reach the server yet"
    proxy.let_go.set()
    for _ in range(30):
        connect().execute("SELECT pg_sleep(0.01)")
        assert store.list_running() == []
    assert fired_names(acquire(remote, node)) == ["a"]


def test_a_half_received_round_trip_holds_the_lock_no_longer_than_the_lock_timeout(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy
) -> None:
    """The server takes such a session for active: neither its statement timeout nor its idle timeout counts."""
    remote = make_store(proxy.through(postgres_dsn), lock_timeout="300ms", statement_timeout="300ms")
    node = register(remote)
    acquire(remote, node)
    store_due(remote, "a")
    proxy.split_at = b"COMMIT\0"
    with pytest.raises((OutcomeUnknownError, StoreUnavailableError)):
        acquire(remote, node)
    assert proxy.held_back.is_set()
    other = make_store(lock_timeout="300ms")
    rival = register_patiently(other, "rival")
    assert fired_names(acquire(other, rival)) == ["a"]


def register_patiently(store: SqlJobStore, name: str) -> Node:
    """Register, which takes the locks, once they can be had."""
    for _ in range(10):
        with suppress(StoreUnavailableError):
            return register(store, name)
    raise AssertionError("the lock is held for ever")


def test_a_round_trip_that_never_arrived_changed_nothing(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy
) -> None:
    remote = make_store(proxy.through(postgres_dsn))
    node = register(remote)
    store_due(store, "a")
    proxy.cut()
    took = acquire(remote, node)
    assert fired_names(took) == ["a"], "a connection that was cut while idle is not used"


@pytest.mark.parametrize("lost", [b"INSERT INTO qrtz_scheduler_state", b"SET capabilities"])
def test_a_registration_whose_answer_was_lost_is_taken_over_at_once(
    store: SqlJobStore, postgres_dsn: str, proxy: Proxy, lost: bytes
) -> None:
    proxy.cut_after = lost
    with Scheduler(proxy.through(postgres_dsn), name=NAME, instance_id="a"):
        assert proxy.cut_after is None
        [node] = store.list_nodes().nodes
        assert node.instance_id == "a"
        assert node.capabilities is not None


def test_the_id_of_another_scheduler_in_this_process_is_refused(postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn, name=NAME, instance_id="a"):
        other = Scheduler(postgres_dsn, name=NAME, instance_id="a")
        with pytest.raises(InstanceIdInUseError):
            other.start()
        other.shutdown()


def test_behind_a_network_that_swallows_packets_a_step_ends_by_its_own_deadline(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy
) -> None:
    remote = make_store(
        proxy.through(postgres_dsn),
        lock_timeout="300ms",
        statement_timeout="300ms",
        connect_timeout="2s",
    )
    node = register(remote)
    store_due(store, "a")
    proxy.black_hole()
    began = time.monotonic()
    with pytest.raises((OutcomeUnknownError, StoreUnavailableError)):
        acquire(remote, node)
    assert time.monotonic() - began < 30
    # Nothing of it holds the lock: another node goes on.
    assert fired_names(acquire(store, register(store, "other"))) == ["a"]
    proxy.heal()


def test_a_callers_open_transaction_delays_its_trigger_and_no_other(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "held", "free")
    user = connect()
    user.execute("BEGIN")
    user.execute("UPDATE qrtz_triggers SET description = 'mine' WHERE trigger_name = 'held'")
    assert fired_names(acquire(store, node)) == ["free"]
    user.execute("COMMIT")
    assert fired_names(acquire(store, node)) == ["held"]


def test_a_caller_who_holds_a_job_defers_the_completion_that_writes_its_data_and_no_other(
    store: SqlJobStore, connect: Connect
) -> None:
    node = register(store)
    store_due(store, "a", job="writes", serial=True, persist=True)
    store_due(store, "b", job="other")
    fired = {one.trigger_name: one for one in acquire(store, node).fired}
    user = connect()
    user.execute("BEGIN")
    user.execute("SELECT 1 FROM qrtz_job_details WHERE job_name = 'writes' FOR UPDATE")
    outcome = store.complete(node, [ended(fired["a"], job_data='{"n": 1}'), ended(fired["b"])])
    assert set(outcome.deferred) == {fired["a"].fire_id}
    assert [execution.trigger_key.name for execution in store.find(HISTORY, 10)] == ["b"]
    user.execute("COMMIT")
    assert not store.complete(node, [ended(fired["a"], job_data='{"n": 1}')]).deferred
    job = stored_job(store, fired["a"].job_key)
    assert job is not None
    assert job.data == {"n": 1}


def test_pausing_waits_for_a_held_row_without_holding_up_the_cluster(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "held")
    user = connect()
    user.execute("BEGIN")
    user.execute("SELECT 1 FROM qrtz_triggers WHERE trigger_name = 'held' FOR UPDATE")
    pausing = threading.Thread(target=store.pause, args=(NamedTriggers([TriggerKey("held", "DEFAULT")]),))
    pausing.start()
    store_due(store, "free", job="other")
    assert fired_names(acquire(store, node)) == ["free"]
    user.execute("COMMIT")
    pausing.join(30)
    assert not pausing.is_alive()
    assert fired_names(acquire(store, node)) == []


def test_two_nodes_that_claim_at_once_share_without_overlap(store: SqlJobStore) -> None:
    nodes = [register(store, name) for name in "abcd"]
    store_due(store, *[f"t{n}" for n in range(200)])
    store_due(store, "s1", "s2", "s3", job="serial", serial=True)
    start = threading.Barrier(4)
    took: list[Acquisition] = []

    def claim(node: Node) -> None:
        start.wait()
        took.append(acquire(store, node))

    threads = [threading.Thread(target=claim, args=[node]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [one.trigger_name for one in (fired for each in took for fired in each.fired)]
    assert len(names) == len(set(names)) == 201
    assert len([name for name in names if name.startswith("s")]) == 1


def test_the_tables_refuse_two_executions_of_a_serial_job_at_once(store: SqlJobStore, connect: Connect) -> None:
    """A wrong program, or a user, cannot commit what the protocol excludes."""
    node = register(store)
    store_due(store, "a", "b", job="serial", serial=True)
    assert len(acquire(store, node).fired) == 1
    copy = (
        "INSERT INTO qrtz_fired_triggers"
        " SELECT (jsonb_populate_record(f, jsonb_build_object('fire_id', f.fire_id + 1000))).*"
        " FROM qrtz_fired_triggers f"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        connect().execute(copy)


def test_a_step_of_an_epoch_that_is_gone_changes_nothing(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "a")
    connect().execute("DELETE FROM qrtz_scheduler_state")
    with pytest.raises(LeaseLostError, match="node node"):
        acquire(store, node)
    assert store.list_running() == []


def test_a_row_that_says_it_is_held_where_nothing_holds_it_is_freed(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "a")
    connect().execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED'")
    assert store.recover(node, []).repaired == 1
    assert connect().execute("SELECT trigger_state FROM qrtz_triggers").fetchall() == [("WAITING",)]


def test_states_are_words_that_the_tables_check(store: SqlJobStore, connect: Connect) -> None:
    store_due(store, "a")
    with pytest.raises(psycopg.errors.CheckViolation):
        connect().execute("UPDATE qrtz_triggers SET trigger_state = 'PAUSED_BLOCKED'")


def test_a_late_trigger_that_this_node_cannot_compute_blocks_no_other(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    store_due(store, "edited", job="edited")
    store_due(store, "well", job="well")
    connect().execute("UPDATE qrtz_triggers SET next_fire_time = now() - interval '1 h'")
    connect().execute("UPDATE qrtz_triggers SET kind = 'unheard of' WHERE job_name = 'edited'")
    outcome = store.recover_misfires(node, threshold=timedelta(minutes=1), limit=10)
    assert [key.name for key in outcome.misfired] == ["well"]


def test_a_misfire_that_another_node_handles_meanwhile_is_handled_once(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it leaves the next fire time as it was, as with all that was missed made up for."""
    other = make_store()
    node, rival = register(store), register(other, "rival")
    now = datetime.now(UTC)
    trigger = SimpleTrigger(
        "t",
        job_key=JobKey("job", "DEFAULT"),
        start_time=now - timedelta(hours=3),
        interval=timedelta(hours=1),
        repeat_count=None,
        misfire="fire_all",
        catch_up_max=9,
    )
    store.store_jobs([JobEntry(JobDetail(LANES[0].job_type, "job"), [prepare(trigger, now, None)])], replace=True)

    def misfire(of: SqlJobStore, by: Node) -> int:
        return len(of.recover_misfires(by, threshold=timedelta(minutes=1), limit=9).misfired)

    write = store._steps.locked

    def too_late(*sends: Any, **how: Any) -> Any:
        assert misfire(other, rival) == 1
        return write(*sends, **how)

    monkeypatch.setattr(store._steps, "locked", too_late)
    assert misfire(store, node) == 0
    [noted] = store.find(MisfireQuery(), 9)
    assert (noted.instance_id, noted.caught_up, noted.next_fire_time) == ("rival", 4, trigger.start_time)


def test_a_connection_that_is_in_use_when_the_store_is_closed_is_closed_when_it_comes_back(
    make_store: Callable[..., SqlJobStore],
) -> None:
    store = make_store()
    work = store.begin_job_transaction()
    driver = work.connection.connection.driver_connection
    store.close()
    assert isinstance(driver, psycopg.Connection)
    assert not driver.closed
    work.close()
    assert driver.closed


@pytest.mark.parametrize("lock", ["TRIGGER_ACCESS", "STATE_ACCESS"])
def test_a_deleted_lock_row_is_restored_and_no_step_runs_without_it(
    store: SqlJobStore, connect: Connect, caplog: pytest.LogCaptureFixture, lock: str
) -> None:
    node = register(store)
    user = connect()

    def without_the_lock(step: Callable[[], Any]) -> Any:
        user.execute("DELETE FROM qrtz_locks WHERE lock_name = %s", [lock])
        caplog.clear()
        done = step()
        assert (lock == "TRIGGER_ACCESS" or step.__name__ == "leave") == ("restored missing rows" in caplog.text)
        return done

    def leave() -> None:
        store.leave(node)

    without_the_lock(lambda: store_due(store, "a", "b"))
    assert fired_names(without_the_lock(lambda: acquire(store, node))) == ["a", "b"]
    without_the_lock(lambda: store.pause(EVERYTHING))
    without_the_lock(leave)
    assert user.execute("SELECT count(*) FROM qrtz_locks").fetchone() == (3,)


def test_storing_that_takes_too_long_raises(make_store: Callable[..., SqlJobStore], connect: Connect) -> None:
    """Also where the connection was given up in the middle of a pipeline."""
    store = make_store()
    store._connections._seconds = 0.3
    store_due(store, "a")
    user = connect()
    user.execute("BEGIN")
    user.execute("SELECT 1 FROM qrtz_triggers FOR UPDATE")
    with pytest.raises(StoreUnavailableError, match="did not answer in time"):
        store.pause(EVERYTHING)


@pytest.mark.parametrize("meanwhile", ["nothing", "a pause", "another limit"])
def test_many_triggers_are_stored_right_whatever_is_committed_meanwhile(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    other = make_store()
    node = register(store)
    detail = JobDetail(LANES[0].job_type, "job", durable=True)
    store.store_jobs([JobEntry(detail)], replace=False)
    now = datetime.now(UTC)
    triggers = [SimpleTrigger(f"t{n}", job_key=detail.key, start_time=now) for n in range(2_001)]
    do = {
        "nothing": lambda: None,
        "a pause": lambda: other.pause(EVERYTHING),
        "another limit": lambda: other.store_jobs(
            [JobEntry(JobDetail(LANES[0].job_type, "job", durable=True, disallow_concurrent=True))], replace=True
        ),
    }
    done: list[bool] = []
    send = session.Transaction.commit

    def commit(self: Any, *sends: Any) -> Any:
        if not done:
            done.append(True)
            do[meanwhile]()
        return send(self, *sends)

    monkeypatch.setattr(session.Transaction, "commit", commit)
    store.store_jobs([JobEntry(None, [prepare(trigger, now, None) for trigger in triggers])], replace=False)
    fired = [len(acquire(store, node).fired) for _ in range(3)]
    assert fired == {"nothing": [100, 100, 100], "a pause": [0, 0, 0], "another limit": [1, 0, 0]}[meanwhile]


@pytest.mark.parametrize("span", ["178000000 years", "-178000000 years", "102 years"])
def test_a_span_that_would_overflow_in_a_step_cannot_be_written(
    store: SqlJobStore, connect: Connect, span: str
) -> None:
    """By nobody: one such row would stop the claiming of all others."""
    store_due(store, "a")
    with pytest.raises(psycopg.errors.CheckViolation):
        connect().execute("UPDATE qrtz_triggers SET misfire_threshold = %s::interval", [span])


def test_late_triggers_that_no_node_here_can_handle_do_not_starve_the_others(
    store: SqlJobStore, connect: Connect
) -> None:
    """A kind that only newer nodes know is left to them; what cannot be computed at all is in ERROR."""
    node = register(store)
    store_due(store, *[f"newer{n}" for n in range(5)], job="newer")
    store_due(store, *[f"edited{n}" for n in range(5)], job="edited")
    store_due(store, "well", job="well")
    user = connect()
    user.execute("UPDATE qrtz_triggers SET next_fire_time = now() - interval '1 h', misfire_instruction = 'fire_now'")
    user.execute("UPDATE qrtz_triggers SET next_fire_time = now() - interval '1 day' WHERE trigger_name <> 'well'")
    user.execute("UPDATE qrtz_triggers SET kind = 'of tomorrow' WHERE job_name = 'newer'")
    user.execute("UPDATE qrtz_triggers SET schedule = '{}' WHERE job_name = 'edited'")
    handled = []
    for _ in range(6):
        outcome = store.recover_misfires(node, threshold=timedelta(minutes=1), limit=3)
        handled += [key.name for key in outcome.misfired]
        if not outcome.more:
            break
    assert handled == ["well"]
    states = user.execute("SELECT DISTINCT job_name, trigger_state, error FROM qrtz_triggers ORDER BY 1").fetchall()
    assert [(job, state) for job, state, _ in states] == [
        ("edited", "ERROR"),
        ("newer", "WAITING"),
        ("well", "WAITING"),
    ]
    assert "next fire time cannot be computed" in states[0][2]
    assert "'interval_us' is missing" in states[0][2]


def test_a_misfire_is_handled_whatever_the_data_of_its_trigger_holds(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    store_due(store, "a")
    connect().execute(
        "UPDATE qrtz_triggers SET next_fire_time = now() - interval '1 h',"
        """ job_data = '{"a": {"$enum": ["another.program:Colour", "RED"]}}'"""
    )
    outcome = store.recover_misfires(node, threshold=timedelta(minutes=1), limit=3)
    assert [key.name for key in outcome.misfired] == ["a"]


def test_a_database_of_another_encoding_holds_what_it_can_and_says_what_it_cannot(postgres_server: Server) -> None:
    name = "quartzpy_latin"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        dsn = postgres_server.dsn_of(name)
        migrations.upgrade(dsn)
        client = Scheduler(dsn, name="latin")
        job = JobDetail("report", "über", durable=True, data={"straße": "ü"})
        client.add_job(job)
        assert client.get_job_detail(job.key) == job
        with pytest.raises(InvalidValueError, match="ENCODING 'UTF8'"):
            client.add_job(JobDetail("report", "報告", durable=True))
        with (
            connect_to(dsn, autocommit=False, client_encoding="LATIN1") as user,
            pytest.raises(InvalidValueError, match="client_encoding must be UTF8"),
        ):
            client.using(user)
        client.shutdown()
    finally:
        postgres_server.drop(name)


def test_a_job_that_is_given_a_trigger_as_its_last_one_ends_stays(
    store: SqlJobStore, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The completion neither fails for the new trigger's reference to its job, nor removes the job."""
    node = register(store)
    now = datetime.now(UTC)
    detail = JobDetail(LANES[0].job_type, "job")
    job = JobEntry(detail, [prepare(SimpleTrigger("last", job_key=detail.key, start_time=now), now, None)])
    for n in range(60):
        store.store_jobs([job], replace=True)
        [fired] = acquire(store, node).fired
        later = SimpleTrigger(f"later{n}", job_key=detail.key, start_time=now + timedelta(hours=1))
        entry = JobEntry(None, [prepare(later, now, None)])
        outcome: list[Any] = []

        def give(entry: JobEntry = entry, outcome: list[Any] = outcome) -> None:
            try:
                outcome.append(store.store_jobs([entry], replace=False))
            except JobNotFoundError as error:
                outcome.append(error)

        giving = threading.Thread(target=give)
        giving.start()
        ends = ended(fired)
        assert ends.ends_its_trigger
        assert not store.complete(node, [ends]).deferred
        giving.join()
        there = stored_job(store, detail.key) is not None
        assert there is not isinstance(outcome[0], JobNotFoundError)
        store.delete_jobs([detail.key])
