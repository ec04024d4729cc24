"""Limits with their headroom: of jobs, worker pools, and execution groups of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quartzpy.keys import JobKey
from quartzpy.operations.cluster import NodeState, state_of
from quartzpy.operations.source import attempt
from quartzpy.placement import ANY_OTHER_GROUP, NO_GROUP, Placement
from quartzpy.scheduler.reading import Reading
from quartzpy.scheduler.singles import placements
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.records import NodeRecord, RunningRecord

MOST = 500
"""The largest number of limits of each kind that are shown."""


@dataclass(frozen=True, slots=True)
class JobLimit:
    """A job's concurrency limit that is in use, for one value of the job's concurrency key."""

    job: JobKey
    concurrency_key: str
    """Empty if the limit holds for the whole job."""
    limit: int
    running: int
    headroom: int
    """The number of executions that may start now."""
    blocked: int
    """The number of triggers that wait because the limit is reached."""


@dataclass(frozen=True, slots=True)
class RateLimitView:
    """A job's rate limit that is in use, for one value of the job's concurrency key."""

    job: JobKey
    concurrency_key: str
    limit: str
    """The limit in words: "10 per minute"."""
    headroom: int
    """The number of fires that conform now."""
    next_at: datetime
    """The instant from which the next fire conforms."""
    queued_until: datetime | None
    """The last turn that was given to a waiting trigger."""


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """A worker pool of a node that is alive."""

    node: str
    executor: str
    workers: int
    busy: int
    """The executions and claims that use it."""
    headroom: int


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """The limit of an execution group on a node that is alive."""

    node: str
    group: str
    """"*" stands for each group that is not named, "_" for jobs without a group."""
    limit: int
    running: int | None
    """None for "*", because each group has this limit by itself."""
    headroom: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that are in use, each kind at most 500 of them, and the capacity of the nodes."""

    jobs: tuple[JobLimit, ...]
    rates: tuple[RateLimitView, ...]
    pools: tuple[PoolUsage, ...]
    groups: tuple[GroupLimit, ...]


def limits(reading: Reading) -> Limits:
    nodes = reading.ask(lambda store: store.list_nodes())
    claims = reading.ask(lambda store: store.list_running())
    slots = reading.ask(lambda store: admin(store).slot_usage(MOST))
    rates = reading.ask(lambda store: admin(store).rate_usage(MOST))
    answer, running = nodes(), claims()
    placements = placements_of(reading, running)()
    alive = [node for node in answer.nodes if state_of(node, answer.now) is not NodeState.DEAD]
    return Limits(
        jobs=tuple(
            JobLimit(
                one.job_key,
                one.concurrency_key,
                one.limit,
                one.executing,
                max(0, one.limit - one.executing),
                one.blocked,
            )
            for one in slots()
        ),
        rates=tuple(
            RateLimitView(
                one.job_key,
                one.concurrency_key,
                str(one.limit),
                one.limit.available(one.theoretical_arrival, answer.now),
                max(answer.now, one.theoretical_arrival - one.limit.tolerance),
                one.queued_until,
            )
            for one in rates()
        ),
        pools=tuple(pools(alive, running, placements)),
        groups=tuple(_groups(alive, running, placements)),
    )


def placements_of(reading: Reading, running: Sequence[RunningRecord]) -> Callable[[], dict[JobKey, Placement]]:
    """Ask for the placements of the jobs of executions; the answer is none if one of them cannot be decoded."""
    jobs = {row.job_key for row in running}
    if not jobs:
        return dict
    answer = reading.ask(lambda store: placements(store, jobs))
    return lambda: attempt(answer)[0] or {}


def pools(
    nodes: Sequence[NodeRecord], running: Sequence[RunningRecord], placements: Mapping[JobKey, Placement]
) -> list[PoolUsage]:
    """Return the use of each worker pool. A claim counts, because it needs its worker in a moment."""
    busy = Counter((row.instance_id, placements.get(row.job_key, Placement()).pool) for row in running)
    return [
        PoolUsage(node.instance_id, executor, workers, used, max(0, workers - used))
        for node in nodes
        for executor, workers in sorted(node.capabilities.workers.items())
        for used in (busy[node.instance_id, executor],)
    ]


def _groups(
    nodes: Sequence[NodeRecord], running: Sequence[RunningRecord], placements: Mapping[JobKey, Placement]
) -> list[GroupLimit]:
    used = Counter((row.instance_id, placements.get(row.job_key, Placement()).group or NO_GROUP) for row in running)
    found = []
    for node in nodes:
        for group, limit in sorted(node.capabilities.groups.items()):
            count = None if group == ANY_OTHER_GROUP else used[node.instance_id, group]
            headroom = None if count is None else max(0, limit - count)
            found.append(GroupLimit(node.instance_id, group, limit, count, headroom))
    return found
