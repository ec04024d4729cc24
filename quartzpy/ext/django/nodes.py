"""The nodes of a Django project: they know its jobs, store its tasks, and close Django's connections around jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections

from quartzpy.errors import InvalidValueError, PluginStartError
from quartzpy.ext.django.backend import job_of, job_types, triggers_of
from quartzpy.ext.django.project import database_url, import_tasks, own_setting, scheduler_settings
from quartzpy.factory import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.scheduler.scheduler import BaseScheduler

OWNER = "django"


@contextmanager
def django_connections(context: JobExecutionContext) -> Iterator[None]:
    """Close the connections that Django would close at the start and the end of a request: a job has no request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


class DeclaredTasks:
    """A plugin that stores the tasks of this process with their schedules when a node starts.

    A schedule that no task has any more is deleted, except by a node of an older `version`. The job of a task that is
    gone stays: what was enqueued for it may be what a node of a newer version runs.
    """

    def __init__(self, version: str | None) -> None:
        self._version = version

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Store the declared tasks before the node takes triggers."""
        self._scheduler = scheduler

    def start(self) -> None:
        """Store the tasks.

        Raises:
            PluginStartError: a task has a wrong option or schedule.
        """
        try:
            declared = [(job_of(job_type.task), triggers_of(job_type.task)) for job_type in job_types.values()]
            plan = self._scheduler.sync(declared, owner=OWNER, version=self._version)
            if plan.outdated_by is None:
                stored = self._scheduler._usable_store().owned(OWNER).triggers
                self._scheduler.unschedule_jobs(stored - {each.key for _, triggers in declared for each in triggers})
        except InvalidValueError as error:
            raise PluginStartError(str(error)) from error

    def shutdown(self) -> None:
        """Do nothing."""


def node() -> Scheduler:
    """Return a new scheduler that knows the jobs of the project: `node().run()` runs them.

    They are those of the modules `tasks` and `jobs` of each installed app. At its start it stores the tasks with their
    schedules.
    """
    import_tasks()
    values = {"log_executions": "INFO", **scheduler_settings()}
    plugins = [DeclaredTasks(own_setting("VERSION"))]
    return Scheduler(database_url(), middleware=[django_connections], plugins=plugins, **values)
