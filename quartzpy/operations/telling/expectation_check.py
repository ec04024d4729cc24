"""Looks at the triggers with an expectation whose look is due, and at jobs that wait for others: records breaches."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.expect import Breach, BreachRecord, JudgedBreach
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join, as_join, instant_of_occasion, short_occasion
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.telling.expectations import (
    Checkpoint,
    CheckResult,
    ExpectationFacts,
    busy_until,
    judge,
    rate_opens,
    repeated_by,
    time_zone_of,
)
from quartzpy.operations.views.triggers import expected_of
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.explain import span_in_words
from quartzpy.scheduler.explain_joins import missing_jobs
from quartzpy.states import Outcome
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LateJoin
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery, MisfireQuery
from quartzpy.store.records import ExecutionRecord, MisfireRecord, RunningRecord, TriggerRecord

MAX_LOOKS = 200
"""The number of triggers that are looked at together."""
MAX_BATCHES = 10
"""The number of times that one turn looks at so many; what is due beyond that is looked at by the next turn."""
MAX_MISFIRES = 20
NEXT_TRY = timedelta(minutes=15)
"""The time after which a trigger is looked at again that could not be judged."""
MAX_REPEATED = 20
"""The number of attempts at one fire that are followed."""
MAX_OF_JOB = 200
"""The number of executions of a job by which it is decided whether it was at its limit."""
LOOK_BACK = timedelta(days=1)
"""An execution that began longer before a fire does not count as having held it back, unless it still runs."""
AMONG = 5_000
"""The number of executions of all jobs among which they are looked for."""
MAX_LATE_JOINS = 200
"""The number of joins that one turn judges; the next one judges the others."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueCheck:
    """A trigger at which it is time to look, and what is judged of it already."""

    trigger_key: TriggerKey
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class CheckedTriggers:
    """What one turn has found, by trigger."""

    judgements: Mapping[TriggerKey, CheckResult] = field(default_factory=dict)
    over: Collection[TriggerKey] = ()
    """Triggers of which nothing is expected any more."""
    generations: Mapping[TriggerKey, int] = field(default_factory=dict)
    failed: Mapping[TriggerKey, datetime] = field(default_factory=dict)
    """Triggers that could not be judged, and the instants of the next tries."""


class Ledger(Protocol):
    """Where the checkpoints and the breaches are kept."""

    def due(self, limit: int) -> Sequence[DueCheck]:
        """Return the triggers whose look is due, the soonest first, after looking for new ones from time to time."""

    def record(self, looked: CheckedTriggers) -> Sequence[BreachRecord]:
        """Record what was found in one transaction, and return the breaches that were not recorded before."""


def check_expectations(store: JobStore, ledger: Ledger) -> Sequence[BreachRecord]:
    """Look at the triggers whose look is due, record what was found, and return the new breaches.

    Raises:
        QuartzpyError: the store cannot be reached; nothing is recorded, and the next turn looks again.
    """
    breaches: list[BreachRecord] = []
    for _ in range(MAX_BATCHES):
        due = ledger.due(MAX_LOOKS)
        if due:
            breaches += ledger.record(look(store, due))
        if len(due) < MAX_LOOKS:
            break
    return breaches


