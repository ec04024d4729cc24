"""The files of a server: its data, settings, password, port and log.

Root's server runs as another user, who owns the data and nothing else. That user need not reach the directory: where it
cannot, its programs have the data as their working directory, and no other path of it.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from quartzpy.embedded import own_files
from quartzpy.embedded.account import reaches, user_name
from quartzpy.embedded.binaries import VARIABLE, Programs, find_programs
from quartzpy.errors import SettingsError, StoreUnavailableError

USER = "quartzpy"
_DATA_VERSION = "PG_VERSION"
_WORKING_DIRECTORY = Path("/proc/self/cwd")


class DataDirectory:
    """The directory of one server. PostgreSQL's programs are located when they are needed first.

    `run_as` is the user that they run as, if this process is of root.
    """

    def __init__(self, root: Path, binaries: Path | None = None, run_as: str | None = None) -> None:
        self._root = root
        self._binaries = binaries
        self._run_as = run_as
        self._data = root / "data"
        self._port_path = root / "port"
        self._password_path = root / "password"
        self._is_claimed = False
        self.log_path = root / "server.log"

    @cached_property
    def programs(self) -> Programs:
        """PostgreSQL's programs.

        Raises:
            SettingsError: none were found.
        """
        return find_programs(self._binaries, run_as=self._run_as, data=self._data)

    @property
    def port(self) -> int:
        """The port of the server's last start."""
        return int(own_files.read_own(self._port_path, self._owners()))

    @property
    def password(self) -> str:
        """The password of the user `USER`, who owns the server."""
        return own_files.read_own(self._password_path, self._owners()).strip()

    @property
    def postmaster_pid(self) -> int | None:
        """The id of the server's process; None if it is not running."""
        try:
            pid = int(own_files.read_own(self._data / "postmaster.pid", self._owners()).split("\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError, SettingsError):
            return None
        return pid

    def make(self) -> None:
        """Make the directory, if there is none. The mode of one that exists stays as it is."""
        if self._root.is_dir():
            return
        self._root.parent.mkdir(parents=True, exist_ok=True)
        # Root's server is another user, which has to pass through, at least where there is no /proc.
        self._root.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)

    def claim(self) -> None:
        """From now on refuse files of others than this process and the server's user. Before, the directory's owner
        may have made them: a program that only connects trusts whoever serves.
        """
        self._is_claimed = True

    def open(self, name: str) -> int:
        """Open a file of the directory, such as a lock, and make it if it is missing.

        Raises:
            SettingsError: it is a link, or of another user.
        """
        return own_files.open_own(self._root / name, os.O_RDWR | os.O_CREAT, self._owners())

    def has(self, name: str) -> bool:
        """Return whether there is a file of ours of that name."""
        try:
            return (self._root / name).lstat().st_uid in self._owners()
        except OSError:
            return False

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def _owners(self) -> Collection[int]:
        owners = {os.geteuid()}
        if not self._is_claimed:
            for path in (self._root, self._data):
                if path.exists():
                    owners.add(path.stat().st_uid)
        elif self.programs.account is not None:
            owners.add(self.programs.account.uid)
        return owners

    def initialise(self) -> None:
        """Create the data of a server, if there is none.

        Raises:
            SettingsError: there is something else in their place.
            StoreUnavailableError: `initdb` failed, or the data belong to another major version of PostgreSQL.
        """
        if self._exists():
            self._check_version()
            self._check_owner()
            return
        unfinished = self._root / "data.unfinished"
        if unfinished.is_symlink() or unfinished.is_file():
            unfinished.unlink()
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        account = self.programs.account
        owner = None if account is None else (account.uid, account.gid)
        if owner is not None:
            os.chown(unfinished, *owner, follow_symlinks=False)
        password = secrets.token_urlsafe(18)
        own_files.replace(self._password_path, f"{password}\n")
        try:
            self._initdb(unfinished, password)
            settings = own_files.read_own(unfinished / "postgresql.conf", self._owners())
            own_files.replace(unfinished / "postgresql.conf", f"{settings}include_if_exists 'quartzpy.conf'\n", owner)
            if self._data.exists():
                self._data.rmdir()
            unfinished.rename(self._data)
            self._check_owner()
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def _exists(self) -> bool:
        """Return whether there are data of a server. An empty directory is none."""
        if not (self._data.exists() or self._data.is_symlink()):
            return False
        if not self._data.is_dir():
            raise SettingsError(f"{self._data} is no directory; remove it, or give another directory for the server")
        if not (any(self._data.iterdir()) or self._data.is_symlink()):
            return False
        if not (self._data / _DATA_VERSION).is_file():
            raise SettingsError(
                f"{self._data} holds other files than the data of a PostgreSQL server; give another directory"
            )
        return True

    def _initdb(self, data: Path, password: str) -> None:
        account = self.programs.account
        with _readable_text(f"{password}\n", None if account is None else account.uid) as descriptor:
            done = self.programs.run(
                "initdb",
                *("-D", self._path_for_server(data), "-U", USER, "--pwfile", f"/dev/fd/{descriptor}"),
                *("-A", "scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
                cwd=data,
                pass_fds=[descriptor],
                before=_with_a_name() if account is None else (),
            )
        if done.returncode:
            user = user_name(os.geteuid()) if account is None else account.name
            lines = done.stdout.strip().splitlines()
            causes = [line for line in lines if "error:" in line.lower() or "fatal:" in line.lower()] or lines[-1:]
            advice = ""
            if account is None and _has_no_name():
                advice = (
                    f" PostgreSQL needs an entry for the user id {user} in /etc/passwd; in a Dockerfile:"
                    f" RUN useradd --uid {user} quartzpy"
                )
            raise StoreUnavailableError(
                f"initdb, which runs as the user {user}, failed in {self._root}: {' '.join(causes)}{advice}\n"
                + "\n".join(lines)
            )

    def _path_for_server(self, directory: Path) -> Path:
        """Return the path of a directory for a program that has it as its working directory.

        Raises:
            SettingsError: the server's user cannot reach it, and this system has no other way.
        """
        account = self.programs.account
        if account is None or reaches(account, directory):
            return directory
        if not _WORKING_DIRECTORY.is_dir():
            raise SettingsError(
                f"PostgreSQL runs as the user {account.name}, who cannot reach {directory}: give a directory that"
                " other users may pass through (mode 0711), or run this as another user than root"
            )
        return _WORKING_DIRECTORY

    def _check_owner(self) -> None:
        """Refuse data, or a link to them, of others: who writes them says what this process runs."""
        account = self.programs.account
        uid = os.geteuid() if account is None else account.uid
        linked = self._data.lstat().st_uid
        for owner in (self._data.stat().st_uid, uid if linked == os.geteuid() else linked):
            if owner != uid:
                raise SettingsError(
                    f"{self._data} belongs to {user_name(owner)}, and PostgreSQL runs as {user_name(uid)}: run this as"
                    " the user that the data belong to, or give another directory"
                )

    def _check_version(self) -> None:
        """Refuse data of another major version, because each version of PostgreSQL reads only its own data."""
        owners = {*self._owners(), self._data.stat().st_uid}
        version = own_files.read_own(self._data / _DATA_VERSION, owners).strip()
        ours = self.programs.version.partition(".")[0]
        if version != ours:
            raise StoreUnavailableError(
                f"{self._data} holds the data of PostgreSQL {version}, and PostgreSQL {ours} cannot read them: remove"
                f" {self._root} if nobody needs them, or set {VARIABLE} to the programs of PostgreSQL {version}"
            )

    def configure(self, port: int, settings: Mapping[str, str]) -> None:
        """Write the settings for the next start of the server."""
        own_files.replace(self._port_path, f"{port}\n")
        # Loopback only and no socket file, because its path may exceed the limit for socket paths.
        all_settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            **settings,
        }
        lines = [f"{name} = '{value}'\n" for name, value in all_settings.items()]
        account = self.programs.account
        owner = None if account is None else (account.uid, account.gid)
        own_files.replace(self._data / "quartzpy.conf", "".join(lines), owner)

    def pg_ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run pg_ctl. What it and a server that it starts print goes to the log."""
        command = self.pg_ctl_command
        # The server inherits the log: its user need not be able to open it.
        with self._log() as log:
            return self.programs.run(*command, *arguments, cwd=self._data, output=log)

    @property
    def pg_ctl_command(self) -> tuple[str, str, str, str]:
        """The command of pg_ctl for this server, whose working directory is the data."""
        return "pg_ctl", "-s", "-D", str(self._path_for_server(self._data))

    @contextmanager
    def _log(self) -> Iterator[IO[str]]:
        descriptor = own_files.open_own(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self._owners())
        with os.fdopen(descriptor, "a") as log:
            yield log

    def log_tail(self) -> str:
        """Return the end of the server's log."""
        try:
            return own_files.read_own(self.log_path, self._owners())[-2_000:].strip()
        except (OSError, SettingsError):
            return ""


@contextmanager
def _readable_text(text: str, uid: int | None) -> Iterator[int]:
    """Give a descriptor from which a user can read a short text, also by its path in /dev/fd."""
    reader, writer = os.pipe()
    try:
        os.write(writer, text.encode())
        os.close(writer)
        if uid is not None:
            os.fchown(reader, uid, -1)
        yield reader
    finally:
        os.close(reader)


def _has_no_name() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return True
    return False


def _with_a_name() -> list[str]:
    """Return the command that runs initdb as a user with an entry in /etc/passwd, which it insists on.

    In a user namespace this process's user has the id of one that has an entry, and owns what it owned before. The
    server itself needs no entry.
    """
    if not _has_no_name():
        return []
    named = next((entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != 0), None)
    command = ["unshare", "--user", f"--map-user={named}"]
    try:
        works = named is not None and subprocess.run([*command, "true"], check=False, capture_output=True)
    except OSError:
        return []
    return command if works and works.returncode == 0 else []
