"""The base class of all triggers: immutable values that compute fire times.

A trigger never changes, and no scheduling decision of it depends on a clock. Its state is a separate value, a
`TriggerProgress`, and each step returns the next one:

    progress = trigger.started(calendar)                    # before the first fire
    progress = trigger.triggered(progress, calendar)        # it fired at progress.next_fire_time
    trigger, progress = trigger.after_misfire(progress, calendar, now=now)

The names of the steps are Quartz's (`computeFirstFireTime`, `triggered`, `updateAfterMisfire`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypedDict

from quartzpy.budget import Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.checks import Check, check_values, checking, optional, refuses, whole_number
from quartzpy.errors import InvalidKeyError, InvalidTriggerError, TriggerNeverFiresError, UnsupportedKindError
from quartzpy.expect import Expect, as_expectation
from quartzpy.foreign_names import misfire_instruction
from quartzpy.instants import LATEST, Converted, Span, as_instant, as_span
from quartzpy.keys import DEFAULT_GROUP, JobKey, TriggerKey, check_name
from quartzpy.name_hints import NameHints
from quartzpy.states import CompletionInstruction, Missed, Outcome
from quartzpy.texts import check_description, quoted

DEFAULT_PRIORITY = 5
MAX_REPEAT_COUNT = 2**31 - 1
"""The highest repeat count. Every JSON parser reads it exactly."""
_MAX_UPCOMING = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
MAX_REFUSALS = 40_000
"""The number of fire times in a row that a calendar may exclude before the search ends: a daily one for 100 years."""
_KINDS: dict[str, type[Trigger]] = {}
_CHOOSING: set[str] = set()
FIRE_ALL = "fire_all"
MisfireName: TypeAlias = (
    StrEnum
    | Literal[
        "smart",
        "ignore",
        "fire_all",
        "fire_once_now",
        "do_nothing",
        "fire_now",
        "reschedule_now_with_existing_repeat_count",
        "reschedule_now_with_remaining_repeat_count",
        "reschedule_next_with_remaining_count",
        "reschedule_next_with_existing_count",
    ]
)
"""A misfire instruction, or its name; which of them a trigger has depends on its kind."""
"""The misfire instruction that catches up on the last missed fires, within the trigger's bounds."""
_INT32 = 2**31


@dataclass(frozen=True, slots=True)
class CompletedExecution:
    """An execution that has ended, for `Trigger.execution_complete`.

    `error` is the exception of a failed execution. `result` is the return value of the job. `instruction` is that
    of the job's `JobExecutionError`, or NOOP. `times_triggered` counts the fires of the trigger up to this one,
    and `next_fire_time` is the fire time that followed this one; None for the last. `coalesced_fire_times` are the
    scheduled fire times that the execution covers: after a misfire the missed ones, otherwise only
    `scheduled_fire_time`.
    """

    fire_id: int
    scheduled_fire_time: datetime
    next_fire_time: datetime | None
    times_triggered: int
    outcome: Outcome
    error: BaseException | None
    result: Any
    instruction: CompletionInstruction
    coalesced_fire_times: tuple[datetime, ...]


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


def trigger_kind(name: str) -> type[Trigger]:
    """Return the class of the triggers that are stored as this kind.

    Raises:
        UnsupportedKindError: there is no such kind.
    """
    try:
        return _KINDS[name]
    except (KeyError, TypeError):
        raise UnsupportedKindError(f"kind: one of {', '.join(sorted(_KINDS))} (got {quoted(name)})") from None


def trigger_kinds() -> dict[str, type[Trigger]]:
    """Return the kinds of triggers that this process knows, sorted by name."""
    return dict(sorted(_KINDS.items()))


def is_copied(cls: type[Trigger]) -> bool:
    """Return True if a trigger of this class with other values that all kinds have is a mere copy."""
    return "derives_nothing" in vars(cls)


def any_kind_chooses() -> bool:
    """Return True if a kind of trigger overrides `Trigger.execution_complete`.

    While none does, nodes do not read the triggers of ended executions.
    """
    return bool(_CHOOSING)


