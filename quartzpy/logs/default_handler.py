"""Logging: the default handler for programs that configure none, and log records as JSON for collectors of logs.

The library logs through the standard `logging` module under the logger "quartzpy". Only `Scheduler.run` and
`quartzpy node` configure a handler, and only if the program has configured none.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from quartzpy.errors import SettingsError
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
        # At its start alembic names six parts of itself, which tells nobody anything.
        logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)


_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_RENAMED = {"node": "instance"}
"""Attributes of our records whose fields have another name."""
_TRACE_API = "opentelemetry.trace"


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: `time`, `level`, `logger`, `message`, and what else the record has.

    Records about an execution have `instance`, `fire_id`, `job` and `trigger`. Inside of a span of
    OpenTelemetry there are `trace_id` and `span_id`. An exception is the text of its traceback, as `error`. Further
    attributes, given as `extra`, are fields of their own; values that JSON has no form for are texts.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record. Characters beyond ASCII are escaped."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD:
                fields.setdefault(_RENAMED.get(name, name), value)
        fields |= _of_span()
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields, default=_text, skipkeys=True)


def _of_span() -> dict[str, str]:
    """Return the ids of the current span, if the program uses OpenTelemetry."""
    api = sys.modules.get(_TRACE_API)
    if api is None:
        return {}
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__qualname__}>"
