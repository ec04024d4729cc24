"""The engine on Dask, against clusters of real processes: what it runs, loses, finds, stops and adopts."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from distributed import Client

from quartzpy.errors import SettingsError
from quartzpy.node.engines import dask_cluster
from quartzpy.node.engines.dask_cluster import DaskEngine
from quartzpy.node.engines.protocol import Found
from tests.engines.dask.clusters import DaskProcesses
from tests.engines.dask.conftest import NewEngine
from tests.engines.dask.events import RecordedEvents, call, settings
from tests.ports import free_port
from tests.proxy import Proxy
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("calls_of_tests")
NewCluster = Callable[..., DaskProcesses]


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """The file that a call waits for."""
    return tmp_path / "go"


def runs(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def until_kept(engine: DaskEngine, *, by: str = "fire-and-forget") -> None:
    """Wait until the scheduler keeps all calls of an engine: its client sends that it should a moment later."""
    wanted = {dask_cluster._key(token) for token in engine._tasks}
    kept = (
        "{task.key for scheduler in __import__('distributed').Scheduler._instances for task in"
        f" scheduler.tasks.values() if {by!r} in [client.client_key for client in task.who_wants or ()]}}"
    )
    wait_until(lambda: wanted <= engine._client.run_on_scheduler(eval, kept))


def test_a_call_ends_with_what_the_worker_returned(
    shared_cluster: DaskProcesses, new_engine: NewEngine, go: Path
) -> None:
    engine, events = new_engine(shared_cluster.address)
    engine.submit(call("1.1.1", until=str(go), answer="42"))
    assert engine.find(["1.1.1", "7.1.1"]) == {"1.1.1": Found.RUNNING, "7.1.1": Found.GONE}
    go.touch()
    assert events.wait_for("ended") == ("ended", "1.1.1", "42")
    wait_until(lambda: engine.find(["1.1.1"])["1.1.1"] == Found.GONE, "Dask keeps nothing of a call that has ended")


def test_many_calls_cost_no_thread(shared_cluster: DaskProcesses, new_engine: NewEngine) -> None:
    before = threading.active_count()
    engine, events = new_engine(shared_cluster.address)
    tokens = [f"{number}.1.2" for number in range(300)]
    for token in tokens:
        engine.submit(call(token, answer=token))
    for token in tokens:
        assert events.wait_for("ended", token)[2] == token
    assert threading.active_count() <= before + 3
    assert all(len(events.of(token)) == 1 for token in tokens)


def test_the_capacity_is_that_of_the_workers_there_are(new_cluster: NewCluster, new_engine: NewEngine) -> None:
    cluster = new_cluster()
    engine, events = new_engine(cluster.address)
    assert engine.capacity() == 0
    worker = cluster.add_worker(threads=3)
    events.wait_for("changed")
    assert engine.capacity() == 3
    cluster.kill_worker(worker)
    wait_until(lambda: engine.capacity() == 0)
    assert events.of("unavailable") == []
    bounded, _ = new_engine(cluster.address, workers=20)
    assert bounded.capacity() is None


def test_dask_runs_the_call_of_a_lost_worker_again(
    new_cluster: NewCluster, new_engine: NewEngine, tmp_path: Path, go: Path
) -> None:
    cluster = new_cluster()
    worker = cluster.add_worker()
    engine, events = new_engine(cluster.address)
    engine.submit(call("1.1.1", append_to=str(tmp_path / "runs"), until=str(go)))
    wait_until(lambda: runs(tmp_path / "runs") == 1)
    cluster.add_worker()
    cluster.kill_worker(worker)
    go.touch()
    events.wait_for("ended", "1.1.1")
    assert runs(tmp_path / "runs") == 2, "it is this that the ticket is for"


def test_a_call_that_dask_gives_up_is_lost(new_cluster: NewCluster, new_engine: NewEngine) -> None:
    cluster = new_cluster(scheduler={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"})
    cluster.add_worker()
    engine, events = new_engine(cluster.address)
    engine.submit(call("1.1.1", exit=True))
    _, _, why, may_have_begun = events.wait_for("lost", "1.1.1")
    assert may_have_begun
    assert "1 different workers, but all those workers died while running it" in str(why)


def test_a_call_on_a_worker_without_quartzpy_was_not_begun(
    new_cluster: NewCluster, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(has_quartzpy=False)
    cluster.add_worker()
    monkeypatch.setattr(dask_cluster, "_PROBE", "(True, True, None)")
    engine, events = new_engine(cluster.address)
    for token in ("1.1.1", "2.1.1"):
        engine.submit(call(token))
        assert events.wait_for("lost", token)[2:] == ("No module named 'tests'", False)
    wait_until(lambda: engine.capacity() == 1, "the worker is as it was")


def test_a_scheduler_that_starts_again_knows_no_call(
    new_cluster: NewCluster, new_engine: NewEngine, tmp_path: Path, go: Path
) -> None:
    cluster = new_cluster()
    cluster.add_worker()
    engine, events = new_engine(cluster.address)
    engine.submit(call("1.1.1", append_to=str(tmp_path / "runs"), until=str(go)))
    wait_until(lambda: runs(tmp_path / "runs") == 1)
    cluster.scheduler.kill()
    assert "127.0.0.1" in str(events.wait_for("unavailable")[1])
    assert engine.capacity() == 0
    assert engine.find(["1.1.1"]) == {}
    with pytest.raises(ConnectionError, match="the connection with Dask's scheduler at tcp"):
        engine.submit(call("2.1.1"))
    # A node that heard of it only at the next look would try its calls in vain until they fail.
    assert any(told[0] == "unavailable" and "is lost" in str(told[1]) for told in events.all)
    cluster.restart_scheduler()
    engine.start(events)
    assert events.wait_for("lost", "1.1.1")[3] is True
    cluster.add_worker()
    engine.submit(call("3.1.1"))
    events.wait_for("ended", "3.1.1")


def test_a_scheduler_that_hangs_is_unavailable(
    new_cluster: NewCluster, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch, go: Path
) -> None:
    cluster = new_cluster()
    cluster.add_worker()
    engine, events = new_engine(cluster.address)
    engine.submit(call("1.1.1", until=str(go)))
    until_kept(engine)
    with monkeypatch.context() as impatient:
        impatient.setattr(dask_cluster, "ANSWER_SECONDS", 1.0)
        impatient.setattr(dask_cluster, "CONNECT_SECONDS", 1.0)
        cluster.scheduler.send_signal(signal.SIGSTOP)
        assert "does not answer" in str(events.wait_for("unavailable")[1])
        assert engine.find(["1.1.1"]) == {}
        assert not engine.stop("1.1.1")
        with pytest.raises(ConnectionError, match="cannot reach Dask's scheduler at tcp"):
            engine.start(events)
    cluster.scheduler.send_signal(signal.SIGCONT)
    engine.start(events)
    go.touch()
    wait_until(lambda: events.of("1.1.1"))


@pytest.mark.parametrize("hangs", [False, True])
def test_an_engine_that_is_closed_leaves_nothing_that_waits(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, go: Path, hangs: bool
) -> None:
    cluster = new_cluster()
    cluster.add_worker()
    engine = DaskEngine(settings(cluster.address))
    engine.start(RecordedEvents())
    engine.submit(call("1.1.1", until=str(go)))
    until_kept(engine)
    if hangs:
        monkeypatch.setattr(dask_cluster, "ANSWER_SECONDS", 0.2)
        cluster.scheduler.send_signal(signal.SIGSTOP)
    try:
        engine.close(0)
    finally:
        cluster.scheduler.send_signal(signal.SIGCONT)
    assert engine.find(["1.1.1"]) == {}
    del engine
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(one.message) for one in caught] == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_connection_that_is_cut_loses_no_call(
    shared_cluster: DaskProcesses, new_engine: NewEngine, tmp_path: Path
) -> None:
    tokens = [f"{number}.1.3" for number in range(6)]
    with Proxy("127.0.0.1", shared_cluster.port) as network:
        engine, events = new_engine(f"tcp://127.0.0.1:{network.port}")
        for token in tokens:
            engine.submit(call(token, append_to=str(tmp_path / "runs"), until=str(tmp_path / "go"), answer=token))
        until_kept(engine)
        network.cut()

        def are_watched() -> bool:
            # As a node does, if Dask's client has not connected again before the next look.
            if engine._client is None:
                engine.start(events)
            return all(task.is_adopted for task in engine._tasks.values())

        wait_until(are_watched, seen=lambda: str((engine._tasks, events.all)))
        until_kept(engine, by=engine._client.id)
        (tmp_path / "go").touch()
        for token in tokens:
            assert events.wait_for("ended", token)[2] == token
    assert runs(tmp_path / "runs") == 6


def test_a_call_of_a_node_that_is_gone_is_adopted(
    shared_cluster: DaskProcesses, new_engine: NewEngine, tmp_path: Path
) -> None:
    engine, events = new_engine(shared_cluster.address)
    calls = [
        call(f"{number}.2.1", append_to=str(tmp_path / "runs"), until=str(tmp_path / "go"), answer="kept")
        for number in range(3)
    ]
    for adopted in calls:
        engine.submit(adopted)
    until_kept(engine)
    engine.close(0)
    other, heard = new_engine(shared_cluster.address)
    assert [other.adopt(adopted) for adopted in calls] == [True] * 3
    assert other.adopt(calls[0])
    assert not other.adopt(call("9.9.9"))
    until_kept(other, by=other._client.id)
    (tmp_path / "go").touch()
    for adopted in calls:
        assert heard.wait_for("ended", adopted.token)[2] == "kept"
        assert len(heard.of(adopted.token)) == 1
    assert runs(tmp_path / "runs") == 3
    assert not [event for event in events.all if event[0] in ("ended", "lost")]


def test_a_call_that_waits_is_withdrawn_and_one_that_runs_is_not(
    new_cluster: NewCluster, new_engine: NewEngine, tmp_path: Path
) -> None:
    cluster = new_cluster()
    engine, events = new_engine(cluster.address, workers=2)
    engine.submit(call("1.1.1", append_to=str(tmp_path / "withdrawn")))
    until_kept(engine)
    assert engine.stop("1.1.1")
    assert engine.find(["1.1.1"]) == {"1.1.1": Found.GONE}
    cluster.add_worker()
    engine.submit(call("2.1.1", append_to=str(tmp_path / "runs"), seconds=2))
    wait_until(lambda: runs(tmp_path / "runs") == 1)
    assert not engine.stop("2.1.1")
    assert not engine.stop("2.1.1", kill=True)
    events.wait_for("ended", "2.1.1")
    assert not engine.stop("2.1.1"), "what has ended is not said to have been stopped"
    assert runs(tmp_path / "withdrawn") == 0
    assert events.of("1.1.1") == []


def test_a_task_that_somebody_else_cancels_is_lost(new_cluster: NewCluster, new_engine: NewEngine, go: Path) -> None:
    cluster = new_cluster()
    cluster.add_worker()
    engine, events = new_engine(cluster.address)
    engine.submit(call("1.1.1", until=str(go)))
    until_kept(engine)
    with Client(cluster.address, set_as_default=False) as somebody:
        somebody.restart(wait_for_workers=False)
    assert events.wait_for("lost", "1.1.1")[3] is True
    assert events.of("unavailable") == []


def test_an_adaptive_cluster_grows_for_calls_that_wait(new_engine: NewEngine, adaptive_address: str) -> None:
    engine, events = new_engine(adaptive_address, workers=4)
    for number in range(3):
        engine.submit(call(f"{number}.1.1", seconds=0.2))
    for number in range(3):
        events.wait_for("ended", f"{number}.1.1")


# --- what start says


def test_a_scheduler_that_is_not_there(new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    before = threading.active_count()
    for _ in range(3):
        # Dask says the former, unless it is too slow to say it.
        why = "(Timed out|it does not answer)"
        with pytest.raises(ConnectionError, match=rf"cannot reach Dask's scheduler at {address}: {why}"):
            new_engine(address)
    assert threading.active_count() <= before + 3 + 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", r"executor 'big': dask needs the address of a scheduler, as in dask:tcp://scheduler:8786"),
        ("/nowhere/scheduler.json", "executor 'big': there is no scheduler file '/nowhere/scheduler.json'"),
        (
            "localhost:8786",
            "'localhost:8786' must be the address of a scheduler, as in dask:tcp://scheduler:8786: Invalid",
        ),
        ("tcp//localhost:8786", "executor 'big': 'tcp//localhost:8786' must be the address of a scheduler"),
        ("tpc://localhost:8786", "unknown address scheme 'tpc'"),
        ("tcp://localhost", "missing port number in address 'localhost'"),
    ],
)
def test_an_address_that_leads_nowhere(address: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        dask_cluster.engine(settings(address))


def test_a_scheduler_file(shared_cluster: DaskProcesses, new_engine: NewEngine) -> None:
    engine, events = new_engine(str(shared_cluster.scheduler_file))
    engine.submit(call("1.1.4"))
    events.wait_for("ended", "1.1.4")


def test_a_worker_without_the_url(new_cluster: NewCluster, new_engine: NewEngine) -> None:
    cluster = new_cluster(environment={})
    engine, events = new_engine(cluster.address)
    cluster.add_worker()
    assert "has no QUARTZPY_WORKER_URL in its environment: start it with" in str(events.wait_for("unavailable")[1])
    with pytest.raises(SettingsError, match=r"the Dask worker tcp://\S+ has no QUARTZPY_WORKER_URL"):
        engine.start(events)


def test_a_worker_without_quartzpy(new_cluster: NewCluster, new_engine: NewEngine) -> None:
    cluster = new_cluster(has_quartzpy=False)
    _, events = new_engine(cluster.address)
    cluster.add_worker()
    assert "has no quartzpy: install" in str(events.wait_for("unavailable")[1])


def test_other_versions_on_a_worker_are_logged(
    shared_cluster: DaskProcesses,
    new_engine: NewEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(dask_cluster, "version", lambda name: "9.9")
    with caplog.at_level(logging.WARNING, logger=dask_cluster.__name__):
        new_engine(shared_cluster.address)
        wait_until(lambda: caplog.messages)
    [message] = caplog.messages
    assert message.endswith("and this node 9.9")
