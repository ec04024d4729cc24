"""The texts of errors, for the history and the log."""

from __future__ import annotations

import traceback

from quartzpy.texts import storable_text

MAX_ERROR_LENGTH = 8_192
"""The maximum length of an error in the history. Its start is cut, as the end of a traceback is the most useful."""


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
            text = "[...]" + text[-MAX_ERROR_LENGTH:]
        return storable_text(text).rstrip()
    except BaseException:
        return f"<unprintable {type(error).__name__}>"
