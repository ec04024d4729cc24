"""The course of the demo: a real cluster on a real PostgreSQL, a node killed in the middle of a job, and the audit."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from quartzpy.clock import Clock, SystemClock
from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary, summarize
from quartzpy.demo.cluster import Cluster
from quartzpy.demo.database import demo_database
from quartzpy.demo.story import KILL_AFTER, Memory, Scene, describe_delay
from quartzpy.demo.views import Audience
from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.factory import Scheduler
from quartzpy.keys import TriggerKey
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
NOTES = 200
WHY_LINES = 6


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
        self._memory = Memory()
        self._seen_recovering: set[int] = set()
        self._notes: list[str] = []
        self._planned: list[Trigger] = []
        self._burst_reported = False
        self._why: TriggerKey | None = None

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
            jobs.schedule_all(client, client.nodes().now)
            self._planned = [record.trigger for record in client.triggers()]
            text = f"{len(self._planned)} triggers of 4 jobs scheduled"
            self._audience.event("scheduled", text, triggers=len(self._planned))
            earlier = self._memory.see(list(client.executions()))
            before = {execution.fire_id for execution in earlier}
            self._memory.executions.clear()
            self._show(client, cluster, before)
            paused_at = client.nodes().now
            client.pause_trigger_group(jobs.GROUP)
            self._audience.event("paused", "the triggers are paused; waiting for running executions")
            self._wait_until_idle(client, cluster)
            executions = [e for e in client.executions() if e.fire_id not in before]
            self._report(executions, cluster)
            self._report_burst()
            summary = summarize(
                self._nodes,
                executions,
                list(client.triggers()),
                self._planned,
                jobs.SERIAL_REPORT,
                paused_at,
                self._memory.pauses_until(paused_at),
            )
            if self._keep:
                text = f"the database is left as it is (`quartzpy demo --stop` stops an embedded one):\n{dsn}"
                self._audience.event("kept", text, dsn=dsn)
        self._audience.summary(summary)
        return summary

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
            threading.Event().wait(0.05)

    # --- the show

    def _show(self, client: Scheduler, cluster: Cluster, before: set[int | None]) -> None:
        began = self._clock.monotonic()
        while not self._is_over(elapsed := self._clock.monotonic() - began):
            recent = [one for one in client.executions().page(RECENT) if one.fire_id not in before]
            self._report(recent, cluster)
            scene = self._look(client, cluster, elapsed)
            self._report_recovery(scene)
            if len(scene.alive) > 1 and not cluster.killed:
                self._kill_in_the_middle(scene, cluster)
            if self._memory.burst_due is None and elapsed >= BURST_AT * self._duration and not scene.paused:
                self._begin_burst(client, scene.now)
            self._report_burst()
            self._audience.scene(scene)
            with suppress(Empty):
                self._obey(self._keys.get(timeout=TICK), client, cluster, scene)

    def _is_over(self, elapsed: float) -> bool:
        """Return True at the end of the demo, which is extended for a burst that a slow machine has not finished."""
        burst = self._memory.burst(self._burst_size)
        is_bursting = burst is not None and burst.count < burst.size and self._memory.paused_since is None
        return self._stopped.is_set() or elapsed >= self._duration + (OVERTIME if is_bursting else 0)

    def _look(self, client: Scheduler, cluster: Cluster, elapsed: float) -> Scene:
        answer = client.nodes()
        triggers, running = list(client.triggers(order_by="next_fire_time")), client.running()
        why = None if self._why is None else (str(self._why), client.why(self._why)[:WHY_LINES])
        return Scene(
            elapsed,
            self._duration,
            answer.now,
            cluster.alive(),
            dict(cluster.killed),
            answer,
            triggers,
            running,
            list(self._memory.executions.values()),
            self._memory.lanes(running, answer.now),
            self._memory.delays(cluster.killed),
            self._memory.burst(self._burst_size),
            self._memory.paused_since is not None,
            self._notes[-NOTES:],
            why,
        )

    def _emit(self, name: str, text: str, **facts: Any) -> None:
        """Report an event, and keep its text for the screen."""
        self._notes.append(text)
        self._audience.event(name, text, **facts)

    def _obey(self, key: str, client: Scheduler, cluster: Cluster, scene: Scene) -> None:
        match key:
            case "q":
                self.interrupt()
            case "k":
                self._kill_busiest(scene, cluster)
            case "n":
                name = cluster.start_another()
                self._emit("node_added", f"{name} is being started", node=name)
            case "p":
                if self._memory.toggle_pause(client.nodes().now):
                    client.pause_trigger_group(jobs.GROUP)
                    self._emit("held", "you paused all triggers")
                else:
                    client.resume_trigger_group(jobs.GROUP)
                    self._emit("resumed", "you resumed all triggers")
            case "w":
                keys = sorted(record.key for record in scene.triggers)
                # Show the trigger after the shown one, and none after the last.
                self._why = next((one for one in keys if self._why is None or one > self._why), None)

    def _kill_busiest(self, scene: Scene, cluster: Cluster) -> None:
        if len(cluster.alive()) < 2:
            self._notes.append(
                "the last node is not killed, because no node would be left to recover its work (n starts another)"
            )
            return
        busy = Counter(one.instance_id for one in scene.running if one.state == FiredState.EXECUTING)
        self._kill(max(cluster.alive(), key=lambda name: (busy[name], name)), "at your request", scene, cluster)

    def _kill_in_the_middle(self, scene: Scene, cluster: Cluster) -> None:
        for record in scene.running:
            runs_long = record.state == FiredState.EXECUTING and scene.now - record.fire_time >= KILL_AFTER
            if record.job_key == jobs.LONG_EXPORT and runs_long and record.instance_id in scene.alive:
                self._kill(record.instance_id, f"in the middle of {record.job_key.name}", scene, cluster)
                return

    def _kill(self, name: str, when: str, scene: Scene, cluster: Cluster) -> None:
        pid = cluster.kill(name, scene.now)
        self._memory.see_kill(name, scene.running, scene.now)
        jobs_lost = {one.job for one in self._memory.interrupted.values() if one.node == name}
        job = jobs.LONG_EXPORT.name if jobs.LONG_EXPORT.name in jobs_lost else next(iter(sorted(jobs_lost)), None)
        self._emit("node_killed", f"killed {name} (pid {pid}) with SIGKILL {when}", node=name, pid=pid, job=job)
        window = jobs.SETTINGS["failure_window"]
        self._audience.event("node_silent", f"{name} is silent: {window} to its removal by the others", node=name)

    def _begin_burst(self, client: Scheduler, now: datetime) -> None:
        triggers = jobs.schedule_burst(client, now, self._burst_size)
        self._planned += triggers
        self._memory.burst_due = triggers[0].start_time
        self._emit("burst", f"{len(triggers)} thumbnails are due at the same instant", size=len(triggers))

    # --- what is told

    def _report(self, executions: Sequence[ExecutionRecord], cluster: Cluster) -> None:
        """Report the executions that have ended since the last query."""
        for execution in self._memory.see(executions):
            delay = {} if execution.recovering else self._memory.delay(execution, cluster.killed)
            what = "recovery" if execution.recovering else describe_delay(delay)
            outcome = str(execution.outcome)
            if execution.job_key == jobs.FLAKY_IMPORT:
                outcome += " on purpose" if execution.outcome == "FAILED" else f" at attempt {execution.attempt}"
            self._audience.event(
                "executed",
                f"{execution.job_key.name} of {execution.scheduled_fire_time:%H:%M:%S}"
                f" {outcome} on {execution.instance_id} ({what})",
                fire=execution.fire_id,
                job=execution.job_key.name,
                trigger=str(execution.trigger_key),
                node=execution.instance_id,
                scheduled=execution.scheduled_fire_time,
                outcome=execution.outcome,
                attempt=execution.attempt,
                recovering=execution.recovering,
                delay=delay,
            )

    def _report_recovery(self, scene: Scene) -> None:
        """Report when the other nodes have removed a dead node, and which node repeats its executions."""
        registered = {node.instance_id for node in scene.cluster.nodes}
        for name in sorted(set(scene.killed) - registered - set(self._memory.removed)):
            self._memory.removed[name] = scene.now
            took = (scene.now - scene.killed[name]).total_seconds()
            text = f"the others removed {name} {took:.1f} s after its death and released its claims"
            self._emit("node_removed", text, node=name)
        for record in scene.running:
            executing = record.recovering and record.state == FiredState.EXECUTING
            if executing and record.fire_id not in self._seen_recovering:
                self._seen_recovering.add(record.fire_id)
                self._emit(
                    "recovering",
                    f"{record.instance_id} runs {record.job_key.name} again",
                    node=record.instance_id,
                    job=record.job_key.name,
                    fire=record.fire_id,
                )

    def _report_burst(self) -> None:
        burst = self._memory.burst(self._burst_size)
        if burst is None or burst.count < burst.size or self._burst_reported:
            return
        self._burst_reported = True
        shares = ", ".join(f"{node} {count}" for node, count in burst.done.items())
        text = f"the burst is over: {burst.size} thumbnails in {burst.seconds:.1f} s ({shares}), each once"
        self._emit("burst_ended", text, seconds=burst.seconds, nodes=dict(burst.done))

    def _wait_until_idle(self, client: Scheduler, cluster: Cluster) -> None:
        """Wait until nothing runs and no recovery or retry is pending."""
        deadline = self._clock.monotonic() + SETTLE_SECONDS
        while self._clock.monotonic() < deadline:
            scene = self._look(client, cluster, self._duration)
            # On a slow machine a recovery may begin after the demo.
            self._report_recovery(scene)
            if not scene.running and all(record.key.group == jobs.GROUP for record in scene.triggers):
                return
            threading.Event().wait(TICK)
