"""Jobs that come with quartzpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.jobs.job import Job

if TYPE_CHECKING:
    from quartzpy.jobs.context import JobExecutionContext


class NoOpJob(Job, type_name="quartzpy.NoOpJob"):
    """Does nothing (Quartz's `NoOpJob`): for triggers whose listeners do the work, and for testing schedules."""

    def execute(self, context: JobExecutionContext) -> None:
        return None
