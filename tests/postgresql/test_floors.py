"""Whatever makes a trigger wait below the floor, where reads and steps begin, is found by the next step of the node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from quartzpy.clock import SystemClock
from quartzpy.instants import EARLIEST
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.node import outlook
from quartzpy.node.outlook import Outlook
from quartzpy.node.signals import Signals
from quartzpy.placement import Placement
from quartzpy.states import JobMode, Outcome
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.schema.rows import ANY_TIME
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
    Notification,
)
from quartzpy.store.store_time import StoreTime
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
    """Each full read is dear, and no other follows while a test runs."""
    monkeypatch.setattr(outlook, "DEAR_READ", 0.0)
    monkeypatch.setattr(outlook, "SHORTEST_FLOOR", 3_600.0)
    monkeypatch.setattr(outlook, "MAX_FLOOR", 3_600.0)


@dataclass
class Scene:
    """What a node expects, with a floor at the present, its signals, and the store of another process."""

    store: SqlJobStore
    other: SqlJobStore
    node: Node
    dsn: str
    signals: Signals = field(default_factory=lambda: Signals(StoreTime(SystemClock())))
    outlook: Outlook = field(default_factory=Outlook)

    def put(
        self, store: SqlJobStore, name: str = "t", *, replace: bool = True, ago: timedelta = AGO, **job: Any
    ) -> Any:
        now = datetime.now(UTC)
        detail = JobDetail(job.pop("job_type", TYPE), job.pop("job", "job"), durable=True, **job)
        trigger = SimpleTrigger(name, job_key=detail.key, start_time=now - ago)
        self.put_all(store, JobEntry(detail, [prepare(trigger, now, None)]), replace=replace)

    def put_all(self, store: SqlJobStore, entry: JobEntry, *, replace: bool = False) -> None:
        earliest = store.store_jobs([entry], replace=replace)
        if store is self.store:
            self.signals.scheduling_changed(EARLIEST if replace else earliest)

    def acquire(self, *pools: str, opened: Collection[Gate] = ()) -> Acquisition:
        """Take a step as the scheduler thread does."""
        pools = pools or ("",)
        self.outlook = self.outlook.after(self.signals.scheduler.changes.take())
        expected = self.outlook.expectation(
            pools,
            met_pools=("",),
            passed_over=(),
            is_on_time=True,
            asks=bool(opened),
            is_backlog=False,
            until=datetime.now(UTC),
            monotonic=0.0,
        )
        took = self.store.acquire(
            self.node,
            [AvailableSlots(pool) for pool in pools],
            limit=10,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(hours=1),
            opened=opened,
            expected=expected,
        )
        self.outlook = self.outlook.after_step(took, expected, (), 0.0)
        return took

    def listen(self) -> contextlib.closing[Any]:
        listener = self.store.subscribe()
        assert listener is not None
        return contextlib.closing(listener)

    def hear(self, listener: Any) -> None:
        """Pass a notification on to the scheduler thread, as the node does."""
        received = wait_until(lambda: listener.wait(1), "a notification")
        if Notification.RESUMED in received:
            self.signals.look_for_due()
        elif Notification.SCHEDULED in received:
            self.signals.look_in_turn(received[Notification.SCHEDULED])

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
        assert self.outlook.floors[""].at > datetime.now(UTC) - AGO / 2

    def ended(self, fired: Any, **how: Any) -> None:
        now = datetime.now(UTC)
        outcome = self.store.complete(self.node, [Completion(fired, now, now, Outcome.SUCCEEDED, **how)])
        if outcome.earliest_unblocked is not None:
            self.signals.scheduling_changed(outcome.earliest_unblocked)


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
    scene.put(scene.store, "first", max_concurrent=1, ago=2 * AGO)
    [first] = scene.acquire().fired
    scene.put(scene.store, max_concurrent=1)
    assert not scene.acquire().fired, "it is blocked"
    scene.ended(first)
    yield
    scene.pass_on(first)


BY_ANY: list[Way] = [
    stored,
    stored_in_one_round_trip,
    stored_in_a_users_transaction,
    resumed,
    job_enabled,
    moved_to_another_job_type,
    moved_to_another_slot_pool,
    slot_passed_on,
]


def test_a_retry_is_found(scene: Scene) -> None:
    scene.put(scene.store)
    [fired] = scene.acquire().fired
    scene.rise()
    scene.ended(fired, retry_after=-AGO / 2)
    assert len(scene.acquire().fired) == 1


@pytest.mark.parametrize("way", BY_ANY, ids=lambda way: way.__name__)
def test_a_change_by_another_process_is_found(scene: Scene, way: Way) -> None:
    steps = way(scene, scene.other)
    next(steps)
    with scene.listen() as listener:
        scene.rise()
        for _ in steps:
            pass
        scene.hear(listener)
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
    scene.put_all(scene.store, JobEntry(None, [prepare(often, now, None)]))
    assert not scene.acquire().fired
    scene.rise()
    for _ in range(3):
        scene.ended(running)
        assert running.gate is not None
        took = scene.acquire(opened=[running.gate])
        [running] = took.fired
        assert running.trigger_name == "often"
        assert took.next_due == running.next_fire_time, "the read of the same round trip begins later"


def test_a_trigger_that_a_step_lets_wait_is_found_also_in_a_slot_pool_without_free_slots(scene: Scene) -> None:
    scene.put(scene.store, "first", max_concurrent=1, ago=2 * AGO, executor="big")
    big = DispatchKey(TYPE, Placement("big").text)
    scene.store.decide(scene.node, {big: True})
    [running] = scene.acquire("", big.slot_pool).fired
    scene.put(scene.store, "second", max_concurrent=1, executor="big")
    scene.acquire("", big.slot_pool)
    assert not scene.acquire("", big.slot_pool).fired
    assert scene.outlook.floors[big.slot_pool].at > datetime.now(UTC) - AGO / 2
    scene.ended(running)
    assert running.gate is not None
    assert not scene.acquire(opened=[running.gate]).fired, "the executor is full"
    assert [one.trigger_name for one in scene.acquire("", big.slot_pool).fired] == ["second"]


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
    scene.signals.scheduling_changed(datetime.now(UTC) - 2 * AGO)
    scene.acquire()
    fired = wait_until(lambda: scene.acquire().fired, "the turn of the first", every=0.1)
    assert len(fired) == 1
    wait_until(lambda: scene.acquire().fired, "the turn of the second", every=0.1)


def test_a_step_does_not_walk_over_refused_triggers_under_the_lock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.put(scene.other, "foreign", job="foreign", job_type="foreign", ago=2 * AGO)
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    # As after the time of the floor.
    monkeypatch.setattr(outlook, "MAX_FLOOR", -1.0)
    scene.put(scene.other)
    sent: list[list[BoundStatement]] = []
    execute = scene.store._connections.execute

    def noted(sends: list[BoundStatement], share: PoolShare) -> Any:
        sent.append(list(sends))
        return execute(sends, share)

    monkeypatch.setattr(scene.store._connections, "execute", noted)
    for _ in range(2):
        assert len(scene.acquire().fired) == 1
        scene.put(scene.other)
        scene.signals.scheduling_changed(datetime.now(UTC) - AGO)
    claims = [one.values["sinces"] for sends in sent for one in sends if "workers" in one.values]
    assert len(claims) == 2
    assert all(since != ANY_TIME for [since] in claims)


def test_a_front_of_refused_triggers_is_read_once_and_then_again_only_after_a_while(scene: Scene) -> None:
    scene.store.decide(scene.node, {DispatchKey("foreign"): False})
    for number in range(3):
        scene.put(scene.other, f"f{number}", job="foreign", job_type="foreign")
    scene.put(scene.store, "first")
    assert len(scene.acquire().fired) == 1
    scene.rise()
    with scene.listen() as listener:
        for number in range(3):
            scene.put(scene.other, f"t{number}", ago=timedelta(), replace=False)
            scene.hear(listener)
            assert len(scene.acquire().fired) == 1
            assert scene.outlook.floors[""].at > datetime.now(UTC) - AGO / 2, "it lies above the floor"
