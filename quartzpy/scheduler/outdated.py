"""Stored jobs whose values differ from the decorators of their class.

A job is stored with the values that its class declares at that time. When a release adds or removes
`@disallow_concurrent_execution` or `@persist_job_data_after_execution`, jobs that are stored already keep the old value
until they are stored again.
"""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.jobs.job import Job, JobDetail
from quartzpy.keys import JobKey


@dataclass(frozen=True, slots=True)
class OutdatedJob:
    """A value of a stored job that differs from what its class declares.

    The value may have been set explicitly on the job; then the difference is intended.
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


def outdated(stored: JobDetail, cls: type[Job]) -> list[OutdatedJob]:
    """Compare a stored job with its class. A limit above one was set on the job itself, so it is not compared."""
    is_serial, is_persistent = bool(stored.disallow_concurrent), bool(stored.persist_data)
    found = []
    if is_serial != cls.disallows_concurrent_execution and (is_serial or stored.max_concurrent is None):
        found.append(OutdatedJob(stored.key, "disallow_concurrent", is_serial, not is_serial))
    if is_persistent != cls.persists_job_data:
        found.append(OutdatedJob(stored.key, "persist_data", is_persistent, not is_persistent))
    return found
