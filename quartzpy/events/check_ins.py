"""Tells outside monitors when jobs start and how they end. A monitor that cannot be reached neither delays a job nor
fails it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from quartzpy.events.events import Event, JobToBeExecuted, JobWasExecuted, SchedulerShutDown, TriggerComplete
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.keys import NOTIFICATIONS
from quartzpy.monitors import Moment, monitor_config, monitor_of, ping, run_id, slug
from quartzpy.outgoing import OutgoingError, Pinger, read_place
from quartzpy.states import Outcome

logger = logging.getLogger(__name__)

LAST_CALLS = 2.0
"""The time, in seconds, for which the end of a node waits for the calls that are not made yet."""
MAX_REMEMBERED = 10_000


class CheckIns:
    """Calls the monitors of jobs; see the setting `monitors`."""

    def __init__(self, monitors: Mapping[str, str]) -> None:
        self._monitors = monitors
        self._pinger = Pinger("quartzpy-check-ins", logger)
        self._ended: dict[int, JobWasExecuted] = {}

    def listen(self, listeners: Listeners) -> None:
        """Begin to tell the events of these listeners."""
        listeners.add_listener(self._notice, JobToBeExecuted, JobWasExecuted, TriggerComplete, SchedulerShutDown)

    def _notice(self, event: Event) -> None:
        match event:
            case JobToBeExecuted(context) if context.attempt == 1 and context.refire_count == 0:
                self._tell(context, Moment.START)
            case JobWasExecuted(context):
                # One that fires again at once has several of these, of which the last counts.
                if len(self._ended) < MAX_REMEMBERED:
                    self._ended[context.fire_id] = event
            case TriggerComplete(context):
                ended = self._ended.pop(context.fire_id, None)
                if ended is not None:
                    self._tell_the_end(ended)
            case SchedulerShutDown():
                self._pinger.close(LAST_CALLS)

    def _tell_the_end(self, event: JobWasExecuted) -> None:
        if event.outcome is Outcome.SUCCEEDED:
            self._tell(event.context, Moment.SUCCESS)
        elif event.retry_after is None and event.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            # What is tried again has not ended.
            self._tell(event.context, Moment.FAILURE, event.error, str(event.outcome).lower())

    def _tell(
        self, context: JobExecutionContext, moment: Moment, error: BaseException | None = None, outcome: str = ""
    ) -> None:
        job = context.job_key
        if job.group == NOTIFICATIONS or (place := monitor_of(self._monitors, job)) is None:
            return
        try:
            url = read_place(place)
        except OutgoingError as problem:
            logger.debug("no check-in of job %s: %s", job, problem)
            return
        is_start = moment is Moment.START
        self._pinger.put(
            ping(
                url,
                moment,
                slug(job),
                what=f"a check-in of job {job}",
                run=run_id(context.execution_key),
                error=error,
                outcome=outcome,
                duration=None if is_start else context.job_run_time,
                schedule=monitor_config(context.trigger, context.job_detail.timeout) if is_start else None,
            )
        )
