"""The plugins that quartzpy includes."""

from quartzpy.plugin import Plugin
from quartzpy.plugins.declared_jobs import DeclaredJobs
from quartzpy.plugins.execution_log import ExecutionLog
from quartzpy.plugins.long_runners import InterruptLongRunners

__all__ = ["DeclaredJobs", "ExecutionLog", "InterruptLongRunners", "Plugin"]
