"""The end of an execution, as the trigger that fired it sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quartzpy.states import CompletionInstruction, Outcome


@dataclass(frozen=True, slots=True)
class CompletedExecution:
    """An execution that has ended, for `Trigger.execution_complete`.

    `error` is the exception of a failed execution. `result` is the return value of the job. `instruction` is that
    of the job's `JobExecutionError`, or NOOP. `times_triggered` counts the fires of the trigger up to this one,
    and `next_fire_time` is the fire time that followed this one; None for the last. `coalesced_fire_times` are the
    scheduled fire times that the execution covers: after a misfire the missed ones, otherwise only
    `scheduled_fire_time`.
    """

    fire_id: int
    scheduled_fire_time: datetime
    next_fire_time: datetime | None
    times_triggered: int
    outcome: Outcome
    error: BaseException | None
    result: Any
    instruction: CompletionInstruction
    coalesced_fire_times: tuple[datetime, ...]
