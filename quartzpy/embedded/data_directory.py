"""The files of a server: its data, settings, password, port and log."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from quartzpy.embedded.binaries import VARIABLE, Programs, find_programs
from quartzpy.errors import StoreUnavailableError

USER = "quartzpy"
_DATA_VERSION = "PG_VERSION"


class DataDirectory:
    """The directory of one server. PostgreSQL's programs are located when they are needed first."""

    def __init__(self, root: Path, binaries: Path | None = None) -> None:
        self._root = root
        self._binaries = binaries
        self._data = root / "data"
        self._port_path = root / "port"
        self._password_path = root / "password"
        self.log_path = root / "server.log"

    @cached_property
    def programs(self) -> Programs:
        """PostgreSQL's programs.

        Raises:
            SettingsError: none were found.
        """
        return find_programs(self._binaries)

    @property
    def port(self) -> int:
        """The port of the server's last start."""
        return int(self._port_path.read_text())

    @property
    def password(self) -> str:
        """The password of the user `USER`, who owns the server."""
        return self._password_path.read_text().strip()

    @property
    def postmaster_pid(self) -> int | None:
        """The id of the server's process; None if it is not running."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def initialise(self) -> None:
        """Create the data of a server, if there is none.

        Raises:
            StoreUnavailableError: `initdb` failed, or the data belong to another major version of PostgreSQL.
        """
        if (self._data / _DATA_VERSION).exists():
            self._check_version()
            return
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        self.programs.own(self._data)
        password = self._password_path
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(18) + "\n")
        self.programs.own(password)
        done = self.programs.run(
            "initdb",
            *("-D", self._data, "-U", USER, "--pwfile", password, "-A", "scram-sha-256"),
            *("--encoding=UTF8", "--locale=C", "--no-sync"),
            cwd=self._data,
        )
        if done.returncode:
            shutil.rmtree(self._data, ignore_errors=True)
            raise StoreUnavailableError(f"initdb in {self._data} failed:\n{done.stdout.strip()}")
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write("include_if_exists 'quartzpy.conf'\n")

    def _check_version(self) -> None:
        """Refuse data of another major version, because each version of PostgreSQL reads only its own data."""
        version = (self._data / _DATA_VERSION).read_text().strip()
        ours = self.programs.version.partition(".")[0]
        if version != ours:
            raise StoreUnavailableError(
                f"{self._data} holds the data of PostgreSQL {version}, and PostgreSQL {ours} cannot read them: remove"
                f" {self._root} if nobody needs them, or set {VARIABLE} to the programs of PostgreSQL {version}"
            )

    def configure(self, port: int, settings: Mapping[str, str]) -> None:
        """Write the settings for the next start of the server."""
        self._port_path.write_text(f"{port}\n")
        # Loopback only and no socket file, because its path may exceed the limit for socket paths.
        all_settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            **settings,
        }
        lines = [f"{name} = '{value}'\n" for name, value in all_settings.items()]
        path = self._data / "quartzpy.conf"
        path.write_text("".join(lines))
        self.programs.own(path)

    def prepare_log(self) -> None:
        """Create the log of the server, which its user can write."""
        self.log_path.touch(mode=0o600)
        self.programs.own(self.log_path)

    def pg_ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.programs.run("pg_ctl", "-D", self._data, *arguments, cwd=self._data)
