"""Incidents: what is wrong now or soon will be, why, and the actions that mend it.

Each function judges one cause by values that were just read, and returns an incident for each occurrence, or one for
all of them if there may be many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.cluster import Cluster, NodeState
from quartzpy.operations.counts import Count
from quartzpy.operations.executions import RunningView
from quartzpy.operations.limits import PoolUsage
from quartzpy.operations.schedules import short
from quartzpy.operations.selection import Selection
from quartzpy.placement import Placement
from quartzpy.store.findings import Severity
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import headline, numbered

MOST_OF_A_KIND = 20
"""The largest number of incidents of one kind that are listed one by one."""
MOST_REMEDIES = 5
FAILURES_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action that mends an incident: a method of `Operations.actions` and its arguments."""

    action: str
    arguments: Mapping[str, Any]
    label: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is wrong, or soon will be."""

    severity: Severity
    kind: str
    """The kind of incident, for programs; it never changes: "dead-node", "trigger-error", ..."""
    subject: str
    """The affected object: a key, a node, a pool or a job type."""
    what: str
    why: tuple[str, ...] = ()
    since: datetime | None = None
    remedies: tuple[Remedy, ...] = ()
    trigger: TriggerKey | None = None
    """The trigger, if the incident is about one."""


def by_severity(found: Iterable[Incident]) -> tuple[Incident, ...]:
    """Return incidents with the worst first."""
    return tuple(sorted(found, key=lambda one: list(Severity).index(one.severity)))


def schema_behind(message: str) -> Incident:
    return Incident(
        Severity.ERROR,
        "schema",
        "database",
        "The tables do not belong to this release, so nothing can be read.",
        (message,),
    )


def _instant(at: datetime | None) -> str:
    """Return an instant as all sentences hold it, which the command line and the page show in the reader's zone."""
    return "an unknown instant" if at is None else at.astimezone(UTC).isoformat(timespec="seconds")


def short_span(span: timedelta) -> str:
    return short(timedelta(seconds=round(span.total_seconds(), 1 if span < timedelta(seconds=10) else 0)))


# --- pools, limits and pauses


def full_pools(
    pools: Sequence[PoolUsage],
    running: Sequence[RunningView],
    placements: Mapping[JobKey, Placement],
    due: Mapping[JobKey, int],
    of_due: Mapping[JobKey, Placement],
) -> list[Incident]:
    """Return the executors of which every worker of the cluster is busy while triggers of their jobs are due."""
    by_executor: defaultdict[str, list[PoolUsage]] = defaultdict(list)
    for pool in pools:
        by_executor[pool.executor].append(pool)
    found = []
    for executor, of_nodes_ in sorted(by_executor.items()):
        waiting = sum(number for job, number in due.items() if of_due.get(job, Placement()).pool == executor)
        if not waiting or any(pool.headroom for pool in of_nodes_):
            continue
        holders = [row for row in running if placements.get(row.job, Placement()).pool == executor]
        longest = sorted(holders, key=lambda row: row.elapsed or timedelta(), reverse=True)[:MOST_REMEDIES]
        workers = sum(pool.workers for pool in of_nodes_)
        found.append(
            Incident(
                Severity.ERROR,
                "full-pool",
                executor,
                f"{'The only worker' if workers == 1 else f'All {workers} workers'} of executor {executor!r}"
                f" {'is' if workers == 1 else 'are'} busy, and {numbered(waiting, 'trigger is', 'triggers are')} due.",
                (
                    *map(runs, longest),
                    *(
                        f"Node {pool.node} has {numbered(pool.workers, 'worker', 'workers')}."
                        for pool in of_nodes_[:MOST_REMEDIES]
                    ),
                ),
                min((row.fire_time for row in longest if row.fire_time), default=None),
                _cancels(longest),
            )
        )
    return found


def runs(row: RunningView) -> str:
    elapsed = "only claimed" if row.elapsed is None else f"running for {short_span(row.elapsed)}"
    asked = ", and asked to stop" if row.cancel_requested else ""
    return f"Execution {row.fire_id} of job {row.job} on node {row.node}: {elapsed}{asked}."


def _cancels(rows: Iterable[RunningView]) -> tuple[Remedy, ...]:
    return tuple(
        Remedy("cancel", {"selection": row.fire_id}, f"cancel execution {row.fire_id} of {row.job}")
        for row in rows
        if "cancel" in row.actions
    )


def blocked_jobs(blocked: Sequence[TriggerRecord], running: Sequence[RunningView], now: datetime) -> list[Incident]:
    """Return the jobs whose triggers are due, and that may not run because they are at their limit."""
    by_job: defaultdict[JobKey, list[TriggerRecord]] = defaultdict(list)
    for record in blocked:
        by_job[record.job_key].append(record)
    found = []
    for job, records in list(by_job.items())[:MOST_OF_A_KIND]:
        holders = [row for row in running if row.job == job]
        longest = sorted(holders, key=lambda row: row.elapsed or timedelta(), reverse=True)[:MOST_REMEDIES]
        since = min(at for record in records if (at := record.next_fire_time) is not None)
        names = ", ".join(str(record.key) for record in records[:MOST_REMEDIES])
        found.append(
            Incident(
                Severity.WARNING,
                "blocked-job",
                str(job),
                f"Job {job} is at its concurrency limit, and"
                f" {numbered(len(records), 'trigger waits', 'triggers wait')} for it.",
                (*map(runs, longest), f"Waiting: {names}{', ...' * (len(records) > MOST_REMEDIES)}."),
                since,
                _cancels(longest),
                records[0].key,
            )
        )
    return found


