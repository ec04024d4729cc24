"""The events of a node itself, which its log and the scheduler's listeners receive."""

from __future__ import annotations

import logging

from quartzpy.events.events import JobPaused, NodesRecovered, SchedulerError, SchedulerInStandby, SchedulerStarted
from quartzpy.events.listeners import Listeners
from quartzpy.keys import JobKey
from quartzpy.states import NodeMode
from quartzpy.store.protocol import RecoveryOutcome

logger = logging.getLogger(__name__)


class NodeEvents:
    """Posts the events of a node to the listeners, and logs those that an operator should see."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    def error(self, message: str, error: BaseException) -> None:
        """A thread of the node has met an error, which it has logged."""
        self._listeners.post(SchedulerError(message, error))

    def mode_changed(self, mode: NodeMode) -> None:
        """An operator has changed the mode of the node."""
        self._listeners.post(SchedulerStarted() if mode is NodeMode.RUNNING else SchedulerInStandby())

    def job_paused(self, key: JobKey) -> None:
        """A job was paused because of its failures."""
        logger.warning("job %s is paused: too many executions in a row have failed (pause_after_failures)", key)
        self._listeners.post(JobPaused(key))

    def recovered(self, outcome: RecoveryOutcome) -> None:
        """This node has recovered the work of dead nodes."""
        logger.warning(
            "recovered nodes %s: %d executions will run again, %d will not, %d claims released, %d rows repaired",
            ", ".join(outcome.nodes) or "-",
            outcome.recovered,
            outcome.lost,
            outcome.released,
            outcome.repaired,
        )
        for key in outcome.quarantined:
            logger.error("job %s is set to ERROR: it was running on too many nodes that died (max_node_deaths)", key)
        self._listeners.post(NodesRecovered(tuple(outcome.nodes), outcome.recovered, outcome.lost))
