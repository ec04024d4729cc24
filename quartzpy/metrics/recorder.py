"""Counts what a node does. It is told after each step, by the threads of the node.

A batch takes the lock once, so an execution costs less than a microsecond; `tests/metrics/test_recorder.py` bounds it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from quartzpy.expect import Breach, BreachRecord
from quartzpy.metrics.families import Family, Histogram, Kind
from quartzpy.node.observers import STEPS, Observer
from quartzpy.states import Outcome
from quartzpy.store.protocol import (
    Acquisition,
    Completion,
    FiredTrigger,
    MisfireOutcome,
    Reconciliation,
    RecoveryOutcome,
)

LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
DURATIONS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
STEP_DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)
BATCHES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
OTHERS = "(others)"
"""The group of everything beyond the limit of groups or jobs."""


FIRE_LATENESS = "quartzpy_fire_lateness_seconds"
EXECUTION_DURATION = "quartzpy_execution_duration_seconds"
CLAIM_BATCH = "quartzpy_claim_batch_size"
STEP_DURATION = "quartzpy_step_duration_seconds"
HISTOGRAMS = {
    FIRE_LATENESS: "The time from the scheduled fire time to the fire.",
    EXECUTION_DURATION: "The time from the start of an execution to its end.",
    CLAIM_BATCH: "Triggers in a batch that this node fired.",
    STEP_DURATION: "The duration of a step: a round trip to the database.",
}
"""The histograms, and what they measure."""

NewHistogram = Callable[[str, Sequence[float], Mapping[str, str]], Histogram]
"""Makes the histogram of a metric for the values of its labels."""


class _Of:
    """The counts of a group of jobs, or of one job."""

    __slots__ = ("durations", "fires", "lateness", "outcomes", "period", "succeeded_at")

    def __init__(self, new: NewHistogram, labels: Mapping[str, str]) -> None:
        self.fires = 0
        self.lateness = new(FIRE_LATENESS, LATENESS, labels)
        self.durations = new(EXECUTION_DURATION, DURATIONS, labels)
        self.outcomes: dict[Outcome, int] = {}
        self.succeeded_at: float | None = None
        self.period: float | None = None


class Recorder(Observer):
    """Counts fires, executions and steps.

    Each job group has its own counts, or with `by_job` each job; at most `most` of them, and the others share theirs.
    """

    def __init__(
        self,
        *,
        by_job: bool = False,
        most: int = 100,
        new_histogram: NewHistogram = lambda name, bounds, labels: Histogram(bounds),
    ) -> None:
        self._new = new_histogram
        self._by_job = by_job
        self._most = most
        self._lock = threading.Lock()
        self._groups: dict[Any, _Of] = {}
        self._batches = new_histogram(CLAIM_BATCH, BATCHES, {})
        self._steps = {step: new_histogram(STEP_DURATION, STEP_DURATIONS, {"step": step}) for step in STEPS.values()}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._breaches: Counter[tuple[str, str, str]] = Counter()
        self._totals: Counter[str] = Counter()

    # --- called by the threads of the node

    def stepped(self, step: str, seconds: float, answer: Any) -> None:
        with self._lock:
            self._steps[step].observe(seconds)
            match answer:
                case Acquisition():
                    if answer.fired:
                        self._batches.observe(len(answer.fired))
                    self._fired(answer.fired)
                    self._totals["skipped"] += len(answer.skipped)
                case Reconciliation():
                    self._fired(answer.fired)
                    self._totals["differences"] += len(answer.fired)
                case MisfireOutcome():
                    self._totals["misfires"] += len(answer.misfired)
                case RecoveryOutcome():
                    self._recovered(answer)

    def failed(self, step: str, seconds: float, error: BaseException) -> None:
        with self._lock:
            self._steps[step].observe(seconds)
            self._errors[step, type(error).__name__] += 1

    def recorded(self, completions: Sequence[Completion]) -> None:
        by_job, groups = self._by_job, self._groups
        with self._lock:
            for completion in completions:
                fired = completion.fired
                name = (fired.job_group, fired.job_name) if by_job else fired.job_group
                of = groups.get(name) or self._of(name)
                outcome = completion.outcome
                of.outcomes[outcome] = of.outcomes.get(outcome, 0) + 1
                of.durations.observe((completion.ended_at - completion.started_at).total_seconds())
                if by_job and outcome is Outcome.SUCCEEDED:
                    of.succeeded_at = completion.ended_at.timestamp()

    def breached(self, breaches: Sequence[BreachRecord]) -> None:
        with self._lock:
            for breach in breaches:
                label = breach.job_key.group, breach.job_key.name, str(breach.kind)
                if label not in self._breaches and len(self._breaches) >= self._most * len(Breach):
                    label = OTHERS, OTHERS, str(breach.kind)
                self._breaches[label] += 1

    # --- with the lock

    def _fired(self, fired: Collection[FiredTrigger]) -> None:
        by_job, groups = self._by_job, self._groups
        for fire in fired:
            name = (fire.job_group, fire.job_name) if by_job else fire.job_group
            of = groups.get(name) or self._of(name)
            of.fires += 1
            # A fire is committed a little before its instant, which is not early for the job.
            of.lateness.observe(max(0.0, (fire.fire_time - fire.scheduled_fire_time).total_seconds()))
            if by_job and fire.next_fire_time is not None:
                of.period = (fire.next_fire_time - fire.scheduled_fire_time).total_seconds()

    def _of(self, name: Any) -> _Of:
        if len(self._groups) >= self._most:
            name = (OTHERS, OTHERS) if self._by_job else OTHERS
        if name not in self._groups:
            self._groups[name] = _Of(self._new, self._labels(name))
        return self._groups[name]

    def _recovered(self, outcome: RecoveryOutcome) -> None:
        self._totals["dead_nodes"] += len(outcome.nodes)
        self._totals["recovered"] += outcome.recovered
        self._totals["lost"] += outcome.lost
        self._totals["repaired"] += outcome.repaired
        self._totals["quarantined"] += len(outcome.quarantined)

    # --- read

    def collect(self) -> list[Family]:
        """Return the present values."""
        with self._lock:
            return [*self._of_jobs(), *self._of_steps(), *self._of_totals()]

    def _labels(self, name: Any) -> dict[str, str]:
        # Not "job", which Prometheus gives each target.
        return {"job_group": name[0], "job_name": name[1]} if self._by_job else {"job_group": name}

    def _of_jobs(self) -> list[Family]:
        fires = Family("quartzpy_fires", Kind.COUNTER, "Triggers that this node fired.")
        lateness = _histogram(FIRE_LATENESS)
        executions = Family("quartzpy_executions", Kind.COUNTER, "Executions that ended on this node, by outcome.")
        durations = _histogram(EXECUTION_DURATION)
        succeeded = Family(
            "quartzpy_job_last_success_timestamp_seconds", Kind.GAUGE, "The end of the last success on this node."
        )
        period = Family(
            "quartzpy_job_period_seconds", Kind.GAUGE, "The time between the last fire and the one that follows it."
        )
        for name, of in self._groups.items():
            labels = self._labels(name)
            fires.add(of.fires, **labels)
            lateness.add(of.lateness.copy(), **labels)
            durations.add(of.durations.copy(), **labels)
            for outcome, count in of.outcomes.items():
                executions.add(count, **labels, outcome=str(outcome))
            if of.succeeded_at is not None:
                succeeded.add(of.succeeded_at, **labels)
            if of.period is not None:
                period.add(of.period, **labels)
        return [fires, lateness, executions, durations, succeeded, period]

    def _of_steps(self) -> list[Family]:
        batches = _histogram(CLAIM_BATCH)
        batches.add(self._batches.copy())
        durations = _histogram(STEP_DURATION)
        for step, histogram in self._steps.items():
            durations.add(histogram.copy(), step=step)
        errors = Family("quartzpy_step_errors", Kind.COUNTER, "Steps that failed, by the class of the error.")
        for (step, error), count in self._errors.items():
            errors.add(count, step=step, error=error)
        return [batches, durations, errors]

    def _of_totals(self) -> list[Family]:
        breaches = Family(
            "quartzpy_expectation_breaches",
            Kind.COUNTER,
            "Fires that did not do what is expected of them, as this node has judged for the cluster, by job and kind.",
        )
        for (group, job, kind), count in self._breaches.items():
            breaches.add(count, job_group=group, job_name=job, kind=kind)
        families = [breaches]
        for key, (name, what) in _TOTALS.items():
            family = Family(name, Kind.COUNTER, what)
            family.add(self._totals[key])
            families.append(family)
        return families


def _histogram(name: str) -> Family:
    return Family(name, Kind.HISTOGRAM, HISTOGRAMS[name])


_TOTALS = {
    "skipped": ("quartzpy_skipped_fires", "Fires that were skipped because the job was at its concurrency limit."),
    "misfires": ("quartzpy_misfires", "Misfired triggers that this node handled."),
    "dead_nodes": ("quartzpy_recovered_nodes", "Dead nodes whose work this node recovered."),
    "recovered": ("quartzpy_recovered_executions", "Executions of dead nodes that run again."),
    "lost": ("quartzpy_lost_executions", "Executions of dead nodes that do not run again."),
    "repaired": ("quartzpy_repaired_rows", "Rows that contradicted each other and were repaired."),
    "quarantined": ("quartzpy_quarantined_jobs", "Jobs set to ERROR because too many nodes died while running them."),
    "differences": ("quartzpy_lost_answers", "Fires that this node did not know of, and resolved."),
}
