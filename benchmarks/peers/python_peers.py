"""Peers in Python, each in an environment of its own: two of them are called apscheduler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from benchmarks.peers.peer import PeerError, rate_of
from benchmarks.server import Server

PROGRAMS = Path(__file__).with_name("programs")


def cache() -> Path:
    """Return the directory of everything that peers need and that is not part of this project."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "quartzpy-benchmarks"


@dataclass(frozen=True)
class PythonPeer:
    """A peer whose program runs with the Python of its own environment."""

    name: str
    program: str
    requirements: tuple[str, ...]
    settings: str
    drained: int
    fires_at_instants: bool = False

    @property
    def _environment(self) -> Path:
        key = hashlib.sha256(" ".join([sys.version, *self.requirements]).encode()).hexdigest()[:8]
        return cache() / f"{self.program}-{key}"

    @property
    def _python(self) -> Path:
        return self._environment / "bin" / "python"

    def missing(self) -> str | None:
        if self._python.exists():
            return None
        return f"python -m benchmarks install {self.name}"

    def install(self) -> None:
        unfinished = self._environment.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(unfinished)], check=True)
        python = str(unfinished / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *self.requirements], check=True)
        # Programs are run by the path of the interpreter alone, so the environment may move.
        unfinished.rename(self._environment)

    def drain(self, server: Server, url: str, count: int) -> float:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        # -P: the programs are named like the libraries that they import.
        return rate_of([str(self._python), "-P", str(PROGRAMS / f"{self.program}.py"), plain, str(count)])

    def lateness_ms(self, server: Server, url: str, rate: int, warm_up: float, seconds: float) -> list[float]:
        raise PeerError("it has no program that measures lateness")


PGQUEUER = PythonPeer(
    "pgqueuer",
    "pgqueuer",
    ("pgqueuer>=1.6", "asyncpg>=0.30", "uvloop>=0.21"),
    "asyncio on uvloop, asyncpg, batches of 100, a pool of 10",
    20_000,
)
PYTHON_PEERS = (
    PGQUEUER,
    PythonPeer(
        "procrastinate",
        "procrastinate",
        ("procrastinate>=3.10", "psycopg[binary,pool]>=3.2", "uvloop>=0.21"),
        "asyncio on uvloop, 20 jobs at a time, a pool of 20",
        2_000,
    ),
    PythonPeer(
        "apscheduler3",
        "apscheduler3",
        ("apscheduler>=3.11,<4", "sqlalchemy>=2.0", "psycopg[binary]>=3.2"),
        "SQLAlchemy job store, 10 threads; one node only, as it has no cluster",
        4_000,
    ),
    PythonPeer(
        "apscheduler4",
        "apscheduler4",
        (
            "apscheduler==4.0.0a6",
            "sqlalchemy[asyncio]>=2.0",
            "asyncpg>=0.30",
            "psycopg[binary]",
            "sniffio",
            "uvloop>=0.21",
        ),
        "asyncio on uvloop, asyncpg, psycopg for events, 200 jobs at a time",
        1_000,
    ),
)
