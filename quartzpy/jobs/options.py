"""The options of jobs as keyword arguments, for type checkers, which so find a wrong name and a value of a wrong type.

At run time `JobDetail` does. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from quartzpy.expect import Expect
from quartzpy.instants import Span
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import Job, JobData, OverlapPolicyName
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey


class JobOptions(TypedDict, total=False):
    """The options of a job, beside its name, its group and its data; `JobDetail` says what they mean."""

    description: str | None
    durable: bool
    requests_recovery: bool
    disallow_concurrent: bool | None
    max_concurrent: int | None
    overlap_policy: OverlapPolicyName
    concurrency_key: str | None
    persist_data: bool | None
    retry: RetryPolicy | None
    executor: str | None
    execution_group: str | None
    requires: Sequence[str]
    continuations: Sequence[Continuation | JobKey | str]
    after: Join | Sequence[JobKey | str] | None
    timeout: Span | None
    rate_limit: RateLimit | str | None
    limits: Sequence[str | RateLimit] | str
    pause_after_failures: int | None
    display_name: str | None
    documentation_url: str | None
    capture_logs: str | int | None
    expect: Expect | Mapping[str, Any] | None


class ScheduleOptions(JobOptions, total=False):
    """The options of `schedule_job`: those of the job, and the arguments of a function."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None


class DecoratorOptions(ScheduleOptions, total=False):
    """The options of `scheduled_job`."""

    data: Mapping[str, Any] | JobData | None


class JobChanges(JobOptions, total=False):
    """The values that `modify_job` changes."""

    job: type[Job] | str
    data: Mapping[str, Any] | JobData | None
