"""Wait until something is so: what every test does that another thread or process keeps waiting."""

from __future__ import annotations

import ast
import inspect
import linecache
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT = 100.0
"""The limit of a wait, in seconds. It belongs to a failure alone, so that a busy machine is none."""
_LONGEST_REST = 0.1


def wait_until(
    condition: Callable[[], T],
    what: str | None = None,
    *,
    seconds: float = LIMIT,
    every: float = 0.01,
    seen: Callable[[], object] | None = None,
) -> T:
    """Return the first true value of `condition`.

    Args:
        what: what is awaited, for the message. Without it, the message quotes the condition.
        seconds: the limit.
        every: the rest between two calls, in seconds. A condition that takes long, or that is awaited for long, is
            asked less often, so that a test that waits leaves the processor to others.
        seen: describes the state after the last call, for the message. Without it, the message has the last value,
            and that of the left side where the condition is a lambda that compares.

    Raises:
        AssertionError: the condition was still false at the limit.
    """
    began = asked = time.monotonic()
    while not (found := condition()):
        answered = time.monotonic()
        if answered > began + seconds:
            last = str(seen()) if seen is not None else _last_value(condition, found)
            raise AssertionError(f"waited {seconds:g} s in vain for {what or _text(condition)}; {last}")
        time.sleep(max(every, min(_LONGEST_REST, 3 * (answered - asked) + (answered - began) / 20)))
        asked = time.monotonic()
    return found


def stays_false(condition: Callable[[], object], seconds: float) -> bool:
    """Return whether a condition stays false for some time: one look finds only what was there before it."""
    try:
        wait_until(condition, seconds=seconds)
    except AssertionError:
        return True
    return False


def _text(condition: Callable[[], object]) -> str:
    return _source(condition) or repr(condition)


def _last_value(condition: Callable[[], object], found: object) -> str:
    source = _source(condition)
    if source is not None and isinstance(body := ast.parse(source, mode="eval").body, ast.Compare):
        left = ast.unparse(body.left)
        closure = inspect.getclosurevars(condition)
        known = {**closure.builtins, **closure.globals, **closure.nonlocals}
        return f"{left} was {eval(left, known)!r}"
    return f"the last value was {found!r}"


def _source(condition: Any) -> str | None:
    """The expression of a lambda, in one line; None where there is none to be read."""
    if not isinstance(condition, FunctionType) or condition.__name__ != "<lambda>":
        return None
    code = condition.__code__
    places = [place for place in code.co_positions() if None not in place and place[3] != place[2]]
    begin = min((first, column) for first, _, column, _ in places)
    end = max((last, column) for _, last, _, column in places)
    lines = [linecache.getline(code.co_filename, number) for number in range(begin[0], end[0] + 1)]
    lines[-1] = lines[-1].encode()[: end[1]].decode()
    lines[0] = lines[0].encode()[begin[1] :].decode()
    text = " ".join(line.strip() for line in lines)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    return text
