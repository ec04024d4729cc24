"""The texts of errors, for the history and the log."""

from __future__ import annotations

import traceback

from quartzpy.texts import storable_text

MAX_ERROR_LENGTH = 8_192
"""The maximum length of an error in the history. Its start is cut, as the end of a traceback is the most useful."""
_CUT = "[...]"


def can_be_written(error: BaseException) -> bool:
    """Return whether the text of an error is valid Unicode, so that a log can write it. Never raises."""
    try:
        "".join(traceback.format_exception(error)).encode()
    except BaseException:
        return False
    return True


def describe(error: BaseException) -> str:
    """Return the traceback as text that can be stored, truncated at its start. Never raises."""
    try:
        text = "".join(traceback.format_exception(error))
        if len(text) > MAX_ERROR_LENGTH:
            text = _shortened(text, "".join(traceback.format_exception_only(error)))
        return storable_text(text).rstrip()
    except BaseException:
        return f"<unprintable {type(error).__name__}>"


def _shortened(text: str, message: str) -> str:
    # A message of many kilobytes, such as an SQL statement with all its parameters, names the error at its start.
    if len(message) > MAX_ERROR_LENGTH // 2 and text.endswith(message):
        text = text.removesuffix(message) + message[: MAX_ERROR_LENGTH // 2] + _CUT
    return text if len(text) <= MAX_ERROR_LENGTH else _CUT + text[-MAX_ERROR_LENGTH:]
