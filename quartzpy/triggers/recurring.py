"""Triggers whose fire times are a series that is fixed in advance: all kinds except the simple trigger.

Where such a trigger has got to follows from its last fire time alone, so progress and misfires are the
same for all of them; a kind only says which fire time comes after an instant.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Self, assert_never

from quartzpy.budget import Budget, spend
from quartzpy.calendars.calendar import Calendar
from quartzpy.instants import as_instant
from quartzpy.states import Missed
from quartzpy.triggers.misfire import caught_up_from
from quartzpy.triggers.trigger import FIRE_ALL, MAX_REFUSALS, Trigger, TriggerProgress

LOOK_AHEAD = timedelta(days=36525)
"""The search for a fire time ends after this time: 100 years."""
_STEPS_OF_REFUSAL = 2
_ONE_MICROSECOND = timedelta(microseconds=1)


class RecurringMisfire(StrEnum):
    """The misfire instructions of recurring triggers.

    SMART is FIRE_ONCE_NOW. IGNORE fires for every missed fire time, however late. FIRE_ONCE_NOW coalesces them into one
    immediate fire, even if the calendar excludes the present moment. DO_NOTHING skips them. FIRE_ALL catches up on the
    last ones, within the bounds `catch_up_max` and `catch_up_within` of the trigger.
    """

    SMART = "smart"
    IGNORE = "ignore"
    FIRE_ONCE_NOW = "fire_once_now"
    DO_NOTHING = "do_nothing"
    FIRE_ALL = FIRE_ALL


@dataclass(frozen=True, kw_only=True)
class RecurringTrigger(Trigger):
    """A trigger whose next fire time depends only on the previous one."""

    misfire_type: ClassVar[type[StrEnum]] = RecurringMisfire
    instructions: ClassVar[Mapping[Missed, StrEnum]] = {
        Missed.SKIP: RecurringMisfire.DO_NOTHING,
        Missed.ONCE: RecurringMisfire.FIRE_ONCE_NOW,
    }

    @abstractmethod
    def next_after(self, instant: datetime) -> datetime | None: ...

    def first_from(self, instant: datetime) -> datetime | None:
        """Return the first fire time at or after `instant`."""
        return self.next_after(instant - _ONE_MICROSECOND)

    def next_included(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        """Return the first fire time strictly after `instant` that `calendar` includes; None if there is none.

        The search also ends with None if `calendar` includes nothing for 100 years, or excludes thousands in a row.
        """
        return self._included(self.next_after(instant), calendar)

    def _included(self, first: datetime | None, calendar: Calendar | None) -> datetime | None:
        """Return `first` if `calendar` includes it, otherwise the next fire time that it includes."""
        if calendar is None or first is None:
            return first
        candidate: datetime | None = first
        with Budget():
            for _ in range(MAX_REFUSALS):
                spend(_STEPS_OF_REFUSAL)
                if candidate is None or candidate - first > LOOK_AHEAD:
                    return None
                included = calendar.next_included(candidate)
                if included is None or included == candidate:
                    return included
                candidate = self.first_from(included)
        return None

    def included_from(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        return self._included(self.first_from(instant), calendar)

    def started(self, calendar: Calendar | None = None) -> TriggerProgress:
        return TriggerProgress(self.included_from(self.anchor, calendar))

    def triggered(self, progress: TriggerProgress, calendar: Calendar | None = None) -> TriggerProgress:
        fired = progress.next_fire_time
        if fired is None:
            return progress
        return TriggerProgress(self.next_included(fired, calendar), fired, progress.times_triggered + 1)

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        if calendar is not None:
            return super().following(progress, calendar, count)
        # The same result as that of the base class, without creating a progress for each step.
        instants: list[datetime] = []
        at = progress.next_fire_time
        while at is not None and len(instants) < count:
            at = self.next_after(at)
            if at is not None:
                instants.append(at)
        return instants

    def after_misfire(
        self, progress: TriggerProgress, calendar: Calendar | None = None, *, now: datetime
    ) -> tuple[Self, TriggerProgress]:
        now = as_instant(now, "now")
        policy = RecurringMisfire(self.misfire)
        match policy:
            case RecurringMisfire.IGNORE:
                return self, progress
            case RecurringMisfire.SMART | RecurringMisfire.FIRE_ONCE_NOW:
                return self, replace(progress, next_fire_time=now)
            case RecurringMisfire.DO_NOTHING:
                return self, replace(progress, next_fire_time=self.next_included(now, calendar))
            case RecurringMisfire.FIRE_ALL:
                first = progress.next_fire_time
                following = None if first is None else caught_up_from(self, first, calendar, now)
                return self, replace(progress, next_fire_time=following)
            case never:
                assert_never(never)

    @property
    def ignores_misfires(self) -> bool:
        return self.misfire == RecurringMisfire.IGNORE
