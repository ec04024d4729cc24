"""Why a trigger has not fired, or when it will: in words, from what the store shows. A pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.job import JobDetail
from quartzpy.placement import Placement
from quartzpy.states import JobMode, MisfireAction, TriggerState
from quartzpy.store.records import ExecutionRecord, MisfireRecord, NodeRecord, RunningRecord, TriggerRecord

MISFIRES_TOLD = timedelta(days=1)
"""A misfire that is longer ago is told only where nothing fired since."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that an explanation looks at, read a moment ago."""

    now: datetime
    trigger: TriggerRecord
    job: JobDetail | None
    running: Sequence[RunningRecord]
    """What is claimed or runs of its job."""
    nodes: Sequence[NodeRecord]
    all_paused: bool
    trigger_group_paused: bool
    job_group_paused: bool
    manual_mode: bool
    job_mode: JobMode | None
    misfire_threshold: timedelta
    last: Sequence[ExecutionRecord]
    """Its last execution that ended; none: there was none, or it is forgotten."""
    misfires: Sequence[MisfireRecord]
    """Its latest misfire."""


def explain(seen: Situation) -> list[str]:
    """Sentences: first what holds the trigger, or when it fires; then what happened last."""
    return [*_state(seen), *_executions(seen), *_misfires(seen), *_history(seen)]


def _state(seen: Situation) -> list[str]:
    match seen.trigger.state:
        case TriggerState.WAITING:
            return _waiting(seen)
        case TriggerState.ACQUIRED:
            holder = next((row for row in seen.running if row.trigger_key == seen.trigger.key), None)
            node = "a node" if holder is None else f"node {holder.instance_id}"
            return [f"It is claimed by {node}, which fires it at {_instant(seen)}."]
        case TriggerState.PAUSED:
            return [f"It is paused{_why_paused(seen)}. Once it is resumed, its next fire time is {_instant(seen)}."]
        case TriggerState.PAUSED_BLOCKED:
            return [f"It is paused{_why_paused(seen)}, and its job is at its limit besides.", *_limit(seen)]
        case TriggerState.BLOCKED:
            return ["Its job runs as often at once as it allows; it waits until an execution ends.", *_limit(seen)]
        case TriggerState.COMPLETE:
            return ["It has ended: it will not fire any more."]
        case TriggerState.ERROR:
            reason = f" ({seen.trigger.error.splitlines()[-1]})" if seen.trigger.error else ""
            return [f"It is in ERROR{reason}. Mend the cause and call reset_trigger_from_error."]


def _waiting(seen: Situation) -> list[str]:
    at = seen.trigger.progress.next_fire_time
    assert at is not None
    late = seen.now - at
    if late < timedelta():
        calendar = seen.trigger.trigger.calendar
        within = f", which calendar {calendar!r} includes" if calendar else ""
        return [f"It waits for its next fire time, {_instant(seen)}{within}: in {_span(-late)}.", *_takers(seen)]
    if seen.trigger.catch_up_until is not None:
        until = seen.trigger.catch_up_until.isoformat()
        return [f"It makes up for what it missed up to {until}; the next is that of {_instant(seen)}.", *_takers(seen)]
    trigger = seen.trigger.trigger
    threshold = trigger.misfire_threshold or seen.misfire_threshold
    if late > threshold and not trigger.ignores_misfires:
        rule = f"its misfire instruction {trigger.misfire} gives it another fire time"
        return [f"It is {_span(late)} late, which is a misfire (more than {_span(threshold)}): {rule}.", *_takers(seen)]
    return [f"It is due since {_span(late)}, and no node has taken it yet.", *_takers(seen)]


def _takers(seen: Situation) -> list[str]:
    alive = [node for node in seen.nodes if seen.now - node.last_checkin <= 2 * node.checkin_interval]
    if not seen.nodes:
        return ["No node is running."]
    if not alive:
        return [f"None of the {len(seen.nodes)} nodes has checked in lately."]
    knowing = [node for node in alive if seen.trigger.job_type in node.capabilities.job_types]
    if not knowing:
        return [f"No node that runs knows the job type {seen.trigger.job_type!r}: its module is to be imported there."]
    if seen.job is None:
        return []
    wanted = seen.job.placement
    able = [node for node in knowing if node.capabilities.allows(wanted)]
    if not able:
        return [f"No node that knows the job type can take it: {'; '.join(_obstacles(wanted, knowing))}."]
    limits = [
        f"{node.instance_id} {limit}"
        for node in able
        if (limit := node.capabilities.limit_of(wanted.group)) is not None
    ]
    group = f"group {wanted.group!r}" if wanted.group else "jobs without a group"
    return [f"So many of {group} run at once on a node: {', '.join(limits)}."] if limits else []


