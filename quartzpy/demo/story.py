"""The demo as its spectators see it: a sequence of scenes, a lane for each node, a sentence for each phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from quartzpy.demo import jobs
from quartzpy.demo.spans import OURS, Span, explain_delay
from quartzpy.keys import JobKey
from quartzpy.states import FiredState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, RunningRecord, TriggerRecord

OWN_JOB = "its own job"
DEAD_NODE = "the dead node"
PAUSE = "the pause"
BURST = "the burst"
"""A burst occupies all workers."""
KILL_AFTER = timedelta(seconds=2)
"""The run time of a long export after which its node is killed."""
SEEN_LATE = timedelta(seconds=1)
"""The most time between the removal of a node and the query that finds it."""


class Look(StrEnum):
    """The appearance of a stretch of a lane."""

    RUNS = "runs"
    ENDED = "ended"
    FAILED = "failed"
    KILLED = "killed"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that one execution spent on one node."""

    node: str
    job: str
    span: Span
    look: Look


@dataclass(frozen=True, slots=True)
class Burst:
    """The fires that are all due at one instant, and how many of them each node has executed."""

    size: int
    done: Mapping[str, int]
    seconds: float
    """The seconds from the common fire time to the end of the last execution so far."""

    @property
    def count(self) -> int:
        return sum(self.done.values())


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster at one moment."""

    elapsed: float
    duration: float
    now: datetime
    alive: Mapping[str, int]
    killed: Mapping[str, datetime]
    cluster: CheckIn
    triggers: Sequence[TriggerRecord]
    running: Sequence[RunningRecord]
    history: Sequence[ExecutionRecord]
    lanes: Sequence[Stretch]
    delays: Mapping[str, Mapping[str, timedelta]]
    """The longest delay of each job by each cause."""
    burst: Burst | None = None
    paused: bool = False
    notes: Sequence[str] = ()
    why: tuple[str, Sequence[str]] | None = None
    """A trigger, and the sentences that say why it has not fired or when it will."""

    @property
    def began(self) -> datetime:
        return self.now - timedelta(seconds=self.elapsed)


@dataclass(slots=True)
class Memory:
    """Everything that the demo has seen so far of one run."""

    executions: dict[int, ExecutionRecord] = field(default_factory=dict)
    interrupted: dict[int, Stretch] = field(default_factory=dict)
    """The executions that ran on a node when it was killed."""
    removed: dict[str, datetime] = field(default_factory=dict)
    """The instant at which the other nodes removed each dead node."""
    pauses: list[Span] = field(default_factory=list)
    paused_since: datetime | None = None
    burst_due: datetime | None = None

    def see(self, executions: Sequence[ExecutionRecord]) -> list[ExecutionRecord]:
        """Add ended executions. Returns the new ones, the earliest first."""
        new = [one for one in reversed(executions) if one.fire_id is not None and one.fire_id not in self.executions]
        self.executions |= {one.fire_id: one for one in new if one.fire_id is not None}
        return new

    def see_kill(self, node: str, running: Sequence[RunningRecord], now: datetime) -> None:
        """Add the executions that ran on a node when it was killed: the history has no record of them."""
        for one in running:
            if one.instance_id == node and one.state == FiredState.EXECUTING:
                self.interrupted[one.fire_id] = Stretch(node, one.job_key.name, (one.fire_time, now), Look.KILLED)

    def toggle_pause(self, now: datetime) -> bool:
        """Begin a pause, or end the current one. Returns True if a pause has begun."""
        if self.paused_since is None:
            self.paused_since = now
            return True
        self.pauses.append((self.paused_since, now))
        self.paused_since = None
        return False

    def pauses_until(self, now: datetime) -> list[Span]:
        """Return all pauses; the current one ends at `now`."""
        return [*self.pauses, *([(self.paused_since, now)] if self.paused_since else [])]

    def lanes(self, running: Sequence[RunningRecord], now: datetime) -> list[Stretch]:
        """Return the stretches of all lanes; those of running executions end at `now`."""
        ended = [
            Stretch(one.instance_id, one.job_key.name, span, _look(one))
            for one in self.executions.values()
            if one.instance_id is not None and (span := _span(one)) is not None
        ]
        live = [
            Stretch(
                one.instance_id,
                one.job_key.name,
                (one.fire_time, now),
                Look.RECOVERY if one.recovering else Look.RUNS,
            )
            for one in running
            if one.state == FiredState.EXECUTING and one.fire_id not in self.interrupted
        ]
        return [*ended, *self.interrupted.values(), *live]

    def delay(self, execution: ExecutionRecord, killed: Mapping[str, datetime]) -> dict[str, timedelta]:
        """Divide the delay of an execution among its causes, of which the scheduler's own is the last."""
        begun = execution.started_at or execution.fire_time
        if begun is None:
            return {}
        outages = [(at, self.removed[node]) for node, at in killed.items() if node in self.removed]
        causes = {
            OWN_JOB: self._siblings(execution, killed),
            # The demo notices a removal some time after it happened.
            DEAD_NODE: [outage for outage in outages if outage[1] - SEEN_LATE <= begun],
            PAUSE: self.pauses_until(begun),
            BURST: [] if self.burst_due is None else [(self.burst_due, self._burst_end(self.burst_due))],
        }
        return explain_delay((execution.scheduled_fire_time, begun), causes)

    def _siblings(self, execution: ExecutionRecord, killed: Mapping[str, datetime]) -> list[Span]:
        """Return the spans of the other executions of a serial job. The death of its node ends an execution."""
        if execution.job_key != jobs.SERIAL_REPORT:
            return []
        others = [one for one in self.executions.values() if one.job_key == execution.job_key and one != execution]
        return [
            (one.fire_time, min(one.ended_at, killed.get(one.instance_id or "", one.ended_at)))
            for one in others
            if one.fire_time and one.ended_at
        ]

    def delays(self, killed: Mapping[str, datetime]) -> dict[str, dict[str, timedelta]]:
        """Return the longest delay of each job by each cause.

        The burst is excluded because its fires wait for free workers, and recoveries because they wait for a death.
        """
        longest: dict[str, dict[str, timedelta]] = {}
        for one in self.executions.values():
            if one.job_key == jobs.THUMBNAILS or one.recovering:
                continue
            so_far = longest.setdefault(one.job_key.name, {})
            for cause, part in self.delay(one, killed).items():
                so_far[cause] = max(so_far.get(cause, timedelta()), part)
        return longest

    def burst(self, size: int) -> Burst | None:
        """Return the progress of the burst, or None before it begins."""
        if self.burst_due is None:
            return None
        nodes = Counter(one.instance_id for one in self._thumbnails() if one.instance_id is not None)
        lasted = self._burst_end(self.burst_due) - self.burst_due
        return Burst(size, dict(sorted(nodes.items())), lasted.total_seconds())

    def _thumbnails(self) -> list[ExecutionRecord]:
        return [one for one in self.executions.values() if one.job_key == jobs.THUMBNAILS]

    def _burst_end(self, due: datetime) -> datetime:
        return max((one.ended_at for one in self._thumbnails() if one.ended_at is not None), default=due)


