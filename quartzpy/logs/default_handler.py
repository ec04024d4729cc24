"""Logging: the default handler for programs that configure none.

The library logs through the standard `logging` module under the logger "quartzpy". Only `Scheduler.run` and
`quartzpy node` configure a handler, and only if the program has configured none.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.logs.json_format import JsonFormatter
from quartzpy.texts import quoted, visible

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
TEXT, JSON = FORMATS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class VisibleFormatter(logging.Formatter):
    """A formatter that escapes control characters, because texts from the database must not control the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return "\n".join(visible(line) for line in super().formatException(ei).split("\n"))


def ensure_logging(level: str, log_format: str = TEXT) -> None:
    """Log messages of `level` and above to standard error, unless the root logger already has a handler.

    Raises:
        SettingsError: `level` is not the name of a level, or `log_format` is not "text" or "json".
    """
    if log_format not in FORMATS:
        raise SettingsError(f"log_format: must be one of {', '.join(FORMATS)} (got {quoted(log_format)})")
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise SettingsError(f"log_level: must be one of {', '.join(LEVELS)} (got {quoted(level)})")
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter() if log_format == JSON else VisibleFormatter(FORMAT))
        logging.basicConfig(level=level.upper(), handlers=[handler])