def _obstacles(wanted: Placement, nodes: Sequence[NodeRecord]) -> list[str]:
    """Why each of these nodes cannot take it."""
    found = []
    for node in nodes:
        can = node.capabilities
        lacking = [label for label in wanted.requires if label not in can.labels]
        reasons = []
        if wanted.executor and wanted.executor not in can.executors:
            reasons.append(f"has no executor {wanted.executor!r}")
        if lacking:
            reasons.append(f"lacks the label {', '.join(map(repr, lacking))}")
        if can.limit_of(wanted.group) == 0:
            reasons.append(f"runs none of group {wanted.group!r}" if wanted.group else "runs only jobs of some groups")
        found.append(f"{node.instance_id} {' and '.join(reasons)}")
    return found


def _why_paused(seen: Situation) -> str:
    reasons = []
    if seen.job_mode is JobMode.DISABLED:
        reasons.append("its job is disabled")
    if seen.job_mode is JobMode.MANUAL:
        reasons.append("its job runs by hand only")
    if seen.manual_mode:
        reasons.append("the scheduler is in manual mode")
    if seen.all_paused:
        reasons.append("everything is (pause_all)")
    if seen.trigger_group_paused:
        reasons.append(f"its group {seen.trigger.key.group!r} is")
    if seen.job_group_paused and seen.trigger.job_key is not None:
        reasons.append(f"the group {seen.trigger.job_key.group!r} of its job is")
    return f", as {' and '.join(reasons)}" if reasons else ""


def _limit(seen: Situation) -> list[str]:
    limit = None if seen.job is None else seen.job.max_concurrent
    return [] if limit is None else [f"Its job allows {limit} at once."]


def _executions(seen: Situation) -> list[str]:
    return [
        f"Execution {row.fire_id} of its job runs on node {row.instance_id} since {_span(seen.now - row.fire_time)},"
        f" fired by {row.trigger_key}."
        for row in seen.running
        if row.state == "EXECUTING"
    ]


def _misfires(seen: Situation) -> list[str]:
    fired = seen.trigger.progress.previous_fire_time
    return [
        f"It misfired: at {one.handled_at.isoformat()} node {one.instance_id} found it late since"
        f" {one.scheduled_fire_time.isoformat()}; {_what_became(one)}."
        for one in seen.misfires
        if seen.now - one.handled_at <= MISFIRES_TOLD or fired is None or fired < one.handled_at
    ]


def _what_became(misfire: MisfireRecord) -> str:
    count = len(misfire.missed)
    number = f"{'more than ' if misfire.has_more else ''}{count}"
    missed = f"{number} instant{' was' if count == 1 else 's were'} missed"
    stands = f"one fire at once stands for {'it' if count == 1 else 'them'}"
    match misfire.action:
        case MisfireAction.FIRED_ONCE:
            return f"{missed}; {stands}"
        case MisfireAction.RESCHEDULED:
            return f"{missed}; {stands}, and its schedule began anew"
        case MisfireAction.SKIPPED:
            return f"{missed} and let go"
        case MisfireAction.CATCHING_UP:
            let_go = f"{missed} and let go" if count else "none is let go"
            return f"{let_go}, {misfire.made_up} {'is' if misfire.made_up == 1 else 'are'} made up for"
        case MisfireAction.ENDED:
            return f"{missed}; it has no fire time left"


def _history(seen: Situation) -> list[str]:
    if not seen.last:
        if seen.trigger.progress.previous_fire_time is None:
            return ["It has not fired yet."]
        return [f"It fired last at {seen.trigger.progress.previous_fire_time.isoformat()}."]
    last = seen.last[0]
    reason = f": {last.error.splitlines()[-1]}" if last.error else ""
    return [f"Its last execution, of {last.scheduled_fire_time.isoformat()}, is {last.outcome}{reason}."]


def _instant(seen: Situation) -> str:
    at = seen.trigger.progress.next_fire_time
    return "none" if at is None else at.isoformat()


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
