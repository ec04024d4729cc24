"""The demo's course: a real cluster on a real PostgreSQL, a node killed in the middle of a job, and the audit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from quartzpy.clock import Clock, SystemClock
from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary, summarize
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.factory import Scheduler
from quartzpy.keys import unique_name
from quartzpy.states import FiredState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, RunningRecord, TriggerRecord
from quartzpy.store.sql import migrations

TICK = 0.25
"""Seconds between two looks at the database."""
KILL_AFTER = timedelta(seconds=2)
"""The node dies when the recovering job has run so long."""
SETTLE_SECONDS = 30.0
START_SECONDS = 30.0
HISTORY = 100_000


@dataclass(slots=True)
class Scene:
    """What the cluster looks like at one moment."""

    elapsed: float
    duration: float
    now: datetime
    alive: Mapping[str, int]
    killed: tuple[str, ...]
    cluster: CheckIn
    triggers: list[TriggerRecord]
    running: list[RunningRecord]
    executions: list[ExecutionRecord]
    notes: list[str] = field(default_factory=list)


class Audience(Protocol):
    """Whoever watches: the terminal, plain lines, or JSON."""

    def event(self, name: str, text: str, **facts: Any) -> None: ...

    def scene(self, scene: Scene) -> None: ...

    def summary(self, summary: Summary) -> None: ...


class Cluster:
    """Node processes, by instance id."""

    def __init__(self, dsn: str, logs: Path) -> None:
        self._dsn = dsn
        self._logs = logs
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: list[str] = []

    def start(self, instance_id: str) -> None:
        environment = {**os.environ, jobs.DSN_VARIABLE: self._dsn, jobs.INSTANCE_VARIABLE: instance_id}
        command = [sys.executable, "-m", "quartzpy", "node", "--app", f"{jobs.__name__}:make_scheduler"]
        with (self._logs / f"{instance_id}.log").open("wb") as log:
            # A session of its own: Ctrl-C is for the demo, which then drains its nodes.
            self.processes[instance_id] = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def alive(self) -> dict[str, int]:
        return {name: process.pid for name, process in self.processes.items() if process.poll() is None}

    def kill(self, instance_id: str) -> int:
        process = self.processes[instance_id]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.append(instance_id)
        return process.pid

    def stop(self) -> None:
        """Drain all nodes; those that do not end are killed."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_tail(self, instance_id: str) -> str:
        return (self._logs / f"{instance_id}.log").read_text(errors="replace")[-2_000:]


