"""Rate limits of jobs, decided by the generic cell rate algorithm (GCRA, ITU-T I.371).

The state of a limit is one instant, the *theoretical arrival time* (TAT) of the next fire. A fire at the instant `t`
conforms if `t >= TAT - tolerance`; it moves the TAT to `max(TAT, t) + emission_interval`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar, Self

from quartzpy.checks import Check, check_values, refuses, whole_number
from quartzpy.errors import InvalidJobError
from quartzpy.instants import Converted, Span, as_span
from quartzpy.texts import quoted, reason, stored_object

MAX_RATE = 1_000_000
MAX_PERIOD = timedelta(days=366)
_MICROSECOND = timedelta(microseconds=1)
_NAMED_PERIODS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_SHORT_NAMES = {"s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day"}
_TEXT = re.compile(r"\s*(\d{1,9})\s*(?:/|per\s)\s*(\S.*?)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class RateLimit:
    """At most `limit` fires of a job in each period `per`, in the whole cluster.

    Fires are spaced evenly: `RateLimit(10, per="1m")` starts one every six seconds, so that no minute has more than
    ten. With `burst`, this number of fires may start at once after a quiet time; a period then has at most
    `limit + burst - 1`.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "limit": whole_number(1, MAX_RATE, f"rate_limit: limit must be a number from 1 to {MAX_RATE}", InvalidJobError),
        "per": partial(as_span, subject="rate_limit: per", error=InvalidJobError, above_zero=True, longest=MAX_PERIOD),
    }

    limit: int
    per: Converted[Span, timedelta] = Converted(timedelta(minutes=1))
    burst: int = 1

    def __post_init__(self) -> None:
        """Validate all values.

        Raises:
            InvalidJobError: a value is invalid; the message names the value and the rule.
        """
        check_values(self)

    @refuses("burst", "limit")
    def _check_burst(self) -> None:
        if type(self.burst) is not int or not 1 <= self.burst <= self.limit:
            raise InvalidJobError(
                f"rate_limit: burst must be a number from 1 to the limit, {self.limit} (got {quoted(self.burst)})"
            )

    @classmethod
    def of(cls, value: object) -> Self:
        """Return a limit from a `RateLimit` or from a text such as "10/minute", "100/hour" or "5/30s".

        Raises:
            InvalidJobError: `given` is neither.
        """
        if isinstance(value, cls):
            return value
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise InvalidJobError(
                'rate_limit: a text such as "10/minute", "100/hour" or "5/30s", or a RateLimit, is needed'
                f" (got {quoted(value)})"
            )
        name = match[2].lower()
        seconds = _NAMED_PERIODS.get(_SHORT_NAMES.get(name, name))
        return cls(int(match[1]), per=match[2] if seconds is None else timedelta(seconds=seconds))

    def __str__(self) -> str:
        seconds = self.per.total_seconds()
        names = {length: name for name, length in _NAMED_PERIODS.items()}
        period = names.get(int(seconds)) if seconds == int(seconds) else None
        burst = f", in bursts of up to {self.burst}" if self.burst > 1 else ""
        return f"{self.limit} per {period or self.per}{burst}"

    @property
    def emission_interval(self) -> timedelta:
        """The span between fires at the full rate, rounded up to a microsecond, so that the limit is never exceeded."""
        return -(-(self.per // _MICROSECOND) // self.limit) * _MICROSECOND

    @property
    def tolerance(self) -> timedelta:
        """The span by which a fire may come before the theoretical arrival time."""
        return self.emission_interval * (self.burst - 1)

    def bounded(self, tat: datetime | None, now: datetime) -> datetime | None:
        """Return a stored TAT, but none later than this limit allows: the limit or the clock may have been changed."""
        return None if tat is None else min(tat, now + self.emission_interval * self.burst)

    def available(self, tat: datetime | None, now: datetime) -> int:
        """Return the number of fires that conform at `now`; `tat` is None before the first fire."""
        ahead = timedelta() if tat is None else max(tat - now, timedelta())
        return 0 if ahead > self.tolerance else (self.tolerance - ahead) // self.emission_interval + 1

    def after(self, tat: datetime | None, now: datetime, fires: int) -> datetime:
        """Return the TAT after this number of fires at `now`."""
        start = now if tat is None else max(tat, now)
        return start + self.emission_interval * fires

    def as_text(self) -> str:
        """Return the stored form, which is JSON."""
        return json.dumps({"limit": self.limit, "per_us": self.per // _MICROSECOND, "burst": self.burst})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the limit with this stored form.

        Raises:
            InvalidJobError: `text` is not a stored limit.
        """
        stored = stored_object(text, "rate_limit", InvalidJobError)
        try:
            return cls(stored["limit"], per=stored["per_us"] * _MICROSECOND, burst=stored["burst"])
        except KeyError as missing:
            raise InvalidJobError(f"rate_limit: {quoted(missing.args[0])} is missing in the stored limit") from None
        except (TypeError, ArithmeticError) as error:
            raise InvalidJobError(f"rate_limit: the stored limit cannot be read: {reason(error)}") from error