def paused_overdue(
    records: Sequence[TriggerRecord], number: Count, now: datetime, *, all_paused: bool
) -> list[Incident]:
    """Return an incident if triggers that are paused have missed fires."""
    if not records:
        return []
    first = min(records, key=lambda record: record.next_fire_time or now)
    keys = [record.key for record in records]
    selection: Any = Selection.everything() if all_paused else keys
    them = "everything" if all_paused else "it" if len(keys) == 1 else f"these {len(keys)}"
    what = (
        "Everything is paused"
        if all_paused
        else f"{number} {'trigger is' if number.number == 1 else 'triggers are'} paused"
    )
    return [
        Incident(
            Severity.WARNING,
            "paused-overdue",
            str(first.key) if len(records) == 1 else f"{number} triggers",
            f"{what}, and fires have been missed since {_instant(first.next_fire_time)}.",
            tuple(map(_paused, records[:MOST_REMEDIES])),
            first.next_fire_time,
            (
                Remedy("resume", {"selection": selection, "missed": "misfire"}, f"resume {them}"),
                Remedy(
                    "resume", {"selection": selection, "missed": "skip"}, f"resume {them}, and skip the missed fires"
                ),
            ),
            first.key,
        )
    ]


def _paused(record: TriggerRecord) -> str:
    by = f" by {record.paused_by}" if record.paused_by else ""
    paused = f"has been paused since {_instant(record.paused_at)}" if record.paused_at else "is paused"
    reason = f": {record.pause_reason}" if record.pause_reason else ""
    return f"Trigger {record.key} {paused}{by}{reason}."


# --- triggers and jobs


def in_error(records: Sequence[TriggerRecord]) -> list[Incident]:
    return [
        Incident(
            Severity.ERROR,
            "trigger-error",
            str(record.key),
            f"Trigger {record.key} is in ERROR and does not fire.",
            (headline(record.error) or "No reason was recorded.",),
            record.previous_fire_time,
            (Remedy("reset", {"selection": record.key}, "reset trigger"),),
            record.key,
        )
        for record in records
    ]


def unknown_types(due: Mapping[str, Sequence[TriggerKey]], cluster: Cluster) -> list[Incident]:
    """Return the job types of which triggers are due, and that no running node knows."""
    alive = [node for node in cluster.nodes if node.state is not NodeState.DEAD]
    if not alive:
        return []
    known = {name for node in alive for name in node.job_types}
    return [
        Incident(
            Severity.ERROR,
            "unknown-type",
            job_type,
            f"No running node knows the job type {job_type!r}, and triggers of it are due.",
            (
                "Import its module on a node, or start a node that does.",
                f"Waiting: {', '.join(map(str, keys[:MOST_REMEDIES]))}{', ...' * (len(keys) > MOST_REMEDIES)}.",
            ),
            trigger=keys[0],
        )
        for job_type, keys in sorted(due.items())
        if job_type not in known
    ]


@dataclass(frozen=True, slots=True)
class FailureRow:
    """A trigger whose last executions have failed."""

    trigger: TriggerKey
    job: JobKey
    number: int
    is_exact: bool
    """False if more executions before these may have failed."""
    last_fire_id: int | None
    last_error: str | None
    since: datetime
    can_run_again: bool
    """True if its job is still stored."""
    can_pause: bool
    """True if the trigger is still stored, and fires by itself."""


def failing(rows: Sequence[FailureRow]) -> list[Incident]:
    return [
        Incident(
            Severity.WARNING,
            "failures-in-a-row",
            str(row.trigger),
            f"The last {row.number}{'' if row.is_exact else ' or more'} executions by trigger {row.trigger} failed.",
            (row.last_error or "No error was recorded.",),
            row.since,
            tuple(_of_failing(row)),
            row.trigger,
        )
        for row in rows
    ]


def _of_failing(row: FailureRow) -> Iterator[Remedy]:
    if row.can_run_again:
        yield Remedy("run_again", {"selection": row.last_fire_id}, "run the last one again")
    if row.can_pause:
        yield Remedy("pause", {"selection": row.trigger}, "pause trigger")


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of the clocks of time zones, and the fires around it."""

    at: datetime
    zones: Sequence[str]
    """The zones with triggers that fire around it."""
    shift: timedelta
    """How far the clock is moved forward; negative if it is moved back."""
    triggers: Sequence[TriggerKey]
    has_more: bool


def clock_changes(changes: Sequence[ClockChange]) -> list[Incident]:
    found = []
    for change in changes:
        moved = "forward" if change.shift > timedelta() else "back"
        effect = "times that are skipped" if change.shift > timedelta() else "times that occur twice"
        names = ", ".join(map(str, change.triggers[:MOST_REMEDIES]))
        found.append(
            Incident(
                Severity.WARNING,
                "clock-change",
                ", ".join(change.zones[:MOST_REMEDIES]),
                f"The clocks of {', '.join(change.zones[:MOST_REMEDIES])} move {moved} by {short(abs(change.shift))} at"
                f" {_instant(change.at)}.",
                (
                    f"Within an hour of it fire: {names}"
                    f"{', ...' * (len(change.triggers) > MOST_REMEDIES or change.has_more)}.",
                    f"Each trigger's rule for daylight saving decides about {effect}; its page shows the fire times.",
                ),
                change.at,
                tuple(
                    Remedy("skip_next", {"selection": key}, f"skip the next fire of {key}")
                    for key in change.triggers[:MOST_REMEDIES]
                ),
                change.triggers[0],
            )
        )
    return found
