"""quartzpy: a clustered job scheduler for Python over PostgreSQL, in the manner of Quartz."""

import importlib
from typing import TYPE_CHECKING, Any

from quartzpy import cron
from quartzpy.calendars.business_days import BusinessDays, Roll
from quartzpy.calendars.calendar import BaseCalendar, Calendar, WholeDayCalendar
from quartzpy.calendars.days import AnnualCalendar, DayOfWeek, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.calendars.spans import SpanCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.config.config import SchedulerConfig
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.errors import JobExecutionError, QuartzpyError
from quartzpy.events.listener_kinds import JobListener, SchedulerListener, TriggerListener
from quartzpy.expect import Expect
from quartzpy.factory import Scheduler
from quartzpy.foreign_names import is_imported, missing_name
from quartzpy.job_data import JobDataMap
from quartzpy.jobs.context import JobExecutionContext, Middleware
from quartzpy.jobs.continuation import Continuation, Predecessor
from quartzpy.jobs.function_job import job
from quartzpy.jobs.job import (
    InjectingJobFactory,
    Job,
    JobDetail,
    NoOpJob,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.jobs.job_transaction import AsyncJobConnection
from quartzpy.jobs.join import Batch, Join, Joined
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, KeyMatcher
from quartzpy.scheduler.methods.handles import TriggeredExecution
from quartzpy.scheduler.methods.scheduling import ScheduledJob, ScheduledTrigger, SchedulingMethods
from quartzpy.scheduler.plugin import Plugin
from quartzpy.scheduler.querying import Query
from quartzpy.states import ExecutionState, JobMode, Outcome, OverlapPolicy, PublicState
from quartzpy.store.protocol import EVERYTHING, JobGroups, TriggerGroups
from quartzpy.triggers.business_days import BusinessDayTrigger, Rolled
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronMisfire, CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import DateTrigger, IntervalTrigger, SimpleMisfire, SimpleTrigger, at, every
from quartzpy.triggers.trigger import Trigger

if TYPE_CHECKING:
    from quartzpy.aio.async_scheduler import AsyncScheduler
    from quartzpy.jobs.command import Command, CommandJob
    from quartzpy.jobs.http import HttpJob, HttpRequest

__all__ = [
    "EVERYTHING",
    "AllOf",
    "AnnualCalendar",
    "AnyOf",
    "AsyncJobConnection",
    "AsyncScheduler",
    "BaseCalendar",
    "Batch",
    "BusinessDayTrigger",
    "BusinessDays",
    "Calendar",
    "CalendarIntervalTrigger",
    "Command",
    "CommandJob",
    "Continuation",
    "CronCalendar",
    "CronExpression",
    "CronMisfire",
    "CronTrigger",
    "CrontabExpression",
    "DailyCalendar",
    "DailyTimeIntervalTrigger",
    "DateTrigger",
    "DayOfWeek",
    "DaylightSaving",
    "ExecutionState",
    "Expect",
    "FixedDelayTrigger",
    "GroupMatcher",
    "HolidayCalendar",
    "HttpJob",
    "HttpRequest",
    "InjectingJobFactory",
    "IntervalTrigger",
    "IntervalUnit",
    "Jitter",
    "Job",
    "JobDataMap",
    "JobDetail",
    "JobExecutionContext",
    "JobExecutionError",
    "JobGroups",
    "JobKey",
    "JobListener",
    "JobMode",
    "Join",
    "Joined",
    "KeyMatcher",
    "Limit",
    "MaintenanceWindow",
    "Middleware",
    "MonthlyCalendar",
    "NoOpJob",
    "Outcome",
    "OverlapPolicy",
    "Plugin",
    "Predecessor",
    "PublicState",
    "QuartzpyError",
    "Query",
    "RateLimit",
    "RecurrenceTrigger",
    "RetryPolicy",
    "Roll",
    "Rolled",
    "ScheduledJob",
    "ScheduledTrigger",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerListener",
    "SchedulingMethods",
    "SimpleMisfire",
    "SimpleTrigger",
    "SpanCalendar",
    "Trigger",
    "TriggerGroups",
    "TriggerKey",
    "TriggerListener",
    "TriggeredExecution",
    "WeeklyCalendar",
    "WholeDayCalendar",
    "at",
    "cron",
    "disallow_concurrent_execution",
    "every",
    "job",
    "persist_job_data_after_execution",
]


_LATER = {
    # AsyncScheduler takes a megabyte of memory that a node without asynchronous callers does not need.
    "AsyncScheduler": "quartzpy.aio.async_scheduler",
    "Command": "quartzpy.jobs.command",
    "CommandJob": "quartzpy.jobs.command",
    "HttpJob": "quartzpy.jobs.http",
    "HttpRequest": "quartzpy.jobs.http",
}
"""The modules that are imported when one of their names is used."""


def _awaitable_form() -> type["AsyncScheduler"]:
    from quartzpy.aio.async_scheduler import AsyncScheduler

    return AsyncScheduler


Scheduler._awaitable_form = staticmethod(_awaitable_form)


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise missing_name(__name__, name, __all__, imported=is_imported())
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value
