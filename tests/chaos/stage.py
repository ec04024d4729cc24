"""The stage of a chaos run: a server of its own, the network, the nodes, and a client."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, make_url

from quartzpy import Scheduler
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from tests.chaos import engines as of_engines
from tests.chaos import history, pair
from tests.chaos.network import ROOT, Network
from tests.chaos.owner import ROLE, Owner
from tests.chaos.pair import Pair
from tests.chaos.tempo import Tempo
from tests.database import libpq_url
from tests.next_release import copy_as_next
from tests.worlds import bouncer, current, role
from tests.worlds.bouncer import Bouncer
from tests.worlds.installed import pgbouncer
from tests.worlds.stage import binaries_of, way

EFFECTS_DATABASE = "chaos_effects"
CLIENT = "client"

# Errors by their SQLSTATE, made by the server itself: a statement that meets a row of chance fails so.
INJECTION = """
CREATE TABLE IF NOT EXISTS chaos_injection (sqlstate text, chance double precision);
CREATE OR REPLACE FUNCTION chaos_inject() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wanted text;
BEGIN
    SELECT sqlstate INTO wanted FROM chaos_injection WHERE random() < chance LIMIT 1;
    IF wanted IS NOT NULL THEN RAISE EXCEPTION 'injected by the chaos suite' USING ERRCODE = wanted; END IF;
    RETURN NULL;
END $$;
"""
INJECTED_TABLES = ("qrtz_triggers", "qrtz_fired_triggers", "qrtz_scheduler_state", "qrtz_executions")


def faketime_library() -> str | None:
    """The library that gives a process another clock, where it is installed."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found and shutil.which("faketime") else None


