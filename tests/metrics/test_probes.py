"""Liveness and readiness, over HTTP, through the states of a node."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.errors import PluginStartError, SettingsError
from quartzpy.metrics import Metrics
from quartzpy.metrics.endpoints import MAX_REQUESTS
from quartzpy.metrics.families import OPEN_METRICS, PLAIN
from quartzpy.node import schema_watch
from quartzpy.states import NodeMode
from quartzpy.store.postgresql import schema_version
from quartzpy.store.postgresql.schema.naming import version_table
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to
from tests.facade import jobs
from tests.metrics.scrape import fetched, parsed
from tests.proxy import Proxy
from tests.waiting import wait_until

Make = Callable[..., tuple[Scheduler, Metrics]]


def asked(port: int | None, path: str, method: str = "GET") -> tuple[int, Any]:
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=60) as answer:
            status, body = answer.status, answer.read()
    except HTTPError as error:
        with error:
            status, body = error.code, error.read()
    return status, json.loads(body) if body.startswith(b"{") else body.decode()


def test_ready_from_the_start_to_the_drain_and_alive_throughout(make: Make) -> None:
    scheduler, metrics = make()
    metrics.start()
    assert asked(metrics.port, "/healthz") == (200, {"ok": True, "state": "STOPPED", "problems": []})
    status, body = asked(metrics.port, "/readyz")
    assert (status, body["problems"]) == (503, ["the scheduler has not started"])
    scheduler.start()
    assert asked(metrics.port, "/readyz") == (200, {"ok": True, "state": "HEALTHY", "problems": []})
    scheduler.standby()
    assert asked(metrics.port, "/readyz")[0] == 200
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    jobs.ran.get(timeout=30)
    port = metrics.port
    assert not scheduler.shutdown(wait=False)
    status, body = asked(port, "/readyz")
    assert (status, body["problems"]) == (503, ["the scheduler is shutting down, or has stopped"])
    assert asked(port, "/healthz")[0] == 200, "a process that drains must not be killed"
    jobs.go_on.set()
    assert scheduler.shutdown(timeout="30s")
    wait_until(lambda: metrics.port is None)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port or 0), timeout=5).close()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_an_outage_of_the_database_makes_a_node_unready_and_not_dead(postgres_dsn: str, make: Make) -> None:
    with Proxy.to(postgres_dsn) as proxy:
        scheduler, metrics = make(proxy.through(postgres_dsn), checkin_interval="1s", failure_window="20s")
        scheduler.start()
        proxy.refuse()
        wait_until(lambda: asked(metrics.port, "/readyz")[0] == 503)
        assert "the database has not answered" in asked(metrics.port, "/readyz")[1]["problems"][0]
        assert asked(metrics.port, "/healthz") == (200, {"ok": True, "state": "UNHEALTHY", "problems": []})
        assert parsed(metrics.text()).value("quartzpy_database_outage_seconds") > 0
        wait_until(lambda: parsed(metrics.text()).so_far("quartzpy_step_errors_total", step="check_in") >= 1)
        proxy.admit()
        wait_until(lambda: asked(metrics.port, "/readyz")[0] == 200)
        scheduler.shutdown()


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_tables_that_change_under_a_node_make_it_unready(
    new_database: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_watch, "SCHEMA_CHECK_EVERY", 0.0)
    scheduler, metrics = make(new_database, checkin_interval="100ms", failure_window="20s")
    checks: list[None] = []
    check_tables = SqlJobStore.check_tables

    def checking(store: SqlJobStore) -> None:
        check_tables(store)
        checks.append(None)

    monkeypatch.setattr(SqlJobStore, "check_tables", checking)
    scheduler.start()
    wait_until(lambda: asked(metrics.port, "/readyz")[0] == 200)
    with connect_to(new_database) as user:

        def stamp(revision: str) -> None:
            user.execute(f"UPDATE {version_table('qrtz_')} SET version_num = %s".encode(), [revision])

        def asked_again() -> int:
            """Return the status after another check of the tables."""
            checks.clear()
            wait_until(lambda: len(checks) > 1)
            return asked(metrics.port, "/readyz")[0]

        mark = f"tables of revision 9999, usable by releases from revision {schema_version.HEAD} on"
        user.execute(f"COMMENT ON TABLE qrtz_scheduler_state IS '{mark}'".encode())
        stamp("9999")
        assert asked_again() == 200, "a rolling upgrade has begun"
        user.execute("COMMENT ON TABLE qrtz_scheduler_state IS NULL")
        stamp("9999")
        wait_until(lambda: asked(metrics.port, "/readyz")[0] == 503)
        assert "revision 9999, which is newer than this release" in asked(metrics.port, "/readyz")[1]["problems"][0]
        assert asked(metrics.port, "/healthz")[0] == 200
        stamp(schema_version.HEAD)
        wait_until(lambda: asked(metrics.port, "/readyz")[0] == 200)
        user.execute("DROP TABLE qrtz_scheduler_state CASCADE")
        wait_until(lambda: asked(metrics.port, "/readyz")[0] == 503)
        # A check that the drop falls into finds no table at all, and names another.
        wait_until(lambda: "qrtz_scheduler_state" in asked(metrics.port, "/readyz")[1]["problems"][0])
    scheduler.shutdown(wait=False)


def test_a_thread_that_hangs_makes_a_node_dead(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, metrics = make()
    scheduler.start()
    node = scheduler._node
    assert node is not None
    hangs = threading.Event()
    monkeypatch.setattr(node.parts.misfires, "run_once", lambda: float(hangs.wait(30)))

    def problems() -> list[str]:
        # Again, because the last pass before this one may have ended only now.
        node.parts.misfires.expected_at = time.monotonic() - 3_600
        status, body = asked(metrics.port, "/healthz")
        return body["problems"] if status == 503 else []

    assert any("misfire-handler" in problem for problem in wait_until(problems))
    hangs.set()


@pytest.fixture
def stopped() -> Iterator[tuple[Scheduler, Metrics]]:
    metrics = Metrics(port=0)
    scheduler = Scheduler("memory://", plugins=[metrics])
    metrics.start()
    yield scheduler, metrics
    scheduler.shutdown()


def test_a_program_that_is_no_node_exports_the_load_of_the_cluster(make: Make) -> None:
    client, metrics = make(metrics=Metrics(port=0, cluster=True))
    metrics.start()
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    found = parsed(fetched(f"http://127.0.0.1:{metrics.port}/metrics")[1])
    assert found.value("quartzpy_cluster_triggers", state="due") == 1
    assert found.value("quartzpy_cluster_nodes", state="alive") == 0
    assert found.value("quartzpy_node_state", state="STOPPED") == 1


def test_paths_methods_and_formats(stopped: tuple[Scheduler, Metrics]) -> None:
    port = stopped[1].port
    assert asked(port, "/other") == (404, "there are /metrics, /healthz and /readyz\n")
    assert asked(port, "/metrics", "POST") == (405, "use GET\n")
    assert asked(port, "/metrics", "HEAD") == (200, "")
    base = f"http://127.0.0.1:{port}"
    assert fetched(f"{base}/metrics?a=b")[0] == PLAIN
    content_type, text = fetched(f"{base}/metrics", OPEN_METRICS)
    assert content_type == OPEN_METRICS
    assert text.endswith("# EOF\n")


def test_clients_that_send_nothing_do_not_block_the_probes_for_ever(
    stopped: tuple[Scheduler, Metrics], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = stopped[1].port or 0
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MAX_REQUESTS - 1)]
    try:
        assert asked(port, "/healthz")[0] == 200
        beyond = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(4)]
        idle += beyond
        assert b"" in [one.recv(1) for one in beyond[-1:]], "what is beyond the limit is closed"
    finally:
        for one in idle:
            one.close()
    wait_until(lambda: answers(port))


def answers(port: int) -> bool:
    try:
        return asked(port, "/healthz")[0] == 200
    except OSError:
        return False


def test_a_failing_metric_is_a_failed_request_and_no_more(
    stopped: tuple[Scheduler, Metrics], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, metrics = stopped
    monkeypatch.setattr(scheduler, "health", lambda: 1 / 0)
    assert asked(metrics.port, "/metrics")[0] == 500
    assert asked(metrics.port, "/healthz")[0] == 500
    monkeypatch.undo()
    assert asked(metrics.port, "/healthz")[0] == 200


def test_a_taken_port_fails_the_start(stopped: tuple[Scheduler, Metrics]) -> None:
    scheduler = Scheduler("memory://", metrics_port=stopped[1].port)
    with pytest.raises(PluginStartError, match=rf"cannot listen at 127.0.0.1:{stopped[1].port}"):
        scheduler.start()
    assert scheduler.is_shut_down


def test_the_setting_serves_a_node() -> None:
    with Scheduler("memory://", metrics_port=0) as scheduler:
        [metrics] = [one for one in scheduler._plugins if isinstance(one, Metrics)]
        assert asked(metrics.port, "/readyz")[0] == 200


@pytest.mark.parametrize("wrong", [{"metrics_port": -1}, {"metrics_port": "x"}, {"metrics_host": ""}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Scheduler("memory://", **wrong)


def test_the_asgi_application_answers_where_it_is_mounted(stopped: tuple[Scheduler, Metrics]) -> None:
    async def get(path: str, root: str = "") -> tuple[int, bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        scope = {"type": "http", "method": "GET", "path": path, "root_path": root, "headers": [(b"accept", b"*/*")]}
        await stopped[1].asgi(scope, receive, send)
        return sent[0]["status"], sent[1]["body"]

    assert asyncio.run(get("/healthz"))[0] == 200
    assert asyncio.run(get("/ops/readyz", "/ops"))[0] == 503
    status, body = asyncio.run(get("/metrics", "/metrics"))
    assert (status, b"quartzpy_node_state" in body) == (200, True)


def test_the_wsgi_application_answers(stopped: tuple[Scheduler, Metrics]) -> None:
    told: list[Any] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/readyz", "wsgi.input": BytesIO()}
    body = b"".join(stopped[1].wsgi(environ, lambda status, headers: told.append((status, dict(headers)))))
    assert told[0][0] == "503 Service Unavailable"
    assert told[0][1]["Content-Length"] == str(len(body))


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_node_that_an_operator_drains_is_not_ready_until_it_is_resumed(make: Make) -> None:
    scheduler, metrics = make(checkin_interval="200ms")
    scheduler.start()
    assert asked(metrics.port, "/readyz")[0] == 200
    scheduler._store.set_node_mode(str(scheduler.instance_id), NodeMode.DRAINING)
    wait_until(lambda: asked(metrics.port, "/readyz")[0] == 503)
    assert asked(metrics.port, "/readyz")[1]["problems"] == [
        "the node drains, as somebody has asked: it takes no triggers"
    ]
    assert asked(metrics.port, "/healthz")[0] == 200
    scheduler._store.set_node_mode(str(scheduler.instance_id), NodeMode.RUNNING)
    wait_until(lambda: asked(metrics.port, "/readyz")[0] == 200)
