"""Joins and batches: which jobs run when several executions have ended."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from quartzpy.job_data import JOINED
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.internal_entries import BatchKey, batch_of, continuation_data, nominal_entry
from quartzpy.jobs.join import Join
from quartzpy.keys import CONTINUATIONS, JobKey
from quartzpy.states import JoinState, Outcome, TriggerState
from quartzpy.store.memory.rerun import instant_of, store_once
from quartzpy.store.memory.rows import FiredRow, JobRow, JoinRow, TriggerRow, concurrency_key
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import Notification
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import UpcomingFireTimes


class _Arrival(NamedTuple):
    row: FiredRow
    outcome: Outcome
    result: str | None


@dataclass
class Arrivals:
    """The ends of one step, by what they mean to the jobs that wait for several."""

    tables: Tables
    _followers: Counter[int] = field(default_factory=Counter)
    """The number of jobs that follow each end."""
    _of_joins: defaultdict[tuple[JobKey, str], list[_Arrival]] = field(default_factory=lambda: defaultdict(list))
    _of_batches: defaultdict[BatchKey, list[_Arrival]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: FiredRow, outcome: Outcome, result: str | None = None) -> None:
        """Note an end for good."""
        arrival = _Arrival(row, outcome, result)
        for job in self.tables.jobs_after(row.job_key):
            assert job.after is not None
            self._of_joins[job.key, job.after.occasion(instant_of(row))].append(arrival)
        # A run by hand has the data of a trigger that has been counted.
        batch = batch_of(json.loads(row.trigger_data or "{}"))
        if batch is not None:
            self._of_batches[batch].append(arrival)

    def settle(self) -> list[TriggerRow]:
        """Count the ends; return the triggers that start the jobs for which enough has ended."""
        started = []
        for (key, occasion), arrivals in self._of_joins.items():
            job, after = self.tables.jobs[key], self.tables.jobs[key].after
            assert after is not None
            row = self.tables.joins.setdefault((key, occasion), JoinRow(self.tables.now()))
            for arrival in arrivals:
                _count(row, arrival, self.tables.now())
                _replace(row, arrival, after)
            ended = [upstream for upstream in after.keys if _counts(row, upstream, after)]
            state = JoinState.FIRED if len(ended) >= after.needed else JoinState.WAITING
            started += self._decided(job, occasion, row, state, arrivals)
        for batch, arrivals in self._of_batches.items():
            of_batch, end_job = self.tables.joins.get((batch.job, batch.name)), self.tables.jobs.get(batch.job)
            if of_batch is None or end_job is None:
                continue
            for arrival in arrivals:
                _count(of_batch, arrival, self.tables.now())
            started += self._decided(end_job, batch.name, of_batch, _state_of_batch(of_batch), arrivals)
        return started

    def _decided(
        self, job: JobRow, occasion: str, row: JoinRow, state: JoinState, arrivals: Sequence[_Arrival]
    ) -> list[TriggerRow]:
        if row.state is JoinState.FIRED or (row.state is JoinState.UNMET and row.total is not None):
            return []
        row.state = state
        if state is not JoinState.FIRED:
            return []
        last = max(arrivals, key=lambda arrival: arrival.row.fire_id)
        row.fire_id = last.row.fire_id
        instant = job.after.instant(occasion) if row.total is None and job.after is not None else self.tables.now()
        data = json.dumps({JOINED: _entry(occasion, row), **nominal_entry(instant)}, ensure_ascii=False)
        after = replace(last.row, job_key=job.key, trigger_data=data, fired=None)
        ended = continuation_data(_predecessor(last))
        self._followers[last.row.fire_id] += 1
        what = "join" if row.total is None else "batch"
        name = f"after_{last.row.fire_id}_{what}_{self._followers[last.row.fire_id]}"
        return [store_once(self.tables, after, job, CONTINUATIONS, name, self.tables.now(), 1, ended)]


def decide_again(tables: Tables, job: JobRow) -> None:
    """Decide what a job waits for whose definition has changed, and start it where that is met."""
    after = job.after
    for (key, occasion), row in sorted(tables.joins.items()):
        if key != job.key or row.state is not JoinState.WAITING or row.total is not None:
            continue
        named = [] if after is None else [upstream for upstream in after.keys if upstream in row.ended]
        if after is None or not named or (after.per == "day") == ("T" in occasion):
            row.state = JoinState.UNMET
            continue
        ends = [row.ended[upstream] for upstream in named if _counts(row, upstream, after)]
        if len(ends) >= after.needed:
            last = max(ends, key=lambda end: end.fire_id)
            row.state, row.fire_id = JoinState.FIRED, last.fire_id
            entries = {JOINED: _entry(occasion, row), **nominal_entry(after.instant(occasion))}
            _start(tables, job, json.dumps({**continuation_data(last), **entries}, ensure_ascii=False), "join")


def abandon(tables: Tables, key: JobKey) -> None:
    """End the waiting of a job that is gone."""
    for (of, _), row in tables.joins.items():
        if of == key and row.state is JoinState.WAITING:
            row.state = JoinState.UNMET


def settle_left_batches(tables: Tables) -> None:
    """Count the triggers of batches that have ended without a fire, and start the jobs of batches that are over."""
    batches, tables.left_batches = Counter(tables.left_batches), []
    for batch, number in batches.items():
        row, job = tables.joins.get((batch.job, batch.name)), tables.jobs.get(batch.job)
        if row is None or job is None or row.state is not JoinState.WAITING:
            continue
        row.removed += number
        row.last_end_at = tables.now()
        row.state = _state_of_batch(row)
        if row.state is JoinState.FIRED:
            _start(tables, job, json.dumps({JOINED: _entry(batch.name, row)}, ensure_ascii=False), "batch")


def _start(tables: Tables, job: JobRow, data: str, place: str) -> None:
    """Store a trigger that fires a job once, at the end of no execution."""
    name = f"after_{tables.next_number()}_{place}"
    trigger = SimpleTrigger(
        name, CONTINUATIONS, job_key=job.key, start_time=tables.now(), repeat_count=0, misfire="ignore"
    )
    row = TriggerRow(trigger, job, tables.next_number(), trigger.started(), UpcomingFireTimes(is_complete=True))
    row.data = data
    row.concurrency_key = concurrency_key(job.concurrency_key, job.data, data)
    paused = tables.pauses.cover(row.key, job)
    tables.add_trigger(row, TriggerState.PAUSED if paused else TriggerState.WAITING)
    tables.notifications.add(Notification.SCHEDULED)


def _count(row: JoinRow, arrival: _Arrival, now: datetime) -> None:
    row.last_end_at = now
    if arrival.outcome is Outcome.SUCCEEDED:
        row.succeeded += 1
    else:
        row.failed += 1


def _replace(row: JoinRow, arrival: _Arrival, after: Join) -> None:
    """Note the last execution of a job. One that counts is not replaced by one that does not."""
    if arrival.outcome in after.outcomes or not _counts(row, arrival.row.job_key, after):
        row.ended[arrival.row.job_key] = _predecessor(arrival)


def _predecessor(arrival: _Arrival) -> Predecessor:
    result = None if arrival.result is None else json.loads(arrival.result)
    return Predecessor(arrival.row.job_key, arrival.row.fire_id, arrival.outcome, result)


def _counts(row: JoinRow, upstream: JobKey, after: Join) -> bool:
    return upstream in row.ended and row.ended[upstream].outcome in after.outcomes


def _state_of_batch(row: JoinRow) -> JoinState:
    assert row.total is not None
    if row.succeeded + row.failed + row.removed < row.total:
        return JoinState.WAITING
    is_met = Outcome.SUCCEEDED in row.outcomes
    if row.failed + row.removed:
        is_met = Outcome.FAILED in row.outcomes
    return JoinState.FIRED if is_met else JoinState.UNMET


def _entry(occasion: str, row: JoinRow) -> dict[str, Any]:
    return {
        "occasion": occasion,
        "succeeded": row.succeeded,
        "failed": row.failed,
        "removed": row.removed,
        "ended": [
            {
                "job_group": end.job_key.group,
                "job_name": end.job_key.name,
                "fire_id": end.fire_id,
                "outcome": str(end.outcome),
                "result": end.result,
            }
            for end in row.ended.values()
        ],
    }
