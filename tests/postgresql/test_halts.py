"""Ends of executions that change very many triggers of their job: what others see and do before they are recorded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy.errors import OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.states import CompletionInstruction, Outcome, TriggerState
from quartzpy.store.postgresql import slices
from quartzpy.store.postgresql.steps import halts
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, JobEntry, Node, TriggersOfJobs
from quartzpy.store.queries import HISTORY, TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, Connect
from tests.postgresql.test_slices import rows_of_triggers_under_lock
from tests.postgresql.test_users_transactions import transaction
from tests.proxy import Proxy

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MANY, OTHER = JobKey("many", "of-many"), JobKey("other", "of-other")
COUNT = 40
ALL_COMPLETE = CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "MOST", 10)
    monkeypatch.setattr(slices, "MOST", 15)


def trigger(name: str, at: datetime, job: JobKey = MANY) -> PreparedTrigger:
    return prepare(
        SimpleTrigger(name, job.group, job_key=job, start_time=at, interval=HOUR, repeat_count=9),
        datetime.now(UTC),
        None,
    )


def store_many(store: SqlJobStore, *, job: JobKey = MANY, count: int = COUNT, **values: Any) -> None:
    """Store a job with many due triggers; the first of them is the soonest."""
    due = datetime.now(UTC) - SECOND
    triggers = [
        trigger(f"{job.name}-{number:03}", due + number * timedelta(milliseconds=1), job) for number in range(count)
    ]
    detail = JobDetail(LANES[0].job_type, job.name, job.group, durable=True, **values)
    store.store_jobs([JobEntry(detail, triggers)], replace=True)


def fires(store: SqlJobStore, node: Node, limit: int = 100) -> list[FiredTrigger]:
    """Fire what is due, by as many passes as take something."""
    taken: list[FiredTrigger] = []
    for _ in range(3):
        slots = [AvailableSlots(workers=limit)]
        taken += store.acquire(node, slots, limit=limit, look_ahead=timedelta(), misfire_threshold=HOUR).fired
        if taken:
            break
    return taken


def asks(fired: FiredTrigger) -> Completion:
    now = datetime.now(UTC)
    return Completion(fired, now, now, Outcome.SUCCEEDED, instruction=ALL_COMPLETE)


def fails(fired: FiredTrigger) -> Completion:
    now = datetime.now(UTC)
    return Completion(fired, now, now, Outcome.FAILED, error="boom")


ENDS: dict[str, tuple[dict[str, Any], Callable[[FiredTrigger], Completion], TriggerState]] = {
    "instruction": ({}, asks, TriggerState.COMPLETE),
    "failures": ({"pause_after_failures": 1}, fails, TriggerState.PAUSED),
}
each_end = pytest.mark.parametrize("end", ENDS)


def halted(store: SqlJobStore, node: Node, end: str) -> Completion:
    """Let an execution end that changes all triggers of its job; return its completion, which is not recorded yet."""
    values, completion_of, _ = ENDS[end]
    store_many(store, **values)
    [fired] = fires(store, node, limit=1)
    completion = completion_of(fired)
    outcome = store.complete(node, [completion])
    assert set(outcome.halting) == {fired.fire_id}
    assert not outcome.deferred
    return completion


def states(store: SqlJobStore, job: JobKey = MANY) -> set[TriggerState]:
    return {record.state for record in store.find(TriggerQuery(job_key=job), None)}


@each_end
def test_while_they_change_nothing_of_the_job_fires_and_all_else_does(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    node, other = register(store), make_store()
    another = register(other, "other")
    completion = halted(store, node, end)
    store_many(store, job=OTHER, count=3)
    seen: list[tuple[set[JobKey], set[TriggerState], list[int]]] = []
    plain = slices.SliceProgress.add

    def looking(self: slices.SliceProgress, number: int) -> None:
        if not self.number:
            fired = {one.job_key for one in fires(other, another)}
            running = [row.fire_id for row in other.list_running() if row.job_key == MANY]
            seen.append((fired, states(other), running))
        plain(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(slices.SliceProgress, "add", looking)
        assert not store.complete(node, [completion], at_length=True).deferred
    # The others see all triggers changed, or none, and the execution runs until then.
    assert seen == [({OTHER}, {TriggerState.WAITING}, [completion.fired.fire_id])]
    assert states(store) == {ENDS[end][2]}


def test_if_the_end_cannot_be_recorded_nothing_changes(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    completion = halted(store, node, "instruction")
    with transaction(connect) as user:
        user.execute("SELECT FROM qrtz_fired_triggers FOR KEY SHARE")
        assert set(store.complete(node, [completion], at_length=True).deferred) == {completion.fired.fire_id}
        assert states(store) == {TriggerState.WAITING}
    assert not store.complete(node, [completion], at_length=True).deferred
    assert states(store) == {TriggerState.COMPLETE}


@each_end
def test_if_the_node_dies_the_job_goes_on(store: SqlJobStore, make_store: Callable[..., SqlJobStore], end: str) -> None:
    node, other = register(store), make_store()
    survivor = register(other, "survivor")
    completion = halted(store, node, end)
    [dead] = [record for record in other.check_in(survivor).nodes if record.epoch == node.epoch]
    other.recover(survivor, [dead])
    assert states(other) == {TriggerState.WAITING}
    assert len(fires(other, survivor)) == COUNT - 1
    assert set(store.complete(node, [completion], at_length=True).fenced) == {completion.fired.fire_id}
    assert states(other) == {TriggerState.WAITING}


@each_end
def test_it_dies_between_two_slices(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    node = register(store)
    completion = halted(store, node, end)

    def die(self: slices.SliceProgress, number: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(slices.SliceProgress, "add", die)
        with pytest.raises(KeyboardInterrupt):
            store.complete(node, [completion], at_length=True)
    assert states(store) == {TriggerState.WAITING}
    store.complete(node, [completion], at_length=True)
    assert states(store) == {ENDS[end][2]}


@each_end
def test_an_answer_that_was_lost_is_found_by_a_repetition(
    store: SqlJobStore,
    make_store: Callable[..., SqlJobStore],
    monkeypatch: pytest.MonkeyPatch,
    postgres_dsn: str,
    proxy: Proxy,
    end: str,
) -> None:
    remote = make_store(proxy.through(postgres_dsn))
    node = register(remote)
    completion = halted(remote, node, end)
    plain = halts.change_all

    def cutting(*args: Any) -> bool:
        paused = plain(*args)
        proxy.cut_after = b"COMMIT"
        return paused

    with monkeypatch.context() as patch:
        patch.setattr(halts, "change_all", cutting)
        with pytest.raises(OutcomeUnknownError):
            remote.complete(node, [completion], at_length=True)
    again = remote.complete(node, [completion], at_length=True)
    assert not again.fenced
    assert not again.deferred
    assert states(store) == {ENDS[end][2]}
    assert len(store.find(HISTORY, 9)) == 1


@each_end
def test_what_is_stored_meanwhile_is_stored_after_it(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    other = make_store()
    node = register(store)
    completion = halted(store, node, end)
    plain = slices.SliceProgress.add

    def storing(self: slices.SliceProgress, number: int) -> None:
        if not self.number:
            another = trigger("another", datetime.now(UTC) + HOUR)
            other.store_jobs([JobEntry(None, [another])], replace=False)
        plain(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(slices.SliceProgress, "add", storing)
        store.complete(node, [completion], at_length=True)
    found = {record.key.name: record.state for record in store.find(TriggerQuery(job_key=MANY), None)}
    assert found.pop("another") is TriggerState.WAITING
    assert set(found.values()) == {ENDS[end][2]}


HELD = {
    "trigger": "SELECT FROM qrtz_triggers WHERE trigger_name = 'many-005' FOR UPDATE",
    "job": "SELECT FROM qrtz_job_details WHERE job_name = 'many' FOR UPDATE",
    "execution": "SELECT FROM qrtz_fired_triggers FOR UPDATE",
}


@each_end
@pytest.mark.parametrize("held", HELD)
def test_it_is_tried_again_where_a_user_holds_a_row(
    store: SqlJobStore, connect: Connect, monkeypatch: pytest.MonkeyPatch, end: str, held: str
) -> None:
    monkeypatch.setattr(halts, "TRIES", 2)
    node = register(store)
    completion = halted(store, node, end)
    with transaction(connect) as user:
        user.execute(HELD[held])
        outcome = store.complete(node, [completion], at_length=True)
        assert set(outcome.deferred) == {completion.fired.fire_id}
        assert not outcome.fenced
        assert states(store) == {TriggerState.WAITING}
    assert not store.complete(node, [completion], at_length=True).deferred
    assert states(store) == {ENDS[end][2]}


def test_a_success_in_the_meantime_ends_the_row_of_failures(store: SqlJobStore) -> None:
    node = register(store)
    store_many(store, pause_after_failures=2)
    fired, *others = fires(store, node, limit=3)
    store.complete(node, [fails(others[0])])
    now = datetime.now(UTC)
    assert set(store.complete(node, [fails(fired)]).halting) == {fired.fire_id}
    store.complete(node, [Completion(others[1], now, now, Outcome.SUCCEEDED)])
    outcome = store.complete(node, [fails(fired)], at_length=True)
    assert not outcome.paused
    assert states(store) == {TriggerState.WAITING}
    assert fires(store, node), "the job goes on"


def test_a_resumption_in_the_middle_wins(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the triggers that change, and resumes them afterwards."""
    other = make_store()
    node = register(store)
    completion = halted(store, node, "failures")
    # What is paused already is what a user may want to resume.
    store.pause(TriggersOfJobs([MANY]))
    resumed: list[Future[Any]] = []
    plain = halts.change_all

    with ThreadPoolExecutor(1) as thread, monkeypatch.context() as patch:

        def resuming(*args: Any) -> bool:
            paused = plain(*args)
            resumed.append(thread.submit(other.resume, TriggersOfJobs([MANY])))
            return paused

        patch.setattr(halts, "change_all", resuming)
        store.complete(node, [completion], at_length=True)
        resumed[0].result(60)
    assert states(store) == {TriggerState.WAITING}


@each_end
def test_under_the_lock_no_statement_is_about_all_triggers(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, connect: Connect, end: str
) -> None:
    """Each statement that is sent after the lock reads no more than a few triggers, however many the job has."""
    node = register(store)
    values, completion_of, _ = ENDS[end]
    store_many(store, **values)
    [fired] = fires(store, node, limit=1)
    completion = completion_of(fired)
    read = rows_of_triggers_under_lock(store, monkeypatch)
    store.complete(node, [completion])
    store.complete(node, [completion], at_length=True)
    assert len(read) >= 2
    assert max(read) <= halts.MOST + 5, read
    assert states(store) == {ENDS[end][2]}
