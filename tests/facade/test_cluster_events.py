"""What somebody sees who watches the whole cluster: on both stores, from a scheduler that runs nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import InvalidValueError, StoreUnavailableError
from quartzpy.scheduler.cluster_events import (
    ClusterEvent,
    ClusterEvents,
    ExecutionEnded,
    ExecutionStarted,
    NodeJoined,
    NodeLeft,
)
from quartzpy.states import Outcome
from tests.facade import jobs
from tests.proxy import Proxy
from tests.waiting import wait_until

SOON = 30.0
MakeScheduler = Callable[..., Scheduler]


@pytest.fixture
def watch() -> Iterator[Callable[..., ClusterEvents]]:
    made: list[ClusterEvents] = []

    def begin(scheduler: Scheduler, poll_interval: str = "1s") -> ClusterEvents:
        made.append(scheduler.cluster_events(poll_interval=poll_interval))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def heard(events: ClusterEvents, kind: type[ClusterEvent]) -> ClusterEvent:
    """The next event of this kind."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        event = events.next(timeout=1)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} was told")


def test_executions_on_a_node_are_reported_on_others(
    make_scheduler: MakeScheduler, url: str, watch: Callable[..., ClusterEvents]
) -> None:
    node = make_scheduler(instance_id="n1")
    events = watch(node if url == "memory://" else make_scheduler())
    node.start()
    joined = heard(events, NodeJoined)
    assert isinstance(joined, NodeJoined)
    assert joined.node.instance_id == "n1"
    node.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    started = heard(events, ExecutionStarted)
    assert isinstance(started, ExecutionStarted)
    assert (started.execution.job_key.name, started.execution.instance_id) == ("job", "n1")
    jobs.go_on.set()
    ended = heard(events, ExecutionEnded)
    assert isinstance(ended, ExecutionEnded)
    assert ended.execution.fire_id == started.execution.fire_id
    assert ended.execution.outcome is Outcome.SUCCEEDED
    if url != "memory://":
        assert node.shutdown()
        left = heard(events, NodeLeft)
        assert isinstance(left, NodeLeft)
        assert left.node == joined.node or left.node.epoch == joined.node.epoch


def test_each_end_is_reported_once_in_order(make_scheduler: MakeScheduler, watch: Callable[..., ClusterEvents]) -> None:
    node = make_scheduler()
    node.start()
    node.schedule_job(JobDetail(jobs.Recorded, "before"), SimpleTrigger("before"))
    assert node.wait_until_recorded(1, SOON)
    events = watch(node, "10ms")
    job = JobDetail(jobs.Recorded, "job")
    node.schedule_job(job, [SimpleTrigger(f"t{n}") for n in range(300)])
    told: list[ExecutionEnded] = []
    while len(told) < 300:
        event = heard(events, ExecutionEnded)
        assert isinstance(event, ExecutionEnded)
        told.append(event)
    assert len({event.execution.fire_id for event in told}) == 300
    assert {event.execution.job_key.name for event in told} == {"job"}, "what ended before is history"
    while (more := events.next(timeout=0.3)) is not None:
        assert not isinstance(more, ExecutionEnded)


def test_a_watcher_is_notified_at_once_and_costs_nothing_before(
    make_scheduler: MakeScheduler, url: str, watch: Callable[..., ClusterEvents], monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory sends no notifications")
    node, watcher = make_scheduler(), make_scheduler()
    announced: list[str] = []
    notify = node._store.notify
    monkeypatch.setattr(node._store, "notify", lambda what: (announced.append(what), notify(what)))
    node.start()
    node.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t1"))
    assert node.wait_until_recorded(1, SOON)
    assert announced == []
    events = watch(watcher, "10m")
    assert events.next(timeout=0.5) is None
    runtime = node._node
    assert runtime is not None

    def is_watched() -> bool:
        events.next(timeout=0.05)
        return runtime.parts.announcer.is_watched

    wait_until(is_watched, "the node to know")
    node.schedule_job(JobDetail(jobs.Recorded, "other"), SimpleTrigger("t2"))
    event = heard(events, ExecutionEnded)
    assert isinstance(event, ExecutionEnded)
    assert event.execution.job_key.name == "other"
    assert set(announced) == {"ended"}


def test_an_outage_is_said_and_what_ended_meanwhile_is_reported_afterwards(
    postgres_dsn: str, make_scheduler: MakeScheduler
) -> None:
    with Proxy.to(postgres_dsn) as link:
        client = Scheduler(link.through(postgres_dsn), name="outage")
        with client, client.cluster_events() as events:
            assert events.outage is None
            link.refuse()
            while events.outage is None:
                assert events.next(0.2) is None
            assert isinstance(events.outage, StoreUnavailableError)
            with Scheduler(postgres_dsn, name="outage") as node:
                node.start()
                node.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
                jobs.next_run()
            assert events.next(0.2) is None
            link.admit()
            ended = heard(events, ExecutionEnded)
            assert events.outage is None
    assert isinstance(ended, ExecutionEnded)
    assert ended.execution.trigger_key == TriggerKey("t")


def test_a_poll_that_fails_midway_loses_no_end(
    make_scheduler: MakeScheduler, watch: Callable[..., ClusterEvents], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_scheduler()
    node.start()
    events = watch(node, "10ms")
    node.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert node.wait_until_recorded(1, SOON)
    failed: list[str] = []
    asked = {name: getattr(node._store, name) for name in ("list_running", "find", "list_nodes")}

    def fail_once(name: str) -> Callable[..., object]:
        def ask(*arguments: object) -> object:
            if name not in failed:
                failed.append(name)
                raise StoreUnavailableError("the connection was lost")
            return asked[name](*arguments)

        return ask

    for name in asked:
        monkeypatch.setattr(node._store, name, fail_once(name))
    ended = heard(events, ExecutionEnded)
    assert isinstance(ended, ExecutionEnded)
    assert ended.execution.trigger_key == TriggerKey("t")
    assert failed == ["list_running", "find", "list_nodes"]


def test_a_watch_that_is_closed_while_it_connects_again_keeps_no_connection(
    client: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = client.cluster_events()
    events._unsubscribe()
    subscribe, closed = client._store.subscribe, []

    def subscribe_slowly() -> object:
        subscription = subscribe()
        assert subscription is not None
        close = subscription.close
        monkeypatch.setattr(subscription, "close", lambda: (closed.append(subscription), close()))
        events.close()
        return subscription

    monkeypatch.setattr(client._store, "subscribe", subscribe_slowly)
    assert events.next(SOON) is None
    assert len(closed) == 1


def test_a_closed_watch_ends_for_who_waits_in_it(client: Scheduler) -> None:
    events = client.cluster_events()
    ended = threading.Event()

    def read() -> None:
        for _ in events:
            pass
        ended.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    events.close()
    assert ended.wait(SOON)
    with pytest.raises(InvalidValueError, match="poll_interval"):
        client.cluster_events(poll_interval="now and then")
