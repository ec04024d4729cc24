"""Values of the largest size that is allowed, over connections with small buffers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy.job_data import MAX_BYTES
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.node import completer as module
from quartzpy.node.completer import Completer
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.execution import Execution
from quartzpy.states import Outcome
from quartzpy.store.postgresql import batches
from quartzpy.store.postgresql.connection.locks import LOCK, LockName
from quartzpy.store.postgresql.connection.pipeline import LARGE, BoundStatement, execute_pipelined
from quartzpy.store.postgresql.schema.statement import prepare as prepared_statement
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Completion, FiredTrigger, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.database import connect_to
from tests.postgresql.conftest import register
from tests.postgresql.test_completer import CLOCK, JOBS, completer_of, fired, recorded
from tests.proxy import Proxy

MakeStore = Callable[..., SqlJobStore]
LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def socket_dsn(postgres_dsn: str) -> Iterator[str]:
    """The database behind a Unix socket, whose buffers never grow."""
    url = make_url(postgres_dsn)
    # Not `tmp_path`: the path of a socket is limited to some 100 characters.
    with (
        TemporaryDirectory(prefix="quartzpy-") as directory,
        Proxy(str(url.host), url.port or 5432, at=Path(directory)) as socket,
    ):
        yield socket.through(postgres_dsn)


def trigger_of(job: JobDetail, name: str, **values: Any) -> PreparedTrigger:
    return prepare(SimpleTrigger(name, job_key=job.key, start_time=LATER, **values), LATER, None)


@pytest.mark.parametrize("size", [600_000, MAX_BYTES - 100])
def test_large_job_data_is_stored(make_store: MakeStore, socket_dsn: str, size: int) -> None:
    store = make_store(socket_dsn)
    job = JobDetail("work", "large", data={"a": "x" * size}, durable=True)
    store.store_jobs([JobEntry(job, [trigger_of(job, "large", data={"b": "y" * size})])], replace=False)
    [found] = store.jobs([job.key]).values()
    assert len(found.data["a"]) == size


def test_many_large_triggers_are_stored_in_several_statements(
    make_store: MakeStore, socket_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1_000_000)
    store = make_store(socket_dsn)
    sizes: list[int] = []
    sent = store._connections.execute_on

    def weighed(connection: Any, sends: list[BoundStatement], **how: Any) -> Any:
        sizes.append(sum(len(value) for one in sends for value in one.statement.encode(one.values) if value))
        return sent(connection, sends, **how)

    monkeypatch.setattr(store._connections, "execute_on", weighed)
    jobs = [JobDetail("work", f"job{number}", data={"a": "x" * 400_000}) for number in range(5)]
    entries = [
        JobEntry(job, [trigger_of(job, f"{job.key.name}-{n}", data={"b": "y" * 400_000}) for n in range(4)])
        for job in jobs
    ]
    store.store_jobs(entries, replace=False)
    keys = [TriggerKey(f"job{number}-{n}") for number in range(5) for n in range(4)]
    assert len(store.triggers(keys)) == 20
    assert len(store.jobs([JobKey(f"job{number}") for number in range(5)])) == 5
    # The last statement of the jobs travels with the first one of the triggers.
    assert max(sizes) < 2_200_000


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"log": "l" * 60_000}, id="log"),
        pytest.param({"log": "l" * 1_048_576, "error": "e" * 8_192, "outcome": Outcome.FAILED}, id="largest plain"),
        pytest.param({"job_data": '{"a": "' + "d" * 60_000 + '"}'}, id="data"),
        pytest.param(
            {"job_data": '{"a": "' + "d" * 1_048_000 + '"}', "log": "l" * 1_048_576, "result": '"' + "r" * 8_000 + '"'},
            id="largest",
        ),
    ],
)
def test_large_completions_are_recorded(make_store: MakeStore, socket_dsn: str, values: dict[str, Any]) -> None:
    store = make_store(socket_dsn)
    node = register(store)
    fires = fired(store, node, persist_data=True, max_concurrent=1)
    completer = completer_of(store)
    put_all(completer, node, fires, values)
    while completer.backlog():
        completer.run_once()
    assert set(recorded(store).values()) == {str(values.get("outcome", Outcome.SUCCEEDED))}
    assert len(recorded(store)) == JOBS


def put_all(completer: Completer, node: Node, fires: list[FiredTrigger], values: dict[str, Any]) -> None:
    epoch = Epoch(node, CLOCK, 3_600, CLOCK.monotonic())
    no_runner: Any = None  # The completer does not run it.
    now = datetime.now(UTC)
    for one in fires:
        completer.put(
            Execution(no_runner, one, epoch), Completion(one, now, now, **{"outcome": Outcome.SUCCEEDED, **values})
        )


def test_a_batch_of_completions_is_bounded_by_its_size(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_SIZE", 150_000)
    node = register(store)
    completer = completer_of(store)
    sizes: list[int] = []
    complete = store.complete

    def noted(node: Any, completions: list[Completion], **how: Any) -> Any:
        sizes.append(len(completions))
        return complete(node, completions, **how)

    monkeypatch.setattr(store, "complete", noted)
    put_all(completer, node, fired(store, node), {"log": "l" * 60_000})
    while completer.backlog():
        completer.run_once()
    assert sizes == [2, 2, 1]
    assert len(recorded(store)) == JOBS


def test_one_completion_may_be_larger_than_a_batch(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_SIZE", 1_000)
    node = register(store)
    completer = completer_of(store)
    put_all(completer, node, fired(store, node), {"log": "l" * 60_000})
    while completer.backlog():
        completer.run_once()
    assert len(recorded(store)) == JOBS


def test_the_lock_is_free_while_a_large_pipeline_is_under_way(store: SqlJobStore, postgres_dsn: str) -> None:
    """The network stops in the middle of a pipeline's large values."""
    value = "x" * (LARGE + 500_000)
    body = prepared_statement("body", "SELECT length(:'value'::text), :'value' = :'small'::text")
    lock = prepared_statement("lock", LOCK, store._session.names)
    sends = [
        BoundStatement(lock, {"sched": store._session.scheduler, "lock": LockName.TRIGGER_ACCESS}),
        BoundStatement(body, {"value": value, "small": "y"}),
    ]
    with Proxy.to(postgres_dsn) as network:
        connection = connect_to(network.through(postgres_dsn))
        network.split_at = b"x" * 1_000
        results: list[Any] = []

        def send() -> None:
            # The connection breaks if the test ends early, because the lock is held.
            with contextlib.suppress(psycopg.OperationalError):
                results.extend(execute_pipelined(connection, sends, seconds=600))

        sending = threading.Thread(target=send)
        sending.start()
        assert network.held_back.wait(60)
        with connect_to(postgres_dsn, autocommit=False) as other:
            taken = f"SELECT 1 FROM qrtz_locks WHERE lock_name = '{LockName.TRIGGER_ACCESS}' FOR UPDATE NOWAIT"
            assert other.execute(taken.encode()).fetchall() == [(1,)]
        network.let_go.set()
        sending.join()
        connection.close()
    assert results[1].rows == [(len(value), False)]
