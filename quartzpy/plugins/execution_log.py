"""A log line for what each execution comes to (Quartz's logging job and trigger history plugins)."""

from __future__ import annotations

import logging
from typing import Any

from quartzpy.events import Event, JobSkipped, JobToBeExecuted, JobWasExecuted, TriggerMisfired
from quartzpy.states import Outcome


class ExecutionLog:
    """Writes to `logger`: starts, ends and skipped fires at `level`, failures and misfires as warnings."""

    def __init__(self, logger: str = "quartzpy.executions", level: int = logging.INFO) -> None:
        self._logger = logging.getLogger(logger)
        self._level = level

    def initialize(self, scheduler: Any) -> None:
        scheduler.listeners.add_listener(self._write, JobToBeExecuted, JobWasExecuted, JobSkipped, TriggerMisfired)

    def start(self) -> None: ...

    def shutdown(self) -> None: ...

    def _write(self, event: Event) -> None:
        match event:
            case JobToBeExecuted(context):
                self._logger.log(
                    self._level,
                    "%s starts: fire %s of %s, scheduled for %s, attempt %d",
                    context.job_key,
                    context.fire_id,
                    context.trigger_key,
                    context.scheduled_fire_time.isoformat(),
                    context.attempt,
                )
            case JobWasExecuted(context, outcome, error):
                level = logging.WARNING if outcome is Outcome.FAILED else self._level
                reason = f": {error!r}" if error is not None else ""
                self._logger.log(level, "%s is %s after %s%s", context.job_key, outcome, context.job_run_time, reason)
            case JobSkipped(trigger_key, job_key):
                self._logger.log(self._level, "%s is skipped: fired by %s while at its limit", job_key, trigger_key)
            case TriggerMisfired(trigger_key, missed):
                self._logger.warning("%s had misfired; %d instants were missed", trigger_key, len(missed))
