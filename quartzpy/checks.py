"""The checks of the values of a dataclass: each names the value that it refuses.

A constructor raises the error of the first wrong value. That error also has those of the others (`refused`), so that
the reader of a document reports all of them, each at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

from quartzpy.errors import InvalidValueError
from quartzpy.texts import quoted, reason

Check: TypeAlias = Callable[[Any], Any]
"""Returns the value that is held in place of the one that is given, or raises an error that says why it is wrong."""
WRONG = (InvalidValueError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError)
"""What checks and constructors raise for values from outside."""
_RULE, _IS_PARTIAL = "_refuses", "_is_partial"
_T = TypeVar("_T")
_Rule = TypeVar("_Rule", bound=Callable[[Any], None])


class Checked(Protocol):
    """A dataclass with checks. `_checks` has those of single values, which are not applied to defaults.

    Methods that are decorated with `refuses` check several values together. Both are inherited.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    _checks: ClassVar[Mapping[str, Check]]


def refuses(*names: str) -> Callable[[_Rule], _Rule]:
    """Make a method a rule about values that are right by themselves. If it raises an error, the first is refused."""

    def made(method: _Rule) -> _Rule:
        setattr(method, _RULE, names)
        return method

    return made


@dataclass(frozen=True, slots=True)
class _Plan:
    values: tuple[tuple[str, Any, Check], ...]
    rules: tuple[tuple[tuple[str, ...], Callable[[Any], None]], ...]


@cache
def _plan(cls: type[Checked]) -> _Plan:
    checks: dict[str, Check] = {}
    rules: dict[str, tuple[str, ...]] = {}
    for base in reversed(cls.__mro__):
        checks |= vars(base).get("_checks", {})
        rules |= {name: getattr(method, _RULE) for name, method in vars(base).items() if hasattr(method, _RULE)}
    defaults = {own.name: own.default for own in fields(cls)}
    return _Plan(
        tuple((name, defaults[name], check) for name, check in checks.items()),
        tuple((names, getattr(cls, method)) for method, names in rules.items()),
    )


def check_values(checked: Checked) -> None:
    """Check the values of a dataclass, and replace each by the one that is held.

    Raises:
        InvalidValueError: one is wrong. `refused` has all that are wrong.
    """
    plan = _plan(type(checked))
    values = checked.__dict__
    if _IS_PARTIAL in values:
        _check_each(checked, plan)
        return
    try:
        for name, default, check in plan.values:
            value = values[name]
            if value is not default:
                values[name] = check(value)
        for _, method in plan.rules:
            method(checked)
    except WRONG:
        _check_each(checked, plan)


def _check_each(checked: Checked, plan: _Plan) -> None:
    """Check all values although one is wrong; the others are checked as if that one had not been given."""
    values = checked.__dict__
    refused: dict[str, InvalidValueError] = {}
    absent = {name for name, value in values.items() if value is MISSING}
    for name, default, check in plan.values:
        if name not in absent and values[name] is not default:
            try:
                values[name] = check(values[name])
            except WRONG as error:
                refused[name] = _of_value(name, error)
                values[name] = default
    for names, method in plan.rules:
        if absent.isdisjoint(names) and refused.keys().isdisjoint(names):
            try:
                method(checked)
            except WRONG as error:
                refused[names[0]] = _of_value(names[0], error)
    if refused:
        first = next(iter(refused.values()))
        first.refused = tuple(refused.items())
        raise first from first.__cause__


def _of_value(name: str, error: BaseException) -> InvalidValueError:
    if isinstance(error, InvalidValueError):
        return error
    made = InvalidValueError(f"{name}: {reason(error)}")
    made.__cause__ = error
    return made


def assembled(cls: type[_T], values: Mapping[str, Any]) -> _T | None:
    """Return the dataclass with these values; None if one of them, which is `MISSING`, is known to be wrong.

    Raises:
        InvalidValueError: others are wrong. Others as the constructor raises them.
    """
    if MISSING not in values.values():
        return cls(**values)
    made = object.__new__(cls)
    made.__dict__[_IS_PARTIAL] = True
    for own in fields(cast(Any, cls)):
        if own.init:
            object.__setattr__(made, own.name, values.get(own.name, own.default))
    try:
        made.__post_init__()  # type: ignore[attr-defined]
    except InvalidValueError:
        raise
    except WRONG:
        # A class of a user has no rules, and has met the missing value.
        pass
    return None


def checking(check: Callable[..., None], *more: Any) -> Check:
    """Return the check that calls a function which only raises, and returns the value."""

    def made(value: Any) -> Any:
        check(value, *more)
        return value

    return made


def optional(check: Check) -> Check:
    """Return the check that also accepts None."""
    return lambda value: None if value is None else check(value)


def whole_number(least: int, most: int, text: str, error: type[InvalidValueError]) -> Check:
    """Return the check for a whole number from `least` to `most`. The message begins with `text`."""

    def made(value: Any) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise error(f"{text} (got {quoted(value)})")
        return value

    return made
