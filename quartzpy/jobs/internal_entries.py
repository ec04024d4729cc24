"""The internal entries of a trigger's data: what it repeats or continues, who runs it by hand, the trace of its caller.

A trace context travels with the trigger's data from the call that schedules to the executions. It has the form of W3C
Trace Context (https://www.w3.org/TR/trace-context/). It is no part of the definition of a trigger: the same trigger,
stored in another trace, has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from quartzpy.errors import InvalidJobDataError, QuartzpyError
from quartzpy.job_data import (
    BATCH,
    INTERNAL_KEYS,
    JOINED,
    NOMINAL_FIRE_TIME,
    ORIGINAL_FIRE_TIME,
    ORIGINAL_GROUP,
    ORIGINAL_NAME,
    ORIGINAL_SCHEDULED_FIRE_TIME,
    PREDECESSOR_FIRE_ID,
    PREDECESSOR_GROUP,
    PREDECESSOR_NAME,
    PREDECESSOR_OUTCOME,
    PREDECESSOR_RESULT,
    RETRIED_GROUP,
    RETRIED_NAME,
    RETRIED_SCHEDULED_FIRE_TIME,
    TRACE_PARENT,
    TRACE_STATE,
    TRIGGERED_BY,
)
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.join import Joined, instant_of_occasion, joined_from_data, occasion_of_instant
from quartzpy.keys import MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS, UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.states import Outcome
from quartzpy.triggers.trigger import Trigger

_OWN = INTERNAL_KEYS - {TRACE_PARENT, TRACE_STATE}
_EPOCH = datetime.fromtimestamp(0, UTC)
_RECOVERY_ENTRIES = {ORIGINAL_NAME, ORIGINAL_GROUP, ORIGINAL_FIRE_TIME, ORIGINAL_SCHEDULED_FIRE_TIME}
_FIRST_RECOVERED = (ORIGINAL_GROUP, ORIGINAL_NAME, ORIGINAL_SCHEDULED_FIRE_TIME)
_FIRST_RETRIED = (RETRIED_GROUP, RETRIED_NAME, RETRIED_SCHEDULED_FIRE_TIME)
_T = TypeVar("_T")


def _read(read: Callable[[], _T]) -> _T | None:
    """Return what entries say; None if they are not what the scheduler writes, as in a row that somebody has edited."""
    try:
        return read()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, QuartzpyError):
        return None


def refuse_internal(data: Mapping[str, Any] | None, what: str, names: Collection[str] = _OWN) -> None:
    """Check that data which a program wrote has no entry of the scheduler itself.

    Without `names`, a trace is none: a program may store a trigger again that it has read.

    Raises:
        InvalidJobDataError: it has one.
    """
    if own := sorted(name for name in data or () if name in names):
        raise InvalidJobDataError(f"{what}: {own[0]} is an entry of the scheduler itself; leave it out")


def repeats(trigger_key: TriggerKey, scheduled_fire_time: datetime, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a trigger that repeats an execution with this `data`. It names the original execution.

    It is no part of the batch of the original, whose end has been counted, and that of its retries would count again.
    """
    values = (trigger_key.group, trigger_key.name, _milliseconds(scheduled_fire_time))
    own = {name: value for name, value in data.items() if name != BATCH}
    return {**dict(zip(_FIRST_RETRIED, values, strict=True)), **own}


class BatchKey(NamedTuple):
    """A batch: triggers that were stored together, and after whose ends a job runs."""

    job: JobKey
    """The job that runs when all of them have ended."""
    name: str


class RecoveredExecution(NamedTuple):
    """An execution whose node died, as the trigger that recovers it names it."""

    trigger_key: TriggerKey
    fire_time: datetime
    scheduled_fire_time: datetime


