"""Captures the log records of one execution, whichever logger they are logged with.

Records are captured when they are created, by the record factory of `logging`. A handler of the root logger would miss
the loggers that do not propagate, and while it exists `logging.basicConfig` would do nothing. The levels of the loggers
therefore apply, but filters and handlers do not.

A context variable names the execution: coroutines, their tasks and `asyncio.to_thread` inherit it. A thread that a job
starts itself does not, unless it runs in a copy of the context.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quartzpy.errors import InvalidValueError
from quartzpy.logs.discretion import may_be_kept
from quartzpy.texts import quoted, reason, storable_text

OFF = "OFF"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_BY_NAME: dict[str, int] = {name: getattr(logging, name) for name in _LEVELS}
_BY_NUMBER = {number: name for name, number in _BY_NAME.items()}


def checked_level(level: object, error: type[InvalidValueError]) -> str:
    """Return the name of the level that a value of `capture_logs` means.

    A name is accepted in any case, and so is the number of a level (`logging.INFO`). True is "INFO", False is "OFF".

    Raises:
        InvalidValueError: the value is not a level. `error` is the type that is raised.
    """
    if isinstance(level, bool):
        return "INFO" if level else OFF
    name = _BY_NUMBER.get(level) if isinstance(level, int) else level
    if isinstance(name, str) and name.upper() in (*_LEVELS, OFF):
        return name.upper()
    raise error(f"capture_logs: must be {', '.join(_LEVELS)} or {OFF} (got {quoted(level)})")


def level_number(level: str | None) -> int | None:
    """Return the number of a stored level; None if no lines are to be kept, or if this release has no such level."""
    return None if level is None else _BY_NAME.get(level)


DEFAULT_LIMIT = 65_536
"""The default for the size of the captured lines of one execution, in bytes."""
SMALLEST_LIMIT = 1_024
_MARKER_BYTES = 64
"""The space for the line that counts the lines that are left out."""
_MAX_LINE = 4_000
_MAX_RECORD = 100_000
"""The maximum number of characters of one record; its middle is left out."""

_FORMATTER = logging.Formatter()


class LogLines:
    """Text lines within a limit of bytes: the first and the last are kept, and those between are counted."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._half = (limit - _MARKER_BYTES) // 2
        # A character has up to four bytes, and any line must fit into a half.
        self._longest = min(_MAX_LINE, self._half // 4 - 40)
        # Reentrant, because a signal handler may log while this thread adds a line.
        self._lock = threading.RLock()
        self._first: list[str] = []
        self._first_bytes = 0
        self._is_first_full = False
        self._last: deque[tuple[str, int]] = deque()
        self._last_bytes = 0
        self._left_out = 0
        self._count = 0

    @property
    def count(self) -> int:
        """The number of lines that were added so far, those that are left out included."""
        return self._count

    def add(self, text: str) -> None:
        """Append the lines of `text`. Any thread may call it."""
        for line in text.split("\n"):
            if len(line) > self._longest:
                more = len(line) - self._longest
                line = f"{line[: self._longest]} [{more} more character{'' if more == 1 else 's'}]"
            with self._lock:
                self._append(line, len(line.encode()) + 1)

    def _append(self, line: str, size: int) -> None:
        self._count += 1
        if not self._is_first_full and self._first_bytes + size <= self._half:
            self._first.append(line)
            self._first_bytes += size
            return
        self._is_first_full = True
        self._last.append((line, size))
        self._last_bytes += size
        while self._last_bytes > self._half:
            self._last_bytes -= self._last.popleft()[1]
            self._left_out += 1

    def text(self) -> str | None:
        """Return the lines as one text, or None if there are none."""
        with self._lock:
            if not self._first:
                return None
            left_out = [_marker(self._left_out)] if self._left_out else []
            return "\n".join([*self._first, *left_out, *(line for line, _ in self._last)])

    def recent(self, limit: int) -> str | None:
        """Return as many of the last lines as fit into `limit` bytes, or None if there are none.

        The first line then counts those that are left out before them.
        """
        whole = self.text()
        if whole is None or len(whole.encode()) <= limit:
            return whole
        with self._lock:
            lines = [*([] if self._left_out else self._first), *(line for line, _ in self._last)]
            count = self._count
        recent: deque[str] = deque()
        room = limit - _MARKER_BYTES
        while lines and (room := room - len(lines[-1].encode()) - 1) >= 0:
            recent.appendleft(lines.pop())
        return "\n".join([_marker(count - len(recent)), *recent])


def _marker(number: int) -> str:
    return f"[{number} {'line is' if number == 1 else 'lines are'} left out here]"


class LogCapture:
    """Formats the records of one execution from `level` on, and passes their text to `write`."""

    def __init__(self, level: int, write: Callable[[str], None]) -> None:
        self._level = level
        self._write = write

    def takes(self, level: int) -> bool:
        """Return True if records of this level are captured."""
        return level >= self._level

    def add(self, record: logging.LogRecord) -> None:
        """Write a record if its level is high enough. Never raises: a log call must not fail the job."""
        try:
            if self.takes(record.levelno):
                self._write(_formatted(record))
        except Exception as error:
            self._write(f"a log record cannot be formatted: {reason(error)} (its message is {quoted(record.msg)})")


def _formatted(record: logging.LogRecord) -> str:
    """Return the text of a record as it can be stored.

    The record does not change. In particular `exc_text` stays empty, which `logging.Formatter.format` would set for all
    handlers that come later.
    """
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    parts = [f"{at} {record.levelname} {record.name}: {record.getMessage()}"]
    if record.exc_info:
        parts.append(_FORMATTER.formatException(record.exc_info))
    if record.stack_info:
        parts.append(_FORMATTER.formatStack(record.stack_info))
    text = "\n".join(parts)
    if len(text) > _MAX_RECORD:
        half = _MAX_RECORD // 2
        text = f"{text[:half]} [{len(text) - 2 * half} characters are left out here] {text[-half:]}"
    return storable_text(text)


current_capture: ContextVar[LogCapture | _Probe | None] = ContextVar("quartzpy_log_capture", default=None)
"""What captures the records that are logged in this context; None if nothing does."""


@contextmanager
def capturing(capture: LogCapture | None) -> Iterator[None]:
    """Capture the records that are logged in this context; None captures none, inside another capture too."""
    _factories.ensure()
    token = current_capture.set(capture)
    try:
        yield
    finally:
        current_capture.reset(token)


class _Probe:
    """Finds out whether a record factory calls ours."""

    is_reached = False

    def add(self, record: logging.LogRecord) -> None:
        self.is_reached = True


class _Factories:
    """Keeps our record factory in the chain of factories of `logging`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked: Any = None

    def ensure(self) -> None:
        """Install our factory around the present one, unless the present one calls ours already.

        A program may set a factory at any time: one that calls ours must not be wrapped again, or it would capture
        each record twice.
        """
        if logging.getLogRecordFactory() is self._checked:
            return
        with self._lock:
            present = logging.getLogRecordFactory()
            if not _reaches_ours(present):
                present = _around(present)
                logging.setLogRecordFactory(present)
            self._checked = present


def _reaches_ours(factory: Callable[..., Any]) -> bool:
    probe = _Probe()
    token = current_capture.set(probe)
    try:
        factory(__name__, logging.DEBUG, __file__, 0, "probe", (), None)
    finally:
        current_capture.reset(token)
    return probe.is_reached


def _around(factory: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def new_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(*args, **kwargs)
        capture = current_capture.get()
        # `logging.makeLogRecord` creates a record without a level, and fills it in afterwards.
        if capture is not None and record.levelno is not None and may_be_kept(record):
            capture.add(record)
        return record

    return new_record


_factories = _Factories()


class LevelWarnings:
    """Warns, once for each level, that loggers drop records that a job asks to capture."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._warned: set[int] = set()

    def check(self, level: int, job: object) -> None:
        """Log a warning if the root logger drops records of `level`."""
        root = logging.getLogger()
        if level in self._warned or root.level <= level:
            return
        self._warned.add(level)
        name = logging.getLevelName(level)
        self._logger.warning(
            "job %s asks for capture_logs=%r, but the root logger drops records below %s: only context.log, and loggers"
            " with a lower level of their own, are captured; call logging.basicConfig(level=%r) to capture all",
            job,
            name,
            logging.getLevelName(root.level),
            name,
        )


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


def _exc_info(value: Any) -> Any:
    """Return what a record takes for the `exc_info` of a call, which may also be an exception or true."""
    if isinstance(value, BaseException):
        return type(value), value, value.__traceback__
    return value if not value or isinstance(value, tuple) else sys.exc_info()
