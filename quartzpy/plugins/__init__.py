"""The plugins that quartzpy includes."""

from quartzpy.plugins.declared_jobs import DeclaredJobs
from quartzpy.plugins.execution_log import ExecutionLog
from quartzpy.plugins.long_runners import InterruptLongRunners
from quartzpy.scheduler.plugin import Plugin

__all__ = ["DeclaredJobs", "ExecutionLog", "InterruptLongRunners", "Plugin"]
