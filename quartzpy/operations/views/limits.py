"""Groups of triggers and jobs with their pauses, and limits with their headroom: of jobs, pools and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quartzpy.keys import JobKey
from quartzpy.operations.read_context import Count, attempt, counted
from quartzpy.placement import ANY_OTHER_GROUP, NO_GROUP, Placement
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.singles import placements_of_jobs
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import GroupTally
from quartzpy.store.records import MAX_WAITING, NodeRecord, RunningRecord

MAX_GROUPS = 100
"""The largest number of groups of each kind that are shown."""
MAX_IN_GROUP = 200
"""The number of rows up to which a group is counted."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group of triggers or jobs."""

    name: str
    count: Count
    """The number of its triggers or jobs."""
    is_paused: bool
    """True if the group itself is paused, so that triggers which are stored later start paused."""
    paused: Count
    """The number of its triggers that are paused, or of its jobs that have such triggers."""
    in_error: Count
    """The same of triggers in ERROR."""
    paused_until: datetime | None = None
    """The end of the pause of the group, if it has one."""
    of: str = "triggers"
    """What it is a group of: "triggers" or "jobs"."""


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups, sorted by name, and the pauses of the whole scheduler."""

    triggers: tuple[GroupView, ...]
    """The groups of triggers, at most the first 100, and the paused groups that have no triggers."""
    jobs: tuple[GroupView, ...]
    has_more: bool
    """True if there are more groups than these."""
    all_paused: bool
    """True while `pause_all` is in force."""
    manual: bool
    """True while the manual mode is on: only triggers that do not come from a schedule fire."""
    all_paused_until: datetime | None = None
    """The end of that pause of everything, if it has one."""


def groups(reading: BatchedReads) -> Groups:
    in_force = reading.defer(lambda store: store.pauses())
    of_triggers = reading.defer(
        lambda store: admin(store).trigger_group_tallies(MAX_GROUPS + 1, None, most=MAX_IN_GROUP)
    )
    of_jobs = reading.defer(lambda store: admin(store).job_group_tallies(MAX_GROUPS + 1, None, most=MAX_IN_GROUP))
    pauses, triggers, jobs = in_force(), of_triggers(), of_jobs()

    ends = {(group.scope, group.name): group.until for group in pauses.groups}

    def views(tallies: list[GroupTally], paused: frozenset[str], scope: str) -> tuple[GroupView, ...]:
        shown = tallies[:MAX_GROUPS]
        empty = paused - {tally.name for tally in tallies}
        if len(tallies) > MAX_GROUPS:
            # Whether the others have triggers is not known.
            empty = frozenset()
        listed = [*shown, *(GroupTally(name, 0, 0, 0) for name in empty)]
        return tuple(
            GroupView(
                tally.name,
                counted(tally.count, MAX_IN_GROUP),
                tally.name in paused,
                counted(tally.paused, MAX_IN_GROUP),
                counted(tally.in_error, MAX_IN_GROUP),
                ends.get((scope, tally.name)),
                f"{scope.lower()}s",
            )
            for tally in sorted(listed, key=lambda tally: tally.name)
        )

    return Groups(
        triggers=views(triggers, pauses.trigger_groups, "TRIGGER"),
        jobs=views(jobs, pauses.job_groups, "JOB"),
        has_more=max(len(triggers), len(jobs)) > MAX_GROUPS,
        all_paused=pauses.everything,
        all_paused_until=ends.get(("ALL", "*")),
        manual=pauses.is_manual,
    )


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
    waiting: int
    """The number of triggers that wait for it; of more than 1,000 these are counted."""
    queued_until: datetime | None
    """The turn of the last trigger that waits, if nothing fires before it that becomes due later; None if none waits,
    or if not all that wait are counted."""


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit that jobs share."""

    name: str
    limit: str
    """The limit in words: "5", "10 per minute", or both."""
    max_concurrent: int | None
    """The number of concurrent executions; None: any."""
    running: int
    """The executions that use it."""
    headroom: int | None
    """The number of executions that may start now, as far as `max_concurrent` is concerned; None: any."""
    next_at: datetime | None
    """The instant from which on its rate admits the next fire; None: now, or it has none."""
    waiting: int
    """The number of due triggers that wait for it, or for another limit of theirs; at most 1,000 are counted."""
    used_by: tuple[tuple[JobKey, int], ...]
    """The jobs whose executions use it, with their number."""


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """A worker pool of a node that is alive."""

    node: str
    executor: str
    workers: int
    busy: int
    """The executions that use it."""
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
class LimitRow:
    """A limit of any kind, as a row of a list."""

    kind: str
    """What it limits: "shared", "job", "rate", "pool" or "group"."""
    subject: JobKey | str
    part: str | None
    """The value of the concurrency key, or the node."""
    limit: str
    capacity: int | None
    """The number of concurrent executions; None for a rate alone."""
    running: int | None
    headroom: int | None
    waiting: int | None = None
    next_at: datetime | None = None
    """The instant from which its rate admits the next fire; None: now."""
    queued_until: datetime | None = None
    used_by: tuple[tuple[JobKey, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that are in use, each kind at most 500 of them, and the capacity of the nodes."""

    jobs: tuple[JobLimit, ...]
    rates: tuple[RateLimitView, ...]
    shared: tuple[SharedLimit, ...]
    """All limits that jobs share, in use or not."""
    pools: tuple[PoolUsage, ...]
    groups: tuple[GroupLimit, ...]

    def rows(self) -> list[LimitRow]:
        """Return all of them as rows of one list."""
        shared = (
            LimitRow(
                *("shared", row.name, None, row.limit, row.max_concurrent, row.running, row.headroom),
                *(row.waiting, row.next_at, None, row.used_by),
            )
            for row in self.shared
        )
        jobs = (
            LimitRow(
                *("job", row.job, row.concurrency_key or None, str(row.limit), row.limit, row.running, row.headroom),
                row.blocked,
            )
            for row in self.jobs
        )
        rates = (
            LimitRow(
                *("rate", row.job, row.concurrency_key or None, row.limit, None, None, row.headroom),
                *(row.waiting, None if row.headroom else row.next_at, row.queued_until),
            )
            for row in self.rates
        )
        pools = (
            LimitRow("pool", row.executor, row.node, str(row.workers), row.workers, row.busy, row.headroom)
            for row in self.pools
        )
        groups = (
            LimitRow("group", row.group, row.node, str(row.limit), row.limit, row.running, row.headroom)
            for row in self.groups
        )
        return [*shared, *jobs, *rates, *pools, *groups]


def limits(reading: BatchedReads) -> Limits:
    nodes = reading.defer(lambda store: store.list_nodes())
    list_running = reading.defer(lambda store: store.list_running())
    slots = reading.defer(lambda store: admin(store).slot_usage(MOST))
    rates = reading.defer(lambda store: admin(store).rate_usage(MOST))
    shared = reading.defer(lambda store: store.limits())
    answer, running = nodes(), list_running()
    placements = attempt(placements_of_jobs(reading, {row.job_key for row in running}))[0] or {}
    alive = answer.alive()
    return Limits(
        jobs=tuple(
            JobLimit(
                slot.job_key,
                slot.concurrency_key,
                slot.limit,
                slot.executing,
                max(0, slot.limit - slot.executing),
                slot.blocked,
            )
            for slot in slots()
        ),
        rates=tuple(
            RateLimitView(
                rate.job_key,
                rate.concurrency_key,
                str(rate.limit),
                rate.limit.available(rate.theoretical_arrival, answer.now),
                opens_at,
                rate.waiting,
                opens_at + (rate.waiting - 1) * rate.limit.emission_interval
                if 0 < rate.waiting < MAX_WAITING
                else None,
            )
            for rate in rates()
            for opens_at in [max(answer.now, rate.theoretical_arrival - rate.limit.tolerance)]
        ),
        shared=tuple(
            SharedLimit(
                record.name,
                str(record.limit),
                record.limit.max_concurrent,
                record.used,
                record.free,
                record.admits_at,
                record.waiting,
                tuple(record.used_by.items()),
            )
            for record in shared().values()
        ),
        pools=tuple(pools(alive, running, placements)),
        groups=tuple(_groups(alive, running, placements)),
    )


def pools(
    nodes: Sequence[NodeRecord], running: Sequence[RunningRecord], placements: Mapping[JobKey, Placement]
) -> list[PoolUsage]:
    """Return the use of each worker pool."""
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
    limits = []
    for node in nodes:
        for group, limit in sorted(node.capabilities.groups.items()):
            count = None if group == ANY_OTHER_GROUP else used[node.instance_id, group]
            headroom = None if count is None else max(0, limit - count)
            limits.append(GroupLimit(node.instance_id, group, limit, count, headroom))
    return limits
