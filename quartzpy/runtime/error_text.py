"""The text of an error, for the history and for the log."""

from __future__ import annotations

import traceback

from quartzpy.texts import storable_text

MAX_ERROR_LENGTH = 8_192
"""The most characters of an error that the history keeps. The end of a traceback says the most, so its start is cut."""


def can_be_written(error: BaseException) -> bool:
    """Return whether a log can take the error's own text: it is valid Unicode. Never raises."""
    try:
        "".join(traceback.format_exception(error)).encode()
    except BaseException:
        return False
    return True


def describe(error: BaseException) -> str:
    """The traceback as text that can be stored, its end where it is long. Never raises."""
    try:
        text = "".join(traceback.format_exception(error))
        if len(text) > MAX_ERROR_LENGTH:
            text = "[...]" + text[-MAX_ERROR_LENGTH:]
        return storable_text(text).rstrip()
    except BaseException:
        return f"<unprintable {type(error).__name__}>"
