"""Celery as an engine, with real workers, brokers and result backends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis import Redis

from quartzpy.errors import SettingsError
from quartzpy.ext.celery import CeleryTask, SendCeleryTask
from quartzpy.ext.celery import engine as module
from quartzpy.ext.celery.engine import CeleryTasks
from quartzpy.job_data import decode
from quartzpy.jobs.job import new_instance
from quartzpy.node.engines.process_messages import fired_to_json
from quartzpy.node.engines.protocol import Call, EngineSettings, Found
from tests.ext import celery_work
from tests.ext.celery_places import KINDS, Place, Told, kill
from tests.node import process_jobs as jobs
from tests.node.processes import execution_of
from tests.waiting import wait_until

MakeEngine = Callable[[Place], tuple[CeleryTasks, Told]]


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a worker that no test kills."""
    place = Place.of(request.param, tmp_path_factory.mktemp("celery"))
    try:
        place.start_worker()
        yield place
    finally:
        place.end()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Place]:
    """A place of its own."""
    place = Place.of("redis", tmp_path)
    yield place
    place.end()


@pytest.fixture
def engine_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeEngine]:
    """Makes an engine that is started."""
    monkeypatch.setattr(module, "_ASK_EVERY", 1.0)
    made = []

    def make(place: Place) -> tuple[CeleryTasks, Told]:
        engine, told = engine_for(place.app, monkeypatch), Told()
        engine.start(told)
        made.append(engine)
        return engine, told

    yield make
    for engine in made:
        engine.close(1)


def engine_for(app: Celery, monkeypatch: pytest.MonkeyPatch) -> CeleryTasks:
    monkeypatch.setattr(celery_work, "app", app, raising=False)
    settings = EngineSettings(
        executor="work",
        kind="celery",
        address="tests.ext.celery_work:app",
        workers=None,
        name="quartzpy-test",
        memory_limit=None,
        max_job_data_bytes=65_536,
        job_factory=new_instance,
        tracing=None,
        monotonic=time.monotonic,
    )
    made = module.engine(settings)
    assert isinstance(made, CeleryTasks)
    return made


def call_of(token: str, task: str, *args: Any, **options: Any) -> Call:
    """The call of a CeleryTask."""
    data = CeleryTask(f"work.{task}", args=args, **options).data
    return _call(token, fired_to_json(execution_of(SendCeleryTask, **(data or {})).fired, SendCeleryTask))


def runner_call(token: str, job: type[Any], **data: Any) -> Call:
    """The call of another job, without a ticket."""
    return _call(token, fired_to_json(execution_of(job, **data).fired, job))


def _call(token: str, fired: Mapping[str, Any]) -> Call:
    message = {"token": token, "scheduler": "s", "prefix": "qrtz_", "fired": fired, "max_job_data_bytes": 65_536}
    return Call(token, json.dumps(message), "DEFAULT.job", lambda: True)


def ending_of(told: tuple[Any, ...]) -> dict[str, Any]:
    assert told[0] == "ended", told
    ending: dict[str, Any] = json.loads(told[2])["ending"]
    return ending


def result_of(told: tuple[Any, ...]) -> Any:
    ending = ending_of(told)
    assert ending["error"] is None, ending
    return decode(ending["result"])["result"]


def begun_at(path: Path, times: int = 1) -> None:
    wait_until(lambda: path.exists() and len(path.read_text().split()) >= times, f"{path.name} has begun")


def test_a_sent_task_ends_as_it_ends(shared: Place, engine_of: MakeEngine) -> None:
    engine, told = engine_of(shared)
    engine.submit(call_of("a", "add", 2, 3, ignore_result=True))
    for token, task in [("b", "fail"), ("c", "retry"), ("d", "large"), ("e", "headers")]:
        engine.submit(call_of(token, task))
    assert result_of(told.wait("a", "ended")) == 5
    error = ending_of(told.wait("b", "ended"))["error"]
    assert (error["type"], error["message"]) == ("ValueError", "no sum today")
    assert 'raise ValueError("no sum today")' in error["traceback"]
    assert result_of(told.wait("c", "ended")) == 2
    assert "has more than 1048576 bytes" in ending_of(told.wait("d", "ended"))["result_problem"]
    headers = result_of(told.wait("e", "ended"))
    assert headers["id"] == "e"
    assert headers["key"].startswith("DEFAULT.")
    time.sleep(0.6)
    assert [len(told.of(token, "ended")) for token in "abcde"] == [1] * 5
    assert engine._watched == {}


