"""How a run ended that an action began: for the notice that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from quartzpy.keys import TriggerKey
from quartzpy.operations.incidents.words import short_span
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.states import ENDED, ExecutionState, TriggerState
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord
from quartzpy.texts import error_summary, instant_text

SOON = timedelta(minutes=1)
"""A fire that is further away is not waited for."""
_RUNS = frozenset({ExecutionState.ENQUEUED, ExecutionState.PROCESSING})


@dataclass(frozen=True, slots=True)
class Followed:
    """How far a run is."""

    sentence: str
    """Empty if there is nothing to say yet."""
    is_over: bool
    """True if nothing more is to be expected."""
    has_failed: bool = False


def followed(reading: BatchedReads, trigger: TriggerKey, after: int, *, again: bool) -> Followed:
    """Return how the run of a trigger is that began after an entry of the audit log; see `Operations.followed`."""
    ended = reading.defer(lambda store: store.find(ExecutionQuery(states=ENDED, trigger_key=trigger), 1))
    running = reading.defer(lambda store: store.find(ExecutionQuery(states=_RUNS, trigger_key=trigger), 1))
    records = reading.defer(lambda store: store.triggers([trigger]))
    ran = "ran again" if again else "ran"
    for execution in ended():
        # Both ids are of one sequence.
        if (execution.fire_id or 0) > after:
            return _end(execution, ran)
    record = records().get(trigger)
    if record is not None and record.state is TriggerState.ERROR:
        error = error_summary(record.error) or "no reason was recorded"
        return Followed(f"The trigger is in ERROR again: {error}", is_over=True, has_failed=True)
    if running():
        return Followed("It runs.", is_over=False)
    if record is None:
        return Followed("", is_over=True)
    at = record.next_fire_time
    if record.state is not TriggerState.WAITING or at is None:
        return Followed("", is_over=at is None)
    is_far = at - reading.now() > SOON
    return Followed(f"It fires at {instant_text(at)}." if is_far else "", is_over=is_far)


def _end(execution: ExecutionRecord, ran: str) -> Followed:
    if execution.state is ExecutionState.SUCCEEDED:
        start, end = execution.started_at, execution.ended_at
        took = f", in {short_span(max(timedelta(), end - start))}" if start is not None and end is not None else ""
        return Followed(f"It {ran} and succeeded{took}.", is_over=True)
    if execution.state is not ExecutionState.FAILED:
        return Followed(f"It {ran} and was {execution.state.lower()}.", is_over=True, has_failed=True)
    retry = "" if execution.retry_at is None else f" (a retry follows at {instant_text(execution.retry_at)})"
    error = error_summary(execution.error) or "no error was recorded"
    return Followed(f"It {ran} and failed: {error}{retry}", is_over=True, has_failed=True)
