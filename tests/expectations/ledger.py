"""The checkpoints and breaches of expectations in memory, as a database keeps them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count

from quartzpy.expect import Breach, BreachRecord, JudgedBreach
from quartzpy.keys import UNSCHEDULED_GROUPS, TriggerKey
from quartzpy.operations.telling.expectation_check import CheckedTriggers, DueCheck
from quartzpy.operations.telling.expectations import Checkpoint, time_zone_of
from quartzpy.operations.views.triggers import expected_of
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import TriggerQuery

LISTED_EVERY = timedelta(minutes=1)
_Fire = tuple[TriggerKey, Breach, datetime]


def _is_sooner(at: datetime | None, before: datetime | None) -> bool:
    return at is not None and (before is None or at < before)


class MemoryLedger:
    """A `Ledger` without a database."""

    def __init__(self, store: JobStore, now: Callable[[], datetime]) -> None:
        self._store, self._now = store, now
        self._checkpoints: dict[TriggerKey, tuple[datetime, Checkpoint, int]] = {}
        self._heap: list[tuple[datetime, TriggerKey]] = []
        self._ids = count(1)
        self._listed_at = now()
        self.breaches: dict[_Fire, BreachRecord] = {}
        self.open: dict[tuple[TriggerKey, Breach], BreachRecord] = {}
        self.looks = 0

    def next_due(self) -> datetime | None:
        """Return the instant of the next look."""
        while self._heap:
            at, key = self._heap[0]
            if key in self._checkpoints and self._checkpoints[key][0] == at:
                return at
            heapq.heappop(self._heap)
        return None

    def list_triggers(self) -> None:
        """Look which triggers have an expectation, as a turn does once a minute."""
        records = [
            record for record in self._store.find(TriggerQuery(), None) if record.key.group not in UNSCHEDULED_GROUPS
        ]
        jobs = self._store.jobs({record.job_key for record in records})
        for record in records:
            trigger, before = record.trigger, self._checkpoints.get(record.key)
            expect = expected_of(trigger, jobs.get(record.job_key))
            if expect is None:
                continue
            if before is None:
                checkpoint = Checkpoint(
                    self._listed_at, self._listed_at, expect=expect, zone=time_zone_of(trigger), job_key=record.job_key
                )
                self._put(record.key, self._now(), checkpoint, record.generation)
            elif (
                before[2] != record.generation
                or before[1].resumed != record.resumed_at
                or _is_sooner(record.next_fire_time, before[1].next)
            ):
                self._put(record.key, self._now(), before[1], record.generation)
        self._listed_at = self._now()

    def _put(self, key: TriggerKey, due_at: datetime, checkpoint: Checkpoint, generation: int) -> None:
        self._checkpoints[key] = due_at, checkpoint, generation
        heapq.heappush(self._heap, (due_at, key))

    def due(self, limit: int) -> Sequence[DueCheck]:
        due = []
        while len(due) < limit and (at := self.next_due()) is not None and at <= self._now():
            _, key = heapq.heappop(self._heap)
            # As a database stores it.
            due.append(DueCheck(key, Checkpoint.from_json(self._checkpoints[key][1].as_json())))
        self.looks += len(due)
        return due

    def record(self, looked: CheckedTriggers) -> Sequence[BreachRecord]:
        new = []
        for key, judgement in looked.judgements.items():
            for kind, at in judgement.met.items():
                if (record := self.open.get((key, kind))) is not None and record.scheduled_fire_time < at:
                    del self.open[key, kind]
            new += [record for breach in judgement.broken if (record := self._broken(breach)) is not None]
            self._put(key, judgement.due_at, judgement.checkpoint, looked.generations.get(key, 0))
        for key in looked.over:
            self._checkpoints.pop(key, None)
        assert not looked.failed, looked.failed
        return new

    def _broken(self, breach: JudgedBreach) -> BreachRecord | None:
        fire = breach.trigger_key, breach.kind, breach.scheduled_fire_time
        if fire in self.breaches:
            return None
        before = self.open.get((breach.trigger_key, breach.kind))
        record = BreachRecord(
            breach.kind,
            breach.trigger_key,
            breach.job_key,
            breach.scheduled_fire_time,
            breach.what,
            breach.why,
            breach_id=next(self._ids),
            found_at=self._now(),
            in_a_row=1 if before is None else before.in_a_row + 1,
            since=self._now() if before is None else before.since,
        )
        self.breaches[fire] = self.open[breach.trigger_key, breach.kind] = record
        return record
