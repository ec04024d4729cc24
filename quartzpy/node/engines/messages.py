"""The message of a call: all that a worker needs to run an execution, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.fired_trigger import FiredTrigger
from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import Job, JobFactory, new_instance
from quartzpy.main_module import import_path
from quartzpy.node.engines.process_messages import fired_to_json
from quartzpy.object_references import object_at
from quartzpy.texts import quoted


@dataclass(frozen=True)
class MessageMaker:
    """Writes the messages of an executor: `common` is the same in all of them."""

    common: dict[str, Any]
    tracing: Tracing | None

    def message_of(self, fired: FiredTrigger, job_class: type[Job], context: JobExecutionContext | None) -> str:
        """Return the message of a call, which `addressed` completes. Without a context, the job is not to begin."""
        refires = 0 if context is None else context.refire_count
        changed = context.job_detail_data.encode_if_changed() if context is not None and refires else None
        return json.dumps(
            {
                **self.common,
                "fire_id": fired.fire_id,
                "fired": fired_to_json(fired, job_class, changed),
                # Without a function for the worker, no trace context is sent.
                "trace": {} if self.tracing is None or self.tracing.within is None else dict(self.tracing.current()),
                "refire_count": refires,
                "instance_id": "" if context is None else context.instance_id,
            }
        )


def addressed(message: str, token: str, submission: int | None) -> str:
    """Return the message of one submission of a call; None: it takes no ticket."""
    return f'{message[:-1]}, "token": {json.dumps(token)}, "submission": {json.dumps(submission)}}}'


def reference_of(function: Callable[..., Any] | None, what: str) -> str | None:
    """Return `module:name` of a function that workers import; None if there is none.

    Raises:
        InvalidValueError: it has no such name.
    """
    if function is None:
        return None
    reference = import_path(function) if hasattr(function, "__qualname__") else ""
    try:
        object_at(reference, what, "my_program.jobs:factory")
    except SettingsError:
        raise InvalidValueError(
            f"{what}: with an engine it must be a function at the top level of a module, which workers can import"
            f" (got {quoted(function)})"
        ) from None
    return reference


def factory_reference(job_factory: JobFactory) -> str | None:
    """Return `module:name` of a job factory that workers import; None for the default one.

    Raises:
        InvalidValueError: it has no such name.
    """
    return None if job_factory is new_instance else reference_of(job_factory, "job_factory")
