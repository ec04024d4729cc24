"""The logger of one execution."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from quartzpy.captured_logs import LogCapture, capturing

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class RunLogger(_Adapter):
    """A logger whose records have the attributes of an execution; `JobExecutionContext.log`.

    Its records are captured from any thread, even if the logger drops them because of its level.
    """

    def __init__(self, logger: logging.Logger, attributes: Mapping[str, object], capture: LogCapture | None) -> None:
        super().__init__(logger, attributes)
        self._capture = capture

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name is logging's
        """Return True if a record of this level is logged or captured."""
        return super().isEnabledFor(level) or (self._capture is not None and self._capture.takes(level))

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the attributes of the execution to those of the call; the call's own win."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a record, and capture it if the job asks for its level."""
        # This method is an additional frame between the caller and `logging`.
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        if self._capture is None:
            super().log(level, msg, *args, **kwargs)
        elif self.logger.isEnabledFor(level):
            with capturing(self._capture):
                super().log(level, msg, *args, **kwargs)
        elif self._capture.takes(level):
            error = kwargs.get("exc_info")
            self._capture.add(logging.LogRecord(self.logger.name, level, "", 0, msg, args, _exc_info(error)))


def _exc_info(given: Any) -> Any:
    """Return what a record takes for the `exc_info` of a call, which may also be an exception or true."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    return given if not given or isinstance(given, tuple) else sys.exc_info()
