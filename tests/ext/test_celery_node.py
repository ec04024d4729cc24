"""Nodes whose jobs run on Celery: the execution ends as the task does, also when its node is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler
from quartzpy.ext.celery import CeleryTask
from tests.database import execute
from tests.ext.celery_node import SETTINGS
from tests.ext.celery_places import ROOT, Place
from tests.ext.celery_work import Works
from tests.waiting import LIMIT, wait_until

StartNode = Callable[[str], subprocess.Popen[bytes]]
PLACED = {"executor": "work", "durable": True}


@pytest.fixture
def place(tmp_path: Path, postgres_dsn: str) -> Iterator[Place]:
    found = Place.of("files", tmp_path)
    try:
        found.start_worker(QUARTZPY_WORKER_URL=postgres_dsn)
        yield found
    finally:
        found.end()


@pytest.fixture
def start_node(place: Place, postgres_dsn: str) -> Iterator[StartNode]:
    started = []

    def start(name: str) -> subprocess.Popen[bytes]:
        environment = {**place.environment, "QUARTZPY_URL": postgres_dsn}
        with (place.folder.parent / f"{name}.log").open("wb") as log:
            node = subprocess.Popen(
                [sys.executable, "-m", "tests.ext.celery_node", name],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        started.append(node)
        return node

    yield start
    for node in started:
        node.kill()
        node.wait()


@pytest.fixture
def client(postgres_dsn: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(postgres_dsn, **SETTINGS)
    yield scheduler
    scheduler.shutdown()


@pytest.mark.cluster
def test_what_runs_on_celery_outlives_its_node(
    place: Place, start_node: StartNode, client: Scheduler, tmp_path: Path, postgres_dsn: str
) -> None:
    sent, run = tmp_path / "sent", tmp_path / "run"
    client.add_job(CeleryTask("work.wait", "sent", args=[str(sent)], job_options=PLACED))
    client.add_job(JobDetail(Works, "run", data={"path": str(run)}, **PLACED))
    first = start_node("n1")
    wait_until(lambda: len(client.nodes().nodes) == 1)
    handles = [client.trigger_job("sent"), client.trigger_job("run")]
    wait_until(lambda: sent.exists() and run.exists(), "both have begun")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    # Its lease is over at once, and that of no node which gets little time.
    execute(postgres_dsn, "UPDATE qrtz_scheduler_state SET failure_window = '0'")
    start_node("n2")
    wait_until(lambda: [node.instance_id for node in client.nodes().nodes] == ["n2"])
    for path in (sent, run):
        Path(f"{path}.end").touch()
    ended = [handle.wait(f"{LIMIT}s") for handle in handles]
    assert [(record.outcome, record.result, record.error) for record in ended] == [
        ("SUCCEEDED", 1, None),
        ("SUCCEEDED", "fired by n1", None),
    ]
    assert run.read_text() == "begun\n"
