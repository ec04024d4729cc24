"""Texts and values that others gave: which texts can be stored, and how any value is shown on one line."""

from __future__ import annotations

import json
import reprlib
from typing import Any

from quartzpy.errors import InvalidValueError

MAX_DESCRIPTION_LENGTH = 1_000
_LONGEST_QUOTED = 200

_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = _repr.maxfrozenset = 6


def visible(text: str) -> str:
    """The text on one line; what would move a terminal's cursor or turn its direction is written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(value: object) -> str:
    """A value for an error's message: as `repr` shows it, but short however large the value is. Never raises."""
    try:
        text = visible(_repr.repr(value))
    except Exception:
        # A `__repr__` of somebody else's, or a number of more digits than Python writes.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}..."


def reason(error: BaseException) -> str:
    """What an error that others raised says, for a message of ours: short, on one line. Never raises."""
    try:
        text = visible(str(error)) or type(error).__name__
    except Exception:
        text = type(error).__name__
    return text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}..."


def check_description(text: object, error: type[InvalidValueError], subject: str = "description") -> None:
    """Check that a description is None, or a text that can be stored. Raises `error`; `subject` opens its message."""
    if text is None:
        return
    if not isinstance(text, str):
        raise error(f"{subject}: must be str (got {type(text).__name__})")
    if len(text) > MAX_DESCRIPTION_LENGTH:
        raise error(f"{subject}: {len(text)} characters, at most {MAX_DESCRIPTION_LENGTH}")
    check_storable(text, subject, error)


def storable_text(text: str) -> str:
    """This text without what no database stores: NUL, and lone surrogates."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def check_storable(text: str, subject: str, error: type[InvalidValueError]) -> None:
    """Check that a database can store the text. Raises `error`."""
    if "\0" in text:
        raise error(f"{subject}: the NUL character at position {text.index(chr(0))} cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError as lone:
        raise error(f"{subject}: not valid Unicode text (lone surrogate at position {lone.start})") from None


def stored_object(text: str, subject: str, error: type[InvalidValueError]) -> dict[str, Any]:
    """The JSON object that a row holds; `subject` opens the message. Raises `error` where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError) as wrong:
        raise error(f"{subject}: is not JSON: {reason(wrong)}") from wrong
    if not isinstance(found, dict):
        raise error(f"{subject}: an object is needed (got {type(found).__name__})")
    return found