@dataclass
class NodeProcess:
    """A node as the supervisor knows it."""

    name: str
    wanted: bool = False
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    sabotage: str | None = None
    release: Path = ROOT

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Stage:
    """Everything that runs; closes all of it."""

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[str],
        *,
        sabotage: str | None = None,
        owned: bool = False,
        engines: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.history = directory / "history.jsonl"
        self.history.touch()
        os.environ[history.FILE_VARIABLE] = str(self.history)
        self.nodes = {name: NodeProcess(name, sabotage=sabotage) for name in nodes}
        self._owned = owned
        self._engines = engines
        self.cluster: of_engines.DaskCluster | None = None
        self.owner: Owner | None = None
        self.releases = {"this": ROOT}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self.world = current.world
        self.tempo = Tempo.of(self.world)
        self.settings = self.tempo.settings
        self._server = self._make_server()
        self._pair: Pair | None = None
        self._pooler = self._stack.enter_context(contextlib.ExitStack())
        self._bouncer: Bouncer | None = None
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise

    def _make_server(self) -> EmbeddedPostgres:
        server = EmbeddedPostgres.temporary(
            settings={"synchronous_commit": "on", "log_min_messages": "fatal", "wal_retrieve_retry_interval": "500ms"},
            binaries=None if self.world is None else binaries_of(self.world),
        )
        return self._stack.enter_context(server)

    @property
    def postgres(self) -> EmbeddedPostgres:
        """The server that can be written."""
        return self._server if self._pair is None else self._pair.primary

    def _set_up(self) -> None:
        self.dsn = self._server.dsn
        if self._owned:
            if pair.is_possible():
                self._pair = Pair(self._server, self._make_server())
                self.dsn = self._pair.dsn
            self.owner = Owner(self.connect, self.dsn, self.directory / "password")
            self.releases["next"] = copy_as_next(self.directory / "next")
            (self.releases["next"] / "tests").symlink_to(ROOT / "tests")
            self.settings |= {"password_command": self.owner.command}
        migrations.upgrade(self.dsn if self.owner is None else self.owner.url_with_password)
        self._server.create_database(EFFECTS_DATABASE)
        effects = make_url(self.dsn).set(database=EFFECTS_DATABASE)
        self.effects_dsn = libpq_url(effects.render_as_string(hide_password=False))
        with psycopg.connect(self.effects_dsn, autocommit=True) as connection:
            connection.execute(history.EFFECTS_TABLE)
        with self.connect() as connection:
            connection.execute(history.FENCED_TABLE)
            connection.execute("CREATE TABLE chaos_user (name text)")
            connection.execute(INJECTION)
            for table in INJECTED_TABLES:
                connection.execute(
                    f"CREATE TRIGGER chaos_inject BEFORE INSERT OR UPDATE OR DELETE ON {table}"
                    " FOR EACH STATEMENT EXECUTE FUNCTION chaos_inject()"
                )
        self.network = Network(
            self._way_of_nodes(),
            [*self.nodes, CLIENT, of_engines.LINK],
            self.directory / "proxy.log",
            unix=self.world is not None and self.world.connection == "unix",
        )
        self._stack.callback(self.network.close)
        if self._engines:
            os.environ[of_engines.WORKER_URL] = self.network.through(of_engines.LINK)
            if of_engines.DASK in self._engines:
                environment = {**os.environ, history.EFFECTS_VARIABLE: self.effects_dsn, "PYTHONPATH": str(ROOT)}
                self.cluster = of_engines.DaskCluster(self.directory / "dask.log", environment)
                self._stack.callback(self.cluster.close)
            self.settings |= of_engines.settings_of(self.cluster)
        self.scheduler = Scheduler(self.dsn, **self.tempo.settings)
        self._stack.callback(self.scheduler.shutdown)
        self._client: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._supervisor.start()
        self._stack.callback(self._end)

    def _way_of_nodes(self) -> str:
        """The URL that the network leads to: PgBouncer's, or a node's role, where the world has such."""
        if self.owner is not None:
            self.owner.let_use("chaos_user", "chaos_injection", "chaos_fenced")
            if pgbouncer() is not None:
                self.start_pooler()
                self.settings |= {"pooled": True, "listen_url": self.owner.url.render_as_string()}
            port = self.postgres.port if self._bouncer is None else self._bouncer.port
            return self._primary_url.set(username=ROLE, port=port)._replace(password=None).render_as_string()
        if self.world is None:
            return self.dsn
        direct = make_url(self.dsn)
        url = self._stack.enter_context(way(direct, self.world))
        if self.world.restricted:
            with self.connect() as administrator:
                role.create(administrator)
                role.let_use_tables(self.dsn, administrator)
                for table in ("chaos_user", "chaos_injection", "chaos_fenced"):
                    administrator.execute(f"GRANT ALL ON {table} TO {role.LOGIN}")
                administrator.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role.LOGIN}")
        if self.world.pooled:
            self.settings |= {"pooled": True, "listen_url": self.dsn}
        return url.render_as_string(hide_password=False)

    def connect(self) -> psycopg.Connection[Any]:
        """Past the network, straight to the server."""
        slowness = self.tempo.slowness
        return psycopg.connect(
            libpq_url(self.dsn),
            autocommit=True,
            connect_timeout=2 * slowness,
            application_name="chaos:conductor",
            options=f"-c statement_timeout={3000 * slowness} -c lock_timeout={2000 * slowness}"
            " -c default_transaction_read_only=off",
        )

    # --- a day

    @property
    def _primary_url(self) -> URL:
        """The superuser's URL of the server that can be written, and of no other."""
        return make_url(self._server.dsn).set(port=self.postgres.port)

    def start_pooler(self) -> None:
        port = None if self._bouncer is None else self._bouncer.port
        self._bouncer = self._pooler.enter_context(bouncer.pooler(self._primary_url, port))

    def stop_pooler(self) -> None:
        self._pooler.close()

    def kill_primary(self) -> None:
        assert self._pair is not None
        self._pair.kill_primary()

    def promote_standby(self) -> None:
        """Promote the standby, and lead the nodes there."""
        assert self._pair is not None
        self._pair.promote()
        if self._bouncer is None:
            self.network.tell("lead", port=self.postgres.port)
        else:
            self._bouncer.lead_to(self._primary_url)

    def make_standby(self) -> None:
        assert self._pair is not None
        self._pair.copy()

    # --- processes

    def start(self, name: str, **environment: str) -> None:
        node = self.nodes[name]
        with self._lock:
            # The supervisor must not take the process before for this one's end, and start a second.
            node.environment = environment
            self._spawn(node)
            node.wanted = True

    def spawn_like(self, name: str) -> subprocess.Popen[bytes]:
        """A second process with a node's identity, through the same link; the caller ends it."""
        return self._popen(self.nodes[name], "twin")

    def _spawn(self, node: NodeProcess) -> None:
        node.process = self._popen(node, node.name)
        history.append("spawn", name=node.name, child=node.process.pid)

    def _popen(self, node: NodeProcess, log_name: str) -> subprocess.Popen[bytes]:
        settings = {**self.settings, "instance_id": node.name}
        command = [sys.executable, "-m"]
        if node.sabotage:
            command += ["tests.sabotage.start", node.sabotage]
        command += ["tests.chaos.node", "--dsn", self.network.through(node.name), "--settings", json.dumps(settings)]
        command += ["--slowness", str(self.tempo.slowness)]
        environment = {
            **os.environ,
            history.NODE_VARIABLE: node.name,
            history.EFFECTS_VARIABLE: self.effects_dsn,
            "PYTHONPATH": str(node.release),
            **node.environment,
        }
        with (self.directory / f"{log_name}.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=node.release, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _supervise(self) -> None:
        while not self._stopping.wait(0.2):
            for node in self.nodes.values():
                with self._lock:
                    if node.wanted and node.process is not None and node.process.poll() is not None:
                        history.append("exited", name=node.name, child=node.process.pid, status=node.process.returncode)
                        self._spawn(node)

    def signal(self, name: str, number: signal.Signals) -> None:
        process = self.nodes[name].process
        if process is not None and process.poll() is None:
            process.send_signal(number)

    def kill(self, name: str) -> None:
        """End a node by SIGKILL, with the processes that it works in, and do not start it again."""
        node = self.nodes[name]
        with self._lock:
            node.wanted = False
            if node.process is not None:
                node.process.kill()
                node.process.wait()

    def leave(self, name: str) -> int | None:
        """End a node by SIGTERM; its status, None where it had to be killed."""
        node = self.nodes[name]
        with self._lock:
            node.wanted = False
        if node.process is None:
            return None
        node.process.terminate()
        try:
            return node.process.wait(20 * self.tempo.slowness)
        except subprocess.TimeoutExpired:
            node.process.kill()
            node.process.wait()
            return None

    def start_client(self, seed: int, *, rate: float, moved: int, poison: bool) -> None:
        command = [sys.executable, "-m", "tests.chaos.client", "--dsn", self.network.through(CLIENT)]
        command += ["--settings", json.dumps(self.settings), "--seed", str(seed), "--rate", str(rate)]
        command += ["--moved", str(moved), *([] if poison else ["--no-poison"])]
        command += ["--slowness", str(self.tempo.slowness), "--sparseness", str(self.tempo.sparseness)]
        environment = {**os.environ, history.NODE_VARIABLE: CLIENT}
        with (self.directory / "client.log").open("ab") as log:
            self._client = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop_client(self) -> None:
        if self._client is not None:
            self._client.terminate()
            try:
                self._client.wait(20 * self.tempo.slowness)
            except subprocess.TimeoutExpired:
                self._client.kill()
                self._client.wait()
            self._client = None

    def _end(self) -> None:
        self._stopping.set()
        self._supervisor.join()
        self.stop_client()
        for name, node in self.nodes.items():
            self.signal(name, signal.SIGCONT)
            node.wanted = False
            if node.runs:
                self.kill(name)

    def close(self) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)
