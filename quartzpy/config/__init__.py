"""The settings of a scheduler and their sources."""

from quartzpy.config.notifying import Channel as Channel
from quartzpy.config.notifying import Route as Route
from quartzpy.config.pools import ExecutorConfig as ExecutorConfig