def test_a_job_runs_on_the_worker(shared: Place, engine_of: MakeEngine) -> None:
    engine, told = engine_of(shared)
    engine.submit(runner_call("r1", jobs.Pid))
    assert result_of(told.wait("r1", "ended")) != os.getpid()
    # A short task has often ended when the results are looked at first.
    assert [worker for *_, worker in told.of("r1", "began")] in ([], ["w0@here"])


def test_an_engine_that_is_closed_while_it_reads_tells_nothing_more(
    shared: Place, engine_of: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, told = engine_of(shared)
    read, has_read, goes_on = engine._states, threading.Event(), threading.Event()

    def read_slowly(tokens: list[str]) -> list[tuple[str, Mapping[str, Any]]]:
        found = read(tokens)
        if any(state["status"] == "SUCCESS" for _, state in found):
            has_read.set()
            goes_on.wait(60)
        return found

    monkeypatch.setattr(engine, "_states", read_slowly)
    engine.submit(call_of("slow", "add", 2, 3))
    assert has_read.wait(60)
    engine.close(0)
    goes_on.set()
    engine._thread.join(60)
    assert not told.of("slow", "ended")


def test_killed_revoked_and_adopted(shared: Place, engine_of: MakeEngine, tmp_path: Path) -> None:
    engine, told = engine_of(shared)
    path = tmp_path / "begun"
    engine.submit(call_of("k1", "wait", str(path)))
    begun_at(path)
    assert engine.find(["k1", "other"]) == {"k1": Found.UNKNOWN}
    wait_until(lambda: engine.find(["k1"])["k1"] is Found.RUNNING)
    assert engine.stop("k1") is False
    assert engine.stop("k1", kill=True) is False
    told.wait("k1", "killed")

    other = tmp_path / "other"
    engine.submit(call_of("k2", "wait", str(other)))
    begun_at(other)
    shared.app.control.revoke("k2", terminate=True, signal="KILL")
    assert ending_of(told.wait("k2", "ended"))["error"]["type"] == "celery.exceptions.TaskRevokedError"

    third = tmp_path / "third"
    call = call_of("k3", "wait", str(third))
    engine.submit(call)
    begun_at(third)
    engine.close(1)
    successor, heard = engine_of(shared)
    assert successor.adopt(call)
    Path(f"{third}.end").touch()
    assert result_of(heard.wait("k3", "ended")) == 1
    assert not told.of("k3")


def test_the_task_of_a_worker_that_is_killed(redis: Place, engine_of: MakeEngine, tmp_path: Path) -> None:
    engine, told = engine_of(redis)
    early, late = tmp_path / "early", tmp_path / "late"
    worker = redis.start_worker()
    engine.submit(call_of("e", "wait", str(early)))
    engine.submit(call_of("l", "late", str(late)))
    begun_at(early)
    begun_at(late)
    kill(worker)
    redis.start_worker()
    # The broker delivers again what was not acknowledged.
    begun_at(late, times=2)
    Path(f"{late}.end").touch()
    assert result_of(told.wait("l", "ended")) == 2
    # What was acknowledged is lost, and nobody can know it: only a time limit ends it.
    assert engine.find(["e"]) == {"e": Found.UNKNOWN}
    engine.stop("e", kill=True)
    told.wait("e", "killed")
    assert early.read_text().count("\n") == 1


def test_the_run_of_a_worker_that_is_killed_and_of_its_process(redis: Place, engine_of: MakeEngine) -> None:
    engine, told = engine_of(redis)
    worker = redis.start_worker()
    engine.submit(runner_call("p", jobs.Dies, how="kill"))
    assert told.wait("p", "lost")[3] is True
    kill(worker)
    # Redis gives a message to a client that has died as long as it does not know of that.
    with Redis.from_url(redis.broker) as broker:
        wait_until(lambda: not any("b" in client["flags"] for client in broker.client_list()))
    engine.submit(runner_call("w", jobs.Pid))
    time.sleep(1.5)
    assert engine.find(["w"]) == {"w": Found.UNKNOWN}
    redis.start_worker()
    result_of(told.wait("w", "ended"))


def test_a_broker_that_restarts_loses_what_waits(redis: Place, engine_of: MakeEngine) -> None:
    engine, told = engine_of(redis)
    engine.submit(runner_call("r", jobs.Pid))
    broker = redis.servers[0]
    broker.stop()
    with pytest.raises(Exception, match="refused"):
        engine.submit(runner_call("s", jobs.Pid))
    assert "the broker cannot be reached" in told.wait("", "unavailable")[2]
    with pytest.raises(Exception, match="refused"):
        engine.start(told)
    broker.start()
    engine.start(told)
    assert engine.find(["r", "s"]) == {"r": Found.UNKNOWN}
    redis.start_worker()
    wait_until(lambda: engine.find(["r"])["r"] is Found.GONE)
    engine.submit(runner_call("r2", jobs.Pid))
    result_of(told.wait("r2", "ended"))


def test_results_that_cannot_be_read_fail_nothing(redis: Place, engine_of: MakeEngine, tmp_path: Path) -> None:
    engine, told = engine_of(redis)
    redis.start_worker()
    path = tmp_path / "begun"
    engine.submit(call_of("t", "wait", str(path)))
    begun_at(path)
    results = redis.servers[1].process
    results.send_signal(signal.SIGSTOP)
    try:
        assert "the tasks cannot be watched" in told.wait("", "unavailable")[2]
        with pytest.raises(Exception, match=r"[Tt]ime"):
            engine.start(told)
        Path(f"{path}.end").touch()
    finally:
        results.send_signal(signal.SIGCONT)
    assert result_of(told.wait("t", "ended")) == 1
    engine.start(told)


def test_a_backend_that_reads_one_task_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_of: MakeEngine
) -> None:
    place = Place("memory://", f"db+sqlite:///{tmp_path}/results.db", tmp_path)
    engine, told = engine_of(place)
    for token in ("a", "b"):
        engine.adopt(call_of(token, "add", 2, 3))
    backend = place.app.backend
    backend.store_result("a", 5, "SUCCESS")
    backend.store_result("b", ValueError("no sum today"), "FAILURE", traceback="here")
    assert result_of(told.wait("a", "ended")) == 5
    error = ending_of(told.wait("b", "ended"))["error"]
    assert (error["message"], error["traceback"]) == ("no sum today", "here")


