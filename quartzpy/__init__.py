"""quartzpy: a clustered job scheduler for Python over PostgreSQL, in the manner of Quartz."""

from quartzpy.config import SchedulerConfig
from quartzpy.context import JobExecutionContext
from quartzpy.cron.expression import CronExpression
from quartzpy.errors import JobExecutionError, QuartzpyError
from quartzpy.factory import Scheduler
from quartzpy.job import (
    Job,
    JobDetail,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.job_data import JobDataMap
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler import SchedulerMetadata
from quartzpy.states import PublicState
from quartzpy.triggers.cron import CronMisfire, CronTrigger
from quartzpy.triggers.simple import SimpleMisfire, SimpleTrigger
from quartzpy.triggers.trigger import Trigger

__all__ = [
    "CronExpression",
    "CronMisfire",
    "CronTrigger",
    "GroupMatcher",
    "Job",
    "JobDataMap",
    "JobDetail",
    "JobExecutionContext",
    "JobExecutionError",
    "JobKey",
    "PublicState",
    "QuartzpyError",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerMetadata",
    "SimpleMisfire",
    "SimpleTrigger",
    "Trigger",
    "TriggerKey",
    "disallow_concurrent_execution",
    "persist_job_data_after_execution",
]
