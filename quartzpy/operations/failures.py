"""Triggers whose last executions have failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from quartzpy.job_data import decode
from quartzpy.jobs.repetition import nominal_fire
from quartzpy.keys import TriggerKey
from quartzpy.operations.executions import MOST_ATTEMPTS, repetition
from quartzpy.operations.incidents import FAILURES_IN_A_ROW, MOST_OF_A_KIND, FailureRow
from quartzpy.operations.source import attempt
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import ExecutionRecord
from quartzpy.texts import headline

LOOKED_AT = 10
"""The number of a trigger's last executions that are looked at."""
RECENT = timedelta(days=7)
_FIRES = frozenset({TriggerState.WAITING, TriggerState.ACQUIRED, TriggerState.BLOCKED})
_UNDECIDED = frozenset({ExecutionState.SCHEDULED, ExecutionState.ENQUEUED, ExecutionState.PROCESSING})
_Fire = tuple[TriggerKey, datetime]


def in_a_row(store: JobStore, failures: Collection[ExecutionRecord], now: datetime) -> list[FailureRow]:
    """Return the triggers whose last executions have failed for good, the latest first.

    `failures` are the latest executions that failed and are not retried. A fire whose last retry failed counts as one
    failure.
    """
    fires: dict[_Fire, ExecutionRecord] = {}
    for record in failures:
        if record.ended_at is not None and now - record.ended_at <= RECENT:
            fires.setdefault(_nominal(record), record)
    keys = list(dict.fromkeys(key for key, _ in fires))[:MOST_OF_A_KIND]
    last = store.last_executions(keys, LOOKED_AT)
    in_a_row = {
        key: failed for key in keys if len(failed := _failed(store, last.get(key, ()), fires)) >= FAILURES_IN_A_ROW
    }
    if not in_a_row:
        return []
    jobs = store.placements({failed[0].job_key for failed in in_a_row.values()})
    triggers = store.triggers(in_a_row)
    found = []
    for key, failed in in_a_row.items():
        records = last[key]
        trigger = triggers.get(key)
        final = fires.get(_rounded(key, failed[0].scheduled_fire_time), failed[0])
        found.append(
            FailureRow(
                key,
                failed[0].job_key,
                len(failed),
                failed[-1] is not records[-1] or len(records) < LOOKED_AT,
                final.fire_id,
                headline(final.error),
                failed[-1].ended_at or now,
                failed[0].job_key in jobs,
                trigger is not None and trigger.state in _FIRES,
            )
        )
    return found


def _failed(store: JobStore, records: Sequence[ExecutionRecord], fires: Collection[_Fire]) -> list[ExecutionRecord]:
    """Return the executions in a row that failed for good, the latest first.

    The latest fires do not end the row while their retries are to come: otherwise a job that always fails would be in
    order between a first attempt and its last one.
    """
    retried = list(takewhile(lambda record: record.retry_at is not None and not _has_failed(record, fires), records))
    failed = list(takewhile(lambda record: _has_failed(record, fires), records[len(retried) :]))
    is_row = len(failed) >= FAILURES_IN_A_ROW and all(_is_undecided(store, record) for record in retried)
    return failed if is_row else []


def _is_undecided(store: JobStore, record: ExecutionRecord) -> bool:
    """Return True if an execution failed and is to be repeated, or is being repeated."""
    for _ in range(MOST_ATTEMPTS):
        if record.outcome is not Outcome.FAILED or record.retry_at is None:
            return False
        after = repetition(store, record)
        if after is None:
            return False
        if after.state in _UNDECIDED:
            return True
        record = after
    return True


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
