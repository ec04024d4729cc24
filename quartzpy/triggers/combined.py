"""Triggers that combine other triggers: any of them, all of them, or one with random-looking delays.

The parts determine the fire times, and the instruction at the end of an execution (`Trigger.execution_complete`). The
name, calendar, misfire instruction and all else belong to the combination.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Self

from quartzpy.budget import Budget, spend
from quartzpy.checks import Check, refuses
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import Converted, Span, as_instant, as_span, short
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.recurring import LOOK_AHEAD, RecurringTrigger
from quartzpy.triggers.trigger import CompletedExecution, Trigger, trigger_kind

MAX_NESTED = 8
"""The maximum depth of nested combinations."""
# The search for an instant at which all triggers agree ends after this number of tries of some microseconds each.
_MAX_TRIES = 5_000
# The steps of the budget for one search in each part, besides those that the search itself takes.
_STEPS_OF_SEARCH = 5
_TICK = timedelta.resolution
_MILLISECOND = timedelta(milliseconds=1)
_MAX_JITTER = timedelta(days=366)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOUNDS = ("start_time", "end_time")
_OF_THE_WHOLE = tuple(common for common in fields(Trigger) if common.name not in ("name", "group", *_BOUNDS))


@dataclass(frozen=True, kw_only=True)
class Combination(RecurringTrigger):
    """A trigger whose fire times are derived from those of its parts, within its own start and end."""

    def _adopted(self, parts: Iterable[Trigger]) -> tuple[Trigger, ...]:
        """Return `parts` with the name of the combination, and with its start time if they have none.

        Raises:
            InvalidTriggerError: a part is not a trigger, or has a value that only the combination can have.
        """
        adopted = tuple(self._part(part) for part in parts)
        if _depth(self, adopted) > MAX_NESTED:
            raise InvalidTriggerError(f"triggers: combinations are nested more than {MAX_NESTED} deep")
        return adopted

    def _part(self, part: Trigger) -> Trigger:
        if not isinstance(part, Trigger):
            raise InvalidTriggerError(f"triggers: must be triggers (got {type(part).__name__})")
        if part.needs_calendar:
            raise InvalidTriggerError(
                f"triggers: a {part.kind} trigger has a calendar of its own, so it cannot be a part; give the job"
                " several triggers instead"
            )
        for common in _OF_THE_WHOLE:
            if getattr(part, common.name) != common.default:
                raise InvalidTriggerError(f"{common.name}: belongs to the {self.kind} trigger, not to its part")
        if isinstance(part, DailyTimeIntervalTrigger) and part.repeat_count is not None:
            raise InvalidTriggerError("repeat_count: fires of a part are not counted; give it an end_time")
        named = replace(part, name=self.name, group=self.group)
        return named if self.start_time is None else named.anchored(self.start_time)

    def next_after(self, instant: datetime) -> datetime | None:
        try:
            return self.first_from(as_instant(instant, "instant") + _TICK)
        except OverflowError:  # the end of the year 9999
            return None

    def _named(self, name: str, group: str) -> Self:
        # The parts have the name of the combination, and jitter depends on it.
        return replace(self, name=name, group=group)

    def _declared(self) -> tuple[datetime | None, object]:
        # The parts may have received the start of the combination.
        return self.start_time, None

    def same_schedule(self, other: Trigger) -> bool:
        if not super().same_schedule(other) or not isinstance(other, Combination):
            return False
        pairs = zip(self.parts, other.parts, strict=False)
        return (
            len(self.parts) == len(other.parts)
            and self._span == other._span
            and all(part.same_schedule(counterpart) for part, counterpart in pairs)
        )

    @property
    def _span(self) -> timedelta | None:
        """The length of time that is part of the rule, if there is one."""
        return None

    def _bounded(self, fire_time: datetime | None) -> datetime | None:
        return None if fire_time is None or (self.end_time and fire_time > self.end_time) else fire_time

    def _causes_of(self, execution: CompletedExecution) -> Iterable[tuple[Trigger, CompletedExecution]]:
        return [(part, execution) for part in self.parts]

    @property
    @abstractmethod
    def parts(self) -> tuple[Trigger, ...]:
        """The combined triggers."""

    @property
    def final_fire_time(self) -> datetime | None:
        """None, because it is not known."""
        return None


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class AnyOf(Combination):
    """A trigger that fires whenever one of `triggers` does, and once if several do at the same instant.

    At the end of an execution, the parts that fire at its scheduled fire time choose the instruction; after a misfire,
    those that fire at one of the missed fire times.
    """

    kind: ClassVar[str] = "any_of"

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    triggers: Converted[Iterable[Trigger], tuple[Trigger, ...]] = Converted()

    @refuses("triggers")
    def _adopt(self) -> None:
        object.__setattr__(self, "triggers", self._adopted(_several(self.triggers)))

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def first_from(self, instant: datetime) -> datetime | None:
        spend(_STEPS_OF_SEARCH * len(self.triggers))
        instant = max(instant, self.anchor)
        upcoming = (first_from(part, instant) for part in self.triggers)
        return self._bounded(min(filter(None, upcoming), default=None))

    @property
    def text(self) -> str:
        return " or ".join(part.text for part in self.triggers)

    @property
    def words(self) -> str:
        return " or ".join(part.words for part in self.triggers)

    def schedule(self) -> dict[str, Any]:
        return {"triggers": [part_to_json(part) for part in self.triggers]}

    def _causes_of(self, execution: CompletedExecution) -> Iterable[tuple[Trigger, CompletedExecution]]:
        return [
            (part, execution)
            for part in self.triggers
            if any(first_from(part, at) == at for at in execution.coalesced_fire_times)
        ]

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(triggers=tuple(part_from_json(part) for part in schedule["triggers"]), **common)


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class AllOf(Combination):
    """A trigger that fires when one of `triggers` fires and all others fired within `threshold` before.

    A search ends without a fire time where the triggers do not agree within 100 years, or after thousands of attempts.

    If the threshold is as long as the interval of a part, one fire of that part can count for several fires of another.
    At the end of an execution, all parts choose the instruction, one after another.
    """

    kind: ClassVar[str] = "all_of"

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    triggers: Converted[Iterable[Trigger], tuple[Trigger, ...]] = Converted()
    threshold: Converted[Span, timedelta] = Converted(timedelta(seconds=1))

    _checks: ClassVar[Mapping[str, Check]] = {
        "threshold": partial(as_span, subject="threshold", error=InvalidTriggerError)
    }

    @refuses("triggers")
    def _adopt(self) -> None:
        object.__setattr__(self, "triggers", self._adopted(_several(self.triggers)))

    @property
    def _span(self) -> timedelta:
        return self.threshold

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def first_from(self, instant: datetime) -> datetime | None:
        with Budget():
            return self._searched_from(instant)

    def _searched_from(self, instant: datetime) -> datetime | None:
        earliest = max(instant, self.anchor)
        latest = earliest + LOOK_AHEAD
        for _ in range(_MAX_TRIES):
            all_fired = self._when_all_fired(earliest - self.threshold)
            if all_fired is None or all_fired > latest:
                return None
            candidate = all_fired
            if candidate < earliest:
                # All have fired within the threshold; the next fire of any part is the first candidate.
                upcoming = (first_from(part, earliest) for part in self.triggers)
                candidate = min(filter(None, upcoming), default=latest + _TICK)
            if self.end_time is not None and candidate > self.end_time:
                return None
            agreed = self._when_all_fired(candidate - self.threshold)
            if agreed is not None and agreed <= candidate:
                return candidate
            earliest = candidate + _TICK
        return None

    def _when_all_fired(self, since: datetime) -> datetime | None:
        """Return the instant by which each part has fired since `since`; None if a part does not fire any more."""
        spend(_STEPS_OF_SEARCH * len(self.triggers))
        first = [first_from(part, since) for part in self.triggers]
        return None if None in first else max(filter(None, first))

    @property
    def text(self) -> str:
        return " and ".join(part.text for part in self.triggers)

    @property
    def words(self) -> str:
        return " and also ".join(part.words for part in self.triggers)

    def schedule(self) -> dict[str, Any]:
        return {
            "triggers": [part_to_json(part) for part in self.triggers],
            "threshold_us": self.threshold // _TICK,
        }

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(
            triggers=tuple(part_from_json(part) for part in schedule["triggers"]),
            threshold=schedule["threshold_us"] * _TICK,
            **common,
        )


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class Jitter(Combination):
    """A trigger that fires when `trigger` does, delayed each time by a different length below `up_to`.

    The delay is a hash of this trigger's key and the instant, in whole milliseconds: every node computes the same
    delay each time, and triggers with other names get other delays. It ends before the next fire of `trigger`, so that
    the order and the number of fires do not change. `end_time` applies to the delayed fires. At the end of an
    execution, `trigger` chooses the instruction; it sees the fire times without the delay.
    """

    kind: ClassVar[str] = "jitter"

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    trigger: Trigger
    up_to: Converted[Span, timedelta] = Converted()

    _checks: ClassVar[Mapping[str, Check]] = {
        "up_to": partial(as_span, subject="up_to", error=InvalidTriggerError, above_zero=True, longest=_MAX_JITTER)
    }

    @refuses("trigger")
    def _adopt(self) -> None:
        object.__setattr__(self, "trigger", self._adopted((self.trigger,))[0])

    @property
    def _span(self) -> timedelta:
        return self.up_to

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.trigger,)

    def next_after(self, instant: datetime) -> datetime | None:
        try:
            with Budget():
                return self._next_after(max(as_instant(instant, "instant"), self.anchor - _TICK))
        except OverflowError:  # the end of the year 9999
            return None

    def _next_after(self, instant: datetime) -> datetime | None:
        before = self._last_until(instant)
        if before is not None:
            moved = self._moved(before)
            if moved > instant:
                return self._bounded(moved)
        upcoming = self.trigger.next_after(instant)
        return None if upcoming is None else self._bounded(self._moved(upcoming))

    @property
    def text(self) -> str:
        return f"{self.trigger.text} (up to {short(self.up_to)} later)"

    @property
    def words(self) -> str:
        return f"{self.trigger.words}, up to {short(self.up_to)} later"

    def schedule(self) -> dict[str, Any]:
        return {"trigger": part_to_json(self.trigger), "up_to_us": self.up_to // _TICK}

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(trigger=part_from_json(schedule["trigger"]), up_to=schedule["up_to_us"] * _TICK, **common)

    def _causes_of(self, execution: CompletedExecution) -> Iterable[tuple[Trigger, CompletedExecution]]:
        following = execution.next_fire_time
        of_part = replace(
            execution,
            scheduled_fire_time=self._undelayed(execution.scheduled_fire_time),
            next_fire_time=None if following is None else self._undelayed(following),
            coalesced_fire_times=tuple(map(self._undelayed, execution.coalesced_fire_times)),
        )
        return [(self.trigger, of_part)]

    def _undelayed(self, fire_time: datetime) -> datetime:
        """Return the fire time of `trigger` that was delayed to `fire_time`.

        An instant that is no delayed fire time, such as that of a coalesced fire, is returned as it is.
        """
        undelayed = self._last_until(fire_time)
        return undelayed if undelayed is not None and self._moved(undelayed) == fire_time else fire_time

    def _moved(self, fire_time: datetime) -> datetime:
        following = self.trigger.next_after(fire_time)
        longest = self.up_to if following is None else min(self.up_to, following - fire_time)
        named = f"{self.group}\n{self.name or ''}\n{(fire_time - _EPOCH) // _TICK}"
        drawn = int.from_bytes(hashlib.blake2b(named.encode(), digest_size=8).digest())
        return fire_time + drawn * (longest // _MILLISECOND) // 2**64 * _MILLISECOND

    def _last_until(self, instant: datetime) -> datetime | None:
        """Return the last fire time of `trigger` up to `instant`, if it is less than `up_to` before `instant`."""
        last = self.trigger.next_after(instant - self.up_to)
        if last is None or last > instant:
            return None
        nothing_after = instant
        while nothing_after - last > _TICK:
            spend(_STEPS_OF_SEARCH)
            middle = last + (nothing_after - last) / 2
            later = self.trigger.next_after(middle)
            if later is not None and later <= instant:
                last = later
            else:
                nothing_after = middle
        return last


def _several(triggers: object) -> tuple[Trigger, ...]:
    if isinstance(triggers, Trigger) or not isinstance(triggers, Iterable):
        raise InvalidTriggerError(f"triggers: must be several triggers (got {type(triggers).__name__})")
    several = tuple(triggers)
    if len(several) < 2:
        raise InvalidTriggerError(f"triggers: must be at least two (got {len(several)})")
    return several


def _depth(whole: Combination, parts: tuple[Trigger, ...]) -> int:
    return 1 + max(_depth(part, part.parts) if isinstance(part, Combination) else 0 for part in parts)


def first_from(part: Trigger, instant: datetime) -> datetime | None:
    if isinstance(part, RecurringTrigger):
        return part.first_from(instant)
    return part.next_after(instant - _TICK)


def part_to_json(part: Trigger) -> dict[str, Any]:
    written: dict[str, Any] = {"kind": part.kind, "schedule": part.schedule()}
    for bound in _BOUNDS:
        instant = getattr(part, bound)
        if instant is not None:
            written[bound] = instant.isoformat()
    return written


def part_from_json(written: Mapping[str, Any]) -> Trigger:
    """Raises InvalidTriggerError where the kind is not known."""
    bounds = {name: datetime.fromisoformat(written[name]) for name in _BOUNDS if name in written}
    return trigger_kind(written["kind"]).from_schedule(written["schedule"], **bounds)
