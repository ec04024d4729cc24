"""Runs the Java programs in `quartz/` with the Quartz of Debian's packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from psycopg import sql
from sqlalchemy import make_url

from tests.database import connect_to
from tests.proxy import place_of

SOURCES = Path(__file__).with_name("quartz")
LIBRARIES = tuple(
    Path("/usr/share/java") / f"{name}.jar" for name in ("quartz2", "postgresql", "HikariCP", "slf4j-api", "slf4j-nop")
)
PACKAGES = "default-jdk-headless libquartz2-java libpostgresql-jdbc-java libhikaricp-java libslf4j-java"
_LIMIT = 100
_SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for programs that run for seconds: the second compiler and parallel collection only cost processor time."""


def skip_without_java() -> None:
    """Skip the test where the JDK or a library is missing."""
    missing = [str(path) for path in LIBRARIES if not path.exists()]
    missing += [program for program in ("java", "javac") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} missing (apt-get install --no-install-recommends {PACKAGES})")


def run(program: str, dsn: str, *arguments: str) -> list[str]:
    """Run one of the programs on a database; return its lines."""
    done = subprocess.run(command(program, dsn, *arguments), capture_output=True, text=True, timeout=_LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def command(program: str, dsn: str, *arguments: str) -> list[str]:
    """Return the command that runs one of the programs on a database."""
    parts = make_url(dsn)
    host, port = place_of(parts)
    with connect_to(parts.set(database="postgres").render_as_string(hide_password=False), autocommit=False) as server:
        # Java's driver refuses a password with the one iteration that the tests' server has.
        if server.execute("SELECT current_setting('scram_iterations', true)").fetchone() == ("1",):
            server.execute("SELECT pg_advisory_xact_lock(1), set_config('scram_iterations', '4096', true)")
            name, password = sql.Identifier(str(parts.username)), str(parts.password)
            server.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, password))
    database = [f"jdbc:postgresql://{host}:{port}/{parts.database}", parts.username or ""]
    path = ":".join(map(str, [*LIBRARIES, _classes()]))
    return ["java", *_SHORT_RUN, "-cp", path, program, *database, str(parts.password or ""), *arguments]


def _classes() -> Path:
    """Return the directory of the compiled programs, which are compiled again after a change."""
    sources = sorted(SOURCES.glob("*.java"))
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    directory = Path(tempfile.gettempdir()) / f"quartzpy-quartz-{key}"
    if not directory.exists():
        unfinished = Path(tempfile.mkdtemp(prefix="quartzpy-quartz-"))
        path = ":".join(map(str, LIBRARIES))
        subprocess.run(
            ["javac", "-encoding", "UTF-8", "-cp", path, "-d", str(unfinished), *sources], check=True, timeout=_LIMIT
        )
        try:
            unfinished.rename(directory)
        except OSError:
            shutil.rmtree(unfinished)
    return directory
