"""What a node makes of an engine: each fire once, with a row for its end, and a worker that dies as a failure."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.states import Outcome
from tests.contract.engine_harness import LokyHarness, ProcessesHarness, ProcessPoolHarness
from tests.contract.engine_jobs import Gate, Once
from tests.waiting import wait_until

JOBS = 12


# Those whose workers need no database. That of the tickets is in tests/engines.
@pytest.fixture(params=[ProcessesHarness, ProcessPoolHarness, LokyHarness])
def scheduler(request: pytest.FixtureRequest, postgres_dsn: str) -> Iterator[Scheduler]:
    with Scheduler(postgres_dsn, executors={"big": request.param.setting}) as scheduler:
        scheduler.start()
        yield scheduler


def test_each_of_many_fires_runs_once_and_has_a_row(scheduler: Scheduler, tmp_path: Path) -> None:
    detail = JobDetail(Once, "once", durable=True, executor="big", data={"directory": str(tmp_path)})
    scheduler.schedule_job(detail, [SimpleTrigger(f"fire-{number}") for number in range(JOBS)])
    assert scheduler.wait_until_recorded(JOBS, "2m")
    records = list(scheduler.executions())
    assert [(record.outcome, record.result) for record in records] == [
        (Outcome.SUCCEEDED, record.fire_id) for record in records
    ]
    runs = {int(file.stem): len(file.read_text().split()) for file in tmp_path.glob("*.begun")}
    assert runs == {record.fire_id: 1 for record in records}


def test_a_job_whose_worker_dies_has_failed_and_the_next_one_runs(scheduler: Scheduler, tmp_path: Path) -> None:
    scheduler.add_job(JobDetail(Gate, "gate", durable=True, executor="big", data={"directory": str(tmp_path)}))
    scheduler.trigger_job("gate")
    [begun] = wait_until(lambda: list(tmp_path.glob("*.begun")))
    os.kill(int(wait_until(begun.read_text)), signal.SIGKILL)
    assert scheduler.wait_until_recorded(1, "1m")
    [failed] = scheduler.executions()
    assert failed.outcome is Outcome.FAILED
    assert "WorkerDiedError" in str(failed.error)
    scheduler.trigger_job("gate")
    wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == 2)
    for file in tmp_path.glob("*.begun"):
        file.with_suffix(".open").touch()
    assert scheduler.wait_until_recorded(2, "1m")
    last, _ = scheduler.executions()
    assert last.outcome is Outcome.SUCCEEDED
