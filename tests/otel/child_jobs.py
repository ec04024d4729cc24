"""Jobs for process workers that trace what they do. Importing this module in a child makes its tracer provider."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quartzpy import Job, JobExecutionContext

SPANS = "QUARTZPY_TEST_SPANS_OF_CHILD"


class ExporterToFile(InMemorySpanExporter):
    """Keeps the spans in memory, and writes them to a file when the process ends in order."""

    def shutdown(self) -> None:
        lines = [
            json.dumps([span.name, span.context.trace_id, span.parent.span_id if span.parent else None])
            for span in self.get_finished_spans()
            if span.context is not None
        ]
        Path(os.environ[SPANS]).write_text("\n".join(lines))


if multiprocessing.parent_process() is not None:
    _provider = TracerProvider()
    # Nothing is exported before the process ends.
    _provider.add_span_processor(BatchSpanProcessor(ExporterToFile(), schedule_delay_millis=3_600_000))
    trace.set_tracer_provider(_provider)


class Working(Job):
    def execute(self, context: JobExecutionContext) -> None:
        with trace.get_tracer("app").start_as_current_span(f"work of {context.job_key.name}"):
            pass


class WorkingAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        with trace.get_tracer("app").start_as_current_span(f"work of {context.job_key.name}"):
            pass
