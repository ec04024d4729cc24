"""The queries behind `Scheduler.why`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import TriggerKey
from quartzpy.scheduling.explain import Situation, explain, explain_ended
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery, MisfireQuery
from quartzpy.store.records import RunningRecord


def of_trigger(store: JobStore, key: TriggerKey, misfire_threshold: timedelta) -> list[str]:
    """Explain why a trigger has not fired, or when it will; see `Scheduler.why`.

    Raises:
        TriggerNotFoundError: neither the store nor its history knows the trigger.
    """
    record = store.trigger(key)
    last = store.find_executions(ExecutionQuery(trigger_key=key), 1)
    misfires = store.find_misfires(MisfireQuery(trigger_key=key), 1)
    if record is None:
        if not last and not misfires:
            raise TriggerNotFoundError(f"trigger {key} is not stored, and the history has no execution of it")
        return explain_ended(key, store.now(), last, misfires)
    job_key = record.job_key
    nodes = store.list_nodes()
    running = store.list_running()
    situation = Situation(
        now=nodes.now,
        trigger=record,
        job=store.job(job_key),
        running=[row for row in running if row.job_key == job_key],
        nodes=nodes.nodes,
        all_paused=store.all_paused(),
        trigger_group_paused=key.group in store.paused_trigger_groups(),
        job_group_paused=job_key.group in store.paused_job_groups(),
        manual_mode=store.is_manual(),
        job_mode=store.job_mode(job_key),
        misfire_threshold=misfire_threshold,
        last=last,
        misfires=misfires,
        busy=_busy(store, running),
    )
    return explain(situation)


def _busy(store: JobStore, running: Sequence[RunningRecord]) -> Counter[tuple[str, str]]:
    """Count the busy workers by instance id and executor; a claim counts, because it needs its worker in a moment."""
    jobs = store.jobs({row.job_key for row in running})
    return Counter((row.instance_id, jobs[row.job_key].placement.pool) for row in running if row.job_key in jobs)
