"""What the job types of quartzpy itself have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.errors import InvalidValueError

if TYPE_CHECKING:
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.jobs.context import JobExecutionContext


def settings_of_node(context: JobExecutionContext) -> SchedulerConfig:
    """Return the settings of the node that runs an execution.

    Raises:
        InvalidValueError: the job runs in a process worker.
    """
    try:
        settings: SchedulerConfig = context.scheduler.config
    except InvalidValueError:
        raise InvalidValueError(
            f"{type(context.job_instance).__name__} runs in a node itself, and not in its process workers; remove"
            " executor= from the job"
        ) from None
    return settings
