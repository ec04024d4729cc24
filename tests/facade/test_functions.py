"""Jobs made of functions, and instances made by factories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import InjectingJobFactory, Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, job
from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError
from quartzpy.states import Outcome
from tests.facade import functions, jobs
from tests.facade.functions import asynchronous, called, plain, undecorated, with_context

SOON = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def nothing_called() -> Iterator[None]:
    called.clear()
    yield
    called.clear()


def run(scheduler: Scheduler, detail: JobDetail, executions: int = 1, **trigger: Any) -> list[Outcome]:
    scheduler.schedule_job(detail, SimpleTrigger("t", **trigger))
    assert scheduler.wait_until_recorded(executions, SOON)
    return [execution.outcome for execution in reversed(scheduler.executions())]


def test_a_function_is_called_with_its_arguments(scheduler: Scheduler) -> None:
    results: list[Any] = []
    scheduler.listeners.add_listener(lambda event: results.append(getattr(event, "outcome", None)))
    assert run(scheduler, plain.detail("job", args=[7], kwargs={"text": "given"})) == [Outcome.SUCCEEDED]
    assert called == [(7, "given")]


def test_an_async_function_runs_on_the_event_loop(scheduler: Scheduler) -> None:
    assert run(scheduler, asynchronous.detail("job", args=[7])) == [Outcome.SUCCEEDED]
    assert called == [7]


def test_a_trigger_may_change_the_arguments(scheduler: Scheduler) -> None:
    run(scheduler, plain.detail("job", args=[7]), data={"args": [8], "kwargs": {"text": "trigger"}})
    assert called == [(8, "trigger")]


def test_a_function_gets_the_context_if_it_has_a_parameter_for_it(scheduler: Scheduler) -> None:
    detail = with_context.detail("job", args=[1])
    assert (detail.job_type, detail.max_concurrent) == ("named-function", 2)
    assert with_context.detail("job", args=[1], max_concurrent=5).max_concurrent == 5
    assert run(scheduler, detail, 2) == [Outcome.FAILED, Outcome.FAILED]
    assert called == [(1, 1), (1, 2)]


def test_a_job_function_stays_a_function() -> None:
    assert plain(1, text="x") == "1 x"
    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Says what it was called with."
    assert plain.job_class.type_name == f"{functions.__name__}:plain"


@pytest.mark.parametrize("wrong", [{}, {"args": [1, 2]}, {"kwargs": {"number": 1, "colour": "red"}}])
def test_arguments_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidJobDataError, match=r"plain\(number"):
        plain.detail("job", **wrong)


def test_what_is_no_function_of_a_module_is_refused() -> None:
    with pytest.raises(InvalidJobTypeError, match="top of a module"):
        job(lambda: None)
    with pytest.raises(InvalidJobTypeError, match="a function is needed"):
        job(3)  # type: ignore[arg-type]


def test_a_function_is_scheduled_by_a_decorator(scheduler: Scheduler) -> None:
    later = SimpleTrigger("later", start_time=datetime.now(UTC) + timedelta(hours=1))
    made = scheduler.scheduled_job([SimpleTrigger("now"), later], "named", durable=True)(undecorated)
    assert scheduler.wait_until_recorded(1, SOON)
    assert called == ["named"]
    assert scheduler.get_job_detail(JobKey("named", "DEFAULT")) is not None
    scheduler.scheduled_job([later])(made)
    assert scheduler.check_exists(JobKey("undecorated", "DEFAULT")), "the function's own name"


# --- factories


class Database:
    pass


class Wants(Job):
    def __init__(self, database: Database, name: str = "default") -> None:
        self.given = (database, name)

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)


def given(make_scheduler: Callable[..., Scheduler], factory: Any) -> Any:
    scheduler = make_scheduler(job_factory=factory)
    scheduler.start()
    run(scheduler, JobDetail(Wants, "job"))
    instance = jobs.next_run().job_instance
    assert isinstance(instance, Wants)
    return instance.given


def test_a_factory_makes_the_instances(make_scheduler: Callable[..., Scheduler]) -> None:
    database = Database()
    assert given(make_scheduler, lambda kind: kind(database)) == (database, "default")


def test_constructors_are_given_what_they_are_annotated_with(make_scheduler: Callable[..., Scheduler]) -> None:
    database = Database()
    assert given(make_scheduler, InjectingJobFactory({Database: database, str: lambda: "made"})) == (database, "made")


def test_a_class_as_provider_makes_one_each_time() -> None:
    made = InjectingJobFactory({Database: Database})(Wants)
    assert isinstance(made, Wants)
    assert isinstance(made.given[0], Database)
    assert isinstance(InjectingJobFactory({})(jobs.Recorded), jobs.Recorded)


def test_a_parameter_without_a_provider_is_named() -> None:
    with pytest.raises(InvalidJobTypeError, match="Wants: no provider for database: Database"):
        InjectingJobFactory({})(Wants)
