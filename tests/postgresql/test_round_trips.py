"""Each step is one network round trip, counted by a proxy that sees when a client speaks after the server had."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.pq import ExecStatus

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection import session
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, DispatchKey, JobEntry, Node, UnfilledTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.contract.harness import stored_job, stored_trigger
from tests.postgresql.conftest import register
from tests.proxy import Proxy

OPENINGS = [AvailableSlots()]
LANES = [DispatchKey("round-trips")]
SECOND = timedelta(seconds=1)
JOB = JobDetail(LANES[0].job_type, "job", durable=True)
BATCH = 50


@pytest.fixture(autouse=True)
def _any_delay_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer may take longer than the time of the server may be wrong, which is then asked for."""
    monkeypatch.setattr(session, "CLOCK_TOLERANCE", timedelta(minutes=1))


@pytest.fixture
def remote(make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy) -> SqlJobStore:
    return make_store(proxy.through(postgres_dsn))


@contextmanager
def pipelines(proxy: Proxy, expected: int) -> Iterator[None]:
    before = proxy.pipelines
    yield
    assert proxy.pipelines - before == expected


def prepared(name: str, *, age: timedelta = SECOND, known_ahead: bool = True) -> PreparedTrigger:
    now = datetime.now(UTC)
    trigger = SimpleTrigger(
        name, job_key=JOB.key, start_time=now - age, interval=timedelta(hours=1), repeat_count=None, misfire="smart"
    )
    whole = prepare(trigger, now, None)
    return whole if known_ahead else PreparedTrigger(whole.trigger, whole.progress, UpcomingFireTimes())


def stored(store: SqlJobStore, *triggers: PreparedTrigger) -> None:
    store.store_jobs([JobEntry(JOB, triggers)], replace=True)


def take(store: SqlJobStore, node: Node) -> tuple[list[int], list[UnfilledTrigger], list[Completion]]:
    took = store.acquire(node, OPENINGS, limit=BATCH, look_ahead=SECOND, misfire_threshold=timedelta(minutes=1))
    ended = [Completion(one, started_at=took.now, ended_at=took.now, outcome=Outcome.SUCCEEDED) for one in took.fired]
    return [one.fire_id for one in took.fired], list(took.unfilled), ended


def warm(store: SqlJobStore, node: Node) -> None:
    """Open the connections and prepare nothing: the first round trip of a statement must be one as well."""
    store.now()
    store.check_in(node)


def test_firing_a_batch_that_is_due_is_one_round_trip_and_completing_it_another(
    remote: SqlJobStore, proxy: Proxy
) -> None:
    node = register(remote)
    warm(remote, node)
    for _ in range(2):  # with statements that are new to the connection, and again
        stored(remote, *[prepared(f"t{n}") for n in range(BATCH)])
        with pipelines(proxy, 1):
            fired, _, ended = take(remote, node)
        assert len(fired) == BATCH
        with pipelines(proxy, 1):
            outcome = remote.complete(node, ended)
        assert not outcome.fenced
        assert not outcome.deferred


def test_counting_failures_and_pausing_their_job_takes_no_round_trip_more(remote: SqlJobStore, proxy: Proxy) -> None:
    node = register(remote)
    warm(remote, node)
    job = JOB.with_values({"pause_after_failures": BATCH})
    remote.store_jobs([JobEntry(job, [prepared(f"t{n}") for n in range(BATCH)])], replace=True)
    _, _, ended = take(remote, node)
    with pipelines(proxy, 1):
        outcome = remote.complete(node, [replace(one, outcome=Outcome.FAILED) for one in ended])
    assert set(outcome.paused) == {JOB.key}


def test_log_lines_take_no_round_trip_more(remote: SqlJobStore, proxy: Proxy) -> None:
    node = register(remote)
    warm(remote, node)
    stored(remote, *[prepared(f"t{n}") for n in range(BATCH)])
    _, _, ended = take(remote, node)
    for one in ended[::2]:
        one.log = "a line\n" * 1_000
    with pipelines(proxy, 1):
        assert not remote.complete(node, ended).fenced
    logs = [remote.execution(one.fired.fire_id) for one in ended]
    assert [None if record is None else record.log for record in logs] == [one.log for one in ended]