def recovery_data(lost: RecoveredExecution) -> dict[str, Any]:
    """Return the data by which a trigger names the execution that it recovers. The names are Quartz's."""
    return {
        ORIGINAL_NAME: lost.trigger_key.name,
        ORIGINAL_GROUP: lost.trigger_key.group,
        ORIGINAL_FIRE_TIME: _milliseconds(lost.fire_time),
        ORIGINAL_SCHEDULED_FIRE_TIME: _milliseconds(lost.scheduled_fire_time),
    }


def recovered_by(trigger_key: TriggerKey, data: Mapping[str, Any]) -> RecoveredExecution | None:
    """Return the execution that a trigger with this `data` recovers; None if it recovers none."""
    if trigger_key.group != RECOVERING_JOBS or not data.keys() >= _RECOVERY_ENTRIES:
        return None
    return _read(
        lambda: RecoveredExecution(
            TriggerKey(str(data[ORIGINAL_NAME]), str(data[ORIGINAL_GROUP])),
            _from_milliseconds(str(data[ORIGINAL_FIRE_TIME])),
            _from_milliseconds(str(data[ORIGINAL_SCHEDULED_FIRE_TIME])),
        )
    )


def continuation_data(predecessor: Predecessor) -> dict[str, Any]:
    """Return the data by which a trigger names the execution that it continues."""
    return {
        PREDECESSOR_NAME: predecessor.job_key.name,
        PREDECESSOR_GROUP: predecessor.job_key.group,
        PREDECESSOR_FIRE_ID: predecessor.fire_id,
        PREDECESSOR_OUTCOME: predecessor.outcome,
        PREDECESSOR_RESULT: predecessor.result,
    }


def nominal_entry(instant: datetime) -> dict[str, Any]:
    """Return the entry by which a trigger that follows executions has the instant of the schedule that they had."""
    return {NOMINAL_FIRE_TIME: occasion_of_instant(instant)}


class NominalFire(NamedTuple):
    """A trigger, and an instant of its schedule."""

    trigger_key: TriggerKey
    instant: datetime

    @property
    def execution_key(self) -> str:
        return f"{self.trigger_key}@{self.instant.isoformat(timespec='milliseconds')}"


def nominal_fire(key: TriggerKey, scheduled_fire_time: datetime, data: Mapping[str, Any]) -> NominalFire:
    """Return the trigger and the instant of the schedule of the first execution that one with this `data` repeats.

    They are `key` and `scheduled_fire_time` themselves if it repeats none. One that follows other executions has the
    instant of these.
    """
    instant = scheduled_fire_time
    carried = _read(lambda: _carried(data[NOMINAL_FIRE_TIME])) if key.group in UNSCHEDULED_GROUPS else None
    # A recovery may be retried, and a retry recovered. Each kind records its original only once.
    repeating = {RECOVERING_JOBS: _FIRST_RECOVERED, RETRYING_JOBS: _FIRST_RETRIED, MANUAL_TRIGGERS: _FIRST_RETRIED}
    while (names := repeating.pop(key.group, None)) and names[0] in data:
        if (first := _read(partial(_first_of, data, names))) is None:
            break
        key, instant = first
    return NominalFire(key, instant if carried is None else carried)


def _carried(text: str) -> datetime:
    instant = instant_of_occasion(text)
    if occasion_of_instant(instant) != text:
        raise ValueError("not as the scheduler writes it")
    return instant


def _first_of(data: Mapping[str, Any], names: tuple[str, str, str]) -> tuple[TriggerKey, datetime]:
    group, name, at = (str(data[entry]) for entry in names)
    return TriggerKey(name, group), _from_milliseconds(at)


def retried_trigger_of(data: Mapping[str, Any]) -> TriggerKey | None:
    """Return the key of the trigger whose failed execution is retried; None in a first attempt."""
    if RETRIED_NAME not in data:
        return None
    return _read(lambda: TriggerKey(str(data[RETRIED_NAME]), str(data[RETRIED_GROUP])))


def with_actor(data: Mapping[str, Any], by: str | None) -> dict[str, Any]:
    """Return the data of a run by hand, which names who asked for it, if `by` does, and nobody else."""
    others = {name: value for name, value in data.items() if name != TRIGGERED_BY}
    return others if by is None else {**others, TRIGGERED_BY: by}