def _span(execution: ExecutionRecord) -> Span | None:
    begun = execution.started_at or execution.fire_time
    return None if begun is None or execution.ended_at is None else (begun, execution.ended_at)


def _look(execution: ExecutionRecord) -> Look:
    if execution.outcome == "FAILED":
        return Look.FAILED
    return Look.RECOVERY if execution.recovering else Look.ENDED


def describe_delay(parts: Mapping[str, timedelta]) -> str:
    """Describe the parts of a delay in words."""
    waited = [f"waited {seconds(part)} for {cause}" for cause, part in parts.items() if cause != OURS and part]
    return ", ".join([*waited, f"{seconds(parts.get(OURS, timedelta()))} {OURS}"])


def seconds(span: timedelta) -> str:
    """Format a short span: in milliseconds below a second, otherwise in seconds."""
    value = span.total_seconds()
    return f"{value * 1000:.0f} ms" if abs(value) < 1 else f"{value:.1f} s"


def until_removal(scene: Scene, node: str) -> timedelta | None:
    """Return the time until a dead node is removed, or None if it is removed already."""
    for record in scene.cluster.nodes:
        if record.instance_id == node:
            return max(timedelta(), record.last_checkin + record.failure_window - scene.now)
    return None


def running_job(scene: Scene, job: JobKey) -> RunningRecord | None:
    """Return an execution of a job that runs on a living node."""
    for one in scene.running:
        if one.job_key == job and one.state == FiredState.EXECUTING and one.instance_id in scene.alive:
            return one
    return None


def narrate(scene: Scene) -> str:
    """Return one sentence on what is happening, the most dramatic event first."""
    for node in scene.killed:
        left = until_removal(scene, node)
        if left is not None:
            return f"{node} is silent: {seconds(left)} to its removal by the others"
    export = running_job(scene, jobs.LONG_EXPORT)
    if export is not None and export.recovering:
        return f"{export.instance_id} runs long-export again, which {', '.join(scene.killed) or 'a dead node'} left"
    if scene.burst is not None and scene.burst.count < scene.burst.size:
        return f"burst: {scene.burst.size} thumbnails are due at the same instant, and each runs once"
    if scene.paused:
        return "all triggers are paused: running executions end, and no new ones begin (p resumes)"
    if export is not None and not scene.killed and len(scene.alive) > 1:
        left = max(timedelta(), KILL_AFTER - (scene.now - export.fire_time))
        return f"{export.instance_id} runs long-export and will be killed in {seconds(left)}"
    if scene.burst is not None:
        return f"the burst is over: {scene.burst.size} thumbnails in {scene.burst.seconds:.1f} s"
    return f"{len(scene.alive)} nodes share one schedule: there is no leader"
