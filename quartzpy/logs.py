"""Logging: a handler where a program has none, and the attributes of log records about executions.

The library logs through the standard `logging` module under the logger "quartzpy". It configures nothing by itself;
only `Scheduler.run` and `quartzpy node` do, and only where the program has configured nothing.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.texts import quoted, visible

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class VisibleFormatter(logging.Formatter):
    """Writes a record as one line, with escapes for what would move a terminal's cursor: rows bring foreign texts."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return "\n".join(visible(line) for line in super().formatException(ei).split("\n"))


def ensure_logging(level: str) -> None:
    """Log to the standard error from `level` on, unless the program has configured its root logger.

    Raises:
        SettingsError: no such level.
    """
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise SettingsError(f"log_level: one of {', '.join(LEVELS)} (got {quoted(level)})")
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(VisibleFormatter(FORMAT))
        logging.basicConfig(level=level.upper(), handlers=[handler])
