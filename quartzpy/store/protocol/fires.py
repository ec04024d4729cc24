"""The values that pass between a store and a node while triggers fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from quartzpy.calendars.calendar import Calendar
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import slot_pool_of
from quartzpy.states import OverlapPolicy
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

MANY = 1_000_000
"""The number of slots that means "no limit"."""


class DispatchKey(NamedTuple):
    """The property by which nodes share out triggers: the type of the job, and the placement that it asks for.

    `placement` is the text form of a `Placement`; it is empty if the job may run anywhere.
    """

    job_type: str
    placement: str = ""

    @property
    def slot_pool(self) -> str:
        """The executor and the execution group, as text."""
        return slot_pool_of(self.placement)


class AvailableSlots(NamedTuple):
    """The free capacity of a node for the triggers of one slot pool: those of an executor and an execution group.

    Slot pools that name the same `executor` share its `workers`, and those that name the same `group` share its
    `group_slots`. The store takes at most `workers` fires for the executor, and at most `group_slots` for the group.
    """

    slot_pool: str = ""
    executor: str = ""
    workers: int = MANY
    group: str = ""
    group_slots: int = MANY


def no_calendar() -> None:
    return None


@dataclass(frozen=True)
class UnfilledTrigger:
    """A due trigger whose stored fire times are used up: it fires once more are stored; see `FiringStore.refill`.

    `trigger` and `calendar` are built on first access, so that a row that cannot be read spoils itself and no other.
    The trigger comes without its data.
    """

    trigger_group: str
    trigger_name: str
    progress: TriggerProgress
    generation: int
    load_trigger: Callable[[], Trigger]
    load_calendar: Callable[[], Calendar | None] = no_calendar
    calendar_revision: int | None = None
    overlap_policy: str = OverlapPolicy.BLOCK

    @cached_property
    def key(self) -> TriggerKey:
        return TriggerKey(self.trigger_name, self.trigger_group)

    @cached_property
    def trigger(self) -> Trigger:
        return self.load_trigger()

    @cached_property
    def calendar(self) -> Calendar | None:
        return self.load_calendar()


@dataclass(frozen=True, slots=True)
class SkippedTrigger:
    """A fire that was skipped because its job was at its limit: the history records it, and the trigger moved on."""

    trigger_key: TriggerKey
    job_key: JobKey
    scheduled_fire_time: datetime
    next_fire_time: datetime | None


@dataclass(frozen=True, slots=True)
class Refill:
    """The fire times that follow the next one of an unfilled trigger; the node computes them outside the lock."""

    unfilled: UnfilledTrigger
    upcoming: UpcomingFireTimes
