"""Whatever makes a trigger wait below the floor, where reads and steps begin, is found by the next step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from quartzpy.errors import OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import JobMode, Outcome
from quartzpy.store.postgresql.connection import next_due
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.steps.acquire import NEXT_DUE
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
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
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.waiting import wait_until

TYPE = "report"
SECOND = timedelta(seconds=1)
AGO = 10 * SECOND
Connect = Callable[[], psycopg.Connection[Any]]


@pytest.fixture(autouse=True)
def _floors_stay(_every_read_is_full: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each full read is expensive, and no other follows while a test runs."""
    monkeypatch.setattr(next_due, "EXPENSIVE_READ", 0.0)
    monkeypatch.setattr(next_due, "FULL_READ_SHARE", 1e-9)
    monkeypatch.setattr(next_due, "MOST_SECONDS_BETWEEN_FULL_READS", 3_600.0)


@dataclass
class Scene:
    """A node with a floor at the present, and the store of another process."""

    store: SqlJobStore
    other: SqlJobStore
    node: Node
    dsn: str

    def put(
        self, store: SqlJobStore, name: str = "t", *, replace: bool = True, ago: timedelta = AGO, **job: Any
    ) -> Any:
        now = datetime.now(UTC)
        detail = JobDetail(job.pop("job_type", TYPE), job.pop("job", "job"), durable=True, **job)
        trigger = SimpleTrigger(name, job_key=detail.key, start_time=now - ago)
        store.store_jobs([JobEntry(detail, [prepare(trigger, now, None)])], replace=replace)

    def acquire(self, *pools: str, opened: Collection[Gate] = ()) -> Acquisition:
        slots = [AvailableSlots(pool) for pool in pools or ("",)]
        return self.store.acquire(
            self.node, slots, limit=10, look_ahead=timedelta(), misfire_threshold=timedelta(hours=1), opened=opened
        )

    def pass_on(self, fired: FiredTrigger) -> None:
        """Let what is parked at the gate of this execution wait for any node."""
        assert fired.gate is not None
        self.store.acquire(
            self.node,
            (),
            limit=0,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(hours=1),
            opened=[fired.gate],
        )

    def rise(self) -> None:
        """Let the floor rise to the present."""
        assert not self.acquire().fired
        read = self.store._session.next_due.next_read([""], (self.node.epoch, ()))
        assert read.sinces[0] is not None
        assert read.sinces[0] > datetime.now(UTC) - AGO / 2

    def ended(self, fired: Any, **how: Any) -> None:
        now = datetime.now(UTC)
        self.store.complete(self.node, [Completion(fired, now, now, Outcome.SUCCEEDED, **how)])


@pytest.fixture
def scene(store: SqlJobStore, make_store: Callable[..., SqlJobStore], postgres_dsn: str) -> Scene:
    return Scene(store, make_store(), register(store), postgres_dsn)


KEY, JOB = TriggerKey("t"), JobKey("job")
Way = Callable[[Scene, SqlJobStore], Iterator[None]]


