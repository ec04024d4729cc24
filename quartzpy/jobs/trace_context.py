"""The trace context of a call that schedules: it travels with the trigger's data to the executions.

It has the form of W3C Trace Context (https://www.w3.org/TR/trace-context/), in internal entries of the data. It is no
part of the definition of a trigger: the same trigger, stored in another trace, has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from quartzpy.job_data import TRACE_PARENT, TRACE_STATE
from quartzpy.triggers.trigger import Trigger

TraceContext: TypeAlias = Mapping[str, str]
"""The entries `traceparent` and `tracestate`, as far as there are any."""
CurrentTrace: TypeAlias = Callable[[], TraceContext]
"""Returns the trace context of the calling thread or coroutine; empty outside of traces."""

Within: TypeAlias = Callable[[TraceContext], AbstractContextManager[object]]
"""Returns a context manager in which a trace context is the current one."""

_KEYS = {"traceparent": TRACE_PARENT, "tracestate": TRACE_STATE}
_MOST_CHARACTERS = 512
"""The longest entry that is stored; a longer one is left out."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """The connection with a library of tracing."""

    current: CurrentTrace
    within: Within | None = None
    """Makes the trace context of an execution current in a process worker; it is a function that can be pickled."""


def with_trace(trigger: Trigger, trace: TraceContext) -> Trigger:
    """Return the trigger with this trace context instead of one that it may have."""
    entries = {key: trace[name] for name, key in _KEYS.items() if 0 < len(trace.get(name, "")) <= _MOST_CHARACTERS}
    return replace(trigger, data={**without_trace(trigger.data or {}), **entries}) if entries else trigger


def trace_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context in the data of an execution; empty if there is none."""
    found = {name: data.get(key) for name, key in _KEYS.items()}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def without_trace(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without the trace context."""
    return {name: value for name, value in data.items() if name not in (TRACE_PARENT, TRACE_STATE)}
