"""A plugin that logs executions (Quartz's logging job and trigger history plugins)."""

from __future__ import annotations

import logging

from quartzpy.events.execution_log import LOGGER, ExecutionLogger
from quartzpy.scheduler.scheduler import BaseScheduler


class ExecutionLog:
    """Logs the starts, outcomes and skipped fires of jobs at `level`, and failures and misfires as warnings.

    `logger` is the name of the logger. The setting `log_executions` does the same with the logger
    "quartzpy.executions".
    """

    def __init__(self, logger: str = LOGGER, level: int = logging.INFO) -> None:
        self._logger = logger
        self._level = level

    def initialize(self, scheduler: BaseScheduler) -> None:
        ExecutionLogger(scheduler.name, self._logger, self._level).listen(scheduler.listeners)

    def start(self) -> None: ...

    def shutdown(self) -> None: ...
