"""Quartz itself, driven by the programs in `quartz/`, which javac compiles against Debian's packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import make_url

from benchmarks.peers.peer import PeerError, rate_of, result_of
from benchmarks.peers.python_peers import cache
from benchmarks.server import Server

SOURCES = Path(__file__).with_name("quartz")
LIBRARIES = tuple(
    Path("/usr/share/java") / f"{name}.jar" for name in ("quartz2", "postgresql", "HikariCP", "slf4j-api", "slf4j-nop")
)
PACKAGES = "default-jdk-headless libquartz2-java libpostgresql-jdbc-java libhikaricp-java libslf4j-java"


class Quartz:
    """The real Quartz, as a node of a cluster with the JDBC job store."""

    name = "quartz"
    settings = (
        "clustered JDBC store, HikariCP with 20 connections, threadCount 50, batchTriggerAcquisitionMaxCount 50,"
        " acquireTriggersWithinLock"
    )
    drained = 2_000
    fires_at_instants = True

    def missing(self) -> str | None:
        absent = [path for path in LIBRARIES if not path.exists()]
        if absent or not shutil.which("java") or not shutil.which("javac"):
            return f"apt-get install --no-install-recommends {PACKAGES}"
        return None

    def install(self) -> None:
        if missing := self.missing():
            raise RuntimeError(f"install it as an administrator: {missing}")
        self._classes()

    def drain(self, server: Server, url: str, count: int) -> float:
        return rate_of([*self._java("Drain", url), str(count), "recurring"])

    def lateness_ms(self, server: Server, url: str, rate: int, warm_up: float, seconds: float) -> list[float]:
        result = result_of([*self._java("Latency", url), str(rate), str(warm_up), str(seconds)])
        if not result["lateness_ms"]:
            raise PeerError(f"no job started within {seconds:g} s at {rate} fires/s")
        return [float(value) for value in result["lateness_ms"]]

    def _java(self, program: str, url: str) -> list[str]:
        parts = make_url(url)
        jdbc = f"jdbc:postgresql://{parts.host}:{parts.port or 5432}/{parts.database}"
        path = ":".join(map(str, [*LIBRARIES, self._classes()]))
        return ["java", "-cp", path, program, jdbc, parts.username or "", str(parts.password or "")]

    def _classes(self) -> Path:
        """Return the directory of the compiled programs, which are compiled again after a change."""
        sources = sorted(SOURCES.glob("*.java"))
        key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]
        directory = cache() / f"quartz-{key}"
        if not directory.exists():
            unfinished = directory.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            path = ":".join(map(str, LIBRARIES))
            subprocess.run(["javac", "-encoding", "UTF-8", "-cp", path, "-d", str(unfinished), *sources], check=True)
            unfinished.rename(directory)
        return directory