def test_meeting_unfilled_triggers_refilling_and_firing_them_is_a_round_trip_each(
    remote: SqlJobStore, proxy: Proxy
) -> None:
    node = register(remote)
    warm(remote, node)
    stored(remote, *[prepared(f"t{n}", known_ahead=False) for n in range(BATCH)])
    with pipelines(proxy, 1):
        _, unfilled, _ = take(remote, node)
    assert len(unfilled) == BATCH
    refills = [refill_of(one, datetime.now(UTC)) for one in unfilled]
    with pipelines(proxy, 1):
        remote.refill(node, refills)
    with pipelines(proxy, 1):
        fired, _, _ = take(remote, node)
    assert len(fired) == BATCH


def store_new(store: SqlJobStore, job: JobDetail) -> None:
    trigger = SimpleTrigger(job.name, job_key=job.key, start_time=datetime.now(UTC))
    store.store_jobs([JobEntry(job, [prepare(trigger, datetime.now(UTC), None)])], replace=False)
    assert stored_job(store, job.key) is not None
    assert stored_trigger(store, trigger.key) is not None


def counted(proxy: Proxy, work: Callable[[], None]) -> int:
    before = proxy.pipelines
    work()
    return proxy.pipelines - before


def test_storing_a_new_job_with_its_triggers_is_one_round_trip_after_another_one_was_new(
    remote: SqlJobStore, proxy: Proxy
) -> None:
    warm(remote, register(remote))
    jobs = [replace(JOB, name=f"job{number}") for number in range(4)]
    asks = 2  # the two questions at the end of `store_new`
    assert [counted(proxy, lambda job=job: store_new(remote, job)) - asks for job in jobs] == [2, 1, 1, 1]


def test_what_is_stored_already_is_not_expected_to_be_new_again(remote: SqlJobStore, proxy: Proxy) -> None:
    warm(remote, register(remote))
    entry = JobEntry(JOB, [prepared("t", age=-SECOND)])
    remote.store_jobs([entry], replace=False)

    def again() -> None:
        remote.store_jobs([entry], replace=False)

    # The first time there are the round trip that fails and the rollback; then: both, the stored job, the stored
    # trigger with its job, COMMIT.
    assert [counted(proxy, again) for _ in range(3)] == [2 + 4, 4, 4]


@pytest.mark.parametrize("count", [0, 1])
def test_a_job_that_is_stored_with_other_values_is_refused_before_the_commit(remote: SqlJobStore, count: int) -> None:
    remote.store_jobs([JobEntry(JOB)], replace=False)
    other = JOB.with_values({"description": "another"})
    new = JobDetail(LANES[0].job_type, "new", durable=True)
    with pytest.raises(ObjectAlreadyExistsError, match="description"):
        remote.store_jobs([JobEntry(new), JobEntry(other, [prepared("t")] * count)], replace=False)
    assert stored_job(remote, new.key) is None
    assert stored_trigger(remote, prepared("t").trigger.key) is None


def test_a_check_in_is_one_round_trip(remote: SqlJobStore, proxy: Proxy) -> None:
    node = register(remote)
    warm(remote, node)
    with pipelines(proxy, 1):
        answer = remote.check_in(node)
    assert [record.instance_id for record in answer.nodes] == ["node"]


def test_looking_for_something_to_recover_is_one_round_trip_and_recovering_one_more(
    remote: SqlJobStore, store: SqlJobStore, proxy: Proxy
) -> None:
    dead, node = register(store, "dead"), register(remote)
    warm(remote, node)
    with pipelines(proxy, 1):
        assert not remote.recover(node, []).changed_anything
    stored(store, prepared("t"))
    fired, *_ = take(store, dead)
    assert len(fired) == 1
    judged = [record for record in store.list_nodes().nodes if record.instance_id == "dead"]
    with pipelines(proxy, 2):
        outcome = remote.recover(node, judged)
    assert outcome.nodes == ["dead"]
    assert outcome.lost == 1


