"""The node of this process, for plugins and for programs that look into it: `scheduler.node`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from quartzpy.errors import QuartzpyError
from quartzpy.jobs.context import Middleware
from quartzpy.jobs.internal_entries import CurrentTrace, Within
from quartzpy.jobs.job import Job, JobDetail, JobTypes
from quartzpy.keys import JobKey
from quartzpy.scheduler.querying import Query
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import ClusterLoad, JobRecord


@dataclass(frozen=True, slots=True)
class OutdatedJob:
    """A value of a stored job that differs from what its class declares.

    A job is stored with the values that its class declares at that time. When a release adds or removes
    `@disallow_concurrent_execution` or `@persist_job_data_after_execution`, jobs that are stored already keep the old
    value until they are stored again. The value may also have been set on the job; then the difference is intended.
    """

    key: JobKey
    option: str
    """The option of `JobDetail`: "disallow_concurrent" or "persist_data"."""
    stored: bool
    declared: bool

    def __str__(self) -> str:
        return (
            f"job {self.key} is stored with {self.option}={self.stored}, and its class now declares {self.declared};"
            " store the job again to change it"
        )


class _Owner(Protocol):
    """A scheduler, as far as its node needs it."""

    @property
    def job_types(self) -> JobTypes: ...

    def jobs(self) -> Query[JobRecord]: ...

    def _usable_store(self) -> JobStore: ...

    def _add_middleware(self, middleware: Middleware) -> None: ...

    def _trace_with(self, current: CurrentTrace, within: Within | None) -> None: ...

    def _set_execution_groups(self, limits: Mapping[str, int]) -> None: ...


class LocalNode:
    """What plugins set up in the node of this process, and what they read for it: `scheduler.node`."""

    def __init__(self, scheduler: _Owner) -> None:
        self._scheduler = scheduler

    def add_middleware(self, middleware: Middleware) -> None:
        """Surround the executions of this scheduler with one more middleware, outside of those that it has.

        Raises:
            SchedulerStateError: the scheduler was started.
        """
        self._scheduler._add_middleware(middleware)

    def trace_with(self, current: CurrentTrace, *, within: Within | None = None) -> None:
        """Store the trace context that `current` returns with each trigger, for its executions.

        A process worker runs each job in `within(trace)`, where `trace` is the context of the execution in the node. It
        is a function that can be pickled.
        """
        self._scheduler._trace_with(current, within)

    def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of execution groups on this node, as given by the setting `execution_groups`.

        Running executions continue, even if there are more of them than a new limit allows.

        Raises:
            SettingsError: a limit is not a whole number of 0 or more.
            SchedulerStateError: the scheduler was not started.
        """
        self._scheduler._set_execution_groups(limits)

    def outdated_jobs(self) -> list[OutdatedJob]:
        """Return where stored jobs differ from what the decorators of their classes declare in this release.

        A stored job keeps what its class declared when it was stored. Jobs of types that this process does not know,
        and rows that it cannot read, are left out.
        """
        type_names = set(self._scheduler.job_types.names())
        jobs: list[OutdatedJob] = []
        for record in self._scheduler.jobs():
            if record.job_type in type_names:
                with contextlib.suppress(QuartzpyError):
                    jobs += _outdated(record.job, self._scheduler.job_types.find(record.job_type))
        return jobs

    def cluster_load(self) -> ClusterLoad:
        """Return the load of the cluster in a few numbers: triggers that are due or late, executions and nodes.

        The cost of the query does not grow with the number of jobs and triggers, so it may be repeated often.
        """
        return self._scheduler._usable_store().cluster_load()


def _outdated(stored: JobDetail, cls: type[Job]) -> list[OutdatedJob]:
    """Compare a stored job with its class. A limit above one was set on the job itself, so it is not compared."""
    is_serial, is_persistent = bool(stored.disallow_concurrent), bool(stored.persist_data)
    jobs = []
    if is_serial != cls.disallows_concurrent_execution and (is_serial or stored.max_concurrent is None):
        jobs.append(OutdatedJob(stored.key, "disallow_concurrent", is_serial, not is_serial))
    if is_persistent != cls.persists_job_data:
        jobs.append(OutdatedJob(stored.key, "persist_data", is_persistent, not is_persistent))
    return jobs
