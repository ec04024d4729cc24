"""Explains why a trigger has not fired, or when it will fire.

`explain` is a pure function of what the store contains; `Explanation` asks the store for that.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quartzpy.errors import QuartzpyError, TriggerNotFoundError
from quartzpy.jobs.job import CELERY_TASK, INCLUDED, JobDetail, if_moved, run_by_no_node
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey, Naming, TriggerKey
from quartzpy.placement import Placement
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.singles import mode_of_job, placements_of_jobs
from quartzpy.states import HeldBy, JobMode, MisfireAction, Missed, NodeMode, TriggerState
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE
from quartzpy.store.node_states import NodeState, takes_work, works
from quartzpy.store.protocol import MovedFire
from quartzpy.store.queries import ExecutionQuery, MisfireQuery
from quartzpy.store.records import (
    MAX_WAITING,
    ExecutionRecord,
    LimitRecord,
    MisfireRecord,
    NodeRecord,
    PausedGroup,
    RunningRecord,
    TriggerRecord,
)
from quartzpy.store.zone_renewal import Outdated, moved_fire
from quartzpy.texts import coarse, error_summary, numbered
from quartzpy.triggers.recurring import RecurringMisfire
from quartzpy.triggers.trigger import FIRE_ALL, Trigger, TriggerProgress

MISFIRES_SHOWN = timedelta(days=1)
"""An older misfire is mentioned only if the trigger has not fired since."""
USERS_SHOWN = 5
"""The number of jobs that are named of those that use a limit."""
_MODES = {NodeMode.STANDBY: "in standby", NodeMode.DRAINING: "draining"}


@dataclass(frozen=True, slots=True)
class Advice:
    """The words that tell one kind of reader how to do something: in Python, by a command, or on the page.

    They follow "then".
    """

    reset_words: str
    """Resets a trigger from ERROR. "{key}" stands for its key, as an argument of a shell command."""

    def reset(self, key: TriggerKey) -> str:
        """Return how to reset a trigger from ERROR."""
        return self.reset_words.format(key=shlex.quote(str(key)))


PYTHON = Advice("call reset_trigger_from_error")
COMMANDS = Advice("run `quartzpy reset {key}`")
PAGE = Advice("choose “Reset from error”")
API = Advice("send the action `reset`")


@dataclass(frozen=True, slots=True)
class WhyInputs:
    """The input of an explanation, as it was just read."""

    now: datetime
    trigger: TriggerRecord
    job: JobDetail | None
    running: Sequence[RunningRecord]
    """The executions of the trigger's job."""
    nodes: Sequence[NodeRecord]
    node_states: Mapping[str, NodeState]
    """The states of the nodes, by instance id."""
    all_paused: bool
    trigger_group_paused: bool
    job_group_paused: bool
    manual_mode: bool
    job_mode: JobMode | None
    misfire_threshold: timedelta
    last: Sequence[ExecutionRecord]
    """The trigger's last ended execution; empty if there is none, or if the history has been purged."""
    misfires: Sequence[MisfireRecord]
    """The trigger's latest misfire."""
    advice: Advice = PYTHON
    paused_groups: Sequence[PausedGroup] = ()
    """The pauses of groups and of everything that hold the trigger."""
    resumed_at: datetime | None = None
    """The instant at which all that pauses the trigger has ended, if all of it has an end."""
    busy: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The number of busy workers, by instance id and executor."""
    limits: Mapping[str, LimitRecord] = field(default_factory=dict)
    """The limits that jobs share."""
    ahead: int = 0
    """The number of triggers that wait for the same limit, and are before it; see `QueryStore.ahead`."""
    moves_to: MovedFire | None = None
    """What the rules of the time zone that this process has change of its next fire."""


def explain(inputs: WhyInputs) -> list[str]:
    """Return sentences: first what delays the trigger, or when it fires; then what happened last."""
    return [
        *_state(inputs),
        *_other_rules(inputs),
        *_executions(inputs),
        *_misfires(inputs.now, inputs.misfires, inputs),
        *_history(inputs),
    ]


def explain_ended(
    key: TriggerKey, now: datetime, last: Sequence[ExecutionRecord], misfires: Sequence[MisfireRecord]
) -> list[str]:
    """Return sentences about a trigger that is no longer stored, from its history."""
    not_stored = Naming(f"Trigger {key} is not stored any more: it has ended, or was removed.", key)
    return [not_stored, *_misfires(now, misfires, None), *map(_last_execution, last)]


def _state(inputs: WhyInputs) -> list[str]:
    match inputs.trigger.state:
        case TriggerState.WAITING:
            return _waiting(inputs)
        case TriggerState.PAUSED:
            return [f"{_paused(inputs)}. {_resumption(inputs)}"]
        case TriggerState.PAUSED_BLOCKED:
            return [f"{_paused(inputs)}, and its job is also at its concurrency limit.", *_limit(inputs)]
        case TriggerState.BLOCKED:
            return _blocked(inputs)
        case TriggerState.COMPLETE:
            return ["It has ended and will not fire any more."]
        case TriggerState.ERROR:
            reason = f" ({error_summary(inputs.trigger.error)})" if inputs.trigger.error else ""
            return [f"It is in ERROR{reason}. Remove the cause, then {inputs.advice.reset(inputs.trigger.key)}."]


def _other_rules(inputs: WhyInputs) -> list[str]:
    moved = inputs.moves_to
    if moved is None:
        return []
    after = "it does not fire again" if moved.after is None else f"it is at {moved.after.isoformat()}"
    return [
        f"That instant was computed by other rules of {moved.zone} (time zone data {moved.former_version}); by those of"
        f" this process ({moved.version}) {after}. It moves as soon as all nodes have the same rules."
    ]


def _waiting(inputs: WhyInputs) -> list[str]:
    at = inputs.trigger.progress.next_fire_time
    assert at is not None
    late = inputs.now - at
    if late < timedelta():
        calendar = inputs.trigger.trigger.calendar
        within = f" (calendar {calendar!r} includes that instant)" if calendar else ""
        return [f"It will fire at {_instant(inputs)}{within}, in {span_in_words(-late)}.", *_takers(inputs)]
    if holding := _shared_limits(inputs):
        return [f"It has been due for {span_in_words(late)}; {holding}", *_takers(inputs)]
    if inputs.trigger.catch_up_until is not None:
        until = inputs.trigger.catch_up_until.isoformat()
        return [
            f"It is catching up on missed fires until {until}; the next one is of {_instant(inputs)}.",
            *_takers(inputs),
        ]
    trigger = inputs.trigger.trigger
    threshold = trigger.misfire_threshold or inputs.misfire_threshold
    if late > threshold and not trigger.ignores_misfires:
        effect = misfire_effect(trigger, inputs.trigger.progress, now=inputs.now)
        rule = f"{misfire_rule(trigger.misfire)} {effect}"
        return [
            f"It is {span_in_words(late)} late, which is a misfire (more than {span_in_words(threshold)}): {rule}.",
            *_takers(inputs),
        ]
    return [f"It has been due for {span_in_words(late)}, and no node has fired it yet.", *_takers(inputs)]


def _blocked(inputs: WhyInputs) -> list[str]:
    at, held_by = inputs.trigger.next_fire_time, inputs.trigger.held_by
    if held_by in (None, HeldBy.SLOT) or at is None:
        return ["Its job is at its concurrency limit; the trigger waits until an execution ends.", *_limit(inputs)]
    if held_by is HeldBy.RATE:
        holding = _own_rate(inputs)
    else:
        names = " and ".join(inputs.trigger.shared_limits)
        holding = _shared_limits(inputs) or f"it waits for {names}, of which a place is free again."
    due = f"It has been due for {span_in_words(inputs.now - at)}; {holding}"
    return [" ".join((due, *_turn(inputs))), *_takers(inputs)]


def _own_rate(inputs: WhyInputs) -> str:
    limit = None if inputs.job is None else inputs.job.rate_limit
    words = f"the rate limit of its job{'' if limit is None else f' ({limit})'} holds it back."
    opens_at = inputs.trigger.opens_at
    if opens_at is None or opens_at <= inputs.now:
        return f"{words} Rate limit: next now."
    return f"{words} Rate limit: next at {opens_at.isoformat()}, in {span_in_words(opens_at - inputs.now)}."


def _turn(inputs: WhyInputs) -> list[str]:
    """Return how many others are before a trigger that waits, and about when a rate admits it after them."""
    ahead = inputs.ahead
    if ahead == 0:
        return []
    others = f"{'At least ' if ahead >= MAX_WAITING else ''}{numbered(ahead, 'trigger', 'triggers')}"
    words = f"{others} that {'waits' if ahead == 1 else 'wait'} there {'fires' if ahead == 1 else 'fire'} before it"
    turns = [max(at or inputs.now, inputs.now) + ahead * rate.emission_interval for rate, at in _rates(inputs)]
    if not turns:
        return [f"{words}."]
    about = "not before" if ahead >= MAX_WAITING else "about at"
    return [f"{words}; its turn is {about} {max(turns).isoformat(timespec='seconds')}."]


def _rates(inputs: WhyInputs) -> list[tuple[RateLimit, datetime | None]]:
    """Return the rates for which a trigger waits, and from when on each admits the next fire."""
    if inputs.trigger.held_by is HeldBy.RATE:
        own = None if inputs.job is None else inputs.job.rate_limit
        return [] if own is None else [(own, inputs.trigger.opens_at)]
    limits = (inputs.limits.get(name) for name in inputs.trigger.shared_limits)
    return [(rate, record.admits_at) for record in limits if record and (rate := record.limit.rate_limit) is not None]


def _shared_limits(inputs: WhyInputs) -> str | None:
    """Return what says which of the limits that its job shares hold a due trigger back; None if none does."""
    names = () if inputs.job is None else inputs.job.limits
    missing = [name for name in names if name not in inputs.limits]
    if missing:
        return f"it waits for the limit {missing[0]}, which is not stored, so that no job that shares it fires."
    full = [record for name in names if (record := inputs.limits[name]).is_full]
    return " and ".join(_use_of(record, inputs.now) for record in full) + "." if full else None


def _use_of(record: LimitRecord, now: datetime) -> str:
    most = record.limit.max_concurrent
    if record.free == 0:
        shown = [f"{job} ({number})" for job, number in list(record.used_by.items())[:USERS_SHOWN]]
        more = len(record.used_by) - len(shown)
        users = f" by {', '.join(shown)}{f' and {more} more' if more else ''}" if shown else ""
        if record.used_since is not None:
            users += f", for {'up to ' if record.used > 1 else ''}{span_in_words(now - record.used_since)}"
        return f"it waits for the limit {record.name}: {record.used} of {most} are used{users}"
    assert record.admits_at is not None
    return (
        f"it waits for the limit {record.name} ({record.limit}): next at {record.admits_at.isoformat()},"
        f" in {span_in_words(record.admits_at - now)}"
    )


def misfire_rule(instruction: str) -> str:
    """Return what sentences call a misfire instruction; "smart" is the one of a trigger that names none."""
    return (
        "its default rule for misfires"
        if instruction == RecurringMisfire.SMART
        else f"its misfire instruction, {instruction},"
    )


def misfire_effect(trigger: Trigger, progress: TriggerProgress, *, now: datetime) -> str:
    """Return in words what the misfire instruction of a trigger does with missed fires."""
    try:
        _, after = trigger.after_misfire(progress, now=now)
    except (ValueError, TypeError, ArithmeticError, QuartzpyError):
        return "will decide what becomes of this fire"
    at = after.next_fire_time
    if at is None:
        return "ends the trigger"
    if trigger.misfire == FIRE_ALL:
        return "catches up on the missed fires"
    return "fires it once, at once" if at <= now else "skips the missed fires"


def _takers(inputs: WhyInputs) -> list[str]:
    alive = [node for node in inputs.nodes if inputs.node_states[node.instance_id].is_alive]
    if not inputs.nodes:
        return ["No node is running."]
    if not alive:
        if len(inputs.nodes) == 1:
            return ["The only node has not checked in recently."]
        return [f"None of the {len(inputs.nodes)} nodes has checked in recently."]
    knowing = [node for node in alive if inputs.trigger.job_type in node.capabilities.job_types]
    if not knowing:
        job_type = inputs.trigger.job_type
        included = INCLUDED.get(job_type)
        remedy = f"see the setting {included.setting}" if included else f"import its module there; {if_moved(job_type)}"
        if job_type == CELERY_TASK:
            remedy = "import quartzpy.ext.celery there, and call its use_app(app)"
        return [f"{run_by_no_node(job_type)}; {remedy}."]
    if inputs.job is None:
        return []
    placement = inputs.job.placement
    able = [node for node in knowing if node.capabilities.allows(placement)]
    if not able:
        return [f"No node that knows the job type can run it: {'; '.join(obstacles(placement, knowing))}."]
    taking = [node for node in able if takes_work(node)]
    if not taking:
        idle = ", ".join(f"{node.instance_id} is {_MODES[node.mode]}" for node in able)
        return [f"No node that can run it takes work now: {idle}. It waits until one is resumed."]
    return [
        *_hindered(inputs, taking),
        *(_without_workers(placement, taking) or _workers(inputs, placement, taking)),
        *_group_limits(placement, taking),
    ]


def _hindered(inputs: WhyInputs, able: Sequence[NodeRecord]) -> list[str]:
    """Return one sentence if none of the nodes that can run the job works as it should."""
    reasons = []
    for node in able:
        if works(node, inputs.node_states[node.instance_id]):
            return []
        age = span_in_words(inputs.now - node.last_checkin)
        what = node.problems[0].text if node.problems else f"it is late, and last checked in {age} ago"
        reasons.append(f"{node.instance_id}: {what}")
    return [f"No node that can run it works as it should: {'; '.join(reasons)}."]


def _without_workers(placement: Placement, able: Sequence[NodeRecord]) -> list[str]:
    """Return one sentence if the executor has no workers on any node that can run the job: its engine is away."""
    reasons = []
    for node in able:
        away = [
            f"node {node.instance_id}, {row.text}{'' if row.since is None else f', since {row.since.isoformat()}'}"
            for row in node.problems
            if (row.kind, row.subject) == (ENGINE_UNAVAILABLE, placement.pool)
        ]
        if not away and node.capabilities.workers.get(placement.pool) != 0:
            return []
        reasons += away or [f"node {node.instance_id}, executor {placement.pool!r}: capacity 0"]
    return [f"No executor that can run it has workers now: {'; '.join(reasons)}."]


def _workers(inputs: WhyInputs, placement: Placement, able: Sequence[NodeRecord]) -> list[str]:
    """Return one sentence if no node that can run the job has a free worker."""
    usage = []
    for node in able:
        workers = node.capabilities.workers.get(placement.pool)
        in_use = inputs.busy.get((node.instance_id, placement.pool), 0)
        if workers is None or in_use < workers:
            return []
        usage.append(f"{node.instance_id} {in_use} of {workers}")
    pool = f"of executor {placement.executor!r} " if placement.executor else ""
    return [f"All workers {pool}that can run it are busy: {', '.join(usage)}."]


def _group_limits(placement: Placement, able: Sequence[NodeRecord]) -> list[str]:
    limits = [
        f"{node.instance_id}={limit}"
        for node in able
        if (limit := node.capabilities.limit_of(placement.group)) is not None
    ]
    group = f"group {placement.group!r}" if placement.group else "jobs without a group"
    return [f"Concurrency limit of {group} per node: {', '.join(limits)}."] if limits else []


def obstacles(placement: Placement, nodes: Sequence[NodeRecord]) -> list[str]:
    """Return, for each node, the reasons why it cannot run the job."""
    sentences = []
    for node in nodes:
        can = node.capabilities
        lacking = [label for label in placement.requires if label not in can.labels]
        reasons = []
        if placement.executor and placement.executor not in can.executors:
            reasons.append(f"has no executor {placement.executor!r}")
        if lacking:
            reasons.append(f"lacks the label{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking))}")
        if can.limit_of(placement.group) == 0:
            reasons.append(
                f"runs none of group {placement.group!r}" if placement.group else "runs only jobs of some groups"
            )
        sentences.append(f"{node.instance_id} {' and '.join(reasons)}")
    return sentences


def _paused(inputs: WhyInputs) -> str:
    reasons = []
    if inputs.job_mode is JobMode.DISABLED:
        reasons.append("its job is disabled")
    if inputs.job_mode is JobMode.MANUAL:
        reasons.append("its job runs only when it is triggered by hand")
    if inputs.manual_mode:
        reasons.append("the scheduler is in manual mode")
    if inputs.all_paused:
        reasons.append(f"everything is paused{_of_group(inputs, 'ALL')}")
    if inputs.trigger_group_paused:
        reasons.append(f"its group {inputs.trigger.key.group!r} is paused{_of_group(inputs, 'TRIGGER')}")
    if inputs.job_group_paused and inputs.trigger.job_key is not None:
        group = f"the group {inputs.trigger.job_key.group!r} of its job"
        reasons.append(f"{group} is paused{_of_group(inputs, 'JOB')}")
    trigger = inputs.trigger
    at = trigger.paused_at
    paused = "It is paused" if at is None else f"It has been paused since {at.isoformat(timespec='seconds')}"
    by = f" by {trigger.paused_by}" if trigger.paused_by else ""
    reason = f" ({trigger.pause_reason})" if trigger.pause_reason else ""
    return f"{paused}{by}{reason}{', because ' if reasons else ''}{' and '.join(reasons)}"


def _of_group(inputs: WhyInputs, scope: str) -> str:
    """Return until when and why a group of the trigger is paused, if its pause has an end."""
    group = next((group for group in inputs.paused_groups if group.scope == scope), None)
    if group is None or group.until is None:
        return ""
    reason = f" ({group.reason})" if group.reason else ""
    return f" until {group.until.isoformat(timespec='seconds')}{reason}"


def _resumption(inputs: WhyInputs) -> str:
    """Return what ends the pause of the trigger, and what it does then."""
    end = inputs.resumed_at
    if end is None or inputs.manual_mode or inputs.job_mode not in (None, JobMode.ENABLED):
        return f"Once it is resumed, its next fire time is {_instant(inputs)}."
    at = inputs.trigger.next_fire_time
    resumed = f"It is resumed at {end.isoformat(timespec='seconds')}"
    if at is None or at >= end:
        return f"{resumed}, and its next fire time is {_instant(inputs)}."
    own = inputs.trigger.pause_missed
    rules = [own] if own is not None else [group.missed for group in inputs.paused_groups]
    match rules:
        case [Missed.SKIP]:
            return f"{resumed}; what it has missed by then is skipped."
        case [Missed.ONCE]:
            return f"{resumed}; what it has missed by then is made up for by one fire."
    return f"{resumed}; what it has missed by then is treated as a misfire."


def _limit(inputs: WhyInputs) -> list[str]:
    limit = None if inputs.job is None else inputs.job.max_concurrent
    return (
        [] if limit is None else [f"Its job allows {numbered(limit, 'concurrent execution', 'concurrent executions')}."]
    )


def _executions(inputs: WhyInputs) -> list[str]:
    return [
        Naming(
            f"Execution {row.fire_id} of its job, fired by trigger {row.trigger_key}, {_has_been(row)} node"
            f" {row.instance_id} for {span_in_words(inputs.now - row.fire_time)}.",
            row.trigger_key,
        )
        for row in inputs.running
        if row.state == "EXECUTING"
    ]


def _has_been(row: RunningRecord) -> str:
    waits = row.submission is not None and row.worker is None
    return "has been waiting for a worker of the engine of" if waits else "has been running on"


def _misfires(now: datetime, misfires: Sequence[MisfireRecord], inputs: WhyInputs | None) -> list[str]:
    fired = None if inputs is None else inputs.trigger.previous_fire_time
    return [
        f"It misfired: at {misfire.handled_at.isoformat()} node {misfire.instance_id} found that its fire of"
        f" {misfire.scheduled_fire_time.isoformat()} was late; {_result(misfire)}."
        for misfire in misfires
        if now - misfire.handled_at <= MISFIRES_SHOWN or fired is None or fired < misfire.handled_at
    ]


def _result(misfire: MisfireRecord) -> str:
    count = len(misfire.missed)
    number = f"{'more than ' if misfire.has_more else ''}{numbered(count, 'fire', 'fires')}"
    fires = f"{number} {'was' if count == 1 else 'were'}"
    match misfire.action:
        case MisfireAction.FIRED_ONCE:
            return f"{fires} missed, and one immediate fire replaced {'it' if count == 1 else 'them'}"
        case MisfireAction.RESCHEDULED:
            replacement = f"one immediate fire replaced {'it' if count == 1 else 'them'}"
            return f"{fires} missed, {replacement}, and the schedule restarted"
        case MisfireAction.SKIPPED:
            return f"{fires} skipped"
        case MisfireAction.CATCHING_UP:
            skipped = f"{fires} skipped" if count else "none was skipped"
            return f"{skipped}, and {numbered(misfire.caught_up, 'missed fire', 'missed fires')} will still run"
        case MisfireAction.ENDED:
            return f"{fires} missed, and no fire time is left"


def _history(inputs: WhyInputs) -> list[str]:
    if inputs.last:
        return [_last_execution(inputs.last[0])]
    fired = inputs.trigger.previous_fire_time
    return ["It has not fired yet." if fired is None else f"Its last fire was that of {fired.isoformat()}."]


def _last_execution(last: ExecutionRecord) -> str:
    reason = f": {error_summary(last.error)}" if last.error else ""
    retried = f" The next attempt is scheduled for {last.retry_at.isoformat()}." if last.retry_at else ""
    return f"Its last execution, of {last.scheduled_fire_time.isoformat()}, ended as {last.outcome}{reason}.{retried}"


def _instant(inputs: WhyInputs) -> str:
    at = inputs.trigger.progress.next_fire_time
    return "none" if at is None else at.isoformat()


def span_in_words(span: timedelta) -> str:
    """Return a length of time, as "less than 1 ms", "250 ms", "2.5 s", "3 min 20 s" or "2 d 7 h"."""
    seconds = span.total_seconds()
    if 0 < seconds < 0.001:
        return "less than 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return coarse(round(seconds))


class ClusterSnapshot:
    """What concerns all triggers at one moment, asked once."""

    def __init__(self, reading: BatchedReads) -> None:
        self.reading = reading
        self.nodes = reading.defer(lambda store: store.list_nodes())
        self.running = reading.defer(lambda store: store.list_running())
        self.pauses = reading.defer(lambda store: store.pauses())
        self.limits = reading.defer(lambda store: store.limits())
        self.zones = reading.defer(lambda store: store.noted_zones())
        self._placements: Callable[[], Mapping[JobKey, Placement]] | None = None
        self._busy: Counter[tuple[str, str]] | None = None

    def look_up_placements(self) -> Callable[[], Mapping[JobKey, Placement]]:
        """Ask for the placements of the jobs that run, with the questions that already wait."""
        if self._placements is None:
            jobs = {row.job_key for row in self.running()}
            self._placements = placements_of_jobs(self.reading, jobs)
        return self._placements

    def busy(self) -> Counter[tuple[str, str]]:
        """Count the busy workers by instance id and executor."""
        if self._busy is None:
            of_jobs = self.look_up_placements()()
            running = (row for row in self.running() if row.job_key in of_jobs)
            self._busy = Counter((row.instance_id, of_jobs[row.job_key].pool) for row in running)
        return self._busy


class OfJob:
    """The questions about the job of a trigger."""

    def __init__(self, reading: BatchedReads, key: JobKey) -> None:
        self.key = key
        self.detail = reading.defer(lambda store: store.jobs([key]).get(key))
        self.mode = reading.defer(lambda store: mode_of_job(store, key))


class Explanation:
    """The questions about one trigger. Calling it returns the explanation; see `Scheduler.why`.

    `threshold` holds where no node has published its own misfire threshold, by which it judges. With the key of the
    trigger's job, all is asked at once. The call raises TriggerNotFoundError if neither the store nor its history knows
    the trigger.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        key: TriggerKey,
        threshold: timedelta,
        advice: Advice = PYTHON,
        job_key: JobKey | None = None,
    ) -> None:
        self._snapshot, self._key, self._threshold, self._advice = snapshot, key, threshold, advice
        defer = snapshot.reading.defer
        self._record = defer(lambda store: store.triggers([key]).get(key))
        self._last = defer(lambda store: store.find(ExecutionQuery(trigger_key=key), 1))
        self._misfires = defer(lambda store: store.find(MisfireQuery(trigger_key=key), 1))
        self._ahead = defer(lambda store: store.ahead(key))
        self.of_job = None if job_key is None else OfJob(snapshot.reading, job_key)

    def __call__(self) -> list[str]:
        key, snapshot, record = self._key, self._snapshot, self._record()
        last, misfires = self._last(), self._misfires()
        if record is None:
            if not last and not misfires:
                raise TriggerNotFoundError(f"trigger {key} is not stored, and the history has no execution of it")
            return explain_ended(key, snapshot.nodes().now, last, misfires)
        job_key, of_job, pauses = record.job_key, self.of_job, snapshot.pauses()
        if of_job is None or of_job.key != job_key:
            of_job = OfJob(snapshot.reading, job_key)
        snapshot.look_up_placements()
        inputs = WhyInputs(
            now=snapshot.nodes().now,
            trigger=record,
            job=of_job.detail(),
            running=[row for row in snapshot.running() if row.job_key == job_key],
            nodes=snapshot.nodes().nodes,
            node_states=snapshot.nodes().states(),
            all_paused=pauses.everything,
            trigger_group_paused=key.group in pauses.trigger_groups,
            job_group_paused=job_key.group in pauses.job_groups,
            manual_mode=pauses.is_manual,
            job_mode=of_job.mode(),
            misfire_threshold=snapshot.nodes().setting("misfire_threshold", self._threshold),
            last=last,
            misfires=misfires,
            advice=self._advice,
            busy=snapshot.busy(),
            limits=snapshot.limits(),
            ahead=self._ahead(),
            moves_to=self._moves_to(record),
            paused_groups=pauses.covering(key, job_key),
            resumed_at=pauses.until(key, job_key, alone=record.pause_missed is not None, end=record.paused_until),
        )
        return explain(inputs)

    def _moves_to(self, record: TriggerRecord) -> MovedFire | None:
        outdated = Outdated.of(self._snapshot.zones())
        if not outdated.rules or record.next_fire_time is None:
            return None
        try:
            calendar = None
            if record.calendar is not None:
                read = self._snapshot.reading.defer(lambda store: store.calendars([record.calendar or ""]))
                calendar = read().get(record.calendar)
            move = outdated.move_of(record, calendar, self._snapshot.nodes().now)
        except (QuartzpyError, ValueError, ArithmeticError):
            # What is unreadable is explained by the state.
            return None
        moved = None if move is None else moved_fire(outdated, *move)
        return moved if moved is not None and moved.before != moved.after else None
