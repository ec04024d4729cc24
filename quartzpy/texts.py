"""Checks of text that comes from outside, and the display of arbitrary values on one line."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.text_files import look_alike

MAX_DESCRIPTION_LENGTH = 1_000
_MAX_QUOTED = 200
_FRAME = re.compile(r'  File "|Traceback')
_LINKS = frozenset(
    {
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    }
)
"""The lines between the exceptions of a chain, as Python writes them."""
_GROUP = "Exception Group Traceback ("
_MARGIN = re.compile(r" *[|+] ?")
"""The frame that is drawn around the traceback of an exception group."""

_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = _repr.maxfrozenset = 6


def instant_text(at: datetime | None) -> str:
    """Return an instant as all sentences hold it, which the command line and the page show in the reader's zone."""
    return "an unknown instant" if at is None else at.astimezone(UTC).isoformat(timespec="seconds")


def visible(text: str) -> str:
    """Return the text on one line, with characters that control a terminal or the text direction as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(value: object) -> str:
    """Return a short form of `repr(value)` for error messages. Never raises."""
    try:
        text = visible(_repr.repr(value))
    except Exception:
        # A `__repr__` may raise anything, and Python refuses to convert numbers with too many digits.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def reason(error: BaseException) -> str:
    """Return the message of an error, shortened to one line, for use in another message. Never raises."""
    try:
        text = visible(" ".join(str(error).split())) or type(error).__name__
    except Exception:
        text = type(error).__name__
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def headline(error: str | None) -> str | None:
    """Return the line of a stored error that names the error: "ConnectionError: connection refused".

    It follows the last frame of a traceback. What comes after it, the further lines of a long message and the notes of
    the exception, means nothing alone. In the traceback of an exception group it is the line of the last exception that
    has frames. An error without a traceback begins with its line, as does one that was made, and not raised, of its
    cause.
    """
    if error is None:
        return None
    lines = error.strip().splitlines()
    if _GROUP in error:
        lines = [_MARGIN.sub("", line, count=1) for line in lines]
    else:
        lines = lines[_first_of(lines, _LINKS) :]
    start = next((number for number in reversed(range(len(lines))) if _FRAME.match(lines[number])), -1) + 1
    named = (line for line in lines[start:] if line.strip() and not (start and line.startswith(" ")))
    return next(named, lines[-1] if lines else "")


LINES_OF_REASON = 3
_MAX_LINE = 200


def error_summary(error: str | None) -> str | None:
    """Return an error on one line with its reason: its `headline`, and what follows where that ends in a colon.

    "'/bin/sh' ended with exit status 4; the end of its output: tar: / disk full on /backup". Use `headline` to tell
    errors apart: the output of a command is another one each time.
    """
    line = headline(error)
    if error is None or line is None or not line.rstrip().endswith(":"):
        return line
    _, _, rest = error.strip().rpartition(line)
    last = [text.strip()[:_MAX_LINE] for text in rest.splitlines() if text.strip()][-LINES_OF_REASON:]
    return f"{line} {' / '.join(last)}" if last else line


def _first_of(lines: Sequence[str], links: Collection[str]) -> int:
    """Return the place of the first line after the last link of a chain of exceptions."""
    return next((number for number in reversed(range(len(lines))) if lines[number] in links), -1) + 1


def did_you_mean(name: str, accepted: Iterable[str], names: str) -> str:
    """Return the hint of an error about an unknown name: the nearest known one, or all of them, called `names`."""
    candidates = list(accepted)
    if (alike := look_alike(name)) is not None:
        return alike[1]
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"did you mean {near[0]}?" if near else f"the {names} are {', '.join(candidates)}"


def check_description(description: object, error: type[InvalidValueError], subject: str = "description") -> None:
    """Raise `error` unless the description is None or a string that can be stored. `subject` opens its message."""
    if description is None:
        return
    if not isinstance(description, str):
        raise error(f"{subject}: must be str (got {type(description).__name__})")
    if len(description) > MAX_DESCRIPTION_LENGTH:
        raise error(f"{subject}: {len(description)} characters, at most {MAX_DESCRIPTION_LENGTH}")
    check_storable(description, subject, error)


def storable_text(text: str) -> str:
    """Return the text with NUL and lone surrogates, which databases cannot store, written as escapes."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def check_storable(text: str, subject: str, error: type[InvalidValueError]) -> None:
    """Raise `error` unless a database can store the text."""
    if "\0" in text:
        raise error(f"{subject}: the NUL character at position {text.index(chr(0))} cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError as lone:
        raise error(f"{subject}: not valid Unicode text (lone surrogate at position {lone.start})") from None


def stored_object(text: str, subject: str, error: type[InvalidValueError]) -> dict[str, Any]:
    """Parse a stored JSON object. Raises `error`, whose message begins with `subject`, if it is not one."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError) as wrong:
        raise error(f"{subject}: is not JSON: {reason(wrong)}") from wrong
    if not isinstance(value, dict):
        raise error(f"{subject}: must be a JSON object (got {type(value).__name__})")
    return value


def number_of(count: int, noun: str) -> str:
    """Return a number of things in words: "1 node", "1,200 nodes", "no nodes"."""
    number = f"{count:,}" if count else "no"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def numbered(count: int, singular: str, plural: str) -> str:
    """Return a number with the words that agree with it: `numbered(1, "node is silent", "nodes are silent")`."""
    return f"{count:,} {singular if count == 1 else plural}"


_STEPS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def coarse(seconds: int) -> str:
    """Return a span in its two largest units: "1 d 4 h", "3 min 20 s". From ten minutes on, seconds are left out."""
    parts: list[str] = []
    for unit, size in _STEPS:
        count, rest = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
            if len(parts) == 2 or (unit == "min" and count >= 10):
                break
        elif parts:
            break
        seconds = rest
    return " ".join(parts)