def look(store: JobStore, due: Sequence[DueCheck]) -> CheckedTriggers:
    """Judge triggers by what the store says of them, in a few round trips."""
    reading = BatchedReads(lambda: store)
    keys = [each.trigger_key for each in due]
    of_triggers = reading.defer(lambda store: store.triggers(keys))
    of_running = reading.defer(lambda store: store.list_running())
    questions = [_Questions(reading, each) for each in due]
    now, triggers, running = reading.now(), of_triggers(), of_running()
    for each in questions:
        each.record = triggers.get(each.key)
    job_keys = {key for each in questions if (key := each.job_key) is not None}
    jobs = reading.defer(lambda store: store.jobs(job_keys))() if job_keys else {}
    for each in questions:
        each.job = None if each.job_key is None else jobs.get(each.job_key)
    _follow(reading, questions)
    judgements, failed, over = dict[TriggerKey, CheckResult](), dict[TriggerKey, datetime](), list[TriggerKey]()
    for each in questions:
        try:
            judgement = _judged(store, each, running, now)
        except StoreUnavailableError:
            raise
        except (QuartzpyError, ValueError, TypeError, ArithmeticError, LookupError):
            # A row that this release cannot read, or a time zone that this machine lacks.
            logger.warning("trigger %s: what is expected of it could not be judged", each.key, exc_info=True)
            failed[each.key] = now + NEXT_TRY
            continue
        if judgement is not None:
            judgements[each.key] = judgement
        # What the last fire of a trigger has broken lasts for a day, so that somebody sees it.
        if judgement is None or (each.record is None and not judgement.checkpoint.fires and not judgement.broken):
            over.append(each.key)
    generations = {each.key: each.record.generation for each in questions if each.record is not None}
    return CheckedTriggers(judgements, over, generations, failed)


class _Questions:
    """The questions about one trigger."""

    def __init__(self, reading: BatchedReads, due: DueCheck) -> None:
        self.key, self.checkpoint = due.trigger_key, due.checkpoint
        self.record: TriggerRecord | None = None
        self.job: JobDetail | None = None
        self.repeats: dict[TriggerKey, ExecutionRecord | None] = {}
        self.removed: set[TriggerKey] = set()
        executions = ExecutionQuery(trigger_key=self.key, since=self.checkpoint.reads_from)
        # Few triggers misfire, so this is one probe of an index for nearly all of them.
        misfires = MisfireQuery(trigger_key=self.key)
        self.ended: Deferred[list[ExecutionRecord]] = reading.defer(lambda store: store.find(executions, None))
        self.misfires: Deferred[list[MisfireRecord]] = reading.defer(lambda store: store.find(misfires, MAX_MISFIRES))

    @property
    def job_key(self) -> JobKey | None:
        return self.checkpoint.job_key if self.record is None else self.record.job_key

    def to_follow(self) -> TriggerKey | None:
        """Return a trigger that repeats an execution, and whose own execution is not known yet."""
        for record in [*self.ended(), *filter(None, self.repeats.values())]:
            key = repeated_by(record, self.job)
            if key is not None and key not in self.repeats:
                return key
        return None


def _follow(reading: BatchedReads, questions: Sequence[_Questions]) -> None:
    """Ask about the retries and recoveries of the executions, which have triggers of their own, attempt by attempt."""
    for _ in range(MAX_REPEATED):
        following = [(each, key) for each in questions if (key := each.to_follow()) is not None]
        if not following:
            return
        keys = [key for _, key in following]
        stored = _triggers(reading, keys)
        ended = [_execution_of(reading, key) for key in keys]
        for (each, key), answer in zip(following, ended, strict=True):
            record = next(iter(answer()), None)
            if record is not None or key in stored():
                each.repeats[key] = record
            else:
                # Somebody has removed the retry: the execution before it was the last one.
                each.repeats[key] = None
                each.removed.add(key)


def _triggers(reading: BatchedReads, keys: Sequence[TriggerKey]) -> Deferred[dict[TriggerKey, TriggerRecord]]:
    return reading.defer(lambda store: store.triggers(keys))


def _execution_of(reading: BatchedReads, key: TriggerKey) -> Deferred[list[ExecutionRecord]]:
    query = ExecutionQuery(trigger_key=key)
    return reading.defer(lambda store: store.find(query, 1))


