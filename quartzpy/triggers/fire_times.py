"""The fire times of a schedule, step by step and as a series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Self

from quartzpy.calendars.calendar import Calendar
from quartzpy.instants import as_instant

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TriggerProgress:
    """The state of a trigger in its schedule. `next_fire_time` is None when the trigger will not fire again."""

    next_fire_time: datetime | None
    previous_fire_time: datetime | None = None
    times_triggered: int = 0

    @property
    def may_fire_again(self) -> bool:
        """Return True if there is a next fire time."""
        return self.next_fire_time is not None


class FireTimes(ABC):
    """The steps that a kind of schedule defines, and the series of fire times that follow from them."""

    start_time: datetime | None

    @property
    @abstractmethod
    def anchor(self) -> datetime:
        """The start time."""

    @abstractmethod
    def anchored(self, now: datetime) -> Self:
        """Return this schedule, with `now` as its start time if it has none."""

    @abstractmethod
    def included_from(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        """Return the first fire time at or after `instant` that `calendar` includes; None if none is found."""

    @abstractmethod
    def started(self, calendar: Calendar | None = None) -> TriggerProgress:
        """Return the progress before the first fire. The next fire time is the first that `calendar` includes."""

    @abstractmethod
    def triggered(self, progress: TriggerProgress, calendar: Calendar | None = None) -> TriggerProgress:
        """Return the progress after the fire at `progress.next_fire_time`."""

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        """Return the `count` fire times after `progress.next_fire_time`, or fewer if the schedule ends."""
        instants: list[datetime] = []
        while len(instants) < count:
            progress = self.triggered(progress, calendar)
            if progress.next_fire_time is None:
                break
            instants.append(progress.next_fire_time)
        return instants

    def upcoming(
        self, count: int = 10, start: datetime | None = None, calendar: Calendar | None = None
    ) -> list[datetime]:
        """Return the next `count` fire times after `start`, or fewer if the schedule ends.

        `start` defaults to now. A trigger without a `start_time` is treated as scheduled at `start`. Only fire times
        that `calendar` includes are returned. A trigger has only the name of its calendar; the scheduler returns the
        calendar itself: `scheduler.get_calendar(trigger.calendar)`.

        Raises:
            InvalidTriggerError: `start` is not a datetime with a time zone.
        """
        # A preview decides nothing, so it may read the clock of this machine.
        after = datetime.now(UTC) if start is None else as_instant(start, "start")  # noqa: TID251
        first = after if self.start_time is None else after + _MICROSECOND
        return list(islice(self.anchored(after).fire_times(first, calendar=calendar), count))

    def fire_times(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        calendar: Calendar | None = None,
    ) -> Iterator[datetime]:
        """Yield the fire times from `start` to `end`, both included, that `calendar` includes.

        `start` defaults to the start of the schedule and `end` to its end, which may never come.

        Raises:
            InvalidTriggerError: the trigger has no `start_time` and `start` is not given either, or `start` or `end` is
                not a datetime with a time zone.
        """
        until = None if end is None else as_instant(end, "end")
        anchored = self if start is None else self.anchored(as_instant(start, "start"))
        progress = anchored.started(calendar)
        if start is not None and start > anchored.anchor:
            progress = replace(progress, next_fire_time=anchored.included_from(as_instant(start, "start"), calendar))
        while progress.next_fire_time is not None and (until is None or progress.next_fire_time <= until):
            yield progress.next_fire_time
            progress = anchored.triggered(progress, calendar)
