"""PgBouncer in transaction mode, in front of a server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from quartzpy.embedded.account import UNPRIVILEGED
from tests.ports import free_port
from tests.waiting import wait_until
from tests.worlds.installed import PGBOUNCER_PACKAGE, pgbouncer

# `ignore_startup_parameters` stays empty, as by default: `options` in a URL is refused.
CONFIGURATION = """\
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
auth_user = {user}
logfile = {log}
pidfile = {pid}
pool_mode = transaction
default_pool_size = 40
max_client_conn = 1000
server_idle_timeout = 10
server_login_retry = 1
"""
# It ends with whoever started it, even if that process is killed.
_ENDS_WITH_US = '"$@" & bouncer=$!; read -r _; kill "$bouncer"; wait "$bouncer"'


@dataclass
class Bouncer:
    """A PgBouncer that runs."""

    port: int
    _directory: Path

    def lead_to(self, server: URL) -> None:
        """Lead to another server from now on; the connections of clients stay."""
        _configure(self._directory, server, self.port)
        os.kill(int((self._directory / "pid").read_text()), signal.SIGHUP)


@contextmanager
def pooler(server: URL, port: int | None = None) -> Iterator[Bouncer]:
    """Give a PgBouncer that leads to this server, which is reached by TCP.

    Users other than that of the URL have the passwords that the server knows.
    """
    program = pgbouncer()
    if program is None:
        raise FileNotFoundError(f"PgBouncer is not installed: apt-get install {PGBOUNCER_PACKAGE}")
    with tempfile.TemporaryDirectory(prefix="quartzpy-bouncer-") as directory, contextlib.ExitStack() as stack:
        port = port or free_port()
        users, log = (Path(directory, name) for name in ("users", "log"))
        users.write_text(f'"{server.username}" "{server.password}"\n')
        configuration = _configure(Path(directory), server, port)
        command = ["sh", "-c", _ENDS_WITH_US, "sh", program]
        if os.geteuid() == 0:
            # It refuses to run as root.
            for path in (Path(directory), users, configuration):
                shutil.chown(path, UNPRIVILEGED)
            command += ["-u", UNPRIVILEGED]
        process = stack.enter_context(
            subprocess.Popen(
                [*command, "--quiet", str(configuration)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        wait_until(
            lambda: _answers(port), "PgBouncer", seen=lambda: log.read_text()[-2000:] if log.exists() else "no log"
        )
        yield Bouncer(port, Path(directory))
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _configure(directory: Path, server: URL, port: int) -> Path:
    values = {name: directory / name for name in ("users", "log", "pid")}
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(
        CONFIGURATION.format(host=server.host, port=server.port, user=server.username, listen_port=port, **values)
    )
    return configuration


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