def _judged(store: JobStore, each: _Questions, running: Sequence[RunningRecord], now: datetime) -> CheckResult | None:
    """Return what a look at a trigger finds; None if nothing is expected of it."""
    record, checkpoint, job = each.record, each.checkpoint, each.job
    trigger = None if record is None else record.trigger
    expect = checkpoint.expect if trigger is None else expected_of(trigger, job)
    job_key = each.job_key
    if expect is None or job_key is None:
        return None
    repeats = {key: execution for key, execution in each.repeats.items() if key not in each.removed}
    own = {each.key, *each.repeats}
    of_job = [row for row in running if row.job_key == job_key and row.state == "EXECUTING"]

    def busy(since: datetime, until: datetime) -> datetime | None:
        if job is None:
            return None
        ends = [_full_until(store, job, running, since, until)] if job.limits else []
        if job.max_concurrent is not None or job.rate_limit is not None:
            query = ExecutionQuery(job_key=job_key, since=since - LOOK_BACK, among=AMONG)
            limit = Limit(max_concurrent=job.max_concurrent, rate_limit=job.rate_limit)
            ends += _held_until(limit, store.find(query, MAX_OF_JOB), of_job, since, until)
        return max((end for end in ends if end is not None), default=None)

    facts = ExpectationFacts(
        trigger_key=each.key,
        job_key=job_key,
        zone=checkpoint.zone if trigger is None else time_zone_of(trigger),
        trigger=record,
        job=job,
        ended=each.ended(),
        running=[row for row in of_job if row.trigger_key in own],
        misfires=each.misfires(),
        repeats=repeats,
        busy_until=busy,
    )
    return judge(expect, checkpoint, facts, now)


def _full_until(
    store: JobStore, job: JobDetail, running: Sequence[RunningRecord], since: datetime, until: datetime
) -> datetime | None:
    """Return the end of the last time between two instants at which a limit that the job shares admitted no fire."""
    executions = store.find(ExecutionQuery(since=since - LOOK_BACK, among=AMONG), AMONG)
    others = store.jobs({row.job_key for row in executions} | {row.job_key for row in running})
    ends: list[datetime | None] = []
    for name, record in store.limits().items():
        if name not in job.limits:
            continue
        sharing = {key for key, other in others.items() if name in other.limits}
        ended = [row for row in executions if row.job_key in sharing]
        runs = [row for row in running if row.job_key in sharing and row.state == "EXECUTING"]
        ends += _held_until(record.limit, ended, runs, since, until)
    return max((end for end in ends if end is not None), default=None)


def _held_until(
    limit: Limit, ended: Sequence[ExecutionRecord], running: Sequence[RunningRecord], since: datetime, until: datetime
) -> Iterator[datetime | None]:
    """Yield the ends of the last times between two instants at which the slots and the rate of a limit held fires."""
    if limit.max_concurrent is not None:
        yield busy_until(ended, running, limit.max_concurrent, since, until)
    if limit.rate_limit is not None:
        fires = [row.fire_time or row.scheduled_fire_time for row in ended if row.outcome is not Outcome.SKIPPED]
        yield rate_opens(limit.rate_limit, [*fires, *(row.fire_time for row in running)], since, until)


# --- jobs that wait for others


def check_joins(store: JobStore, turn: datetime) -> Sequence[BreachRecord]:
    """Record which jobs have waited for too long since the last turn, and return the new breaches.

    Raises:
        QuartzpyError: the store cannot be reached; nothing is recorded, and the next turn looks again.
    """
    late = admin(store).late_joins(MAX_LATE_JOINS)
    if not late:
        return []
    jobs = store.jobs({join.job_key for join in late})
    broken = [breach for join in late if (breach := _join_breach(join, jobs.get(join.job_key))) is not None]
    return admin(store).record_late_joins(turn, late, broken)


def _join_breach(late: LateJoin, job: JobDetail | None) -> JudgedBreach | None:
    """Return the breach; None if the job does not wait any more, or may wait for ever by now."""
    after: Join | None = None if job is None or job.after is None else as_join(job.after)
    if after is None or after.within is None:
        return None
    key, occasion = late.job_key, short_occasion(late.occasion)
    ended = " and ".join(f"{end.job_key} ({end.outcome})" for end in late.ended)
    return JudgedBreach(
        Breach.JOINS_LATE,
        TriggerKey(key.name, key.group),
        key,
        instant_of_occasion(late.occasion),
        f"Job {key} still waits for {missing_jobs(late.ended, after)} of {occasion},"
        f" {span_in_words(after.within)} after the first end.",
        (f"It runs after others ({after.rule}). So far {ended} {'has' if len(late.ended) == 1 else 'have'} ended.",),
    )
