"""Questions and requests about one job or trigger, in terms of the methods of a store, which take several."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Placement
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.states import PUBLIC, JobMode, PublicState
from quartzpy.store import refusals
from quartzpy.store.protocol import JobStore


def mode_of_job(store: JobStore, key: JobKey) -> JobMode | None:
    """Return the mode of a job; None if it is not stored."""
    header = store.job_headers([key]).get(key)
    return None if header is None else header.mode


def placements(store: JobStore, keys: Collection[JobKey]) -> dict[JobKey, Placement]:
    """Return the placements of those of these jobs that are stored, without decoding the rest of each job."""
    return {key: header.placement for key, header in store.job_headers(keys).items()}


def placements_of_jobs(reading: BatchedReads, keys: Collection[JobKey]) -> Callable[[], dict[JobKey, Placement]]:
    """Ask for the `placements` of these jobs, if there are any."""
    return reading.defer(lambda store: placements(store, keys)) if keys else dict


def state_of_trigger(store: JobStore, key: TriggerKey) -> PublicState:
    """Return the state of a trigger; NONE if it is not stored."""
    record = store.triggers([key]).get(key)
    return PublicState.NONE if record is None else PUBLIC[record.state]


def reset_from_error(store: JobStore, key: TriggerKey) -> datetime | None:
    """Reset a trigger that is in ERROR; return its next fire time.

    Raises:
        TriggerNotFoundError: it is not stored.
        IllegalStateChangeError: it is not in ERROR.
    """
    reset = store.reset_from_error([key])
    if key not in reset:
        record = store.triggers([key]).get(key)
        raise refusals.not_in_error(key, None if record is None else record.state)
    return reset[key]
