"""Jobs on engines that outlive their node: another node records how they end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from quartzpy import JobDetail, Scheduler
from quartzpy.config import engine_names
from quartzpy.states import Outcome
from tests.engines import lasting
from tests.engines import worker_jobs as jobs
from tests.waiting import wait_until

LONG = timedelta(seconds=60)


class Lasts(jobs.Waits):
    outlives_node = True


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine_names.OURS, "lasting", "tests.engines.lasting:engine")


@pytest.mark.parametrize("has_executor", [True, False])
def test_an_execution_goes_on_when_its_node_leaves_and_another_records_its_end(
    postgres_dsn: str, make_scheduler: Callable[..., Scheduler], has_executor: bool
) -> None:
    executors = {"big": "lasting:anywhere"}
    settings = {"checkin_interval": "500ms", "failure_window": "10s", "engine_window": "10s"}
    first = make_scheduler(postgres_dsn, instance_id="first", executors=executors, **settings)
    first.start()
    first.add_job(JobDetail(Lasts, "job", durable=True, executor="big"))
    execution = first.trigger_job("job")
    record = wait_until(lambda: (found := execution.record) and found.fire_id and found)
    fire_id = record.fire_id
    assert jobs.AT[fire_id].wait(30)
    assert first.shutdown()

    second = make_scheduler(postgres_dsn, instance_id="second", executors=executors if has_executor else {}, **settings)
    second.start()
    [running] = wait_until(lambda: [row for row in second.running() if row.instance_id == "second"])
    assert running.fire_id == fire_id
    assert not second.executions()
    jobs.GO[fire_id].set()
    assert second.wait_until_recorded(1, LONG)
    [ended] = second.executions()
    assert (ended.outcome, ended.fire_id) == (Outcome.SUCCEEDED, fire_id)
    assert ended.result == {"cancelled": False, "lease_lost": False}
    assert jobs.RUNS.count(fire_id) == 1
    assert lasting.CALLS
