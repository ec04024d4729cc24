"""Small things that people touch in the first hour: what a record, a scheduler and a result say."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, every
from quartzpy.ext.celery.task_job import SendCeleryTask
from quartzpy.job_data import decode, encode
from quartzpy.jobs.job import CELERY_TASK, how_to_know
from quartzpy.node.engines.remote_job import RemoteJob
from quartzpy.testing import SchedulerHarness


class Scalar:
    """What a scalar of numpy looks like to those who do not import numpy."""

    ndim, dtype = 0, "float64"

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


class FloatScalar(float):
    ndim, dtype = 0, "float64"

    def item(self) -> float:
        return float(self)


class Returns(Job):
    value: Any = None

    def execute(self, context: JobExecutionContext) -> Any:
        return type(self).value


class Odd(Returns):
    value = object()


class Large(Returns):
    value = "x" * 10_000


class Number(Returns):
    value = FloatScalar(1.5)


def test_scalars_of_numpy_are_numbers() -> None:
    values = {"a": FloatScalar(1.5), "b": Scalar(7), "c": [Scalar(True)], "d": Scalar("eu")}
    assert decode(encode(values)) == {"a": 1.5, "b": 7, "c": [True], "d": "eu"}
    with pytest.raises(ValueError, match="cannot be stored"):
        encode({"a": Scalar(object())})
    harness = SchedulerHarness()
    harness.schedule_job(JobDetail(Number, "number"), every("1h"))
    assert [record.result for record in harness.run_pending()] == [1.5]


@pytest.mark.parametrize("kind", [Odd, Large])
def test_a_result_that_is_not_kept_says_so_once(kind: type[Job], caplog: pytest.LogCaptureFixture) -> None:
    harness = SchedulerHarness()
    harness.schedule_job(JobDetail(kind, "result"), every("1h"))
    with caplog.at_level(logging.WARNING):
        [first] = harness.run_pending()
        [second] = harness.advance("1h")
    assert (first.state, first.result, second.result) == ("SUCCEEDED", None, None)
    assert sum("its result is not kept" in record.message for record in caplog.records) == 1


def test_an_execution_has_a_duration() -> None:
    harness = SchedulerHarness()
    harness.schedule_job(JobDetail(Number, "number"), every("1h"))
    [record] = harness.run_pending()
    assert record.duration == timedelta()
    assert all(record.duration is None for record in harness.executions(state="SCHEDULED"))


def test_a_scheduler_says_what_it_is() -> None:
    scheduler = Scheduler("memory://", name="shop")
    assert repr(scheduler) == "<Scheduler 'shop': not started>"
    scheduler.start()
    assert repr(scheduler) == "<Scheduler 'shop': started>"
    scheduler.shutdown()
    assert repr(scheduler) == "<Scheduler 'shop': shut down>"


def test_a_job_type_of_celery_says_what_to_import() -> None:
    assert SendCeleryTask.type_name == CELERY_TASK
    assert how_to_know(CELERY_TASK) == (
        "Import quartzpy.ext.celery in the program of a node, and call its use_app(app)"
    )
    assert how_to_know("shop:Report").startswith("Import its module on a node, or start a node that does")
    assert "commands" in how_to_know("quartzpy.CommandJob")


def test_a_function_of_a_notebook_is_written_into_a_file() -> None:
    assert "%%writefile" in RemoteJob.in_the_main_module
