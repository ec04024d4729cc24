"""A trigger that waits for a while after each execution has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self, cast

from quartzpy.calendars.calendar import Calendar
from quartzpy.checks import Check
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import Converted, Span, as_span, short
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.triggers.recurring import RecurringTrigger
from quartzpy.triggers.trigger import TriggerProgress

SHORTEST_DELAY = timedelta(milliseconds=1)


@dataclass(frozen=True)
class _Delay:
    """The first positional argument, in a base class because the fields of `RecurringTrigger` precede a subclass's."""

    delay: Converted[Span, timedelta] = Converted()


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class FixedDelayTrigger(RecurringTrigger, _Delay):
    """Fires at its start, and then each time when `delay` has passed since the execution ended.

    The job must disallow concurrent execution. While it runs, the trigger has the fire time that it would have if the
    job took no time. This fire time remains if the node dies during the execution. A retry of a failed execution
    does not change it: the delay counts from the end of the first attempt. `end_time` is inclusive.

    Raises:
        InvalidTriggerError: `delay` is not a length of time, or is shorter than a millisecond.
    """

    kind: ClassVar[str] = "fixed_delay"
    follows_end: ClassVar[bool] = True
    derives_nothing: ClassVar[bool] = True
    _checks: ClassVar[Mapping[str, Check]] = {"delay": lambda delay: _delay(delay)}

    name: str | None = None
    group: str = DEFAULT_GROUP

    @property
    def _wait(self) -> timedelta:
        return cast("timedelta", self.delay)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time after `instant` of a job that takes no time."""
        if instant < self.anchor:
            return self._bounded(self.anchor)
        try:
            return self._bounded(self.anchor + ((instant - self.anchor) // self._wait + 1) * self._wait)
        except OverflowError:
            return None

    def triggered(self, progress: TriggerProgress, calendar: Calendar | None = None) -> TriggerProgress:
        fired = progress.next_fire_time
        if fired is None:
            return progress
        return TriggerProgress(self.next_by_end(fired, calendar), fired, progress.times_triggered + 1)

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        # The fire time after the next one depends on when that execution ends, which is not known yet.
        return []

    def next_by_end(self, ended_at: datetime, calendar: Calendar | None) -> datetime | None:
        try:
            following: datetime | None = ended_at + self._wait
        except OverflowError:
            return None
        if calendar is not None and following is not None:
            following = calendar.next_included(following)
        return None if following is None else self._bounded(following)

    def _bounded(self, instant: datetime) -> datetime | None:
        return None if self.end_time is not None and instant > self.end_time else instant

    @property
    def final_fire_time(self) -> datetime | None:
        """Always None, because it depends on how long the executions take."""
        return None

    @property
    def text(self) -> str:
        return f"{short(self._wait)} after each end"

    def schedule(self) -> dict[str, Any]:
        return {"delay_us": self._wait // timedelta.resolution}

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(schedule["delay_us"] * timedelta.resolution, **common)


def _delay(value: Span) -> timedelta:
    delay = as_span(value, "delay", InvalidTriggerError)
    if delay < SHORTEST_DELAY:
        raise InvalidTriggerError(f"delay: must be at least 1 ms (got {delay})")
    return delay
