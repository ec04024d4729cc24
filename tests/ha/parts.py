"""The parts that a Patroni cluster is made of: where they are on this machine, and which are missing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT_VARIABLE = "QUARTZPY_TEST_HA_ENVIRONMENT"
"""The virtual environment that has Patroni."""
POSTGRES_VARIABLE = "QUARTZPY_PG_BIN"
POSTGRES_PROGRAMS = ("initdb", "postgres", "pg_ctl", "pg_rewind", "pg_basebackup", "pg_controldata")
DEBIAN = Path("/usr/lib/postgresql")
UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True)
class Parts:
    """Programs that run as the user of the servers."""

    etcd: Path
    patroni: Path
    postgres: Path
    """The directory of PostgreSQL's programs."""
    user: pwd.struct_passwd | None
    """As whom the servers run where we are root, since PostgreSQL refuses to run as root."""

    @property
    def identity(self) -> dict[str, object]:
        """The arguments of `subprocess` that start a program as that user."""
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}

    def versions(self) -> str:
        """Each part with its version, for a report."""
        asked = (self.etcd, self.patroni, self.postgres / "postgres")
        return ", ".join(_version_line(program, self.user) or program.name for program in asked)


def environment() -> Path:
    """Where `install.py` puts Patroni: a place that the servers' user can read, also where we are root."""
    if given := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(given)
    base = Path("/var/tmp") if os.geteuid() == 0 else Path.home() / ".cache"
    return base / "quartzpy" / "patroni"


def find_parts() -> tuple[Parts | None, list[str]]:
    """The parts, or None and the names of those that are missing."""
    user = _unprivileged()
    etcd = next((path for path in _etcd() if _version_line(path, user)), None)
    patroni = next((path for path in _patroni() if _version_line(path, user)), None)
    postgres = next((path for path in _postgres() if _complete(path) and _version_line(path / "postgres", user)), None)
    found = {"etcd": etcd, "Patroni": patroni, "PostgreSQL's server programs": postgres}
    missing = [name for name, path in found.items() if path is None]
    if etcd is None or patroni is None or postgres is None:
        return None, missing
    return Parts(etcd, patroni, postgres, user), []


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in UNPRIVILEGED if name in known)


def _etcd() -> Iterator[Path]:
    if (found := shutil.which("etcd")) is not None:
        yield Path(found)


def _patroni() -> Iterator[Path]:
    yield environment() / "bin" / "patroni"
    if (found := shutil.which("patroni")) is not None:
        yield Path(found)


def _postgres() -> Iterator[Path]:
    if given := os.environ.get(POSTGRES_VARIABLE):
        yield Path(given)
    if (config := shutil.which("pg_config")) is not None:
        done = subprocess.run([config, "--bindir"], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            yield Path(done.stdout.strip())
    if DEBIAN.is_dir():
        yield from sorted((version / "bin" for version in DEBIAN.iterdir()), key=_number, reverse=True)


def _number(directory: Path) -> float:
    try:
        return float(directory.parent.name)
    except ValueError:
        return 0.0


def _complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in POSTGRES_PROGRAMS)


def _version_line(program: Path, user: pwd.struct_passwd | None) -> str | None:
    """What the program says to `--version` as that user; None where it does not run."""
    try:
        done = subprocess.run(
            [str(program), "--version"],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
        )
    except OSError:
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None