def actor_of(key: TriggerKey, data: Mapping[str, Any]) -> str | None:
    """Return who asked for a run by hand, or for the one that a retry or a recovery repeats; None if nobody is named.

    The data of a trigger of another kind is its program's own.
    """
    by = data.get(TRIGGERED_BY)
    return by if isinstance(by, str) and key.group in (MANUAL_TRIGGERS, RETRYING_JOBS, RECOVERING_JOBS) else None


def predecessor_of(data: Mapping[str, Any]) -> Predecessor | None:
    """Return the execution that is continued; None if the trigger is not one of a continuation."""
    if PREDECESSOR_NAME not in data:
        return None
    return _read(
        lambda: Predecessor(
            JobKey(str(data[PREDECESSOR_NAME]), str(data[PREDECESSOR_GROUP])),
            int(data[PREDECESSOR_FIRE_ID]),
            Outcome(data[PREDECESSOR_OUTCOME]),
            data[PREDECESSOR_RESULT],
        )
    )


def joined_of(data: Mapping[str, Any]) -> Joined | None:
    """Return the ends after which a job runs that waits for several; None if it was triggered otherwise."""
    return None if JOINED not in data else _read(lambda: joined_from_data(data[JOINED]))


def batch_entry(batch: BatchKey) -> dict[str, Any]:
    """Return the entry by which a trigger belongs to a batch."""
    return {BATCH: {"job_group": batch.job.group, "job_name": batch.job.name, "batch": batch.name}}


def batch_of(data: Mapping[str, Any]) -> BatchKey | None:
    """Return the batch to which a trigger with this `data` belongs; None if it belongs to none."""
    if (entry := data.get(BATCH)) is None:
        return None
    return _read(lambda: BatchKey(JobKey(entry["job_name"], entry["job_group"]), str(entry["batch"])))


def _milliseconds(instant: datetime) -> str:
    """Format an instant as Quartz stores it in the data of a recovery trigger: milliseconds since 1970.

    Microseconds, which Quartz does not have, are a decimal fraction.
    """
    return f"{Decimal((instant - _EPOCH) // timedelta(microseconds=1)) / 1000:f}"


def _from_milliseconds(milliseconds: str) -> datetime:
    """Return the instant that such a text stands for."""
    return _EPOCH + timedelta(microseconds=int(Decimal(milliseconds) * 1000))


TraceContext: TypeAlias = Mapping[str, str]
"""The entries `traceparent` and `tracestate`, as far as there are any."""
CurrentTrace: TypeAlias = Callable[[], TraceContext]
"""Returns the trace context of the calling thread or coroutine; empty outside of traces."""

Within: TypeAlias = Callable[[TraceContext], AbstractContextManager[object]]
"""Returns a context manager in which a trace context is the current one."""

_KEYS = {"traceparent": TRACE_PARENT, "tracestate": TRACE_STATE}
_MAX_CHARACTERS = 512
"""The longest entry that is stored; a longer one is left out."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """The connection with a library of tracing."""

    current: CurrentTrace
    within: Within | None = None
    """Makes the trace context of an execution current in a process worker; it is a function that can be pickled."""


def with_trace(trigger: Trigger, trace: TraceContext) -> Trigger:
    """Return the trigger with this trace context instead of one that it may have."""
    entries = {key: trace[name] for name, key in _KEYS.items() if 0 < len(trace.get(name, "")) <= _MAX_CHARACTERS}
    return replace(trigger, data={**without_trace(trigger.data or {}), **entries}) if entries else trigger


def trace_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context in the data of an execution; empty if there is none."""
    entries = {name: data.get(key) for name, key in _KEYS.items()}
    return {name: value for name, value in entries.items() if isinstance(value, str)}


def without_trace(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without the trace context."""
    return {name: value for name, value in data.items() if name not in (TRACE_PARENT, TRACE_STATE)}
