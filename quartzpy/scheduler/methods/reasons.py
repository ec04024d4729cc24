"""The queries behind `Scheduler.why`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta

from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Placement
from quartzpy.scheduler.advice import PYTHON, Advice
from quartzpy.scheduler.explain import Situation, explain, explain_ended
from quartzpy.scheduler.reading import Reading
from quartzpy.scheduler.singles import mode_of_job, placements
from quartzpy.store import node_facts
from quartzpy.store.queries import ExecutionQuery, MisfireQuery


def of_trigger(
    reading: Reading, key: TriggerKey, misfire_threshold: timedelta, advice: Advice = PYTHON
) -> Callable[[], list[str]]:
    """Ask why a trigger has not fired, or when it will; see `Scheduler.why`.

    The answer raises:
        TriggerNotFoundError: neither the store nor its history knows the trigger.
    """
    return Reasons(Moment(reading), misfire_threshold, advice).of_trigger(key)


class Moment:
    """What concerns all triggers at one moment, asked once."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.nodes = reading.ask(lambda store: store.list_nodes())
        self.running = reading.ask(lambda store: store.list_running())
        self.pauses = reading.ask(lambda store: store.pauses())
        self._placements: Callable[[], Mapping[JobKey, Placement]] | None = None

    def look_up_placements(self) -> Callable[[], Mapping[JobKey, Placement]]:
        """Ask for the placements of the jobs that run, with the questions that already wait."""
        if self._placements is None:
            jobs = {row.job_key for row in self.running()}
            self._placements = self.reading.ask(lambda store: placements(store, jobs)) if jobs else dict
        return self._placements

    def busy(self) -> Counter[tuple[str, str]]:
        """Count the busy workers by instance id and executor. A claim counts: it needs its worker in a moment."""
        of_jobs = self.look_up_placements()()
        return Counter((row.instance_id, of_jobs[row.job_key].pool) for row in self.running() if row.job_key in of_jobs)


class Reasons:
    """Explains triggers of one moment.

    `misfire_threshold` holds where no node has published its own, by which it judges.
    """

    def __init__(self, moment: Moment, misfire_threshold: timedelta, advice: Advice = PYTHON) -> None:
        self._moment = moment
        self._advice = advice
        self._threshold = misfire_threshold

    def of_trigger(self, key: TriggerKey, job_key: JobKey | None = None) -> Explanation:
        """Ask about one trigger; see `Scheduler.why`. With the key of its job, all is asked at once.

        The answer raises:
            TriggerNotFoundError: neither the store nor its history knows the trigger.
        """
        return Explanation(self._moment, key, job_key, self._threshold, self._advice)


class OfJob:
    """The questions about the job of a trigger."""

    def __init__(self, reading: Reading, key: JobKey) -> None:
        self.key = key
        self.detail = reading.ask(lambda store: store.jobs([key]).get(key))
        self.mode = reading.ask(lambda store: mode_of_job(store, key))


class Explanation:
    """The questions about one trigger. Calling it returns the explanation."""

    def __init__(
        self, moment: Moment, key: TriggerKey, job_key: JobKey | None, threshold: timedelta, advice: Advice
    ) -> None:
        self._moment, self._key, self._threshold, self._advice = moment, key, threshold, advice
        ask = moment.reading.ask
        self._record = ask(lambda store: store.triggers([key]).get(key))
        self._last = ask(lambda store: store.find(ExecutionQuery(trigger_key=key), 1))
        self._misfires = ask(lambda store: store.find(MisfireQuery(trigger_key=key), 1))
        self.of_job = None if job_key is None else OfJob(moment.reading, job_key)

    def __call__(self) -> list[str]:
        key, moment, record = self._key, self._moment, self._record()
        last, misfires = self._last(), self._misfires()
        if record is None:
            if not last and not misfires:
                raise TriggerNotFoundError(f"trigger {key} is not stored, and the history has no execution of it")
            return explain_ended(key, moment.nodes().now, last, misfires)
        job_key, of_job, pauses = record.job_key, self.of_job, moment.pauses()
        if of_job is None or of_job.key != job_key:
            of_job = OfJob(moment.reading, job_key)
        moment.look_up_placements()
        situation = Situation(
            now=moment.nodes().now,
            trigger=record,
            job=of_job.detail(),
            running=[row for row in moment.running() if row.job_key == job_key],
            nodes=moment.nodes().nodes,
            all_paused=pauses.everything,
            trigger_group_paused=key.group in pauses.trigger_groups,
            job_group_paused=job_key.group in pauses.job_groups,
            manual_mode=pauses.is_manual,
            job_mode=of_job.mode(),
            misfire_threshold=node_facts.misfire_threshold(moment.nodes().metadata) or self._threshold,
            last=last,
            misfires=misfires,
            advice=self._advice,
            busy=moment.busy(),
        )
        return explain(situation)
