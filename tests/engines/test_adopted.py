"""Jobs on engines that outlive their node: another node records how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, Scheduler
from quartzpy.config import engine_names
from quartzpy.states import Outcome
from tests.database import connect_to
from tests.engines import worker_jobs as jobs
from tests.waiting import LIMIT, wait_until


class Lasts(jobs.Waits):
    outlives_node = True


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine_names.OURS, "lasting", "tests.engines.lasting:engine")


@pytest.fixture
def node(postgres_dsn: str) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def make(name: str, **settings: Any) -> Scheduler:
        windows: dict[str, Any] = {"checkin_interval": "500ms", "failure_window": "10s", "engine_window": "10s"}
        made.append(Scheduler(postgres_dsn, instance_id=name, **windows, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=5), interrupt=True)


@pytest.mark.parametrize("has_executor", [True, False])
def test_an_execution_goes_on_when_its_node_leaves_and_another_records_its_end(
    node: Callable[..., Scheduler], has_executor: bool
) -> None:
    executors = {"big": "lasting:anywhere"}
    first = node("first", executors=executors)
    first.add_job(JobDetail(Lasts, "job", durable=True, executor="big"))
    execution = first.trigger_job("job")
    fire_id = wait_until(lambda: (found := execution.record) and found.fire_id)
    assert isinstance(fire_id, int)
    assert jobs.AT[fire_id].wait(LIMIT)
    assert first.shutdown()

    second = node("second", executors=executors if has_executor else {})
    [running] = wait_until(lambda: [row for row in second.running() if row.instance_id == "second"])
    assert running.fire_id == fire_id
    assert not second.executions()
    jobs.GO[fire_id].set()
    [ended] = wait_until(second.executions)
    assert (ended.outcome, ended.fire_id) == (Outcome.SUCCEEDED, fire_id)
    assert ended.result == {"cancelled": False, "lease_lost": False}
    assert jobs.RUNS.count(fire_id) == 1


def test_an_execution_goes_on_when_its_node_loses_its_epoch(node: Callable[..., Scheduler], postgres_dsn: str) -> None:
    only = node("only", executors={"big": "lasting:anywhere"})
    only.add_job(JobDetail(Lasts, "job", durable=True, executor="big"))
    execution = only.trigger_job("job")
    fire_id = wait_until(lambda: (found := execution.record) and found.fire_id)
    assert isinstance(fire_id, int)
    assert jobs.AT[fire_id].wait(LIMIT)
    with connect_to(postgres_dsn) as connection:
        before = connection.execute("SELECT epoch FROM qrtz_fired_triggers").fetchone()
        connection.execute("DELETE FROM qrtz_scheduler_state")
        wait_until(lambda: connection.execute("SELECT epoch FROM qrtz_fired_triggers").fetchone() != before)
    jobs.GO[fire_id].set()
    [ended] = wait_until(only.executions)
    assert (ended.outcome, ended.fire_id) == (Outcome.SUCCEEDED, fire_id)
    assert jobs.RUNS.count(fire_id) == 1
