"""The levels of the log lines that the history keeps."""

from __future__ import annotations

import logging

from quartzpy.errors import InvalidValueError
from quartzpy.texts import quoted

OFF = "OFF"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_BY_NAME: dict[str, int] = {name: getattr(logging, name) for name in _LEVELS}
_BY_NUMBER = {number: name for name, number in _BY_NAME.items()}


def checked_level(level: object, error: type[InvalidValueError]) -> str | None:
    """Return the name of the level that a value of `capture_logs` means, or None if it is None.

    A name is accepted in any case, and so is the number of a level (`logging.INFO`). True is "INFO", False is "OFF".

    Raises:
        InvalidValueError: the value is not a level. `error` is the type that is raised.
    """
    if level is None:
        return None
    if isinstance(level, bool):
        return "INFO" if level else OFF
    name = _BY_NUMBER.get(level) if isinstance(level, int) else level
    if isinstance(name, str) and name.upper() in (*_LEVELS, OFF):
        return name.upper()
    raise error(f"capture_logs: must be {', '.join(_LEVELS)} or {OFF} (got {quoted(level)})")


def level_number(level: str | None) -> int | None:
    """Return the number of a stored level; None if no lines are to be kept, or if this release has no such level."""
    return None if level is None else _BY_NAME.get(level)