def test_misfires_are_read_in_one_round_trip_and_written_in_another(remote: SqlJobStore, proxy: Proxy) -> None:
    node = register(remote)
    warm(remote, node)

    def misfire() -> int:
        return len(remote.recover_misfires(node, threshold=timedelta(minutes=1), limit=BATCH).misfired)

    with pipelines(proxy, 1):
        assert misfire() == 0
    stored(remote, *[prepared(f"t{n}", age=timedelta(hours=2)) for n in range(BATCH)])
    with pipelines(proxy, 2):
        assert misfire() == BATCH


@pytest.mark.parametrize("count", [1, 300])
def test_synchronizing_what_is_stored_takes_as_many_round_trips_for_many_jobs_as_for_one(
    postgres_dsn: str, proxy: Proxy, count: int
) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    jobs = [JobDetail("round-trips", f"job{n}") for n in range(count)]
    declared = [(job, [SimpleTrigger(f"{job.name}-{n}", start_time=start) for n in range(3)]) for job in jobs]
    client = Scheduler(proxy.through(postgres_dsn), name="sync")
    try:
        assert client.sync(declared, owner="test")
        # BEGIN; the lock, jobs, triggers, owners; COMMIT.
        with pipelines(proxy, 1 + 4 + 1):
            assert not client.sync(declared, owner="test")
    finally:
        client.shutdown()


@dataclass
class Data:
    region: str


class Untyped(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Typed(Untyped, data_type=Data):
    pass


@pytest.mark.parametrize(("job_class", "reads"), [(Untyped, 1), (Typed, 2)])
def test_a_job_is_read_before_it_is_run_by_hand_only_where_its_data_has_a_type(
    postgres_dsn: str, proxy: Proxy, job_class: type[Job], reads: int
) -> None:
    client = Scheduler(proxy.through(postgres_dsn), name="by-hand")
    try:
        job = JobDetail(job_class, "job", data={"region": "eu"}, durable=True)
        client.add_job(job)
        client.trigger_job(job.key)
        with pipelines(proxy, reads + 1 + 1):  # the pauses; the trigger with COMMIT; the time is estimated
            client.trigger_job(job.key)
    finally:
        client.shutdown()


def test_storing_many_triggers_takes_few_round_trips(remote: SqlJobStore, proxy: Proxy) -> None:
    warm(remote, register(remote))
    with pipelines(proxy, 1 + 1 + 3 + 1):  # the job; whether all is ordinary; three chunks; the lock with COMMIT
        stored(remote, *[prepared(f"t{n}", age=-SECOND) for n in range(6_000)])


def test_a_rate_limit_takes_no_round_trip_of_its_own(remote: SqlJobStore, proxy: Proxy) -> None:
    node = register(remote)
    limited = replace(JOB, rate_limit=RateLimit(10, per=1, burst=2))
    remote.store_jobs([JobEntry(limited, [prepared(f"t{n}") for n in range(5)])], replace=True)
    with pipelines(proxy, 1):
        first, _, _ = take(remote, node)
    assert len(first) == 2
    with pipelines(proxy, 1):
        take(remote, node)


def test_an_error_that_comes_before_the_rest_of_the_pipeline_is_sent_is_no_round_trip(
    postgres_dsn: str, proxy: Proxy
) -> None:
    with psycopg.connect(proxy.through(postgres_dsn).replace("+psycopg", "")) as connection, pipelines(proxy, 1):
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        pgconn.send_query_params(b"SELECT 1 / 0", None)
        pgconn.flush()
        assert select.select([pgconn.socket], [], [], 60)[0], "the server sends the error at once"
        pgconn.pipeline_sync()
        pgconn.flush()
        statuses: list[int] = []
        while ExecStatus.PIPELINE_SYNC not in statuses:
            # To wait in libpq would keep the threads of the proxy from running.
            while pgconn.is_busy():
                select.select([pgconn.socket], [], [], 60)
                pgconn.consume_input()
            statuses += [result.status] if (result := pgconn.get_result()) is not None else []
        pgconn.exit_pipeline_mode()