class Demo:
    """One run of the demo."""

    def __init__(self, audience: Audience, *, nodes: int, duration: timedelta, dsn: str | None, keep: bool) -> None:
        self._audience = audience
        self._nodes = nodes
        self._duration = duration.total_seconds()
        self._dsn = dsn
        self._keep = keep
        self._clock: Clock = SystemClock()
        self._stopped = threading.Event()
        self._seen: set[int | None] = set()
        self._seen_recovering: set[int] = set()
        self._declared_dead: set[str] = set()

    def interrupt(self) -> None:
        """End the show early; the audit is made all the same."""
        self._stopped.set()

    def run(self) -> Summary:
        """The whole course, from an empty machine to the audit.

        Raises:
            QuartzpyError: PostgreSQL or the nodes did not start.
        """
        with ExitStack() as stack:
            dsn = stack.enter_context(self._database())
            migrations.upgrade(dsn)
            self._audience.event("schema", "schema created")
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quartzpy-demo-")))
            client = Scheduler(dsn, **{**jobs.SETTINGS, "history_retention": None})
            stack.callback(client.shutdown)
            client.clear()
            cluster = Cluster(dsn, logs)
            stack.callback(cluster.stop)
            for number in range(1, self._nodes + 1):
                cluster.start(f"node-{number}")
            self._wait_for_nodes(client, cluster)
            jobs.schedule_all(client, client.nodes().now)
            planned = [record.trigger for record in client.triggers()]
            self._audience.event("scheduled", f"{len(planned)} triggers of 4 jobs scheduled", triggers=len(planned))
            before = {execution.fire_id for execution in client.executions()}
            self._seen = set(before)
            self._show(client, cluster)
            client.pause_all()
            paused_at = client.nodes().now
            self._audience.event("paused", "triggers paused; waiting for what still runs")
            self._settle(client)
            executions = [e for e in client.executions() if e.fire_id not in before]
            self._report(executions)
            summary = summarize(
                self._nodes, executions, list(client.triggers()), planned, jobs.SERIAL_REPORT, paused_at
            )
            if self._keep:
                text = f"the database is left as it is (`quartzpy demo --stop` stops an embedded one):\n{dsn}"
                self._audience.event("kept", text, dsn=dsn)
            self._audience.summary(summary)
            return summary

    @contextmanager
    def _database(self) -> Iterator[str]:
        if self._dsn is not None:
            yield self._dsn
            return
        directory = default_data_dir()
        self._audience.event("starting", "starting PostgreSQL")
        with EmbeddedPostgres(directory, durable=True) as server:
            self._audience.event("postgres", f"PostgreSQL {server.version} is running", version=server.version)
            # Of its own: two demos at once share the server and nothing else.
            name = f"demo_{unique_name()[:12]}"
            yield server.create_database(name)
            if self._keep:
                server.keep_running()
            else:
                server.drop_database(name)

    def _wait_for_nodes(self, client: Scheduler, cluster: Cluster) -> None:
        deadline = self._clock.monotonic() + START_SECONDS
        known: set[str] = set()
        while len(known) < self._nodes:
            for node in client.nodes().nodes:
                if node.instance_id in cluster.processes and node.instance_id not in known:
                    known.add(node.instance_id)
                    self._audience.event(
                        "node_started",
                        f"{node.instance_id} joined the cluster (pid {node.pid}, epoch {node.epoch})",
                        node=node.instance_id,
                        pid=node.pid,
                        epoch=node.epoch,
                    )
            for name, process in cluster.processes.items():
                if process.poll() is not None:
                    raise QuartzpyError(f"{name} ended at its start:\n{cluster.log_tail(name)}")
            if self._clock.monotonic() > deadline:
                raise StoreUnavailableError(f"only {len(known)} of {self._nodes} nodes joined in {START_SECONDS} s")
            self._stopped.wait(0.05)

    def _show(self, client: Scheduler, cluster: Cluster) -> None:
        began = self._clock.monotonic()
        notes: list[str] = []
        while (elapsed := self._clock.monotonic() - began) < self._duration and not self._stopped.is_set():
            scene = self._look(client, cluster, elapsed, notes)
            self._report_recovery(scene, notes)
            self._report(scene.executions)
            if self._nodes > 1 and not cluster.killed:
                self._kill_in_the_middle(scene, cluster, notes)
            self._audience.scene(scene)
            self._stopped.wait(TICK)

    def _look(self, client: Scheduler, cluster: Cluster, elapsed: float, notes: list[str]) -> Scene:
        answer = client.nodes()
        return Scene(
            elapsed,
            self._duration,
            answer.now,
            cluster.alive(),
            tuple(cluster.killed),
            answer,
            list(client.triggers(order_by="next_fire_time")),
            client.running(),
            list(client.executions().page(200)),
            notes,
        )

    def _report(self, executions: Sequence[ExecutionRecord]) -> None:
        """Tell of what ended since the last look."""
        for execution in reversed(executions):
            if execution.fire_id in self._seen:
                continue
            self._seen.add(execution.fire_id)
            recovered = " (recovery)" if execution.recovering else ""
            self._audience.event(
                "executed",
                f"{execution.job_key.name} of {execution.scheduled_fire_time:%H:%M:%S}"
                f" {execution.outcome} on {execution.instance_id}{recovered}",
                fire=execution.fire_id,
                job=execution.job_key.name,
                trigger=str(execution.trigger_key),
                node=execution.instance_id,
                scheduled=execution.scheduled_fire_time,
                outcome=execution.outcome,
                recovering=execution.recovering,
            )

    def _report_recovery(self, scene: Scene, notes: list[str]) -> None:
        """Tell when the others noticed the death, and who runs again what it interrupted."""
        registered = {node.instance_id for node in scene.cluster.nodes}
        for name in set(scene.killed) - registered - self._declared_dead:
            self._declared_dead.add(name)
            notes.append(f"the others declared {name} dead and freed what it held")
            self._audience.event("node_removed", notes[-1], node=name)
        for record in scene.running:
            if (
                record.recovering
                and record.state == FiredState.EXECUTING
                and record.fire_id not in self._seen_recovering
            ):
                self._seen_recovering.add(record.fire_id)
                notes.append(f"{record.instance_id} runs {record.job_key.name} again")
                self._audience.event(
                    "recovering", notes[-1], node=record.instance_id, job=record.job_key.name, fire=record.fire_id
                )

    def _kill_in_the_middle(self, scene: Scene, cluster: Cluster, notes: list[str]) -> None:
        for record in scene.running:
            runs_long = record.state == FiredState.EXECUTING and scene.now - record.fire_time >= KILL_AFTER
            if record.job_key == jobs.LONG_EXPORT and runs_long and record.instance_id in scene.alive:
                pid = cluster.kill(record.instance_id)
                text = f"killed {record.instance_id} (pid {pid}) with SIGKILL in the middle of {record.job_key.name}"
                notes.append(text)
                self._audience.event("node_killed", text, node=record.instance_id, pid=pid, job=record.job_key.name)

    def _settle(self, client: Scheduler) -> None:
        """Wait until nothing runs and everything that is owed was recovered."""
        client.resume_trigger_group("RECOVERING_JOBS")
        deadline = self._clock.monotonic() + SETTLE_SECONDS
        while self._clock.monotonic() < deadline:
            recovering = [r for r in client.triggers() if r.key.group == "RECOVERING_JOBS"]
            for record in recovering:
                client.resume_trigger(record.key)
            if not client.running() and not recovering:
                return
            self._stopped.wait(TICK) if not self._stopped.is_set() else threading.Event().wait(TICK)


def default_data_dir() -> Path:
    """Where the demo's database lives: the user's data directory; for root one that others can reach."""
    if os.geteuid() == 0:
        return Path("/var/tmp/quartzpy/demo")  # noqa: S108 - its parent is checked by the server's wrapper
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "quartzpy" / "demo"


def stop_database() -> bool:
    """Stop the database that a demo left running; whether there was one."""
    server = EmbeddedPostgres(default_data_dir())
    if server.postmaster_pid is None:
        return False
    with server:
        return True


def summary_facts(summary: Summary) -> dict[str, Any]:
    return asdict(summary)
