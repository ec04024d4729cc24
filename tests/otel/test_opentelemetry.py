"""Spans and metrics, as exporters of OpenTelemetry receive them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy import create_engine

from quartzpy import (
    AsyncScheduler,
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
)
from quartzpy.errors import SchedulerStateError
from quartzpy.job_data import TRACE_PARENT
from quartzpy.operations import Operations
from quartzpy.otel import OpenTelemetry
from tests.otel import child_jobs
from tests.waiting import wait_until

SOON = timedelta(seconds=30)
seen: list[tuple[JobExecutionContext, Any]] = []


class Seeing(Job):
    """Notes the span that is current while it runs."""

    def execute(self, context: JobExecutionContext) -> None:
        seen.append((context, trace.get_current_span().get_span_context()))


class SeeingAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.sleep(0)
        seen.append((context, trace.get_current_span().get_span_context()))


@dataclass
class OnlyAName:
    name: str


class Typed(Job, data_type=OnlyAName):
    def execute(self, context: JobExecutionContext) -> None:
        assert context.data == OnlyAName("x")


class Ending(Job):
    def execute(self, context: JobExecutionContext) -> None:
        match context.job_data["how"]:
            case "fail":
                raise ValueError("on purpose")
            case "snooze":
                context.snooze("1h")
            case "cancel":
                context.scheduler.interrupt_execution(context.fire_id)
                context.raise_if_cancelled()


@dataclass
class Telemetry:
    """A tracer and a meter of this test."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    tracers: TracerProvider = field(default_factory=lambda: TracerProvider(shutdown_on_exit=False))

    def __post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("test")

    def plugin(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def executions(self, count: int) -> list[ReadableSpan]:
        """The spans of executions, as soon as there are so many."""

        def found() -> list[ReadableSpan]:
            return [span for span in self.spans.get_finished_spans() if span.name.startswith("execute ")]

        wait_until(lambda: len(found()) >= count)
        return found()

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def units(self) -> dict[str, str | None]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: metric.unit
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def telemetry() -> Telemetry:
    seen.clear()
    return Telemetry()


@pytest.fixture(params=["memory", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else request.getfixturevalue("postgres_dsn")


@pytest.fixture
def make(url: str, telemetry: Telemetry) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def one(**options: Any) -> Scheduler:
        made.append(Scheduler(url, name="otel", idle_wait="200ms", plugins=[telemetry.plugin(**options)]))
        return made[-1]

    yield one
    for scheduler in made:
        scheduler.shutdown(timeout="60s", interrupt=True)


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


@pytest.mark.parametrize("job", [Seeing, SeeingAsync])
def test_what_runs_once_belongs_to_the_trace_that_scheduled_it(
    make: Callable[..., Scheduler], telemetry: Telemetry, job: type[Job]
) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.add_job(JobDetail(job, "job", "reports", durable=True))
    with telemetry.tracer.start_as_current_span("request") as request:
        scheduler.trigger_job(JobKey("job", "reports"), {"a": 1})
    [span] = telemetry.executions(1)
    assert span.name == "execute reports.job"
    assert span.kind is SpanKind.CONSUMER
    assert trace_id(span) == request.get_span_context().trace_id
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert seen[0][1] == span.context, "the span is current while the job runs"
    context = seen[0][0]
    expected = {
        "quartzpy.scheduler": "otel",
        "quartzpy.node": scheduler.instance_id,
        "quartzpy.job.name": "job",
        "quartzpy.job.group": "reports",
        "quartzpy.job.type": job.type_name,
        "quartzpy.trigger.name": context.trigger_key.name,
        "quartzpy.trigger.group": context.trigger_key.group,
        "quartzpy.fire_id": context.fire_id,
        "quartzpy.attempt": 1,
        "quartzpy.refire_count": 0,
        "quartzpy.scheduled_fire_time": context.scheduled_fire_time.isoformat(),
        "quartzpy.outcome": "SUCCEEDED",
    }
    assert dict(span.attributes or {}) == expected


def test_a_recurring_trigger_links_to_the_trace_that_stored_it(
    make: Callable[..., Scheduler], telemetry: Telemetry
) -> None:
    scheduler = make()
    scheduler.start()
    with telemetry.tracer.start_as_current_span("deploy") as deploy:
        scheduler.schedule_job(
            JobDetail(Seeing, "job"), SimpleTrigger("t", interval=timedelta(milliseconds=20), repeat_count=2)
        )
    spans = telemetry.executions(3)
    assert len({trace_id(span) for span in spans} | {deploy.get_span_context().trace_id}) == 4, "each has its own trace"
    assert [[link.context.span_id for link in span.links] for span in spans] == 3 * [
        [deploy.get_span_context().span_id]
    ]


def test_outside_of_a_trace_nothing_is_stored(make: Callable[..., Scheduler], telemetry: Telemetry) -> None:
    scheduler = make()
    scheduler.schedule_job(JobDetail(Seeing, "job"), SimpleTrigger("t", start_time=datetime.now(UTC) + SOON))
    trigger = scheduler.get_trigger(TriggerKey("t"))
    assert trigger is not None
    assert not trigger.data
    scheduler.start()
    scheduler.trigger_job(JobKey("job"))
    [span] = telemetry.executions(1)
    assert span.parent is None
    assert not span.links


def test_a_retry_belongs_to_the_same_trace(make: Callable[..., Scheduler], telemetry: Telemetry) -> None:
    scheduler = make()
    scheduler.start()
    job = JobDetail(Ending, "job", durable=True, data={"how": "fail"}, retry=RetryPolicy(attempts=2, delay="10ms"))
    scheduler.add_job(job)
    with telemetry.tracer.start_as_current_span("request") as request:
        scheduler.trigger_job(JobKey("job"))
    spans = telemetry.executions(2)
    assert {trace_id(span) for span in spans} == {request.get_span_context().trace_id}
    assert [(span.attributes or {})["quartzpy.attempt"] for span in spans] == [1, 2]
    assert spans[0].status.status_code is StatusCode.ERROR
    assert (spans[0].attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in spans[0].events] == ["exception"]


@pytest.mark.parametrize(("how", "outcome"), [("snooze", "SNOOZED"), ("cancel", "CANCELLED")])
def test_only_failures_are_errors(make: Callable[..., Scheduler], telemetry: Telemetry, how: str, outcome: str) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.schedule_job(JobDetail(Ending, "job", data={"how": how}), SimpleTrigger("t"))
    [span] = telemetry.executions(1)
    assert (span.attributes or {})["quartzpy.outcome"] == outcome
    assert span.status.status_code is StatusCode.UNSET
    assert not span.events


def test_a_schedule_that_is_stored_in_another_trace_has_not_changed(
    make: Callable[..., Scheduler], telemetry: Telemetry
) -> None:
    scheduler = make()
    job = JobDetail(Seeing, "job")
    trigger = SimpleTrigger("t", start_time=datetime(2090, 1, 1, tzinfo=UTC), data={"a": 1})

    def stored() -> Any:
        record = scheduler.trigger_record(TriggerKey("t"))
        assert record is not None
        return record.generation, dict(record.trigger.data or {})

    with telemetry.tracer.start_as_current_span("first"):
        scheduler.schedule_job(job, trigger)
        first = stored()
    assert TRACE_PARENT in first[1]
    with telemetry.tracer.start_as_current_span("second"):
        scheduler.schedule_job(job, trigger)  # A difference would be refused.
    scheduler.schedule_job(job, trigger)
    assert stored() == first
    with telemetry.tracer.start_as_current_span("third"):
        assert scheduler.sync([(job, trigger)], owner="me", existing="update")
    with telemetry.tracer.start_as_current_span("fourth"):
        assert not scheduler.sync([(job, trigger)], owner="me", existing="update")


def test_a_job_with_a_data_type_does_not_see_the_trace(make: Callable[..., Scheduler], telemetry: Telemetry) -> None:
    scheduler = make()
    scheduler.start()
    with telemetry.tracer.start_as_current_span("request"):
        scheduler.schedule_job(JobDetail(Typed, "job"), SimpleTrigger("t", data={"name": "x"}))
    [span] = telemetry.executions(1)
    assert (span.attributes or {})["quartzpy.outcome"] == "SUCCEEDED"


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_transaction_of_the_user_carries_the_trace(
    make: Callable[..., Scheduler], telemetry: Telemetry, postgres_dsn: str
) -> None:
    scheduler = make()
    scheduler.start()
    engine = create_engine(postgres_dsn)
    with telemetry.tracer.start_as_current_span("request") as request, engine.begin() as connection:
        scheduler.using(connection).schedule_job(JobDetail(Seeing, "job"), SimpleTrigger("t"))
    engine.dispose()
    [span] = telemetry.executions(1)
    assert trace_id(span) == request.get_span_context().trace_id


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_an_action_of_an_operator_is_no_part_of_the_traces_of_the_jobs(
    make: Callable[..., Scheduler], telemetry: Telemetry
) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.add_job(JobDetail(Seeing, "job", durable=True))
    actions = Operations(scheduler).actions
    with telemetry.tracer.start_as_current_span("page"):
        actions.trigger(JobKey("job"))
    [span] = telemetry.executions(1)
    assert span.parent is None
    assert not span.links
    with telemetry.tracer.start_as_current_span("request") as request:
        triggered = scheduler.trigger_job(JobKey("job"))
    fire_id = triggered.wait(SOON).fire_id
    assert fire_id is not None
    with telemetry.tracer.start_as_current_span("page"):
        actions.run_again(fire_id)
    _, first, again = telemetry.executions(3)
    assert trace_id(first) == trace_id(again) == request.get_span_context().trace_id, "it repeats that execution"


def test_the_awaitable_methods_carry_the_trace(url: str, telemetry: Telemetry) -> None:
    async def use() -> int:
        scheduler = AsyncScheduler(url, name="otel-async", plugins=[telemetry.plugin()])
        await scheduler.start()
        with telemetry.tracer.start_as_current_span("request") as request:
            await scheduler.schedule_job(JobDetail(SeeingAsync, "job"), SimpleTrigger("t"))
        assert await scheduler.wait_until_recorded(1, SOON)
        await scheduler.shutdown()
        return request.get_span_context().trace_id

    expected = asyncio.run(use())
    assert [trace_id(span) for span in telemetry.executions(1)] == [expected]


def test_the_span_of_an_execution_is_the_parent_of_what_its_job_does_in_a_child(
    telemetry: Telemetry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "spans"
    monkeypatch.setenv(child_jobs.SPANS, str(written))
    scheduler = Scheduler("memory://", name="otel", executors={"cpu": "processes:1"}, plugins=[telemetry.plugin()])
    scheduler.start()
    try:
        for job in (child_jobs.Working, child_jobs.WorkingAsync):
            scheduler.schedule_job(JobDetail(job, job.__name__, executor="cpu"), SimpleTrigger(job.__name__))
        spans = telemetry.executions(2)
    finally:
        scheduler.shutdown(timeout="30s")
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert sorted(lines) == sorted(
        [
            span.name.replace("execute DEFAULT.", "work of "),
            span.context.trace_id,
            span.context.span_id,
        ]
        for span in spans
        if span.context is not None
    )


def test_middleware_is_added_before_the_start_only(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    scheduler.start()
    with pytest.raises(SchedulerStateError, match="started already"):
        scheduler.node.add_middleware(lambda context: pytest.fail("never called"))


def test_the_metrics_are_those_of_prometheus(make: Callable[..., Scheduler], telemetry: Telemetry) -> None:
    scheduler = make(traces=False)
    scheduler.start()
    scheduler.schedule_job(JobDetail(Seeing, "job", "reports"), SimpleTrigger("t"))
    scheduler.schedule_job(JobDetail(Ending, "job-2", "mail", data={"how": "fail"}), SimpleTrigger("t2"))
    assert scheduler.wait_until_recorded(2, SOON)
    wait_until(lambda: len(telemetry.points().get("quartzpy.execution_duration", ())) == 2)
    points = telemetry.points()
    durations = points["quartzpy.execution_duration"]
    assert {point.attributes["job_group"]: point.count for point in durations} == {"reports": 1, "mail": 1}
    assert {point.attributes["job_group"] for point in points["quartzpy.fire_lateness"]} == {"reports", "mail"}
    assert "acquire" in {point.attributes["step"] for point in points["quartzpy.step_duration"]}
    [workers] = points["quartzpy.workers"]
    assert workers.attributes == {"scheduler": "otel", "executor": "default"}
    assert workers.value == scheduler.config.workers
    units = telemetry.units()
    assert (units["quartzpy.step_duration"], units["quartzpy.workers"]) == ("s", "1")

    def outcomes() -> dict[object, float]:
        return {point.attributes["outcome"]: point.value for point in telemetry.points()["quartzpy.executions"]}

    # All instruments share one collection for a second.
    wait_until(lambda: outcomes() == {"SUCCEEDED": 1, "FAILED": 1}, seen=outcomes)
    assert not telemetry.spans.get_finished_spans()