class TriggerOptions(TypedDict, total=False):
    """The values that triggers of all kinds have; see `Trigger`."""

    job_key: JobKey | None
    description: str | None
    end_time: datetime | None
    priority: int
    calendar: str | None
    misfire: MisfireName
    data: Mapping[str, Any] | None
    misfire_threshold: Span | None
    catch_up_max: int | None
    catch_up_within: Span | None
    expect: Expect | Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Trigger(NameHints, ABC):
    """Base class with the values that triggers of all kinds have.

    Without a `name` a trigger takes the name and group of its job when it is scheduled. Without a `start_time` it
    starts when it is scheduled. `end_time` bounds the schedule. `priority` decides only between triggers that are due
    at the same instant; the higher one fires first. `calendar` is the name of a stored calendar. `data` overrides the
    job's data key by key. `misfire` is the instruction for fires that no node made in time, and `misfire_threshold`
    the lateness that counts as a misfire, instead of the scheduler's. With `misfire="fire_all"` missed fires are made
    one by one, each with its own scheduled time: the last `catch_up_max` of them, and none older than
    `catch_up_within`. `expect` replaces the `expect` of its job.
    """

    _quartz_sections = ("Trigger, TriggerBuilder", "Schedule builders")

    kind: ClassVar[str]
    misfire_type: ClassVar[type[StrEnum]]
    instructions: ClassVar[Mapping[Missed, StrEnum]] = {}
    """The misfire instructions that skip all missed fires, and that coalesce them into one."""
    follows_end: ClassVar[bool] = False
    """True if the next fire time follows from the end of the execution before it."""
    needs_calendar: ClassVar[bool] = False
    """True if fire times follow from the days of a calendar, so that the trigger cannot be a part of another one."""
    derives_nothing: ClassVar[bool] = False
    """True if no value of this kind depends on the common values of all kinds. It does not hold for subclasses."""

    _checks: ClassVar[Mapping[str, Check]] = {
        "name": optional(partial(check_name, subject="trigger name")),
        "group": partial(check_name, subject="trigger group"),
        "description": checking(check_description, InvalidTriggerError),
        "start_time": optional(partial(as_instant, subject="start_time")),
        "end_time": optional(partial(as_instant, subject="end_time")),
        "priority": whole_number(-_INT32, _INT32 - 1, "priority: must be an integer of 32 bits", InvalidTriggerError),
        "misfire_threshold": lambda span: checked_span(span, "misfire_threshold"),
        "calendar": optional(partial(check_name, subject="calendar name")),
        "catch_up_within": lambda span: checked_span(span, "catch_up_within"),
        "catch_up_max": optional(
            whole_number(1, _INT32 - 1, "catch_up_max: must be an integer of 32 bits, at least 1", InvalidTriggerError)
        ),
        "expect": as_expectation,
    }

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls
            if cls.execution_complete is not Trigger.execution_complete:
                _CHOOSING.add(cls.kind)

    job_key: JobKey | None = None
    description: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    priority: int = DEFAULT_PRIORITY
    calendar: str | None = None
    misfire: MisfireName = "smart"
    data: Mapping[str, Any] | None = field(default=None, hash=False)
    misfire_threshold: Converted[Span | None, timedelta | None] = Converted(None)
    catch_up_max: int | None = None
    catch_up_within: Converted[Span | None, timedelta | None] = Converted(None)
    expect: Converted[Expect | Mapping[str, Any] | None, Expect | None] = Converted(None)

    # Positional in the subclasses, after their first argument.
    name: str | None = None
    group: str = DEFAULT_GROUP

    def __post_init__(self) -> None:
        """Check the common values. A subclass calls this and then checks its own.

        Raises:
            InvalidKeyError, InvalidTriggerError: a value is wrong. The message names it.
        """
        check_values(self)

    @refuses("end_time", "start_time")
    def _check_order(self) -> None:
        check_order(self.start_time, self.end_time)

    @refuses("misfire")
    def _take_instruction(self) -> None:
        object.__setattr__(self, "misfire", checked_instruction(self.misfire, self.misfire_type, self.kind))

    @refuses("misfire", "catch_up_max", "catch_up_within")
    def _need_bounds_of_catching_up(self) -> None:
        if self.misfire == FIRE_ALL and self.catch_up_max is None and self.catch_up_within is None:
            raise InvalidTriggerError(
                "misfire: fire_all needs catch_up_max, catch_up_within or both; ignore has no bounds"
            )

    @refuses("catch_up_max", "misfire")
    def _check_catch_up_max(self) -> None:
        self._only_catching_up("catch_up_max")

    @refuses("catch_up_within", "misfire")
    def _check_catch_up_within(self) -> None:
        self._only_catching_up("catch_up_within")

    def _only_catching_up(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and self.misfire != FIRE_ALL:
            raise InvalidTriggerError(
                f"{name}: only with misfire='fire_all' (got {name}={value!r}, misfire={str(self.misfire)!r})"
            )

    @property
    def key(self) -> TriggerKey:
        """The name and group.

        Raises:
            InvalidKeyError: the trigger has no name yet.
        """
        if self.name is None:
            raise InvalidKeyError(
                f"this {self.kind} trigger has no name yet: it takes the name and group of its job when it is"
                " scheduled; pass name=... to name it now"
            )
        return TriggerKey(self.name, self.group)

    @property
    def label(self) -> str:
        """The key as text, for messages; of a trigger without a name, its kind."""
        return f"without a name ({self.kind})" if self.name is None else f"{self.group}.{self.name}"

    @property
    def text(self) -> str:
        """The schedule in a few words, as lists show it: "every 15m"."""
        return self.kind

    @property
    def words(self) -> str:
        """The schedule as a phrase for people: "at 02:00, Monday to Friday"."""
        return self.text

    @property
    def anchor(self) -> datetime:
        """The start time.

        Raises:
            InvalidTriggerError: the trigger has none yet.
        """
        if self.start_time is None:
            raise InvalidTriggerError(f"trigger {self.label}: start_time is not set yet; use anchored(now)")
        return self.start_time

    def anchored(self, now: datetime) -> Self:
        """Return this trigger, with `now` as its start time if it has none.

        Raises:
            InvalidTriggerError: it ends before `now`.
        """
        if self.start_time is not None:
            return self
        start = as_instant(now, "start_time")
        check_order(start, self.end_time)
        return self.with_checked({"start_time": self._start_at(start)})

    def _start_at(self, instant: datetime) -> datetime:
        """Return the start time that a trigger of this kind has if it starts at an instant."""
        return instant

    def bound_to(self, job_key: JobKey, number: int = 1) -> Self:
        """Return this trigger for that job.

        A trigger without a name takes the job's name, and the job's group unless it has a group other than DEFAULT.
        `number` distinguishes several such triggers of one job: number 2 is named `<job name>-2`.

        Raises:
            InvalidKeyError: the job's name with the number is longer than a name may be.
        """
        if self.name is not None:
            return self._with(job_key=job_key)
        name = job_key.name if number == 1 else check_name(f"{job_key.name}-{number}", "trigger name")
        group = job_key.group if self.group == DEFAULT_GROUP else self.group
        return self._named(name, group)._with(job_key=job_key)

    def _named(self, name: str, group: str) -> Self:
        return self._with(name=name, group=group)

    def _with(self, **values: Any) -> Self:
        """Return a copy with other values, which are already validated, because triggers are copied by the thousand."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.__dict__.update(values)
        return copied

    def with_checked(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values that triggers of all kinds have, which are already validated.

        A kind that derives values of its own from them is built anew.
        """
        return self._with(**values) if is_copied(type(self)) else replace(self, **values)

    def with_values_of(self, other: Trigger) -> Self:
        """Return this trigger with the description, priority, data, misfire handling and expectation of another."""
        return replace(
            self,
            description=other.description,
            priority=other.priority,
            data=other.data,
            misfire=other.misfire,
            misfire_threshold=other.misfire_threshold,
            catch_up_max=other.catch_up_max,
            catch_up_within=other.catch_up_within,
            expect=other.expect,
        )

    @abstractmethod
    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly after `instant`, between start and end, without asking calendars."""

    def skipping_to(self, progress: TriggerProgress, following: datetime | None) -> TriggerProgress:
        """Return the progress of a trigger that skips all fires before `following`, or all that are left for None."""
        return replace(progress, next_fire_time=following)

    def next_by_end(self, ended_at: datetime, calendar: Calendar | None) -> datetime | None:
        """Return the fire time after an execution that ended at `ended_at`, for kinds whose `follows_end` is true."""
        raise NotImplementedError

    def execution_complete(self, execution: CompletedExecution) -> CompletionInstruction:
        """Return the instruction for this trigger, or for all triggers of the job, at the end of an execution.

        A kind of trigger overrides this to choose: the node calls it before it records the end of an execution that
        this trigger fired (Quartz's `executionComplete`). By default the instruction that the job gave is returned. An
        instruction other than NOOP also prevents the retries of a failed execution. The node does not ask when the
        job's instance could not be created, or when the same execution continues later (`context.snooze`). Retries,
        recoveries and continuations are fired by separate triggers, which are not of this kind.

        A combination (`AnyOf`, `AllOf`, `Jitter`) asks the parts that caused the fire, in their order. Each part sees
        the instruction that the part before it returned, and the last one decides.
        """
        for part, of_part in self._causes_of(execution):
            chosen = part.execution_complete(replace(of_part, instruction=execution.instruction))
            execution = replace(execution, instruction=CompletionInstruction(chosen))
        return execution.instruction

    def _causes_of(self, execution: CompletedExecution) -> Iterable[tuple[Trigger, CompletedExecution]]:
        """Return the parts of this trigger that caused a fire, each with the execution as the part sees it.

        This is a separate method because `any_kind_chooses` must not count combinations: it would then be true in
        every program, and each completion would read its trigger.
        """
        return ()

    @abstractmethod
    def after_misfire(
        self, progress: TriggerProgress, calendar: Calendar | None = None, *, now: datetime
    ) -> tuple[Self, TriggerProgress]:
        """Apply the misfire instruction at `now`, and return the trigger and its progress.

        A simple trigger may get another start time and repeat count.
        """

    def treating(self, missed: Missed) -> Self:
        """Return this trigger with the misfire instruction that implements a policy for missed fires."""
        instruction = self.instructions.get(missed)
        if instruction is None:
            return self
        return replace(self, misfire=instruction, catch_up_max=None, catch_up_within=None)

    def with_instruction_of(self, other: Trigger) -> Self:
        """Return this trigger with the misfire instruction and the bounds of another one."""
        return replace(
            self, misfire=other.misfire, catch_up_max=other.catch_up_max, catch_up_within=other.catch_up_within
        )

    @property
    def catches_up(self) -> bool:
        """True if the trigger catches up on missed fires one by one, within bounds."""
        return self.misfire == FIRE_ALL

    def with_new_calendar(
        self, progress: TriggerProgress, calendar: Calendar, *, now: datetime, late_after: timedelta
    ) -> TriggerProgress:
        """Return the progress of a trigger whose calendar was replaced (Quartz's `updateWithNewCalendar`).

        The next fire time is the first after the last fire that the new calendar includes. Fire times that are late by
        more than `late_after` at `now` are skipped.
        """
        since = progress.previous_fire_time or self.anchor - _MICROSECOND
        candidate = self.next_after(max(since, now - late_after))
        with Budget():
            for _ in range(MAX_REFUSALS):
                if candidate is None:
                    break
                included = calendar.next_included(candidate)
                if included is None or included == candidate:
                    return replace(progress, next_fire_time=included)
                candidate = self.next_after(included - _MICROSECOND)
        return replace(progress, next_fire_time=None)

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
            InvalidTriggerError: `start` is not a datetime with a time zone, or `count` is not from 0 to 1,000,000.
        """
        if type(count) is not int or not 0 <= count <= _MAX_UPCOMING:
            raise InvalidTriggerError(f"count: a number from 0 to {_MAX_UPCOMING:,} (got {quoted(count)})")
        # A preview decides nothing, so it may read the clock of this machine.
        after = datetime.now(UTC) if start is None else as_instant(start, "start")  # noqa: TID251
        first = after if self.start_time is None or after == LATEST else after + _MICROSECOND
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
        with suppress(OverflowError):  # the end of the year 9999
            progress = anchored.started(calendar)
            if start is not None and start > anchored.anchor:
                following = anchored.included_from(as_instant(start, "start"), calendar)
                progress = replace(progress, next_fire_time=following)
            while progress.next_fire_time is not None and (until is None or progress.next_fire_time <= until):
                yield progress.next_fire_time
                progress = anchored.triggered(progress, calendar)

    @property
    @abstractmethod
    def final_fire_time(self) -> datetime | None:
        """The last fire time, ignoring calendars; None if there is no end or it is not known."""

    @property
    @abstractmethod
    def ignores_misfires(self) -> bool:
        """True if the trigger fires for every missed fire time, however late."""

    @abstractmethod
    def schedule(self) -> dict[str, Any]:
        """Return the values of this kind as JSON, which `from_schedule` reads back."""

    @classmethod
    @abstractmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        """Return the trigger that `schedule()` was called on, with the common values given by name."""

    def ending_after(self, count: int, calendar: Calendar | None = None) -> Self:
        """Return this trigger with the end time that lets it fire `count` times.

        The end time is the instant of the last of these fires if the kind's end is inclusive, and just after it if the
        end is exclusive. Quartz calls it `computeEndTimeToAllowParticularNumberOfFirings`.

        Raises:
            InvalidTriggerError: `count` is below 1, the trigger has no `start_time`, or its schedule ends before.
        """
        if type(count) is not int or count < 1:
            raise InvalidTriggerError(f"count: must be an integer of at least 1 (got {quoted(count)})")
        last = next(islice(self.fire_times(calendar=calendar), count - 1, None), None)
        if last is None:
            raise InvalidTriggerError(f"trigger {self.label}: fires fewer than {count} times")
        inclusive = replace(self, end_time=last)
        is_last = inclusive.included_from(last, calendar) == last
        return inclusive if is_last else replace(self, end_time=last + _MICROSECOND)

    def same_schedule(self, other: Trigger) -> bool:
        """Return True if both triggers have the same fire times, provided that they have the same name.

        The kind, the rule, the bounds and the name of the calendar are compared. The description, data, priority and
        misfire handling are not, nor is a start time that only one of them has: the other started when it was stored.
        """
        if type(self) is not type(other) or self.end_time != other.end_time or self.calendar != other.calendar:
            return False
        start, rule = self._declared()
        other_start, other_rule = other._declared()
        return rule == other_rule and (start is None or other_start is None or start == other_start)

    def _declared(self) -> tuple[datetime | None, object]:
        """Return the start time and the rule as declared, before a misfire instruction changed them."""
        return self.start_time, self.schedule()

    def first_progress(self, calendar: Calendar | None = None) -> TriggerProgress:
        """Return the progress before the first fire, for a trigger that is about to be stored.

        Raises:
            TriggerNeverFiresError: the trigger has no fire time at all.
        """
        progress = self.started(calendar)
        if progress.next_fire_time is None:
            raise TriggerNeverFiresError(
                f"trigger {self.label} will never fire: no fire time at or after {self.anchor.isoformat()}"
                + (f" and up to {self.end_time.isoformat()}" if self.end_time else "")
                + (f" that calendar {self.calendar!r} includes" if self.calendar else "")
                + "; it was not stored"
            )
        return progress


def check_order(start: datetime | None, end: datetime | None) -> None:
    """Check the bounds of a schedule.

    Raises:
        InvalidTriggerError: the end is before the start.
    """
    if start is not None and end is not None and end < start:
        raise InvalidTriggerError(f"end_time {end.isoformat()} is before start_time {start.isoformat()}")


def checked_span(span: Span | None, subject: str) -> timedelta | None:
    """Return a span of time above zero, or None if none is given.

    Raises:
        InvalidTriggerError: it is no span of time, or not above zero.
    """
    return None if span is None else as_span(span, subject, InvalidTriggerError, above_zero=True)


def checked_instruction(misfire: str, allowed: type[StrEnum], kind: str) -> StrEnum:
    """Return the misfire instruction of a kind of trigger.

    Raises:
        InvalidTriggerError: the kind has no such instruction.
    """
    try:
        return allowed(misfire)
    except ValueError:
        meant = misfire_instruction(misfire, allowed)
        hint = "" if meant is None else f'; did you mean misfire="{meant}"?'
        text = f"misfire: {kind} triggers accept {', '.join(allowed)} (got {quoted(misfire)}){hint}"
        raise InvalidTriggerError(text) from None
