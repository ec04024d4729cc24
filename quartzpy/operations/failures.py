"""Triggers whose last executions have failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from quartzpy.job_data import decode
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.executions import MOST_ATTEMPTS
from quartzpy.operations.incidents import MOST_OF_A_KIND, Incident, Remedy
from quartzpy.operations.source import attempt
from quartzpy.scheduler.reading import Reading
from quartzpy.scheduler.singles import placements
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.records import ExecutionRecord
from quartzpy.texts import headline

FAILURES_IN_A_ROW = 3
LOOKED_AT = 10
"""The number of a trigger's last executions that are looked at."""
RECENT = timedelta(days=7)
_FIRES = frozenset({TriggerState.WAITING, TriggerState.ACQUIRED, TriggerState.BLOCKED})
_UNDECIDED = frozenset({ExecutionState.SCHEDULED, ExecutionState.ENQUEUED, ExecutionState.PROCESSING})
_Fire = tuple[TriggerKey, datetime]


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


class FailuresInARow:
    """The triggers whose last executions have failed for good, the latest first.

    `failures` are the latest executions that failed and are not retried. A fire whose last retry failed counts as one
    failure.
    """

    def __init__(self, reading: Reading, failures: Collection[ExecutionRecord], now: datetime) -> None:
        self._reading = reading
        self._now = now
        self._fires: dict[_Fire, ExecutionRecord] = {}
        for record in failures:
            if record.ended_at is not None and now - record.ended_at <= RECENT:
                self._fires.setdefault(_nominal(record), record)
        keys = list(dict.fromkeys(key for key, _ in self._fires))[:MOST_OF_A_KIND]
        self._keys = keys
        self._last = reading.ask(lambda store: admin(store).last_executions(keys, LOOKED_AT)) if keys else dict
        self._rows: dict[TriggerKey, _Row] = {}

    def look_further(self) -> None:
        """Ask about those that may have failed in a row, with the questions that already wait."""
        last = self._last()
        for key in self._keys:
            row = _Row(last.get(key, ()), self._fires)
            if len(row.failed) >= FAILURES_IN_A_ROW:
                self._rows[key] = row
        if not self._rows:
            return
        retried = [record.fire_id for row in self._rows.values() for record in row.retried if record.fire_id]
        jobs = {row.failed[0].job_key for row in self._rows.values()}
        ask, keys = self._reading.ask, list(self._rows)
        self._attempts = ask(lambda store: admin(store).attempts(retried, MOST_ATTEMPTS)) if retried else dict
        self._jobs = ask(lambda store: placements(store, jobs))
        self._triggers = ask(lambda store: store.triggers(keys))

    def rows(self) -> list[FailureRow]:
        """Return the triggers."""
        # The latest fires do not end a row while their retries are to come: otherwise a job that always fails would be
        # in order between a first attempt and its last one.
        return [
            self._row(key, row)
            for key, row in self._rows.items()
            if all(_is_undecided(record, self._attempts().get(record.fire_id or 0, ())) for record in row.retried)
        ]

    def _row(self, key: TriggerKey, row: _Row) -> FailureRow:
        failed, trigger = row.failed, self._triggers().get(key)
        final = self._fires.get(_rounded(key, failed[0].scheduled_fire_time), failed[0])
        return FailureRow(
            key,
            failed[0].job_key,
            len(failed),
            failed[-1] is not row.records[-1] or len(row.records) < LOOKED_AT,
            final.fire_id,
            headline(final.error),
            failed[-1].ended_at or self._now,
            failed[0].job_key in self._jobs(),
            trigger is not None and trigger.state in _FIRES,
        )


class _Row:
    """The last executions of a trigger: first those that are repeated, then those that failed for good."""

    def __init__(self, records: Sequence[ExecutionRecord], fires: Collection[_Fire]) -> None:
        self.records = records
        self.retried = list(
            takewhile(lambda record: record.retry_at is not None and not _has_failed(record, fires), records)
        )
        self.failed = list(takewhile(lambda record: _has_failed(record, fires), records[len(self.retried) :]))


def _is_undecided(record: ExecutionRecord, attempts: Sequence[ExecutionRecord]) -> bool:
    """Return True if an execution failed and is or will be repeated. `attempts` are those of its fire."""
    place = next((place for place, other in enumerate(attempts) if other.fire_id == record.fire_id), len(attempts))
    for after in attempts[place + 1 :]:
        if record.outcome is not Outcome.FAILED or record.retry_at is None:
            return False
        if after.state in _UNDECIDED:
            return True
        record = after
    return len(attempts) == MOST_ATTEMPTS and record.outcome is Outcome.FAILED and record.retry_at is not None


def _has_failed(record: ExecutionRecord, fires: Collection[_Fire]) -> bool:
    if record.outcome is not Outcome.FAILED:
        return False
    return record.retry_at is None or _rounded(record.trigger_key, record.scheduled_fire_time) in fires


def _nominal(record: ExecutionRecord) -> _Fire:
    """Return the trigger and the instant of the first attempt, to the millisecond, as repetitions record it."""
    data, _ = attempt(lambda: decode(record.trigger_data_text))
    return _rounded(*nominal_fire(record.trigger_key, record.scheduled_fire_time, data or {}))


def _rounded(key: TriggerKey, instant: datetime) -> _Fire:
    return key, instant.replace(microsecond=instant.microsecond // 1000 * 1000)


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
