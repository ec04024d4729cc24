"""Retry policies, which are stored with a job and decide when it runs again after a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import ClassVar

from quartzpy.checks import Check, check_values, whole_number
from quartzpy.clock import uniform
from quartzpy.errors import InvalidJobError, RemoteJobError
from quartzpy.instants import Converted, Span, as_span
from quartzpy.keys import module_of
from quartzpy.name_hints import constructor_hints
from quartzpy.texts import check_storable, quoted

MAX_ATTEMPTS = 1_000
MAX_DELAY = timedelta(days=365)
_MICROSECOND = timedelta(microseconds=1)


@constructor_hints({})
@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """A retry policy: how often, when and after which errors a failed job runs again.

    `attempts` is the total number of executions, including the first. The delay before attempt n+1 is
    `delay` x `factor`^(n-1), at most `max_delay`; a `factor` of 1 keeps it constant, and 2 doubles it each time. Each
    delay is shortened at random by up to the fraction `jitter` (0 to 1) of it. Only errors in `on` are retried (by
    default all), and never those in `not_on`; both contain exception classes or their dotted names, and include
    subclasses. Attempts survive their node, because the next one is a stored trigger.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "attempts": whole_number(2, MAX_ATTEMPTS, f"retry: attempts must be from 2 to {MAX_ATTEMPTS}", InvalidJobError),
        "delay": partial(as_span, subject="retry: delay", error=InvalidJobError, longest=MAX_DELAY),
        "max_delay": partial(as_span, subject="retry: max_delay", error=InvalidJobError, longest=MAX_DELAY),
        "factor": lambda factor: _share(factor, "factor", 1, 100),
        "jitter": lambda jitter: _share(jitter, "jitter", 0, 1),
        "on": lambda errors: _names(errors, "on"),
        "not_on": lambda errors: _names(errors, "not_on"),
    }

    attempts: int = 3
    delay: Converted[Span, timedelta] = Converted(timedelta(seconds=10))
    factor: float = 2.0
    max_delay: Converted[Span, timedelta] = Converted(timedelta(hours=1))
    jitter: float = 0.0
    on: Sequence[type[BaseException] | str] = ()
    not_on: Sequence[type[BaseException] | str] = ()

    def __post_init__(self) -> None:
        """Validate all values.

        Raises:
            InvalidJobError: a value is invalid; the message names the value and the rule.
        """
        check_values(self)

    def delay_after(self, attempt: int, error: BaseException) -> timedelta | None:
        """Return the delay after attempt number `attempt` failed with `error`; None if there is no further attempt."""
        if attempt >= self.attempts or not self._covers(error):
            return None
        # Computed in floats because a timedelta would overflow: the largest value is a year times 100^64.
        grown = self.delay.total_seconds() * self.factor ** min(attempt - 1, 64)
        wait = self.max_delay if grown >= self.max_delay.total_seconds() else timedelta(seconds=grown)
        return wait * (1 - self.jitter * uniform(0, 1))

    def _covers(self, error: BaseException) -> bool:
        names = type_names(error)
        return (not self.on or not names.isdisjoint(self.on)) and names.isdisjoint(self.not_on)


def _share(value: object, name: str, least: int, most: int) -> float:
    if not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidJobError(f"retry: {name} must be from {least} to {most} (got {quoted(value)})")
    return value


def _names(errors: object, name: str) -> tuple[str, ...]:
    if isinstance(errors, str | type) or not isinstance(errors, Sequence):
        raise InvalidJobError(
            f"retry: {name} must be a sequence of exception classes or their names (got {quoted(errors)})"
        )
    return tuple(_name(error, name) for error in errors)


def _name(error: object, name: str) -> str:
    if isinstance(error, str) and error:
        check_storable(error, f"retry: {name}", InvalidJobError)
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return dotted_name(error)
    raise InvalidJobError(
        f"retry: {name} contains {quoted(error)}, which is neither an exception class nor the name of one"
    )


def dotted_name(cls: type) -> str:
    """Return the name by which a policy stores an exception class: dotted, but without a module for builtins."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{module_of(cls)}.{cls.__qualname__}"


def type_names(error: BaseException) -> frozenset[str]:
    """Return all names by which a policy may refer to `error`: of its class and bases, with and without the module."""
    if isinstance(error, RemoteJobError):
        return error.type_names
    classes = type(error).__mro__
    return frozenset(name for cls in classes for name in (f"{module_of(cls)}.{cls.__qualname__}", cls.__qualname__))
