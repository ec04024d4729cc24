"""What a job waits for that runs after others, in sentences, and why what it waits for may never come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from quartzpy.errors import QuartzpyError
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join, as_join, short_occasion
from quartzpy.keys import DEFAULT_GROUP, UNSCHEDULED_GROUPS, JobKey
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.explain import span_in_words
from quartzpy.states import PAUSED_STATES, JoinState, TriggerState
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import JoinRecord, TriggerRecord
from quartzpy.triggers.combined import Combination, Jitter
from quartzpy.triggers.trigger import Trigger

JOINS_SHOWN = 5
"""The number of the latest joins and batches of a job that are explained."""
_MAX_EXPLAINED = 10
"""The number of jobs of which it is explained why they may not come, and of the triggers of each that are read."""


def explain_joins(job: JobDetail, joins: Sequence[JoinRecord], reading: BatchedReads) -> list[str]:
    """Return sentences about what a job waits for that runs after others, the latest first.

    They end with those about the jobs of which nothing can come by itself. Only for these, `reading` is asked.
    """
    after = None if job.after is None else as_join(job.after)
    if after is None and not joins:
        return [f"Job {job.key} does not run after other jobs; its triggers say when it runs."]
    missing: list[JobKey] = []
    if after is not None and not joins:
        sentences = [f"It runs after {_named(after.keys)} ({_rule(after)}); none of their executions has ended yet."]
        missing = list(after.keys)
    else:
        sentences = [_of_batch(join) if join.total is not None else _of_join(join, after) for join in joins]
        for join in joins:
            if after is not None and join.total is None and join.state is JoinState.WAITING:
                missing += [key for key in _missing(join.ended, after) if key not in missing]
    return [*sentences, *_obstacles(reading, missing[:_MAX_EXPLAINED], after)]


def _of_batch(join: JoinRecord) -> str:
    number = join.succeeded + join.failed + join.removed
    ended = f"{number:,} of {join.total:,} triggers of batch {join.occasion!r} have ended"
    others = [f"{join.failed:,} without success"] if join.failed else []
    others += [f"{join.removed:,} without a fire"] if join.removed else []
    failures = f" ({', '.join(others)})" if others else ""
    match join.state:
        case JoinState.WAITING:
            return f"It waits for the rest: {ended}{failures}."
        case JoinState.FIRED:
            return f"It was started when {ended}{failures}."
    if join.total is not None and number < join.total:
        return f"It was not started: {ended}{failures}, and then the job was deleted."
    return f"It was not started: {ended}{failures}, and it does not run after such ends."


def _of_join(join: JoinRecord, after: Join | None) -> str:
    occasion = short_occasion(join.occasion)
    ended = " and ".join(f"{_named([end.job_key])} ({end.outcome})" for end in join.ended)
    have = "has" if len(join.ended) == 1 else "have"
    if join.state is JoinState.FIRED:
        return f"For {occasion} it was started after {ended} had ended."
    if after is None:
        return f"For {occasion} {ended} {have} ended; the job does not run after others any more."
    if join.state is JoinState.UNMET:
        return (
            f"For {occasion} {ended} {have} ended; it was not started, because its definition has changed since then."
        )
    return f"It waits for {missing_jobs(join.ended, after)} of {occasion} ({_rule(after)}); {ended} {have} ended."


def _rule(after: Join) -> str:
    return after.rule if after.within is None else f"{after.rule}, within {span_in_words(after.within)}"


def missing_jobs(ended: Sequence[Predecessor], after: Join) -> str:
    """Return in words for which jobs one waits, of which these executions have ended: "b and c", "1 of b and c"."""
    missing = _missing(ended, after)
    number = after.needed - (len(after.keys) - len(missing))
    some = "" if number >= len(missing) else f"{number} of "
    return f"{some}{_named(missing)}"


def _missing(ended: Sequence[Predecessor], after: Join) -> list[JobKey]:
    counted = {end.job_key for end in ended if end.outcome in after.outcomes}
    return [key for key in after.keys if key not in counted]


def _named(keys: Sequence[JobKey]) -> str:
    return " and ".join(key.name if key.group == DEFAULT_GROUP else str(key) for key in keys)


def _obstacles(reading: BatchedReads, keys: Sequence[JobKey], after: Join | None) -> list[str]:
    """Return why executions of these jobs do not come by themselves, or not for the instants of the others."""
    if after is None or not keys:
        return []
    stored = reading.defer(lambda store: store.jobs(keys))
    triggers = {
        key: reading.defer(
            partial(lambda store, query: store.find(query, _MAX_EXPLAINED), query=TriggerQuery(job_key=key))
        )
        for key in keys
    }
    jobs: Mapping[JobKey, JobDetail] = stored()
    return [
        sentence
        for key in keys
        if (sentence := _obstacle(_named([key]), jobs.get(key), triggers[key](), after)) is not None
    ]


def _obstacle(name: str, job: JobDetail | None, triggers: Sequence[TriggerRecord], after: Join) -> str | None:
    if job is None:
        return f"{name} is not stored: nothing ends until it is stored again."
    active = [record for record in triggers if record.state is not TriggerState.COMPLETE]
    if not active:
        if job.after is not None:
            return None
        return f"{name} has no trigger that will fire: it runs only after another job, or by hand."
    if all(record.state in PAUSED_STATES for record in active):
        return f"{name} does not run: its triggers are paused."
    if after.per == "instant" and all(_has_own_instants(record) for record in active):
        return (
            f"The triggers of {name} have jitter, so each of its executions has an instant of its own, which those of"
            ' other jobs do not share: per="day" joins the executions of a day.'
        )
    return None


def _has_own_instants(record: TriggerRecord) -> bool:
    if record.key.group in UNSCHEDULED_GROUPS:
        return False
    try:
        return _is_jittered(record.trigger)
    except QuartzpyError:
        return False


def _is_jittered(trigger: Trigger) -> bool:
    return isinstance(trigger, Jitter) or (
        isinstance(trigger, Combination) and any(_is_jittered(part) for part in trigger.parts)
    )
