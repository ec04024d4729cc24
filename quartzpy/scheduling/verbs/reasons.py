"""The queries behind `Scheduler.why`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import TriggerKey
from quartzpy.scheduling.advice import PYTHON, Advice
from quartzpy.scheduling.explain import Situation, explain, explain_ended
from quartzpy.store import node_facts
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import MisfireQuery
from quartzpy.store.records import RunningRecord


def of_trigger(store: JobStore, key: TriggerKey, misfire_threshold: timedelta, advice: Advice = PYTHON) -> list[str]:
    """Explain why a trigger has not fired, or when it will; see `Scheduler.why`.

    Raises:
        TriggerNotFoundError: neither the store nor its history knows the trigger.
    """
    return Reasons(store, misfire_threshold, advice).of_trigger(key)


class Reasons:
    """Explains triggers of one moment: what concerns all of them is read once.

    `misfire_threshold` holds where no node has published its own, by which it judges.
    """

    def __init__(self, store: JobStore, misfire_threshold: timedelta, advice: Advice = PYTHON) -> None:
        self._store = store
        self._advice = advice
        self._threshold = node_facts.misfire_threshold(store.node_facts()) or misfire_threshold
        self._nodes = store.list_nodes()
        self._running = store.list_running()
        self._pauses = store.pauses()
        self._manual = store.is_manual()
        self._busy = _busy(store, self._running)

    def of_trigger(self, key: TriggerKey) -> list[str]:
        """Explain one trigger; see `Scheduler.why`.

        Raises:
            TriggerNotFoundError: neither the store nor its history knows the trigger.
        """
        store = self._store
        record = store.trigger(key)
        last = store.last_executions([key], 1).get(key, [])
        misfires = store.find_misfires(MisfireQuery(trigger_key=key), 1)
        if record is None:
            if not last and not misfires:
                raise TriggerNotFoundError(f"trigger {key} is not stored, and the history has no execution of it")
            return explain_ended(key, self._nodes.now, last, misfires)
        job_key = record.job_key
        situation = Situation(
            now=self._nodes.now,
            trigger=record,
            job=store.job(job_key),
            running=[row for row in self._running if row.job_key == job_key],
            nodes=self._nodes.nodes,
            all_paused=self._pauses.everything,
            trigger_group_paused=key.group in self._pauses.trigger_groups,
            job_group_paused=job_key.group in self._pauses.job_groups,
            manual_mode=self._manual,
            job_mode=store.job_mode(job_key),
            misfire_threshold=self._threshold,
            last=last,
            misfires=misfires,
            advice=self._advice,
            busy=self._busy,
        )
        return explain(situation)


def _busy(store: JobStore, running: Sequence[RunningRecord]) -> Counter[tuple[str, str]]:
    """Count the busy workers by instance id and executor; a claim counts, because it needs its worker in a moment."""
    of_jobs = store.placements({row.job_key for row in running})
    return Counter((row.instance_id, of_jobs[row.job_key].pool) for row in running if row.job_key in of_jobs)
