"""Explains why a trigger has not fired, or when it will fire: a pure function of what the store contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.placement import Placement
from quartzpy.scheduler.advice import PYTHON, Advice
from quartzpy.states import JobMode, MisfireAction, NodeMode, TriggerState
from quartzpy.store.records import ExecutionRecord, MisfireRecord, NodeRecord, RunningRecord, TriggerRecord
from quartzpy.texts import headline, numbered

MISFIRES_TOLD = timedelta(days=1)
"""An older misfire is mentioned only if the trigger has not fired since."""
_MODES = {NodeMode.STANDBY: "in standby", NodeMode.DRAINING: "draining"}


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of an explanation, as it was just read."""

    now: datetime
    trigger: TriggerRecord
    job: JobDetail | None
    running: Sequence[RunningRecord]
    """The claims and executions of the trigger's job."""
    nodes: Sequence[NodeRecord]
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
    busy: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The number of busy workers, by instance id and executor."""


def explain(seen: Situation) -> list[str]:
    """Return sentences: first what delays the trigger, or when it fires; then what happened last."""
    return [*_state(seen), *_executions(seen), *_misfires(seen.now, seen.misfires, seen), *_history(seen)]


def explain_ended(
    key: TriggerKey, now: datetime, last: Sequence[ExecutionRecord], misfires: Sequence[MisfireRecord]
) -> list[str]:
    """Return sentences about a trigger that is no longer stored, from its history."""
    not_stored = f"Trigger {key} is not stored any more: it has ended, or was removed."
    return [not_stored, *_misfires(now, misfires, None), *map(_last_execution, last)]


def _state(seen: Situation) -> list[str]:
    match seen.trigger.state:
        case TriggerState.WAITING:
            return _waiting(seen)
        case TriggerState.ACQUIRED:
            holder = next((row for row in seen.running if row.trigger_key == seen.trigger.key), None)
            node = "a node" if holder is None else f"node {holder.instance_id}"
            return [f"It is claimed by {node}, which will fire it at {_instant(seen)}."]
        case TriggerState.PAUSED:
            return [f"{_paused(seen)}. Once it is resumed, its next fire time is {_instant(seen)}."]
        case TriggerState.PAUSED_BLOCKED:
            return [
                f"{_paused(seen)}, and its job is also at its concurrency limit.",
                *_limit(seen),
            ]
        case TriggerState.BLOCKED:
            return ["Its job is at its concurrency limit; the trigger waits until an execution ends.", *_limit(seen)]
        case TriggerState.COMPLETE:
            return ["It has ended and will not fire any more."]
        case TriggerState.ERROR:
            reason = f" ({headline(seen.trigger.error)})" if seen.trigger.error else ""
            return [f"It is in ERROR{reason}. Remove the cause, then {seen.advice.reset(seen.trigger.key)}."]


def _waiting(seen: Situation) -> list[str]:
    at = seen.trigger.progress.next_fire_time
    assert at is not None
    late = seen.now - at
    if late < timedelta():
        calendar = seen.trigger.trigger.calendar
        within = f" (calendar {calendar!r} includes that instant)" if calendar else ""
        return [f"It will fire at {_instant(seen)}{within}, in {span_in_words(-late)}.", *_takers(seen)]
    held_until = seen.trigger.rate_limited_until
    if seen.job is not None and seen.job.rate_limit is not None and held_until is not None and held_until > seen.now:
        return [
            f"It has been due for {span_in_words(late)}; the rate limit of its job ({seen.job.rate_limit})"
            f" holds it back. Rate limit: next at {held_until.isoformat()}, in {span_in_words(held_until - seen.now)}.",
            *_takers(seen),
        ]
    if seen.trigger.catch_up_until is not None:
        until = seen.trigger.catch_up_until.isoformat()
        return [
            f"It is catching up on missed fires until {until}; the next one is of {_instant(seen)}.",
            *_takers(seen),
        ]
    trigger = seen.trigger.trigger
    threshold = trigger.misfire_threshold or seen.misfire_threshold
    waited = late if held_until is None else min(late, seen.now - held_until)
    if waited > threshold and not trigger.ignores_misfires:
        rule = f"its misfire instruction, {trigger.misfire}, will decide what becomes of this fire"
        return [
            f"It is {span_in_words(late)} late, which is a misfire (more than {span_in_words(threshold)}): {rule}.",
            *_takers(seen),
        ]
    return [f"It has been due for {span_in_words(late)}, and no node has claimed it yet.", *_takers(seen)]


def _takers(seen: Situation) -> list[str]:
    alive = [node for node in seen.nodes if seen.now - node.last_checkin <= 2 * node.checkin_interval]
    if not seen.nodes:
        return ["No node is running."]
    if not alive:
        if len(seen.nodes) == 1:
            return ["The only node has not checked in recently."]
        return [f"None of the {len(seen.nodes)} nodes has checked in recently."]
    knowing = [node for node in alive if seen.trigger.job_type in node.capabilities.job_types]
    if not knowing:
        return [f"No running node knows the job type {seen.trigger.job_type!r}; import its module there."]
    if seen.job is None:
        return []
    placement = seen.job.placement
    able = [node for node in knowing if node.capabilities.allows(placement)]
    if not able:
        return [f"No node that knows the job type can run it: {'; '.join(obstacles(placement, knowing))}."]
    taking = [node for node in able if node.mode is NodeMode.RUNNING]
    if not taking:
        idle = ", ".join(f"{node.instance_id} is {_MODES[node.mode]}" for node in able)
        return [f"No node that can run it takes work now: {idle}. It waits until one is resumed."]
    return [*_workers(seen, placement, taking), *_group_limits(placement, taking)]


def _workers(seen: Situation, placement: Placement, able: Sequence[NodeRecord]) -> list[str]:
    """Return one sentence if no node that can run the job has a free worker."""
    usage = []
    for node in able:
        workers = node.capabilities.workers.get(placement.pool)
        in_use = seen.busy.get((node.instance_id, placement.pool), 0)
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
    found = []
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
        found.append(f"{node.instance_id} {' and '.join(reasons)}")
    return found


def _paused(seen: Situation) -> str:
    reasons = []
    if seen.job_mode is JobMode.DISABLED:
        reasons.append("its job is disabled")
    if seen.job_mode is JobMode.MANUAL:
        reasons.append("its job runs only when it is triggered by hand")
    if seen.manual_mode:
        reasons.append("the scheduler is in manual mode")
    if seen.all_paused:
        reasons.append("everything is paused")
    if seen.trigger_group_paused:
        reasons.append(f"its group {seen.trigger.key.group!r} is paused")
    if seen.job_group_paused and seen.trigger.job_key is not None:
        reasons.append(f"the group {seen.trigger.job_key.group!r} of its job is paused")
    trigger = seen.trigger
    at = trigger.paused_at
    paused = "It is paused" if at is None else f"It has been paused since {at.isoformat(timespec='seconds')}"
    by = f" by {trigger.paused_by}" if trigger.paused_by else ""
    reason = f" ({trigger.pause_reason})" if trigger.pause_reason else ""
    return f"{paused}{by}{reason}{', because ' if reasons else ''}{' and '.join(reasons)}"


def _limit(seen: Situation) -> list[str]:
    limit = None if seen.job is None else seen.job.max_concurrent
    return (
        [] if limit is None else [f"Its job allows {numbered(limit, 'concurrent execution', 'concurrent executions')}."]
    )


def _executions(seen: Situation) -> list[str]:
    return [
        f"Execution {row.fire_id} of its job, fired by {row.trigger_key}, has been running on node {row.instance_id}"
        f" for {span_in_words(seen.now - row.fire_time)}."
        for row in seen.running
        if row.state == "EXECUTING"
    ]


def _misfires(now: datetime, misfires: Sequence[MisfireRecord], seen: Situation | None) -> list[str]:
    fired = None if seen is None else seen.trigger.previous_fire_time
    return [
        f"It misfired: at {one.handled_at.isoformat()} node {one.instance_id} found that its fire of"
        f" {one.scheduled_fire_time.isoformat()} was late; {_result(one)}."
        for one in misfires
        if now - one.handled_at <= MISFIRES_TOLD or fired is None or fired < one.handled_at
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


def _history(seen: Situation) -> list[str]:
    if seen.last:
        return [_last_execution(seen.last[0])]
    fired = seen.trigger.previous_fire_time
    return ["It has not fired yet." if fired is None else f"Its last fire was that of {fired.isoformat()}."]


def _last_execution(last: ExecutionRecord) -> str:
    reason = f": {headline(last.error)}" if last.error else ""
    retried = f" The next attempt is scheduled for {last.retry_at.isoformat()}." if last.retry_at else ""
    return f"Its last execution, of {last.scheduled_fire_time.isoformat()}, ended as {last.outcome}{reason}.{retried}"


def _instant(seen: Situation) -> str:
    at = seen.trigger.progress.next_fire_time
    return "none" if at is None else at.isoformat()


def span_in_words(span: timedelta) -> str:
    """Return a length of time to two or three digits: "250 ms", "2.5 s", "3 minutes"."""
    seconds = span.total_seconds()
    if 0 < seconds < 0.001:
        return "less than 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
