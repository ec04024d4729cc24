"""The course of the demo: a real cluster on a real PostgreSQL, a node killed in the middle of a job, and the audit."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from quartzpy.clock import Clock, SystemClock
from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary, summarize
from quartzpy.demo.cluster import DemoCluster, new_database
from quartzpy.demo.views import KILL_AFTER, Audience, Scene
from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.factory import Scheduler
from quartzpy.states import FiredState
from quartzpy.store.postgresql import migrations
from quartzpy.store.records import LATE_AFTER, ExecutionRecord
from quartzpy.triggers.trigger import Trigger

TICK = 0.25
"""Seconds between two queries of the database."""
BURST_AT = 0.6
"""The part of the duration after which the burst begins."""
OVERTIME = 20.0
"""The longest extension of the demo for a burst that has not ended, in seconds."""
PATIENCE = 30.0
"""The longest wait for the nodes at the start, and for running executions at the end, in seconds."""
RECENT = 500
"""The most ended executions that one query reads."""


def run_demo(
    audience: Audience, keys: SimpleQueue[str], *, nodes: int, duration: timedelta, dsn: str | None, keep: bool
) -> Summary:
    """Run the whole demo, from an empty database to the audit.

    `keys` brings the keys that the spectator presses. A "q" ends the demo early; the audit follows as usual.

    Raises:
        QuartzpyError: PostgreSQL or the nodes did not start.
    """
    with ExitStack() as stack:
        stack.enter_context(audience.opened())
        url = stack.enter_context(new_database(keep, audience.event)) if dsn is None else dsn
        migrations.upgrade(url)
        audience.event("schema", "schema created")
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quartzpy-demo-")))
        client = Scheduler(url, **{**jobs.SETTINGS, "history_retention": None})
        stack.callback(client.shutdown)
        client.clear()
        cluster = DemoCluster(url, logs)
        stack.callback(cluster.stop)
        demo = Demo(audience, client, cluster, duration.total_seconds())
        demo.start_nodes(nodes)
        demo.show(keys)
        demo.wait_until_caught_up()
        paused_at = client.nodes().now
        client.pause_trigger_group(jobs.GROUP)
        audience.event("paused", "the triggers are paused; waiting for running executions")
        demo.wait_until_idle()
        executions = list(client.executions(since=demo.began_at))
        demo.report(executions)
        summary = summarize(nodes, executions, list(client.triggers()), demo.planned, jobs.SERIAL_REPORT, paused_at)
    if keep:
        text = f"the database is left as it is (`quartzpy demo --stop` stops an embedded one):\n{url}"
        audience.event("kept", text, dsn=url)
    audience.summary(summary)
    return summary


class Demo:
    """Directs the nodes of the demo, and reports what happens in the cluster."""

    def __init__(self, audience: Audience, client: Scheduler, cluster: DemoCluster, duration: float) -> None:
        self._audience = audience
        self._client = client
        self._cluster = cluster
        self._clock: Clock = SystemClock()
        self._reported: set[object] = set()
        self._scene = Scene(duration, client.nodes(), cluster.killed)
        self.began_at = self._scene.cluster.now
        """An instant before all fires of this demo, by the database's clock."""
        self.planned: list[Trigger] = []
        """The triggers whose fires the audit expects."""

    def start_nodes(self, count: int) -> None:
        """Start the first nodes, and return when they have joined the cluster."""
        deadline = self._clock.monotonic() + PATIENCE
        names = {self._cluster.start_another() for _ in range(count)}
        absent = set(names)
        while absent:
            for node in self._client.nodes().nodes:
                name = node.instance_id
                if name in absent:
                    absent.remove(name)
                    text = f"{name} joined the cluster (pid {node.pid}, epoch {node.epoch})"
                    self._audience.event("node_started", text, node=name, pid=node.pid, epoch=node.epoch)
            for name in names.difference(self._cluster.alive()):
                raise QuartzpyError(f"{name} ended at its start:\n{self._cluster.log_tail(name)}")
            if self._clock.monotonic() > deadline:
                raise StoreUnavailableError(f"only {count - len(absent)} of {count} nodes joined in {PATIENCE} s")
            threading.Event().wait(0.05)

    def show(self, keys: SimpleQueue[str]) -> None:
        """Schedule the jobs, and show them for the whole duration: with a kill, a burst, and what the keys ask for."""
        scene = self._scene
        jobs.schedule_all(self._client, self._client.nodes().now)
        self.planned = [record.trigger for record in self._client.triggers()]
        text = f"{len(self.planned)} triggers of 4 jobs scheduled"
        self._audience.event("scheduled", text, triggers=len(self.planned))
        began = self._clock.monotonic()
        key = ""
        while key != "q" and scene.elapsed < scene.duration + (OVERTIME if scene.is_bursting else 0):
            scene.elapsed = self._clock.monotonic() - began
            self._look()
            export = None if scene.killed or len(scene.alive) < 2 else scene.running_job(jobs.LONG_EXPORT)
            if export is not None and scene.cluster.now - export.fire_time >= KILL_AFTER:
                self._kill(export.instance_id, "in the middle of long-export")
            if scene.burst_due is None and scene.elapsed >= BURST_AT * scene.duration:
                self._begin_burst()
            self._audience.scene(scene)
            with suppress(Empty):
                key = keys.get(timeout=TICK)
                self._obey(key)

    def wait_until_caught_up(self) -> None:
        """Wait until no trigger is late, as long as the nodes go on: on a slow machine a late fire is not lost."""
        deadline, ended = self._clock.monotonic() + PATIENCE, len(self._scene.history)
        while self._clock.monotonic() < deadline:
            late = self._client.nodes().now - LATE_AFTER
            if self._client.triggers(group=jobs.GROUP, until=late).first() is None:
                return
            self._look()
            if len(self._scene.history) > ended:
                deadline, ended = self._clock.monotonic() + PATIENCE, len(self._scene.history)
            threading.Event().wait(TICK)

    def wait_until_idle(self) -> None:
        """Wait until nothing runs and no recovery or retry is pending."""
        deadline = self._clock.monotonic() + PATIENCE
        while self._clock.monotonic() < deadline:
            # On a slow machine a recovery may begin after the demo.
            self._look()
            if is_idle(self._client):
                return
            threading.Event().wait(TICK)

    def report(self, executions: Iterable[ExecutionRecord]) -> list[ExecutionRecord]:
        """Report those executions, the latest first, that have ended since the last call, and return them."""
        ended = [record for record in executions if self._is_new("ended", record.fire_id)][::-1]
        self._scene.history += ended
        for record in ended:
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
        self._report_burst()
        return ended

    def _report_burst(self) -> None:
        due, burst = self._scene.burst_due, self._scene.burst
        if due is None or self._scene.is_bursting or not self._is_new("burst"):
            return
        seconds = (max(record.ended_at for record in burst if record.ended_at is not None) - due).total_seconds()
        nodes = dict(sorted(Counter(str(record.instance_id) for record in burst).items()))
        shares = ", ".join(f"{node} {count}" for node, count in nodes.items())
        text = f"the burst is over: {jobs.BURST_SIZE} thumbnails in {seconds:.1f} s ({shares}), each once"
        self._note("burst_ended", text, seconds=seconds, nodes=nodes)

    def _look(self) -> None:
        """Read the present state into the scene, and report what has happened since the last call."""
        scene = self._scene
        ended = self.report(self._client.executions(since=self.began_at).page(RECENT))
        scene.alive, scene.cluster = self._cluster.alive(), self._client.nodes()
        scene.running = [record for record in self._client.running() if record.state == FiredState.EXECUTING]
        scene.lengthen_lanes(ended)
        for node, killed_at in scene.killed.items():
            if scene.until_removal(node) is None and self._is_new("removed", node):
                took = (scene.cluster.now - killed_at).total_seconds()
                text = f"the others removed {node} {took:.1f} s after its death"
                self._note("node_removed", text, node=node)
        for record in scene.running:
            if record.recovering and self._is_new("recovering", record.fire_id):
                node, job = record.instance_id, record.job_key.name
                self._note("recovering", f"{node} runs {job} again", node=node, job=job, fire=record.fire_id)

    def _obey(self, key: str) -> None:
        alive = self._scene.alive
        match key:
            case "n":
                name = self._cluster.start_another()
                self._note("node_added", f"{name} is being started", node=name)
            case "k" if len(alive) > 1:
                busy = Counter(record.instance_id for record in self._scene.running)
                self._kill(max(alive, key=lambda name: (busy[name], name)), "at your request")
            case "k":
                text = "the last node is not killed: no other could recover its work (n starts another)"
                self._scene.notes.append(text)

    def _kill(self, name: str, when: str) -> None:
        scene = self._scene
        export = scene.running_job(jobs.LONG_EXPORT)
        job = jobs.LONG_EXPORT.name if export is not None and export.instance_id == name else None
        pid = self._cluster.kill(name, scene.cluster.now)
        self._note("node_killed", f"killed {name} (pid {pid}) with SIGKILL {when}", node=name, pid=pid, job=job)
        window = jobs.SETTINGS["failure_window"]
        self._audience.event("node_silent", f"{name} is silent: {window} to its removal by the others", node=name)

    def _begin_burst(self) -> None:
        triggers = jobs.schedule_burst(self._client, self._scene.cluster.now)
        self.planned += triggers
        self._scene.burst_due = triggers[0].start_time
        self._note("burst", f"{len(triggers)} thumbnails are due at the same instant", size=len(triggers))

    def _note(self, name: str, text: str, **facts: Any) -> None:
        """Report an event, and keep its text for the screen."""
        self._scene.notes.append(text)
        self._audience.event(name, text, **facts)

    def _is_new(self, *what: object) -> bool:
        """Return True the first time that it is called with these values."""
        is_new = what not in self._reported
        self._reported.add(what)
        return is_new


def is_idle(client: Scheduler) -> bool:
    """Return whether nothing runs, and no recovery or retry is pending, while the triggers of the demo are paused."""
    # Executions are read first: one that ends after that has stored its retry before the triggers are read. The trigger
    # of a retry or a recovery is stored until its execution has ended.
    return not client.running() and all(record.key.group == jobs.GROUP for record in client.triggers())
