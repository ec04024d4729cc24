"""Jobs, triggers and policies made of the values of a document: all values that a class refuses are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.scheduler.declarations import SCHEDULE
from quartzpy.scheduler.document_faults import Faults, Place
from quartzpy.texts import reason

_T = TypeVar("_T")
SAMPLES: Mapping[str, Any] = {
    "expression": "* * * * *",
    "rule": "FREQ=DAILY",
    "delay": "1m",
    "interval": 1,
    "unit": "day",
    "limit": 1,
    "job": "job",
}
"""Values that stand in for wrong ones which a class needs, while its other values are checked."""
WRONG = (
    InvalidValueError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
)
"""What the constructors of jobs and triggers raise for values from outside."""


def built(
    faults: Faults,
    place: Place,
    build: Callable[..., _T],
    values: Mapping[str, Any],
    needed: Collection[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> _T | None:
    """Call a constructor, and report all values that it refuses. Return None if it refuses any.

    A constructor raises an error for the first value that is wrong. Therefore the wrong value is left out, or replaced
    by a right one if it is needed, and the constructor is called again. `renamed` has the words of the document for
    values that have other names there.
    """
    remaining = dict(values)
    missing = [name for name in needed if name not in remaining and name in SAMPLES]
    for name in missing:
        faults.add(place, f"{name} is missing")
        remaining[name] = SAMPLES[name]
    is_faulty = bool(missing)
    for _ in range(len(values) + 1):
        try:
            made = build(**remaining)
        except WRONG as error:
            is_faulty = True
            word = _culprit(build, remaining, error)
            faults.add(
                place if word is None else (*place, renamed.get(word, word)),
                error if isinstance(error, InvalidValueError) else reason(error),
            )
            if word is None or word == SCHEDULE:
                return None
            if word in needed and word in SAMPLES and remaining[word] != SAMPLES[word]:
                remaining[word] = SAMPLES[word]
                remaining.pop("dialect", None)
            else:
                del remaining[word]
        else:
            return None if is_faulty else made
    return None


def _culprit(build: Callable[..., Any], values: Mapping[str, Any], error: BaseException) -> str | None:
    """Return the name of the value that a constructor refuses; None if it is not one alone."""
    if isinstance(error, InvalidCronError) and "expression" in values:
        return "expression"
    text = str(error)
    # Of a policy, the message begins with its name: "retry: attempts must be from 2 to 1000".
    within = text.partition(": ")[2]
    named = [word for word in values if any(part.startswith((f"{word}:", f"{word} ")) for part in (text, within))]
    if named:
        return max(named, key=len)
    for word in values:
        try:
            build(**{name: value for name, value in values.items() if name != word})
        except WRONG as other:
            if str(other) != text and not isinstance(other, TypeError):
                return word
        else:
            return word
    return SCHEDULE if SCHEDULE in values else None
