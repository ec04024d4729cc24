"""The plugin that connects a scheduler with OpenTelemetry."""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from quartzpy.metrics.collector import Collector
from quartzpy.metrics.recorder import Recorder
from quartzpy.otel.instruments import Histograms, Observables
from quartzpy.otel.trace_spans import ExecutionSpans, current_trace, within_trace
from quartzpy.scheduler.scheduler import BaseScheduler

_SCOPE = "quartzpy"


class OpenTelemetry:
    """Traces and measures a scheduler with OpenTelemetry: `Scheduler(url, plugins=[OpenTelemetry()])`.

    Each execution runs in a span, which is also the parent of what a job does in a process worker. The trace
    context of the call that schedules is stored with the trigger: what runs once is a part of that trace, and an
    execution of a recurring trigger has a link to it. The processes that schedule need the plugin too; they need
    not be started.

    The metrics are those of `quartzpy.metrics`; `by_job`, `most_groups` and `cluster` are as for `Metrics`. The
    providers are the global ones unless others are given. With `traces=False` or `metrics=False`, that part is left
    out.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        traces: bool = True,
        metrics: bool = True,
        by_job: bool = False,
        most_groups: int = 100,
        cluster: bool | None = None,
    ) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._traces = traces
        self._metrics = metrics
        self._by_job = by_job
        self._most_groups = most_groups
        self._cluster = cluster

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Begin to trace and to measure a scheduler."""
        if self._traces:
            provider = self._tracer_provider or trace.get_tracer_provider()
            tracer = provider.get_tracer(_SCOPE, scheduler.metadata.version)
            scheduler.node.add_middleware(ExecutionSpans(tracer, scheduler.name))
            scheduler.node.trace_with(current_trace, within=within_trace)
        if self._metrics:
            self._measure(scheduler)

    def _measure(self, scheduler: BaseScheduler) -> None:
        provider = self._meter_provider or metrics.get_meter_provider()
        meter = provider.get_meter(_SCOPE, scheduler.metadata.version)
        histograms = Histograms(meter, scheduler.name)
        recorder = Recorder(by_job=self._by_job, most=self._most_groups, new_histogram=histograms.new)
        scheduler.observers.add(recorder)
        Observables(meter, Collector(scheduler, recorder, cluster=self._cluster))

    def start(self) -> None:
        """Do nothing: the providers export by themselves."""

    def shutdown(self) -> None:
        """Do nothing: the providers belong to the program."""
