"""The course of the demo: a real cluster on a real PostgreSQL, a node killed in the middle of a job, and the audit."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from quartzpy.clock import Clock, SystemClock
from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary, summarize
from quartzpy.demo.cluster import Cluster, demo_database
from quartzpy.demo.views import KILL_AFTER, LETTERS, Audience, Scene
from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.factory import Scheduler
from quartzpy.states import FiredState
from quartzpy.store.postgresql import migrations
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.trigger import Trigger

TICK = 0.25
"""Seconds between two queries of the database."""
BURST_AT = 0.6
"""The part of the duration after which the burst begins."""
OVERTIME = 20.0
"""The longest extension of the demo for a burst that has not ended, in seconds."""
SETTLE_SECONDS = 30.0
START_SECONDS = 30.0
RECENT = 500
"""The most ended executions that one query reads."""


class Demo:
    """One run of the demo."""

    def __init__(
        self, audience: Audience, *, nodes: int, duration: timedelta, dsn: str | None, keep: bool, burst: int = 60
    ) -> None:
        self._audience = audience
        self._nodes = nodes
        self._duration = duration.total_seconds()
        self._dsn = dsn
        self._keep = keep
        self._burst_size = burst
        self._clock: Clock = SystemClock()
        self._stopped = threading.Event()
        self._keys: SimpleQueue[str] = SimpleQueue()
        self._executions: dict[int, ExecutionRecord] = {}
        self._reported: set[object] = set()
        self._notes: list[str] = []
        self.lanes: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self._planned: list[Trigger] = []
        self._burst_due: datetime | None = None

    def interrupt(self) -> None:
        """End the demo early; the audit follows as usual. Signal handlers may call it."""
        self._stopped.set()
        self._keys.put("")

    def press(self, key: str) -> None:
        """Take a key that the spectator pressed."""
        self._keys.put(key)

    def run(self) -> Summary:
        """Run the whole demo, from an empty database to the audit.

        Raises:
            QuartzpyError: PostgreSQL or the nodes did not start.
        """
        with ExitStack() as stack:
            stack.enter_context(self._audience.opened())
            dsn = stack.enter_context(demo_database(self._dsn, self._keep, self._audience.event))
            migrations.upgrade(dsn)
            self._audience.event("schema", "schema created")
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quartzpy-demo-")))
            client = Scheduler(dsn, **{**jobs.SETTINGS, "history_retention": None})
            stack.callback(client.shutdown)
            client.clear()
            cluster = Cluster(dsn, logs)
            stack.callback(cluster.stop)
            for _ in range(self._nodes):
                cluster.start_another()
            self._wait_for_nodes(client, cluster)
            earlier = {execution.fire_id for execution in client.executions()}
            jobs.schedule_all(client, client.nodes().now)
            self._planned = [record.trigger for record in client.triggers()]
            text = f"{len(self._planned)} triggers of 4 jobs scheduled"
            self._audience.event("scheduled", text, triggers=len(self._planned))
            self._show(client, cluster, earlier)
            paused_at = client.nodes().now
            client.pause_trigger_group(jobs.GROUP)
            self._audience.event("paused", "the triggers are paused; waiting for running executions")
            self._wait_until_idle(client, cluster)
            executions = [record for record in client.executions() if record.fire_id not in earlier]
            self._report(executions)
            self._report_burst()
            triggers = list(client.triggers())
            summary = summarize(self._nodes, executions, triggers, self._planned, jobs.SERIAL_REPORT, paused_at)
            if self._keep:
                text = f"the database is left as it is (`quartzpy demo --stop` stops an embedded one):\n{dsn}"
                self._audience.event("kept", text, dsn=dsn)
        self._audience.summary(summary)
        return summary

    def _wait_for_nodes(self, client: Scheduler, cluster: Cluster) -> None:
        deadline = self._clock.monotonic() + START_SECONDS
        joined: set[str] = set()
        while len(joined) < self._nodes:
            for node in client.nodes().nodes:
                name = node.instance_id
                if name in cluster.processes and name not in joined:
                    joined.add(name)
                    text = f"{name} joined the cluster (pid {node.pid}, epoch {node.epoch})"
                    self._audience.event("node_started", text, node=name, pid=node.pid, epoch=node.epoch)
            for name, process in cluster.processes.items():
                if process.poll() is not None:
                    raise QuartzpyError(f"{name} ended at its start:\n{cluster.log_tail(name)}")
            if self._clock.monotonic() > deadline:
                raise StoreUnavailableError(f"only {len(joined)} of {self._nodes} nodes joined in {START_SECONDS} s")
            threading.Event().wait(0.05)

    def _show(self, client: Scheduler, cluster: Cluster, earlier: set[int | None]) -> None:
        began = self._clock.monotonic()
        while not self._is_over(elapsed := self._clock.monotonic() - began):
            recent = [record for record in client.executions().page(RECENT) if record.fire_id not in earlier]
            ended = self._report(recent)
            scene = self._scene(client, cluster, elapsed)
            self._report_recovery(scene)
            self.lengthen_lanes(scene, ended)
            export = None if cluster.killed or len(scene.alive) < 2 else scene.running_job(jobs.LONG_EXPORT)
            if export is not None and scene.cluster.now - export.fire_time >= KILL_AFTER:
                self._kill(export.instance_id, "in the middle of long-export", scene, cluster)
            if self._burst_due is None and elapsed >= BURST_AT * self._duration:
                self._begin_burst(client, scene.cluster.now)
            self._report_burst()
            self._audience.scene(scene)
            with suppress(Empty):
                self._obey(self._keys.get(timeout=TICK), cluster, scene)

    def _is_over(self, elapsed: float) -> bool:
        """Return True at the end of the demo, which is extended for a burst that a slow machine has not finished."""
        is_bursting = self._burst_due is not None and sum(self._burst().values()) < self._burst_size
        return self._stopped.is_set() or elapsed >= self._duration + (OVERTIME if is_bursting else 0)

    def _scene(self, client: Scheduler, cluster: Cluster, elapsed: float) -> Scene:
        return Scene(
            elapsed,
            self._duration,
            cluster.alive(),
            dict(cluster.killed),
            client.nodes(),
            list(client.triggers()),
            client.running(),
            list(self._executions.values()),
            None if self._burst_due is None else self._burst(),
            self._burst_size,
            list(self._notes),
            self.lanes,
        )

    def lengthen_lanes(self, scene: Scene, ended: Sequence[ExecutionRecord]) -> None:
        """Add one moment to the lane of each node: the letter of a job that ran there, and its colour."""
        marks: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for record in scene.running:
            if record.state == FiredState.EXECUTING and record.instance_id in scene.alive:
                marks[record.instance_id].append((record.job_key.name, "again" if record.recovering else "runs"))
        for execution in ended:
            style = "failed" if execution.outcome == "FAILED" else "ended"
            marks[execution.instance_id or ""].append((execution.job_key.name, style))
        for node in {*scene.alive, *scene.killed}:
            job, style = min(marks[node], key=lambda mark: list(LETTERS).index(mark[0]), default=("", "idle"))
            if node in scene.killed:
                job, style = "", "dead" if ("✗", "killed") in self.lanes[node] else "killed"
            self.lanes[node].append((LETTERS.get(job, "✗" if style == "killed" else "·"), style))

    def _note(self, name: str, text: str, **facts: Any) -> None:
        """Report an event, and keep its text for the screen."""
        self._notes.append(text)
        self._audience.event(name, text, **facts)

    def _obey(self, key: str, cluster: Cluster, scene: Scene) -> None:
        match key:
            case "q":
                self.interrupt()
            case "n":
                name = cluster.start_another()
                self._note("node_added", f"{name} is being started", node=name)
            case "k" if len(scene.alive) > 1:
                busy = Counter(record.instance_id for record in scene.running if record.state == FiredState.EXECUTING)
                self._kill(max(scene.alive, key=lambda name: (busy[name], name)), "at your request", scene, cluster)
            case "k":
                self._notes.append("the last node is not killed: no other could recover its work (n starts another)")

    def _kill(self, name: str, when: str, scene: Scene, cluster: Cluster) -> None:
        export = scene.running_job(jobs.LONG_EXPORT)
        job = jobs.LONG_EXPORT.name if export is not None and export.instance_id == name else None
        pid = cluster.kill(name, scene.cluster.now)
        self._note("node_killed", f"killed {name} (pid {pid}) with SIGKILL {when}", node=name, pid=pid, job=job)
        window = jobs.SETTINGS["failure_window"]
        self._audience.event("node_silent", f"{name} is silent: {window} to its removal by the others", node=name)

    def _begin_burst(self, client: Scheduler, now: datetime) -> None:
        triggers = jobs.schedule_burst(client, now, self._burst_size)
        self._planned += triggers
        self._burst_due = triggers[0].start_time
        self._note("burst", f"{len(triggers)} thumbnails are due at the same instant", size=len(triggers))

    def _burst(self) -> dict[str, int]:
        """Return how many thumbnails each node has made."""
        thumbnails = (record for record in self._executions.values() if record.job_key == jobs.THUMBNAILS)
        return dict(sorted(Counter(str(record.instance_id) for record in thumbnails).items()))

    def _report_burst(self) -> None:
        nodes = self._burst()
        if self._burst_due is None or sum(nodes.values()) < self._burst_size or "burst" in self._reported:
            return
        self._reported.add("burst")
        ends = (record.ended_at for record in self._executions.values() if record.job_key == jobs.THUMBNAILS)
        seconds = (max(end for end in ends if end is not None) - self._burst_due).total_seconds()
        shares = ", ".join(f"{node} {count}" for node, count in nodes.items())
        text = f"the burst is over: {self._burst_size} thumbnails in {seconds:.1f} s ({shares}), each once"
        self._note("burst_ended", text, seconds=seconds, nodes=nodes)

    def _report(self, executions: Sequence[ExecutionRecord]) -> list[ExecutionRecord]:
        """Report the executions that have ended since the last query, and return them."""
        ended = [record for record in reversed(executions) if record.fire_id not in self._executions]
        for record in ended:
            assert record.fire_id is not None
            self._executions[record.fire_id] = record
            outcome = str(record.outcome)
            if record.job_key == jobs.FLAKY_IMPORT:
                outcome += " on purpose" if record.outcome == "FAILED" else f" at attempt {record.attempt}"
            what = f"{record.job_key.name} of {record.scheduled_fire_time:%H:%M:%S}"
            self._audience.event(
                "executed",
                f"{what} {outcome} on {record.instance_id}{' (recovery)' if record.recovering else ''}",
                fire=record.fire_id,
                job=record.job_key.name,
                trigger=str(record.trigger_key),
                node=record.instance_id,
                scheduled=record.scheduled_fire_time,
                started=record.started_at,
                outcome=record.outcome,
                attempt=record.attempt,
                recovering=record.recovering,
            )
        return ended

    def _report_recovery(self, scene: Scene) -> None:
        """Report when the other nodes have removed a dead node, and which node repeats its executions."""
        for name in sorted(set(scene.killed) - {node.instance_id for node in scene.cluster.nodes} - self._reported):
            self._reported.add(name)
            took = (scene.cluster.now - scene.killed[name]).total_seconds()
            text = f"the others removed {name} {took:.1f} s after its death and released its claims"
            self._note("node_removed", text, node=name)
        for record in scene.running:
            is_new = record.recovering and record.state == FiredState.EXECUTING and record.fire_id not in self._reported
            if is_new:
                self._reported.add(record.fire_id)
                node, job = record.instance_id, record.job_key.name
                self._note("recovering", f"{node} runs {job} again", node=node, job=job, fire=record.fire_id)

    def _wait_until_idle(self, client: Scheduler, cluster: Cluster) -> None:
        """Wait until nothing runs and no recovery or retry is pending."""
        deadline = self._clock.monotonic() + SETTLE_SECONDS
        while self._clock.monotonic() < deadline:
            scene = self._scene(client, cluster, self._duration)
            # On a slow machine a recovery may begin after the demo.
            self._report_recovery(scene)
            if not scene.running and all(record.key.group == jobs.GROUP for record in scene.triggers):
                return
            threading.Event().wait(TICK)
