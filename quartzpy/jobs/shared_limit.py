"""Limits that jobs share: each has a name, which jobs give, and holds for all of them together in the whole cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from quartzpy.errors import InvalidJobError, InvalidLimitError
from quartzpy.instants import Converted
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.texts import quoted

MAX_CONCURRENT = 10_000
MAX_NAMES = 8
"""The number of limits that a job can share: each step that fires it asks all of them."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,59}")
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_SHOWN = 'such as 5 (concurrent executions), "10/minute" (fires), or "5, 10/minute" (both)'


@dataclass(frozen=True)
class Limit:
    """What jobs that share a limit may do together, in the whole cluster.

    At most `max_concurrent` of their executions run at the same time (0: none, so that all of them wait), and at most
    as many fires begin in a period as `rate_limit` says. None is no limit of that kind.
    """

    max_concurrent: int | None = None
    rate_limit: Converted[RateLimit | str | None, RateLimit | None] = Converted(None)

    def __post_init__(self) -> None:
        """Validate both values.

        Raises:
            InvalidLimitError: a value is wrong, or both are None.
        """
        most = self.max_concurrent
        if most is not None and (type(most) is not int or not 0 <= most <= MAX_CONCURRENT):
            raise InvalidLimitError(
                f"limit: max_concurrent must be a number from 0 to {MAX_CONCURRENT} (got {quoted(most)})"
            )
        if self.rate_limit is not None:
            try:
                object.__setattr__(self, "rate_limit", RateLimit.of(self.rate_limit))
            except InvalidJobError as error:
                raise InvalidLimitError(f"limit: {error}") from error
        if most is None and self.rate_limit is None:
            raise InvalidLimitError(f"limit: a value is needed, {_SHOWN}")

    @classmethod
    def of(cls, value: object) -> Self:
        """Return a limit from a `Limit`, a number, or a text: 5, "5", "10/minute", "5, 10/minute".

        Raises:
            InvalidLimitError: `value` is none of these.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, RateLimit):
            return cls(rate_limit=value)
        if type(value) is int:
            return cls(value)
        if not isinstance(value, str):
            raise InvalidLimitError(f"limit: a value is needed, {_SHOWN} (got {quoted(value)})")
        first, _, rest = value.partition(",")
        if not _NUMBER.fullmatch(first.strip()):
            first, rest = "", value
        is_rate = "/" in rest or "per" in rest
        if not is_rate and (not first or "," in value):
            raise InvalidLimitError(f"limit: a value is needed, {_SHOWN} (got {quoted(value)})")
        return cls(int(first) if first else None, rest.strip() or None)

    def __str__(self) -> str:
        parts = (None if self.max_concurrent is None else str(self.max_concurrent), self.rate_limit)
        return ", ".join(str(part) for part in parts if part is not None)


def checked_limit_name(name: object) -> str:
    """Return the name of a limit.

    Raises:
        InvalidLimitError: it is not such a name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidLimitError(
            f"limit: {quoted(name)} is no name of a limit; one has at most 60 letters, digits and _ . : -,"
            " such as 'erp'"
        )
    return name


def checked_limits(limits: object) -> tuple[str | RateLimit, ...]:
    """Return the limits of a job, each once: the names of those that it shares, in order, and then its own rates.

    Raises:
        InvalidJobError: these are neither names of limits nor rates, or too many.
    """
    several = [limits] if isinstance(limits, str | RateLimit) else limits
    if isinstance(several, (bytes, dict)) or not isinstance(several, Iterable):
        raise InvalidJobError(
            f"limits: a list of names and rates is needed, such as ['erp', '10/minute'] (got {quoted(limits)})"
        )
    names, rates = set[str](), dict[RateLimit, None]()
    try:
        for limit in several:
            if isinstance(limit, RateLimit) or (isinstance(limit, str) and "/" in limit):
                rates[RateLimit.of(limit)] = None
            else:
                names.add(checked_limit_name(limit))
    except (InvalidLimitError, InvalidJobError) as error:
        raise InvalidJobError(f"limits: {error}") from error
    if len(names) > MAX_NAMES:
        raise InvalidJobError(f"limits: a job can share {MAX_NAMES} limits (got {len(names)})")
    return (*sorted(names), *rates)


def names_as_text(names: Iterable[str]) -> str | None:
    """Return the stored form of the names; None where there are none."""
    return ",".join(names) or None


def names_from_text(text: str | None) -> tuple[str, ...]:
    """Return the names with this stored form."""
    return tuple(text.split(",")) if text else ()
