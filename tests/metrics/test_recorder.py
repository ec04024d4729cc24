"""The counts of a recorder, their limits, and their cost."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from quartzpy.errors import StoreUnavailableError
from quartzpy.metrics.families import PLAIN, rendered
from quartzpy.metrics.recorder import OTHERS, Recorder
from quartzpy.states import Outcome
from quartzpy.store.protocol import Acquisition, Completion, MisfireOutcome, RecoveryOutcome
from tests.metrics.scrape import Scrape, parsed

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def fired(group: str = "g", job: str = "j", late: timedelta = timedelta(), period: timedelta | None = None) -> Any:
    return SimpleNamespace(
        job_group=group,
        job_name=job,
        fire_time=NOW + late,
        scheduled_fire_time=NOW,
        next_fire_time=None if period is None else NOW + period,
    )


def ended(of: Any, took: timedelta = SECOND, outcome: Outcome = Outcome.SUCCEEDED) -> Completion:
    return Completion(of, NOW, NOW + took, outcome)


def read(recorder: Recorder) -> Scrape:
    return parsed(rendered(recorder.collect(), PLAIN))


def test_fires_and_executions_are_counted_by_group_and_outcome() -> None:
    recorder = Recorder()
    late = timedelta(milliseconds=20)
    recorder.stepped("acquire", 0.002, Acquisition(NOW, fired=[fired("a", late=late), fired("b", late=-late)]))
    recorder.recorded([ended(fired("a")), ended(fired("a"), 20 * SECOND, Outcome.FAILED)])
    found = read(recorder)
    assert found.value("quartzpy_fires_total", job_group="a") == 1
    assert found.value("quartzpy_fire_lateness_seconds_bucket", job_group="a", le="0.01") == 0
    assert found.value("quartzpy_fire_lateness_seconds_bucket", job_group="a", le="0.025") == 1
    assert found.value("quartzpy_fire_lateness_seconds_sum", job_group="b") == 0, "a fire just before its instant"
    assert found.value("quartzpy_executions_total", job_group="a", outcome="SUCCEEDED") == 1
    assert found.value("quartzpy_executions_total", job_group="a", outcome="FAILED") == 1
    assert found.value("quartzpy_execution_duration_seconds_sum", job_group="a") == 21
    assert found.value("quartzpy_claim_batch_size_sum") == 2
    assert "quartzpy_job_period_seconds" not in found.names()


def test_by_job_tells_the_last_success_and_the_period() -> None:
    recorder = Recorder(by_job=True)
    one = fired("a", "nightly", period=timedelta(days=1))
    recorder.stepped("acquire", 0.001, Acquisition(NOW, fired=[one]))
    recorder.recorded([ended(one), ended(fired("a", "other"), outcome=Outcome.FAILED)])
    found = read(recorder)
    assert found.value("quartzpy_job_period_seconds", job_group="a", job_name="nightly") == 86_400
    assert found.value("quartzpy_job_last_success_timestamp_seconds", job_name="nightly") == (NOW + SECOND).timestamp()
    assert found.value("quartzpy_executions_total", job_name="other", outcome="FAILED") == 1


@pytest.mark.parametrize("by_job", [False, True])
def test_the_number_of_groups_is_limited(by_job: bool) -> None:
    recorder = Recorder(by_job=by_job, most=3)
    recorder.recorded([ended(fired(f"g{number}", f"j{number}")) for number in range(10)])
    found = read(recorder)
    assert found.value("quartzpy_executions_total") == 10
    assert found.value("quartzpy_executions_total", job_group=OTHERS) == 7
    assert len([key for key in found.samples if key[0] == "quartzpy_fires_total"]) == 4


def test_steps_and_their_errors_are_counted() -> None:
    recorder = Recorder()
    recorder.stepped("misfire", 0.3, MisfireOutcome(NOW, misfired={object(): ()}))  # type: ignore[dict-item]
    recorder.stepped("recover", 0.3, RecoveryOutcome(["dead"], recovered=2, lost=3))
    recorder.failed("complete", 5.0, StoreUnavailableError("gone"))
    found = read(recorder)
    assert found.value("quartzpy_misfires_total") == 1
    assert found.value("quartzpy_recovered_nodes_total") == 1
    assert found.value("quartzpy_recovered_executions_total") == 2
    assert found.value("quartzpy_lost_executions_total") == 3
    assert found.value("quartzpy_step_errors_total", step="complete", error="StoreUnavailableError") == 1
    assert found.value("quartzpy_step_duration_seconds_sum", step="complete") == 5


def test_threads_count_together_while_others_read() -> None:
    recorder = Recorder()
    batch = [ended(fired(f"g{number % 7}")) for number in range(50)]

    def count() -> None:
        for _ in range(200):
            recorder.recorded(batch)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        read(recorder)
    assert read(recorder).value("quartzpy_executions_total") == 4 * 200 * 50


def test_an_execution_costs_little() -> None:
    """It takes 0.8 us on an idle core: the fire and the end together. The bound is for a machine that is busy."""
    recorder = Recorder()
    batch = [fired(f"g{number % 5}") for number in range(100)]
    answer = Acquisition(NOW, fired=batch)
    completions = [ended(one) for one in batch]
    best = float("inf")
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(10):
            recorder.stepped("acquire", 0.001, answer)
            recorder.recorded(completions)
        best = min(best, (time.perf_counter() - began) / 1_000)
    assert best < 5e-6, f"{best * 1e6:.2f} us"
