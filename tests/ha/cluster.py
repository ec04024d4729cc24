"""A Patroni cluster on loopback: one etcd and three PostgreSQL servers, with everything that can happen to them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.ha import processes
from tests.ha.parts import Parts
from tests.proxy import Proxy

SCOPE = "quartzpy"
DATABASE = "quartzpy"
USER = "quartzpy"
# The smallest that Patroni takes for a lease, and a loop that leaves room for its retries within the lease.
TTL = 20
LOOP_WAIT = 2
RETRY_TIMEOUT = 3
FORMED_WITHIN = 180.0
"""A new cluster, or one that heals, on a machine that has other things to do."""
LOOPBACK = "127.0.0.1"


@dataclass
class Server:
    """A PostgreSQL server with its Patroni."""

    name: str
    directory: Path
    port: int
    rest_port: int
    etcd: Proxy
    """Its way to etcd."""
    patroni: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def configuration(self) -> Path:
        return self.directory / "patroni.json"


@dataclass(frozen=True)
class Member:
    """What Patroni says of a server."""

    name: str
    role: str
    state: str
    timeline: int | None

    @property
    def is_leader(self) -> bool:
        return self.role == "leader"

    @property
    def follows(self) -> bool:
        return self.role in ("replica", "sync_standby") and self.state == "streaming"


@dataclass
class PatroniCluster:
    """Use it as a context manager; nothing of it is left behind, also where this process is killed."""

    parts: Parts
    synchronous: bool = True
    names: tuple[str, ...] = ("a", "b", "c")
    maximum_lag: int = 1024 * 1024
    """How many bytes an asynchronous standby may lack and still be promoted."""
    servers: dict[str, Server] = field(default_factory=dict)

    # --- life

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="quartzpy-ha-"))
        self._password = secrets.token_hex(12)
        self._guard = processes.start_guard(self.directory)
        try:
            self._own(self.directory)
            self._start_etcd()
            self._make_servers()
            for server in self.servers.values():
                self.start(server.name)
                if len(self.names) > 1 and server.name == self.names[0]:
                    self.wait_for(lambda: self.leader() is not None, FORMED_WITHIN, "the first server to lead")
            self.wait_until_healthy()
            self._make_database()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.kill(self.directory)
        for server in self.servers.values():
            server.etcd.__exit__(None, None, None)
            if server.patroni is not None:
                server.patroni.wait()
        if self._etcd is not None:
            self._etcd.wait()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    _etcd: subprocess.Popen[bytes] | None = None

    # --- what it is

    @property
    def dsn(self) -> str:
        """The URL that names all servers and asks for the one that writes."""
        hosts = "&".join(f"host={LOOPBACK}:{server.port}" for server in self.servers.values())
        return f"postgresql+psycopg://{USER}:{self._password}@/{DATABASE}?{hosts}&target_session_attrs=read-write"

    def connect(self, name: str, *, seconds: int = 3) -> psycopg.Connection[Any]:
        """A session on one server, as its superuser."""
        return psycopg.connect(
            host=LOOPBACK,
            port=self.servers[name].port,
            user="postgres",
            password=self._password,
            dbname=DATABASE,
            autocommit=True,
            connect_timeout=seconds,
            options="-c statement_timeout=2s",
        )

    def members(self) -> list[Member]:
        """What the first Patroni that answers says of the cluster."""
        for server in self.servers.values():
            with contextlib.suppress(OSError, ValueError):
                answer = self._ask(server, "/cluster")
                return [
                    Member(found["name"], found["role"], found["state"], found.get("timeline"))
                    for found in answer["members"]
                ]
        return []

    def leader(self) -> str | None:
        """The server that holds the leader's key and says itself that it is the primary."""
        return next((name for name in self.servers if self.leads(name)), None)

    def leads(self, name: str) -> bool:
        """Whether a server says that it is the primary and holds the leader's key."""
        with contextlib.suppress(OSError, ValueError):
            return bool(self._ask(self.servers[name], "/primary")["state"] == "running")
        return False

    def timeline(self) -> int:
        """The timeline of the primary: it rises with each failover."""
        return max((member.timeline or 0 for member in self.members() if member.is_leader), default=0)

    def synchronous_standbys(self) -> list[str]:
        return [member.name for member in self.members() if member.role == "sync_standby"]

    def is_healthy(self) -> bool:
        """Whether there is a primary, all others follow it on its timeline, and one of them synchronously."""
        members = self.members()
        return (
            len(members) == len(self.names)
            and sum(member.is_leader and member.state == "running" for member in members) == 1
            and sum(member.follows for member in members) == len(self.names) - 1
            and len({member.timeline for member in members}) == 1
            and (not self.synchronous or any(member.role == "sync_standby" for member in members))
            and self.leader() is not None
        )

    def wait_until_healthy(self, seconds: float = FORMED_WITHIN) -> None:
        self.wait_for(self.is_healthy, seconds, "every server to lead or to follow")

    def can_write(self, name: str) -> bool:
        """Whether a transaction commits there."""
        try:
            with self.connect(name, seconds=2) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS probe (at timestamptz)")
                connection.execute("INSERT INTO probe VALUES (now())")
        except psycopg.Error:
            return False
        return True

    def wait_for(self, reached: Callable[[], Any], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            ended = [
                one.name for one in self.servers.values() if one.patroni is not None and one.patroni.poll() is not None
            ]
            if ended:
                raise RuntimeError(f"while waiting for {what}, Patroni ended by itself on {ended}\n{self.logs()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}; members: {self.members()}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self, characters: int = 1500) -> str:
        return "\n".join(
            f"--- {path.relative_to(self.directory)}\n{path.read_text(errors='replace')[-characters:]}"
            for path in sorted(self.directory.glob("**/*.log"))
        )

    # --- what happens to it

    def start(self, name: str) -> None:
        """Start a server's Patroni, which starts, rewinds or copies the server itself."""
        server = self.servers[name]
        assert server.patroni is None
        server.patroni = self._spawn(server.directory, "patroni", self.parts.patroni, server.configuration)

    def kill_machine(self, name: str) -> None:
        """Kill the server and its Patroni at one instant; the others wait for its lease to run out."""
        server = self.servers[name]
        processes.kill(server.directory)
        assert server.patroni is not None
        server.patroni.wait()
        server.patroni = None

    def kill_server(self, name: str) -> None:
        """Kill PostgreSQL alone; its Patroni gives the leadership away."""
        processes.signal_all(self.servers[name].data, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """Stop the server and its Patroni; their connections stay open and answer nothing."""
        processes.freeze(self.servers[name].directory)

    def cut_replication(self, name: str) -> None:
        """End what a standby receives with; while it is frozen it does not begin anew, and lacks what comes then."""
        for pid in processes.processes_in(self.servers[name].data):
            if "walreceiver" in processes.title(pid):
                os.kill(pid, signal.SIGKILL)

    def thaw(self, name: str) -> None:
        processes.thaw(self.servers[name].directory)

    def cut_from_etcd(self, name: str) -> None:
        """Let the server's Patroni reach etcd no more; its clients and standbys reach it as before."""
        self.servers[name].etcd.black_hole()

    def heal(self, name: str) -> None:
        self.servers[name].etcd.cut()
        self.servers[name].etcd.heal()

    def freeze_etcd(self) -> None:
        processes.freeze(self.directory / "etcd")

    def thaw_etcd(self) -> None:
        processes.thaw(self.directory / "etcd")

    def switch_over(self, leader: str) -> None:
        """Ask Patroni to hand the leadership to a standby, a synchronous one where there are such."""
        standbys = self.synchronous_standbys() if self.synchronous else [n for n in self.names if n != leader]
        wanted = {"leader": leader, "candidate": standbys[0]}
        self._ask(self.servers[leader], "/switchover", wanted, seconds=60)

    # --- how

    def _make_servers(self) -> None:
        ports = _free_ports(2 * len(self.names))
        for name in self.names:
            way = Proxy(LOOPBACK, self._etcd_port)
            way.__enter__()
            server = Server(name, self.directory / name, ports.pop(), ports.pop(), way)
            server.directory.mkdir(mode=0o700)
            self._own(server.directory)
            self.servers[name] = server
        for server in self.servers.values():
            server.configuration.write_text(json.dumps(self._configuration(server), indent=1))
            server.configuration.chmod(0o600)
            self._own(server.configuration)

    def _configuration(self, server: Server) -> dict[str, Any]:
        """Patroni's configuration: JSON is YAML."""
        dynamic = {
            "ttl": TTL,
            "loop_wait": LOOP_WAIT,
            "retry_timeout": RETRY_TIMEOUT,
            "maximum_lag_on_failover": self.maximum_lag,
            "synchronous_mode": self.synchronous,
            # No commit is answered that only the primary has, also while it has lost its standbys.
            "synchronous_mode_strict": self.synchronous,
            "primary_start_timeout": 0,
            "postgresql": {
                "use_pg_rewind": True,
                "use_slots": True,
                "parameters": {
                    "max_connections": 100,
                    "max_worker_processes": 4,
                    "shared_buffers": "32MB",
                    "wal_keep_size": "256MB",
                    "wal_log_hints": "on",
                    "log_min_messages": "warning",
                    # So that the standbys let go of a primary that is frozen.
                    "wal_receiver_timeout": "10s",
                },
            },
        }
        return {
            "scope": SCOPE,
            "name": server.name,
            "log": {"level": "INFO"},
            "restapi": _at(server.rest_port),
            # Else Patroni would ask etcd for its own address, and go around the proxy.
            "etcd3": {"hosts": [f"{LOOPBACK}:{server.etcd.port}"], "use_proxies": True},
            "bootstrap": {
                "dcs": dynamic,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
            },
            "postgresql": {
                **_at(server.port),
                "data_dir": str(server.data),
                "bin_dir": str(self.parts.postgres),
                "pgpass": str(server.directory / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": self._password},
                    "replication": {"username": "replicator", "password": self._password},
                    "rewind": {"username": "rewinder", "password": self._password},
                },
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [
                    f"host all all {LOOPBACK}/32 scram-sha-256",
                    f"host replication replicator {LOOPBACK}/32 scram-sha-256",
                ],
                "basebackup": {"checkpoint": "fast"},
            },
        }

    def _make_database(self) -> None:
        leader = self.leader()
        assert leader is not None
        with psycopg.connect(
            host=LOOPBACK,
            port=self.servers[leader].port,
            user="postgres",
            password=self._password,
            dbname="postgres",
            autocommit=True,
        ) as connection:
            connection.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{self._password}'".encode())
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {USER}".encode())

    def _start_etcd(self) -> None:
        client, peer = (f"http://{LOOPBACK}:{port}" for port in _free_ports(2))
        self._etcd_port = int(client.rpartition(":")[2])
        directory = self.directory / "etcd"
        directory.mkdir(mode=0o700)
        self._own(directory)
        self._etcd = self._spawn(
            directory,
            "etcd",
            self.parts.etcd,
            *("--name", "etcd", "--data-dir", directory / "data"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"etcd={peer}"),
        )
        self.wait_for(self._etcd_knows_itself, FORMED_WITHIN, "etcd to decide on its version")

    def _etcd_knows_itself(self) -> bool:
        """Whether etcd serves, and says as what: until then a Patroni that asks ends."""
        with contextlib.suppress(OSError, ValueError):
            version = _fetch(f"http://{LOOPBACK}:{self._etcd_port}/version")
            return bool(json.loads(version)["etcdcluster"][0].isdecimal())
        return False

    def _spawn(self, directory: Path, name: str, *command: str | Path) -> subprocess.Popen[bytes]:
        """Start a program in its directory, where its log goes too."""
        path = directory / f"{name}.log"
        path.touch(mode=0o600)
        self._own(path)
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "PATRONI", "ETCD"))}
        with path.open("ab") as log:
            return subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,
                env={**clean, "LC_ALL": "C", "TZ": "UTC", "HOME": str(directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.parts.identity,  # type: ignore[call-overload]
            )

    def _own(self, path: Path) -> None:
        if self.parts.user is not None:
            os.chown(path, self.parts.user.pw_uid, self.parts.user.pw_gid)

    @staticmethod
    def _ask(server: Server, path: str, body: dict[str, Any] | None = None, *, seconds: float = 1.0) -> Any:
        text = _fetch(f"http://{LOOPBACK}:{server.rest_port}{path}", body, seconds=seconds)
        return text if body is not None else json.loads(text)


def _fetch(url: str, body: dict[str, Any] | None = None, *, seconds: float = 1.0) -> str:
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return str(answer.read().decode())


def _at(port: int) -> dict[str, str]:
    return {"listen": f"{LOOPBACK}:{port}", "connect_address": f"{LOOPBACK}:{port}"}


def _free_ports(count: int) -> list[int]:
    """Different ports that nobody has now."""
    with contextlib.ExitStack() as probes:
        ports = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind((LOOPBACK, 0))
            ports.append(probe.getsockname()[1])
        return ports
