"""The log lines about executions: starts and outcomes, skipped fires and misfires."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from quartzpy.events.events import (
    Event,
    JobExecutionVetoed,
    JobSkipped,
    JobToBeExecuted,
    JobWasExecuted,
    TriggerMisfired,
)
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.states import Outcome

LOGGER = "quartzpy.executions"


class ExecutionLogger:
    """Logs starts, outcomes and skipped fires at `level`, and failures and misfires as warnings."""

    def __init__(self, scheduler: str, logger: str = LOGGER, level: int = logging.INFO) -> None:
        self._scheduler = scheduler
        self._logger = logging.getLogger(logger)
        self._level = level

    def listen(self, listeners: Listeners) -> None:
        """Begin to log the events of these listeners."""
        listeners.add_listener(
            self._write, JobToBeExecuted, JobWasExecuted, JobExecutionVetoed, JobSkipped, TriggerMisfired
        )

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
                    extra=self._attributes(context),
                )
            case JobWasExecuted(context, outcome, error):
                level = max(self._level, logging.WARNING) if outcome is Outcome.FAILED else self._level
                reason = f": {error!r}" if error is not None else ""
                self._logger.log(
                    level,
                    "%s is %s after %s%s",
                    context.job_key,
                    outcome,
                    context.job_run_time,
                    reason,
                    extra=self._attributes(context),
                )
            case JobExecutionVetoed(context):
                self._logger.log(
                    self._level, "%s is vetoed by a listener", context.job_key, extra=self._attributes(context)
                )
            case JobSkipped(trigger_key, job_key):
                self._logger.log(
                    self._level,
                    "%s is skipped: %s fired while the job was at its limit",
                    job_key,
                    trigger_key,
                    extra={"scheduler": self._scheduler, "job": str(job_key), "trigger": str(trigger_key)},
                )
            case TriggerMisfired(trigger_key, missed):
                self._logger.warning(
                    "%s misfired: it missed %d fire times",
                    trigger_key,
                    len(missed),
                    extra={"scheduler": self._scheduler, "trigger": str(trigger_key)},
                )

    def _attributes(self, context: JobExecutionContext) -> Mapping[str, str | int]:
        return {**context.log_attributes, "scheduler": self._scheduler}
