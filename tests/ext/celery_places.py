"""Brokers, result backends and workers of Celery, and what an engine tells a node."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import OperationalError

from tests.ext.celery_work import app_at
from tests.ports import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("files", "redis")


class Redis:
    """A server that keeps nothing when it ends."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        quiet = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), *quiet], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, "Redis answers")

    def _answers(self) -> bool:
        with closing(socket.socket()) as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Place:
    """A broker with a result backend, and the workers on it."""

    broker: str
    results: str
    folder: Path
    servers: list[Redis] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, kind: str, folder: Path) -> Place:
        """Return a new one; skip the test if its kind is not installed here."""
        messages = folder / "messages"
        messages.mkdir()
        if kind == "redis":
            pytest.importorskip("redis")
            if shutil.which("redis-server") is None:
                pytest.skip("needs redis-server")
            servers = [Redis(), Redis()]
            return cls(servers[0].url, servers[1].url, messages, servers)
        (folder / "results").mkdir()
        return cls("filesystem://", f"file://{folder}/results", messages)

    @property
    def app(self) -> Celery:
        return app_at(self.broker, self.results, str(self.folder))

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TEST_CELERY_BROKER": self.broker,
            "TEST_CELERY_RESULTS": self.results,
            "TEST_CELERY_FOLDER": str(self.folder),
        }

    def start_worker(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker with two processes, and wait until it hears."""
        name = f"w{len(self.workers)}@here"
        command = [sys.executable, "-m", "celery", "-A", "tests.ext.celery_work:app", "worker", "-n", name, "-c", "2"]
        with (self.folder.parent / f"{name}.log").open("wb") as log:
            worker = subprocess.Popen(
                [*command, "--without-gossip", "--without-mingle", "-l", "INFO", *options],
                cwd=ROOT,
                env={**self.environment, **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers.append(worker)
        app = self.app

        def hears() -> bool:
            assert worker.poll() is None, (self.folder.parent / f"{name}.log").read_text()
            try:
                return bool(app.control.ping([name], timeout=3))
            except OperationalError:
                return False

        wait_until(hears, "the worker answers")
        return worker

    def end(self) -> None:
        for worker in self.workers:
            kill(worker)
        for server in self.servers:
            server.stop()


def kill(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker with its processes, and wait for its end."""
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


class Told:
    """What an engine has told, as tuples that begin with the name of the event."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []

    def began(self, token: str, worker: str) -> None:
        self.all.append(("began", token, worker))

    def progress(self, token: str, fraction: float | None, message: str | None) -> None:
        raise AssertionError("the rows tell it")

    def log(self, token: str, text: str) -> None:
        raise AssertionError("the rows tell it")

    def ended(self, token: str, answer: str) -> None:
        self.all.append(("ended", token, answer))

    def lost(self, token: str, reason: str, *, may_have_begun: bool, exit_code: int | None = None) -> None:
        self.all.append(("lost", token, reason, may_have_begun))

    def killed(self, token: str) -> None:
        self.all.append(("killed", token))

    def changed(self) -> None:
        raise AssertionError("Celery has no capacity")

    def unavailable(self, reason: str) -> None:
        self.all.append(("unavailable", "", reason))

    def of(self, token: str, *kinds: str) -> list[tuple[Any, ...]]:
        return [told for told in list(self.all) if told[1] == token and (not kinds or told[0] in kinds)]

    def wait(self, token: str, *kinds: str, where: Callable[[], object] | None = None) -> tuple[Any, ...]:
        """Return the first event of one of these kinds."""
        return wait_until(lambda: self.of(token, *kinds), f"{kinds} of {token}", seen=lambda: self.all)[0]