def stored(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    yield
    scene.put(by)


def stored_in_one_round_trip(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    by.store_jobs([JobEntry(JobDetail(TYPE, "job", durable=True))], replace=False)
    by.now()
    yield
    now = datetime.now(UTC)
    trigger = SimpleTrigger("t", job_key=JOB, start_time=now - AGO)
    by.store_jobs([JobEntry(None, [prepare(trigger, now, None)])], replace=False)


def stored_in_a_users_transaction(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    yield
    engine = create_engine(scene.dsn)
    with engine.begin() as connection:
        scene.put(by.within(connection))  # type: ignore[arg-type]
    engine.dispose()


def resumed(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by)
    by.pause(NamedTriggers([KEY]))
    yield
    by.resume(NamedTriggers([KEY]))


def job_enabled(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by)
    by.set_mode(JOB, JobMode.DISABLED)
    yield
    by.set_mode(JOB, JobMode.ENABLED)


def moved_to_another_job_type(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by, job_type="foreign")
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    yield
    by.store_jobs([JobEntry(JobDetail(TYPE, "job", durable=True))], replace=True)


def moved_to_another_slot_pool(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by, executor="elsewhere")
    yield
    by.store_jobs([JobEntry(JobDetail(TYPE, "job", durable=True))], replace=True)


def slot_passed_on(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by, "first", max_concurrent=1, ago=2 * AGO)
    [first] = scene.acquire().fired
    scene.put(by, max_concurrent=1)
    assert not scene.acquire().fired, "it is blocked"
    scene.ended(first)
    yield
    scene.pass_on(first)


def retried(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by)
    [fired] = scene.acquire().fired
    yield
    scene.ended(fired, retry_after=-AGO / 2)


def type_learned(scene: Scene, by: SqlJobStore) -> Iterator[None]:
    scene.put(by, job_type="foreign")
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    yield
    scene.store.decide(scene.node, {DispatchKey("foreign"): True})


BY_ANY: list[Way] = [
    stored,
    stored_in_one_round_trip,
    stored_in_a_users_transaction,
    resumed,
    job_enabled,
    moved_to_another_job_type,
    moved_to_another_slot_pool,
]


BY_ITSELF: list[Way] = [slot_passed_on, retried, type_learned]


@pytest.mark.parametrize("way", [*BY_ANY, *BY_ITSELF], ids=lambda way: way.__name__)
def test_a_change_by_the_same_process_is_found(scene: Scene, way: Way) -> None:
    steps = way(scene, scene.store)
    next(steps)
    scene.rise()
    for _ in steps:
        pass
    assert len(scene.acquire().fired) == 1


@pytest.mark.parametrize("way", BY_ANY, ids=lambda way: way.__name__)
def test_a_change_by_another_process_is_found(scene: Scene, way: Way) -> None:
    steps = way(scene, scene.other)
    next(steps)
    listener = scene.store.subscribe()
    assert listener is not None
    with contextlib.closing(listener):
        scene.rise()
        for _ in steps:
            pass
        wait_until(lambda: listener.wait(1), "a notification")
    assert len(scene.acquire().fired) == 1


def test_what_waits_is_found_although_the_answer_of_the_step_was_lost_that_looked_at_its_gate(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = slot_passed_on(scene, scene.store)
    next(steps)
    scene.rise()
    plain = scene.store._connections.execute

    def lost(sends: list[BoundStatement], share: PoolShare) -> Any:
        results = plain(sends, share)
        if b"qrtz_locks" in sends[0].statement.sql:
            raise OutcomeUnknownError("the connection broke during the commit")
        return results

    with monkeypatch.context() as patched:
        patched.setattr(scene.store._connections, "execute", lost)
        with pytest.raises(OutcomeUnknownError):
            next(steps, None)
    assert len(scene.acquire().fired) == 1


def test_nothing_overtakes_what_is_parked_below_the_floor(scene: Scene) -> None:
    """Before the node has looked at the gate that ran the execution."""
    scene.put(scene.store, "first", max_concurrent=1)
    elsewhere = Scene(scene.other, scene.store, register(scene.other, "elsewhere"), scene.dsn)
    [first] = elsewhere.acquire().fired
    for name, ago in (("second", 9), ("third", 8)):
        scene.put(scene.store, name, max_concurrent=1, ago=ago * SECOND)
    scene.rise()
    scene.put(scene.other, "fourth", max_concurrent=1, ago=timedelta())
    elsewhere.ended(first)
    order = []
    opened: list[Gate] = []
    while fired := scene.acquire(opened=opened).fired:
        order += [one.trigger.key.name for one in fired]
        scene.ended(fired[0])
        opened = [one.gate for one in fired if one.gate is not None]
    assert order == ["second", "third", "fourth"]


def test_a_parked_trigger_that_fires_is_found_at_its_next_fire_time_below_the_floor(scene: Scene) -> None:
    scene.put(scene.store, "first", max_concurrent=1, ago=2 * AGO)
    [running] = scene.acquire().fired
    now = datetime.now(UTC)
    often = SimpleTrigger("often", job_key=JOB, start_time=now - AGO, interval=SECOND)
    scene.store.store_jobs([JobEntry(None, [prepare(often, now, None)])], replace=False)
    assert not scene.acquire().fired
    scene.rise()
    for _ in range(3):
        scene.ended(running)
        assert running.gate is not None
        [running] = scene.acquire(opened=[running.gate]).fired
        assert running.trigger_name == "often"


def test_a_parked_trigger_that_somebody_holds_leaves_its_slot_to_the_next(scene: Scene, connect: Connect) -> None:
    scene.put(scene.store, "first", max_concurrent=1, ago=3 * AGO)
    [first] = scene.acquire().fired
    scene.put(scene.store, "held", max_concurrent=1, ago=2 * AGO)
    scene.put(scene.store, "next", max_concurrent=1, ago=AGO)
    assert not scene.acquire().fired
    scene.rise()
    assert first.gate is not None
    user = connect()
    with user.transaction():
        user.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 'held' FOR UPDATE")
        scene.ended(first)
        assert [one.trigger_name for one in scene.acquire(opened=[first.gate]).fired] == ["next"]


def test_what_a_rate_limit_admits_is_found_although_it_has_waited_for_long(scene: Scene) -> None:
    scene.put(scene.other, rate_limit="1/s", ago=timedelta(seconds=1))
    scene.acquire()
    for number in range(4):
        scene.put(scene.other, f"t{number}", rate_limit="1/s")
    fired = wait_until(lambda: scene.acquire().fired, "the turn of the first", every=0.1)
    assert len(fired) == 1
    wait_until(lambda: scene.acquire().fired, "the turn of the second", every=0.1)


def _after_a_change(scene: Scene) -> None:
    """Even if it does not tell how early it is."""
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    scene.rise()
    scene.put(scene.other)
    scene.store._session.next_due.forget()


def _after_the_refusal(scene: Scene) -> None:
    scene.put(scene.other)
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})


@pytest.mark.parametrize("what", [_after_a_change, _after_the_refusal])
def test_a_step_does_not_walk_over_refused_triggers_under_the_lock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, what: Callable[[Scene], None]
) -> None:
    scene.put(scene.other, "foreign", job="foreign", job_type="foreign", ago=2 * AGO)
    what(scene)
    sent: list[list[BoundStatement]] = []
    execute = scene.store._connections.execute

    def noted(sends: list[BoundStatement], share: PoolShare) -> Any:
        sent.append(list(sends))
        return execute(sends, share)

    monkeypatch.setattr(scene.store._connections, "execute", noted)
    assert len(scene.acquire().fired) == 1
    claims = [one.values["sinces"] for sends in sent for one in sends if "workers" in one.values]
    assert claims
    assert all(since != "-infinity" for [since] in claims)
    assert NEXT_DUE


def test_a_front_of_refused_triggers_is_read_once_and_then_again_only_after_a_while(scene: Scene) -> None:
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    for number in range(3):
        scene.put(scene.other, f"f{number}", job="foreign", job_type="foreign")
    scene.put(scene.store, "first")
    assert len(scene.acquire().fired) == 1
    scene.rise()
    for number in range(3):
        scene.put(scene.store, f"t{number}", ago=timedelta(), replace=False)
        begins = scene.store._session.next_due.next_read([""], (scene.node.epoch, ())).sinces
        assert begins[0] is not None, "a trigger that is due now lies above the floor"
        assert len(scene.acquire().fired) == 1
