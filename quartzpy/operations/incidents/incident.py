"""Incidents: what is wrong now or soon will be, why, and the actions that mend it.

Each function judges one cause by values that were just read, and returns an incident for each occurrence, or one for
all of them if there may be many.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy.expect import Breach, BreachRecord
from quartzpy.jobs.job import how_to_know, run_by_no_node
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey, Naming, TriggerKey
from quartzpy.operations.views.cluster import Cluster, NodeView
from quartzpy.operations.views.executions import GRACE, RunningView
from quartzpy.operations.views.internal_triggers import kind_of
from quartzpy.operations.views.late_triggers import LateJobs
from quartzpy.operations.views.limits import PoolUsage
from quartzpy.operations.views.schedules import short
from quartzpy.placement import Placement
from quartzpy.scheduler.explain import obstacles
from quartzpy.states import NodeMode
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_states import NodeState
from quartzpy.store.postgresql.admin.records import BlockedTrigger, Health, OtherScheduler, OverdueJob
from quartzpy.store.records import Acknowledgement, IncidentRecord, NodeRecord, TriggerRecord
from quartzpy.texts import error_summary, headline, instant_text, numbered

MAX_OF_A_KIND = 20
"""The largest number of incidents of one kind that are listed one by one."""
MAX_REMEDIES = 5
MORE = "more"
"""What stays the same about the incident that stands for those of its kind that are not listed."""


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
    job: JobKey | None = None
    """The job, if the incident is about one."""
    cause: str = ""
    """What tells one cause of it from another, for example the error; empty if nothing does."""
    lasting: str = ""
    """What stays the same about it while it lasts, if that is not the subject."""
    incident_id: int | None = None
    """The number under which it is recorded; None if no node has recorded it yet."""
    opened_at: datetime | None = None
    """The instant at which it was recorded."""
    acknowledgement: Acknowledgement | None = None
    """Who has taken note of it, if it has not become worse since."""

    @property
    def identity(self) -> str:
        """A digest by which it is recognized while it lasts."""
        return hashlib.sha256(f"{self.kind}\n{self.lasting or self.subject}".encode()).hexdigest()


def recognized(incidents: Iterable[Incident], records: Iterable[IncidentRecord], now: datetime) -> list[Incident]:
    """Return the incidents with what is recorded about them."""
    by_identity = {record.identity: record for record in records}
    return [_recognized(incident, by_identity.get(incident.identity), now) for incident in incidents]


def _recognized(incident: Incident, record: IncidentRecord | None, now: datetime) -> Incident:
    if record is None:
        return incident
    note = record.acknowledgement
    holds = note is not None and note.holds(incident.severity, incident.cause, now)
    return replace(
        incident,
        incident_id=record.incident_id,
        opened_at=record.opened_at,
        acknowledgement=note if holds else None,
    )


def by_severity(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """Return incidents with the worst first."""
    return tuple(sorted(incidents, key=lambda incident: incident.severity.rank))


def capped(incidents: Sequence[Incident]) -> list[Incident]:
    """Return at most `MAX_OF_A_KIND` incidents of each kind, and one that says how many more there are."""
    by_kind: defaultdict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        by_kind[incident.kind].append(incident)
    listed = []
    for kind, of_kind in by_kind.items():
        shown, rest = of_kind[:MAX_OF_A_KIND], of_kind[MAX_OF_A_KIND:]
        listed += shown
        if rest:
            subjects = named_first([incident.subject for incident in rest])
            what = f"And {len(rest):,} more of the same kind ({kind.replace('-', ' ')}): {subjects}."
            listed.append(Incident(rest[0].severity, kind, f"{len(rest)} more", what, lasting=MORE))
    return listed


def schema_behind(message: str) -> Incident:
    return Incident(
        Severity.ERROR,
        "schema",
        "database",
        "The tables do not belong to this release, so nothing can be read.",
        (message,),
    )


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
    incidents = []
    for executor, of_nodes_ in sorted(by_executor.items()):
        waiting = sum(number for job, number in due.items() if of_due.get(job, Placement()).pool == executor)
        if not waiting or any(pool.headroom for pool in of_nodes_):
            continue
        rows = [row for row in running if placements.get(row.job, Placement()).pool == executor]
        longest = _longest(rows)[:MAX_REMEDIES]
        workers = sum(pool.workers for pool in of_nodes_)
        holder, held = _largest_holder(rows)
        holds_most = holder is not None and held > 1 and 2 * held >= workers
        incidents.append(
            Incident(
                Severity.ERROR,
                "full-pool",
                executor,
                f"{'The only worker' if workers == 1 else f'All {workers} workers'} of executor {executor!r}"
                f" {'is' if workers == 1 else 'are'} busy, and {numbered(waiting, 'trigger is', 'triggers are')} due.",
                (
                    *(
                        [Naming(f"{held} of {workers} workers run job {holder}.", holder)]
                        if holds_most and holder
                        else []
                    ),
                    *map(runs, longest),
                    *(
                        f"Node {pool.node} has {numbered(pool.workers, 'worker', 'workers')}."
                        for pool in of_nodes_[:MAX_REMEDIES]
                    ),
                ),
                min((row.fire_time for row in longest if row.fire_time), default=None),
                _frees(holder, rows) if holder is not None and holds_most else _cancels(longest),
                job=holder if holds_most else None,
            )
        )
    return incidents


def _largest_holder(rows: Sequence[RunningView]) -> tuple[JobKey | None, int]:
    """Return the job with most of these executions, and their number."""
    for job, number in Counter(row.job for row in rows).most_common(1):
        return job, number
    return None, 0


def _frees(job: JobKey, rows: Sequence[RunningView]) -> tuple[Remedy, ...]:
    """Return the remedies for a job that holds most workers: one execution less only lets its next one in."""
    running = sum(row.job == job and "cancel" in row.actions for row in rows)
    cancel = [Remedy("cancel", {"selection": job}, f"cancel all {running} executions of {job}")] if running else []
    return (Remedy("pause", {"selection": job}, f"pause job {job}"), *cancel)


def runs(row: RunningView) -> str:
    elapsed = "about to start" if row.elapsed is None else f"running for {short_span(row.elapsed)}"
    if row.is_unrecorded:
        elapsed = "it has ended, and its node cannot record that"
    cancelled = ", and asked to stop" if row.cancel_requested else ""
    return Naming(f"Execution {row.fire_id} of job {row.job} on node {row.node}: {elapsed}{cancelled}.", row.job)


def _longest(rows: Iterable[RunningView]) -> list[RunningView]:
    """Return executions, those that have run longest first."""
    return sorted(rows, key=lambda row: row.elapsed or timedelta(), reverse=True)


def _waiting(keys: Sequence[TriggerKey], number: int | None = None) -> str:
    """Return a sentence that names the first of `number` triggers, by default all of `keys`."""
    return f"Waiting: {named_first(keys, number)}."


def named_first(keys: Sequence[object], number: int | None = None) -> str:
    """Return the first of `number` names, by default all of `keys`: "a, b and 7 more"."""
    shown = keys[:MAX_REMEDIES]
    rest = max(len(keys), number or 0) - len(shown)
    names = ", ".join(map(_called, shown)) or "none of them is listed"
    return f"{names}{f' and {rest:,} more' if rest else ''}"


def _called(subject: object) -> str:
    return (kind_of(subject) if isinstance(subject, TriggerKey) else None) or str(subject)


def _cancels(rows: Iterable[RunningView]) -> tuple[Remedy, ...]:
    return tuple(
        Remedy("cancel", {"selection": row.fire_id}, f"cancel execution {row.fire_id} of {row.job}")
        for row in rows
        if "cancel" in row.actions
    )


USUAL_RUNS = 1.5
"""A run of a job that takes longer than so many times the usual one is not what its schedule was made for."""


def blocked_jobs(
    blocked: Sequence[BlockedTrigger],
    running: Sequence[RunningView],
    health: Mapping[JobKey, Health],
    now: datetime,
    *,
    is_cut: bool = False,
) -> list[Incident]:
    """Return the jobs whose triggers are due, and that may not run because they are at their limit for unusually long.

    A trigger that waits for a run of the usual length waits as its schedule was meant, and so do several that wait for
    each other. If the list of triggers `is_cut`, there may be more of them.
    """
    by_job: defaultdict[JobKey, list[BlockedTrigger]] = defaultdict(list)
    for record in blocked:
        by_job[record.job_key].append(record)
    incidents = []
    for job, records in by_job.items():
        longest = _longest([row for row in running if row.job == job])[:MAX_REMEDIES]
        since = min(record.due_at for record in records)
        usual = _usual(health.get(job))
        if usual is not None and not (
            any((row.elapsed or timedelta()) > usual for row in longest) or now - since > len(records) * usual
        ):
            continue
        number = (
            f"{len(records)} or more triggers wait"
            if is_cut
            else numbered(len(records), "trigger waits", "triggers wait")
        )
        incidents.append(
            Incident(
                Severity.WARNING,
                "blocked-job",
                str(job),
                f"Job {job} is at its concurrency limit, and {number} for it.",
                (*map(runs, longest), _waiting([record.trigger_key for record in records])),
                since,
                _cancels(longest),
                records[0].trigger_key,
                job,
            )
        )
    return incidents


def _usual(health: Health | None) -> timedelta | None:
    """Return how long a run of a job may usually take; None if that is not known."""
    return None if health is None or health.typical is None else max(GRACE, USUAL_RUNS * health.typical)


BACKLOG_AGE = timedelta(minutes=1)
BACKLOG_PERIODS = 2
"""A rate limit makes fires wait, as it should. What waits for more than so many periods grows, or drains slowly."""


def backlogs(overdue: Sequence[OverdueJob], rates: Mapping[JobKey, RateLimit], now: datetime) -> list[Incident]:
    """Return the jobs whose rate limits have held back triggers for long."""
    incidents = []
    for row in overdue:
        limit = rates.get(row.job_key)
        if not row.is_held or limit is None:
            continue
        waited = now - row.due_at
        if waited <= max(BACKLOG_AGE, BACKLOG_PERIODS * limit.per):
            continue
        drained = row.number * limit.per / limit.limit
        incidents.append(
            Incident(
                Severity.WARNING,
                "rate-limit-backlog",
                str(row.job_key),
                f"{numbered(row.number, 'trigger', 'triggers')} of job {row.job_key}"
                f" {'waits' if row.number == 1 else 'wait'} for its rate limit ({limit}),"
                f" the first since {instant_text(row.due_at)}.",
                (
                    f"By this limit they take {short_span(drained)}, and those that become due meanwhile come after"
                    " them: if more become due than it allows, they wait ever longer.",
                ),
                row.due_at,
                (Remedy("pause", {"selection": row.job_key}, f"pause job {row.job_key}"),),
                job=row.job_key,
            )
        )
    return incidents


# --- expectations


def broken_expectation(breach: BreachRecord) -> Incident:
    """Return the incident about an expectation that a fire has broken, and that no later fire has kept."""
    is_join = breach.kind is Breach.JOINS_LATE
    return Incident(
        Severity.WARNING if breach.kind is Breach.RUNS_LONG else Severity.ERROR,
        str(breach.kind),
        str(breach.job_key if is_join else breach.trigger_key),
        breach.what,
        breach.reasons,
        breach.since,
        trigger=None if is_join else breach.trigger_key,
        job=breach.job_key,
        cause=breach.scheduled_fire_time.isoformat(),
    )


# --- triggers and jobs


def in_error(records: Sequence[TriggerRecord], number: int | None = None) -> list[Incident]:
    """Return the jobs with triggers in ERROR, one for each error. `number` is that of all such triggers."""
    by_cause: defaultdict[tuple[JobKey, str | None], list[TriggerRecord]] = defaultdict(list)
    for record in records:
        by_cause[record.job_key, headline(record.error)].append(record)
    incidents = []
    for (job, error), of_cause in by_cause.items():
        why = error_summary(of_cause[0].error) or "No reason was recorded."
        keys = [record.key for record in of_cause]
        is_one = len(keys) == 1
        incidents.append(
            Incident(
                Severity.ERROR,
                "trigger-error",
                str(keys[0] if is_one else job),
                f"Trigger {keys[0]} is in ERROR and does not fire."
                if is_one
                else f"{len(keys):,} triggers of job {job} are in ERROR and do not fire.",
                (why, *([] if is_one else [f"Triggers: {named_first(keys)}."])),
                min((at for record in of_cause if (at := record.previous_fire_time)), default=None),
                (Remedy("reset", {"selection": keys[0]}, "reset trigger"),)
                if is_one
                else (Remedy("reset", {"selection": keys}, f"reset these {len(keys)}"),),
                keys[0] if is_one else None,
                job,
                lasting=f"{job}\n{error or ''}",
            )
        )
    if number is not None and number > len(records):
        rest = number - len(records)
        incidents.append(
            Incident(
                Severity.ERROR,
                "trigger-error",
                f"{rest} more",
                f"And {rest:,} more triggers are in ERROR.",
                lasting=MORE,
            )
        )
    return incidents


def jobs_of_unknown_types(late: LateJobs, cluster: Cluster) -> set[JobKey]:
    """Return the jobs with late triggers of which no running node knows the type."""
    alive = [node for node in cluster.nodes if node.state.is_alive]
    registered = {name for node in alive for name in node.job_types}
    return {job for job in late.numbers if alive and late.types[job] not in registered}


def unknown_types(late: LateJobs, cluster: Cluster) -> list[Incident]:
    """Return the job types of which triggers are late, and that no running node knows."""
    of_type: defaultdict[str, set[JobKey]] = defaultdict(set)
    for job in jobs_of_unknown_types(late, cluster):
        of_type[late.types[job]].add(job)
    return [
        Incident(
            Severity.ERROR,
            "unknown-type",
            job_type,
            f"{run_by_no_node(job_type)}, and {_triggers_of(late.number(jobs), jobs, 'is', 'are')} due.",
            (
                f"{how_to_know(job_type)}.",
                _waiting(late.keys(jobs), late.number(jobs)),
            ),
            late.without(late.numbers.keys() - jobs).since,
            trigger=next(iter(late.keys(jobs)), None),
        )
        for job_type, jobs in sorted(of_type.items())
    ]


def _triggers_of(number: int, jobs: Collection[JobKey], is_one: str, are: str) -> str:
    """Return "1 trigger of job a is", "7 triggers of 2 jobs are"."""
    whose = f"job {next(iter(jobs))}" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    return numbered(number, f"trigger of {whose} {is_one}", f"triggers of {whose} {are}")


def unexplained(
    late: LateJobs, why_first: Sequence[str], holders: Sequence[str], now: datetime, cluster: Cluster
) -> list[Incident]:
    """Return an incident about late triggers that no other incident explains.

    Where all nodes check in, its cause is what they report about themselves, or who holds the rows.
    """
    if not late:
        return []
    alive = [node for node in cluster.nodes if node.state.is_alive]
    reported = [f"Node {node.node}: {problem.what}." for node in alive for problem in node.problems][:MAX_REMEDIES]
    kinds = sorted({problem.kind for node in alive for problem in node.problems})
    since = late.since or now
    first = (
        []
        if late.first is None
        else [f"Trigger {late.first}: {sentence}" for sentence in why_first if sentence not in holders]
    )
    return [
        Incident(
            Severity.WARNING,
            "late-triggers",
            str(next(iter(late.numbers))) if len(late.numbers) == 1 else f"{late.total} triggers",
            f"{_triggers_of(late.number(), late.numbers, 'is', 'are')} late by up to {short_span(now - since)}, and no"
            f" node has fired {'it' if late.number() == 1 else 'them'}.",
            (*reported, *holders, *first, *([_waiting(late.keys(), late.number())] if late.keys() else [])),
            since,
            cause=", ".join([*kinds, *(["held-rows"] if holders else [])]),
            trigger=late.first,
            lasting="late triggers",
        )
    ]


def old_snapshot(holders: Sequence[str]) -> list[Incident]:
    """Return an incident about what holds the old snapshots that keep dead rows of our tables."""
    if not holders:
        return []
    return [
        Incident(
            Severity.WARNING,
            "old-snapshot",
            "database",
            "An old snapshot keeps dead rows in the tables, which grow, and what reads many rows becomes slower.",
            (
                *(f"It is held by {holder}." for holder in holders[:MAX_REMEDIES]),
                "End what holds it (pg_terminate_backend(pid), ROLLBACK PREPARED, pg_drop_replication_slot, or"
                " hot_standby_feedback of the standby); VACUUM removes nothing before.",
            ),
        )
    ]


# --- jobs that no node can run, and executions that do not stop


def jobs_without_node(
    late: LateJobs, placements: Mapping[JobKey, Placement], alive: Sequence[NodeRecord]
) -> dict[JobKey, tuple[Placement, list[NodeRecord]]]:
    """Return the jobs with late triggers that no living node can run, each with its placement and the nodes that know
    its type."""
    jobs = {}
    for job in late.numbers:
        knowing = [node for node in alive if late.types[job] in node.capabilities.job_types]
        placement = placements.get(job)
        if placement is not None and knowing and not any(node.capabilities.allows(placement) for node in knowing):
            jobs[job] = placement, knowing
    return jobs


def without_node(late: LateJobs, jobs: Mapping[JobKey, tuple[Placement, Sequence[NodeRecord]]]) -> list[Incident]:
    """Return an incident about each of the `jobs` that `jobs_without_node` has found."""
    incidents = []
    for job in sorted(jobs):
        placement, knowing = jobs[job]
        number = late.numbers[job]
        incidents.append(
            Incident(
                Severity.ERROR,
                "no-node-for-job",
                str(job),
                f"No node can run job {job}, and {numbered(number, 'trigger of it is', 'triggers of it are')} due.",
                (
                    *(f"Node {obstacle}." for obstacle in obstacles(placement, knowing)[:MAX_REMEDIES]),
                    _waiting(late.keys([job]), number),
                ),
                trigger=next(iter(late.keys([job])), None),
            )
        )
    return incidents


def ignored_timeouts(running: Sequence[RunningView], timeouts: Mapping[JobKey, timedelta]) -> list[Incident]:
    """Return the jobs of which executions still run long after their timeout."""
    by_job: defaultdict[JobKey, list[RunningView]] = defaultdict(list)
    for row in running:
        if row.job in timeouts and not row.is_unrecorded and (row.elapsed or timedelta()) > timeouts[row.job] + GRACE:
            by_job[row.job].append(row)
    incidents = []
    for job, rows in sorted(by_job.items()):
        timeout = timeouts[job]
        rows = _longest(rows)
        longest = rows[0].elapsed or timedelta()
        ignore, worker = "ignores its", "occupies a worker"
        if len(rows) > 1:
            ignore, worker = "ignore their", f"occupy {len(rows)} workers"
        incidents.append(
            Incident(
                Severity.WARNING,
                "ignored-timeout",
                str(job),
                f"{numbered(len(rows), 'execution', 'executions')} of job {job} {ignore} timeout of"
                f" {short_span(timeout)} and {worker}.",
                (
                    *map(runs, rows[:MAX_REMEDIES]),
                    "A thread cannot be stopped from outside: restart the node to free the worker. A job that calls"
                    " context.raise_if_cancelled() stops by itself, and one in a worker process is killed.",
                ),
                None if rows[0].fire_time is None else rows[0].fire_time + min(timeout, longest),
                trigger=rows[0].trigger,
            )
        )
    return incidents


# --- nodes


def of_nodes(cluster: Cluster, others: Sequence[OtherScheduler] = (), scheduler: str = "") -> list[Incident]:
    """Return incidents about nodes that do not check in, differ from each other, or have a wrong clock.

    `others` are the other schedulers in the same tables.
    """
    incidents = [] if cluster.alive else [_no_node(cluster, others, scheduler)]
    incidents += _none_takes(cluster)
    incidents += [_silent(node) for node in cluster.nodes if node.state is not NodeState.ALIVE]
    incidents += [_unhealthy(node) for node in cluster.nodes if node.state.is_alive and node.problems]
    for difference in cluster.differences:
        values = "; ".join(f"{value} on {', '.join(names)}" for value, names in sorted(difference.values.items()))
        incidents.append(
            Incident(
                Severity.WARNING,
                "nodes-differ",
                difference.subject,
                f"The nodes differ in {difference.subject}.",
                (f"{values}.",),
                cause=values,
            )
        )
    incidents += [
        Incident(
            Severity.WARNING,
            "clock-skew",
            node.node,
            f"The clock of node {node.node} is {node.clock_ahead.total_seconds():+.1f} s off.",
            ("Fire times follow the store's clock and are not affected, but recorded starts and ends are.",),
        )
        for node in cluster.nodes
        if node.clock_ahead is not None and abs(node.clock_ahead.total_seconds()) > node_metadata.REPORTED_CLOCK_SKEW
    ]
    return incidents


def _no_node(cluster: Cluster, others: Sequence[OtherScheduler], scheduler: str) -> Incident:
    what = "No node is alive, so nothing fires." if cluster.nodes else "No node is running, so nothing fires."
    why = ["Start one with `quartzpy node --app MODULE:SCHEDULER`."]
    # Nodes of a scheduler without jobs may have been meant for this one.
    running = [other for other in others if other.nodes]
    astray = [other for other in running if not other.has_jobs] or running
    why = [*map(_astray(scheduler), astray[:MAX_REMEDIES]), *why]
    return Incident(Severity.ERROR, "no-node", "cluster", what, tuple(why))


def _astray(scheduler: str) -> Callable[[OtherScheduler], str]:
    return lambda other: (
        f"No node of the scheduler {scheduler!r} is running, but"
        f" {numbered(len(other.nodes), 'node', 'nodes')} of {other.name!r}"
        f" {'is' if len(other.nodes) == 1 else 'are'} ({named_first(other.nodes)}). Is the name wrong?"
    )


def names_mixed_up(cluster: Cluster, jobs: int, others: Sequence[OtherScheduler], scheduler: str) -> list[Incident]:
    """Return an incident about nodes that run without a job beside a scheduler whose jobs have no node."""
    lonely = [other.name for other in others if other.has_jobs and not other.nodes]
    if jobs or not cluster.alive or not lonely:
        return []
    return [
        Incident(
            Severity.WARNING,
            "names-mixed-up",
            scheduler,
            f"{numbered(cluster.alive, 'node', 'nodes')} of the scheduler {scheduler!r}"
            f" {'has' if cluster.alive == 1 else 'have'} no jobs, and the jobs of"
            f" {' and '.join(map(repr, lonely[:MAX_REMEDIES]))} have no node. Is the name of the nodes wrong?",
            ("A node takes the jobs of its scheduler: `quartzpy node --name NAME`.",),
        )
    ]


def _none_takes(cluster: Cluster) -> list[Incident]:
    alive = [node for node in cluster.nodes if node.state.is_alive]
    if not alive or any(node.mode is NodeMode.RUNNING for node in alive):
        return []
    return [
        Incident(
            Severity.ERROR,
            "none-takes",
            "cluster",
            "No node takes triggers: operators have put all of them into standby, or drain them.",
            tuple(f"Node {node.node} is {node.mode}." for node in alive[:MAX_REMEDIES]),
            max((node.mode_since for node in alive if node.mode_since), default=None),
            tuple(
                Remedy("resume_node", {"node": node.node}, f"resume node {node.node}") for node in alive[:MAX_REMEDIES]
            ),
        )
    ]


def _unhealthy(node: NodeView) -> Incident:
    problems = node.problems
    return Incident(
        Severity.ERROR,
        "unhealthy-node",
        node.node,
        f"Node {node.node} checks in, and does not do all of its work: it reports"
        f" {numbered(len(problems), 'problem', 'problems')}.",
        (
            *(f"{problem.what[:1].upper()}{problem.what[1:]}." for problem in problems),
            f"It runs on host {node.host} as process {node.pid}; its log and its `health()` say more.",
        ),
        min((problem.since for problem in problems if problem.since), default=None),
        cause=", ".join(sorted({problem.kind for problem in problems})),
    )


def _silent(node: NodeView) -> Incident:
    dead = not node.state.is_alive
    return Incident(
        Severity.ERROR if dead else Severity.WARNING,
        "dead-node" if dead else "late-node",
        node.node,
        f"Node {node.node} is {node.state}: it last checked in at {instant_text(node.last_checkin)}.",
        (
            f"It ran on host {node.host} as process {node.pid}, with"
            f" {numbered(node.executing + node.claimed, 'execution', 'executions')}.",
            "Another node that has watched it for its whole failure window"
            f" ({short_span(node.failure_window)}) recovers them. To recover them at once, start it again under the"
            " same name.",
            f"It should check in every {short_span(node.checkin_interval)}.",
        ),
        node.last_checkin,
    )
