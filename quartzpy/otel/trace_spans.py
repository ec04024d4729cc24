"""Spans: one for each execution, in the trace of the call that scheduled it, or with a link to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from quartzpy.errors import InvalidJobDataError, JobCancelledError, JobSnoozedError
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.internal_entries import TraceContext, trace_of
from quartzpy.states import Outcome

_PROPAGATOR = TraceContextTextMapPropagator()
_CANCELLED = (JobCancelledError, asyncio.CancelledError)


def current_trace() -> dict[str, str]:
    """Return the W3C trace context of the current span; empty if there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


@contextmanager
def within_trace(trace_context: TraceContext) -> Iterator[None]:
    """Make a W3C trace context the current one: spans that begin inside are children of its span."""
    token = attach(_PROPAGATOR.extract(trace_context))
    try:
        yield
    finally:
        detach(token)


class ExecutionSpans:
    """Middleware that runs each execution in a span. The span is current while the job runs."""

    def __init__(self, tracer: Tracer, scheduler: str) -> None:
        self._tracer = tracer
        self._scheduler = scheduler

    def __call__(self, context: JobExecutionContext) -> AbstractContextManager[None]:
        return self._in_span(context)

    @contextmanager
    def _in_span(self, context: JobExecutionContext) -> Iterator[None]:
        parent, links = _origin(context)
        with self._tracer.start_as_current_span(
            f"execute {context.job_key}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=self._attributes(context),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            outcome = Outcome.SUCCEEDED
            try:
                yield
            except JobSnoozedError:
                outcome = Outcome.SNOOZED
                raise
            except _CANCELLED:
                outcome = Outcome.CANCELLED
                raise
            except BaseException as error:
                outcome = Outcome.FAILED
                span.record_exception(error)
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise
            finally:
                span.set_attribute("quartzpy.outcome", str(outcome))

    def _attributes(self, context: JobExecutionContext) -> dict[str, str | int]:
        return {
            "quartzpy.scheduler": self._scheduler,
            "quartzpy.node": context.instance_id,
            "quartzpy.job.name": context.job_key.name,
            "quartzpy.job.group": context.job_key.group,
            "quartzpy.trigger.name": context.trigger_key.name,
            "quartzpy.trigger.group": context.trigger_key.group,
            "quartzpy.fire_id": context.fire_id,
            "quartzpy.attempt": context.attempt,
            "quartzpy.refire_count": context.refire_count,
            "quartzpy.scheduled_fire_time": context.scheduled_fire_time.isoformat(),
            # A job in another process is represented by an object that has no such name.
            "quartzpy.job.type": getattr(context.job_instance, "type_name", type(context.job_instance).__qualname__),
        }


def _origin(context: JobExecutionContext) -> tuple[Context, list[Link]]:
    """Return the parent and the links of the span.

    What was scheduled to run once belongs to the trace of the call. A recurring trigger fires for years: its executions
    have traces of their own, with a link to the call.
    """
    try:
        carrier = trace_of(context.job_data)
    except InvalidJobDataError:
        # A job that does not read its data may run nevertheless.
        carrier = {}
    if not carrier:
        return Context(), []
    extracted = _PROPAGATOR.extract(carrier, Context())
    if context.next_fire_time is None and context.previous_fire_time is None:
        return extracted, []
    origin = trace.get_current_span(extracted).get_span_context()
    return Context(), [Link(origin)] if origin.is_valid else []