def test_a_result_that_cannot_be_read_hides_no_others(tmp_path: Path, engine_of: MakeEngine) -> None:
    place = Place("memory://", f"file://{tmp_path}", tmp_path)
    engine, told = engine_of(place)
    for call in (call_of("a", "add", 2, 3), runner_call("b", jobs.Echo), call_of("c", "add", 2, 3)):
        engine.adopt(call)
    backend = place.app.backend
    for token in ("a", "b"):
        backend.set(backend.get_key_for_task(token), b"no result")
    backend.store_result("c", 5, "SUCCESS")
    assert result_of(told.wait("c", "ended")) == 5
    assert ending_of(told.wait("a", "ended"))["error"]["message"]
    assert told.wait("b", "lost")[3], "its row decides"
    assert not told.of("", "unavailable")


@pytest.mark.parametrize("results", ["disabled://", "rpc://"])
def test_a_backend_that_keeps_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: str) -> None:
    engine = engine_for(celery_work.app_at("memory://", results, str(tmp_path)), monkeypatch)
    with pytest.raises(SettingsError, match=rf"celery: tests.ext.celery_work:app: result_backend .* \(got '{results}"):
        engine.start(Told())


def test_what_is_not_set_up_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"executors: work: .* must be a Celery app \(got 'str'\)"):
        engine_for("no app", monkeypatch)
    (tmp_path / "results").mkdir()
    bare = Celery("bare", broker="memory://", backend=f"file://{tmp_path}/results", set_as_current=False)
    engine = engine_for(bare, monkeypatch)
    engine.start(Told())
    with pytest.raises(SettingsError, match=r"call quartzpy\.ext\.celery\.add_runner\(app\) in its module"):
        engine.submit(runner_call("r", jobs.Pid))
    assert engine.find(["r"]) == {}
    engine.close(1)
