"""Expectations: by when the fires of a schedule start and end, how long they run, and how many of them succeed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Self

from quartzpy.checks import Check, check_values, refuses, whole_number
from quartzpy.errors import InvalidJobError
from quartzpy.instants import Converted, Span, as_span, zone
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.texts import did_you_mean, instant_text, quoted, reason, stored_object

LONGEST = timedelta(days=366)
SUCCESS_AMONG = 100
"""The number of runs among which `success` is a share, by default."""
MAX_AMONG = 10_000
EACH_FAILURE: Mapping[str, Any] = {"success": 1.0, "success_among": 1}
"""What is expected where each failure that no retry follows is to be told of, until the next success."""
_MICROSECOND = timedelta(microseconds=1)


class Breach(StrEnum):
    """What a fire can fail to do. The values are the kinds of the incidents."""

    STARTS_LATE = "starts-late"
    """The fire had not started within `starts_within`."""
    ENDS_LATE = "ends-late"
    """The fire had not ended successfully at `ends_by`."""
    RUNS_LONG = "runs-long"
    """An execution has run for longer than `runs_at_most`."""
    FAILS_OFTEN = "fails-often"
    """More of the last runs have failed than `success` allows."""
    JOINS_LATE = "joins-late"
    """A job has waited for others for longer than `within` of its `Join`. The key of the trigger is that of the job."""


@dataclass(frozen=True)
class Expect:
    """What is expected of the fires of a schedule: `Expect(starts_within="2m", ends_by="06:00")`.

    - `starts_within`: a fire starts at most so long after its scheduled instant.
    - `ends_by`: a fire has ended successfully at this wall time in the time zone of its trigger: the first such time
      at or after the scheduled instant. A trigger without a time zone has UTC.
    - `runs_at_most`: no execution takes longer. It goes on running; `timeout` of the job stops one.
    - `success`: the share of the last `success_among` fires that succeed, from 0 to 1. 0.99 of 100 lets one fail, so
      the second failure among 100 fires breaks it, however few fires there were yet. A fire that is retried fails when
      its last attempt does.

    Nothing is expected of what is not meant to run: see `docs/how-to/expectations.md`.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "starts_within": lambda span: _span(span, "starts_within"),
        "ends_by": lambda value: None if value is None else _wall_time(value),
        "runs_at_most": lambda span: _span(span, "runs_at_most"),
        "success": lambda share: None if share is None else _share(share),
        "success_among": whole_number(
            1, MAX_AMONG, f"expect: success_among must be a number from 1 to {MAX_AMONG}", InvalidJobError
        ),
    }

    starts_within: Converted[Span | None, timedelta | None] = Converted(None)
    ends_by: Converted[time | str | None, time | None] = Converted(None)
    runs_at_most: Converted[Span | None, timedelta | None] = Converted(None)
    success: float | None = None
    success_among: int = SUCCESS_AMONG

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobError: a value is wrong, or nothing is expected.
        """
        check_values(self)

    @refuses("success_among", "success")
    def _check_share(self) -> None:
        if self.success is None and self.success_among != SUCCESS_AMONG:
            raise InvalidJobError("expect: success_among is the number of fires of which success is the share")

    @refuses("", "starts_within", "ends_by", "runs_at_most", "success")
    def _check_content(self) -> None:
        if all(value is None for value in (self.starts_within, self.ends_by, self.runs_at_most, self.success)):
            raise InvalidJobError(
                'expect: give what is expected: starts_within="2m", ends_by="06:00", runs_at_most="30m", success=0.99'
            )

    @classmethod
    def of(cls, value: object) -> Self:
        """Return an expectation from an `Expect` or from a mapping of its values.

        Raises:
            InvalidJobError: `value` is neither, or a value in it is wrong.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise InvalidJobError(f'expect: an Expect is needed, as Expect(starts_within="2m") (got {quoted(value)})')
        names = sorted(field.name for field in fields(cls))
        for name in value:
            if name not in names:
                raise InvalidJobError(f"expect: {quoted(name)} is unknown; {did_you_mean(str(name), names, 'names')}")
        return cls(**value)

    def __str__(self) -> str:
        parts = []
        if self.starts_within is not None:
            parts.append(f"starts within {_span_text(self.starts_within)}")
        if self.ends_by is not None:
            parts.append(f"ends by {self.ends_by.isoformat('auto' if self.ends_by.second else 'minutes')}")
        if self.runs_at_most is not None:
            parts.append(f"runs at most {_span_text(self.runs_at_most)}")
        if self.success is not None:
            parts.append(f"{self.success:.10g} of {self.success_among} fires succeed")
        return ", ".join(parts)

    @property
    def failures_allowed(self) -> int:
        """The number of fires that may fail among the last `success_among`."""
        # 0.99 of 100 is 1 failure, although 100 * (1 - 0.99) is a little less in floating point.
        return 0 if self.success is None else int(self.success_among * (1 - self.success) + 1e-9)

    def check_after_others(self, job: JobKey) -> None:
        """Check that it says nothing that needs a schedule, for a job that only runs after others.

        Raises:
            InvalidJobError: it has `ends_by`.
        """
        if self.ends_by is not None:
            raise InvalidJobError(
                f"expect: ends_by counts from the fire time of a schedule, and job {job} runs after others; give"
                " ends_by to a trigger of it, or say by when its turn has to come with within of a Join"
            )

    def end_of(self, scheduled: datetime, time_zone: str) -> datetime | None:
        """Return the instant by which the fire of a scheduled instant has ended; None if none is expected.

        Where the clock skips the wall time, it is the end of the gap; where the wall time occurs twice, the second one.
        """
        if self.ends_by is None:
            return None
        place = zone(time_zone)
        day = scheduled.astimezone(place).date()
        for ahead in range(3):
            wall = datetime.combine(day + timedelta(days=ahead), self.ends_by, place)
            # Of a wall time in a gap, the offset before the gap makes an instant after it, by as much as it is in the
            # gap; of one that occurs twice, the offset after the change makes the later instant.
            later, earlier = wall.replace(fold=1).astimezone(UTC), wall.replace(fold=0).astimezone(UTC)
            at = max(later, earlier)
            if at.astimezone(place).replace(tzinfo=None) != wall.replace(tzinfo=None):
                at = _end_of_gap(later, earlier, place)
            if at >= scheduled:
                return at
        raise AssertionError("each wall time comes once in two days")

    def as_text(self) -> str:
        """Return the stored form, which is JSON."""
        stored = {
            "starts_within_us": None if self.starts_within is None else self.starts_within // _MICROSECOND,
            "ends_by": None if self.ends_by is None else self.ends_by.isoformat(),
            "runs_at_most_us": None if self.runs_at_most is None else self.runs_at_most // _MICROSECOND,
            "success": self.success,
            "success_among": None if self.success is None else self.success_among,
        }
        return json.dumps({name: value for name, value in stored.items() if value is not None})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the expectation with this stored form.

        Raises:
            InvalidJobError: `text` is no stored expectation.
        """
        return cls.from_json(stored_object(text, "expect", InvalidJobError))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the expectation that is stored as this JSON.

        Raises:
            InvalidJobError: it is no stored expectation.
        """
        try:
            return cls(
                starts_within=_span_of(stored.get("starts_within_us")),
                ends_by=stored.get("ends_by"),
                runs_at_most=_span_of(stored.get("runs_at_most_us")),
                success=stored.get("success"),
                success_among=stored.get("success_among", SUCCESS_AMONG),
            )
        except (TypeError, AttributeError, ArithmeticError) as error:
            raise InvalidJobError(f"expect: the stored expectation cannot be read: {reason(error)}") from error


@dataclass(frozen=True, slots=True)
class JudgedBreach:
    """A fire that did not do what is expected of it, as a node judges it: a row of `breaches` without its times."""

    kind: Breach
    trigger_key: TriggerKey
    job_key: JobKey
    scheduled_fire_time: datetime
    what: str
    """The sentence that says what was expected, and what happened."""
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BreachRecord(JudgedBreach):
    """A breach that was recorded: a row of `breaches`."""

    breach_id: int
    found_at: datetime
    in_a_row: int
    """The number of fires that broke it one after the other, with this one."""
    since: datetime
    """The instant at which the first of them was found."""
    over_at: datetime | None = None
    """The instant at which a later fire kept it, or broke it as well; None while neither has happened."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was broken, and for how many fires in a row."""
        if self.in_a_row <= 1:
            return self.why
        what = "wait" if self.kind is Breach.JOINS_LATE else "fire"
        first = f"It is {what} {self.in_a_row:,} in a row; the first was found at {instant_text(self.since)}."
        return (*self.why, first)


def as_expectation(value: Expect | Mapping[str, Any] | None) -> Expect | None:
    """Return an expectation; None if there is none.

    Raises:
        InvalidJobError: it is wrong.
    """
    return None if value is None else Expect.of(value)


def _span(value: object, name: str) -> timedelta | None:
    if value is None:
        return None
    return as_span(value, f"expect: {name}", InvalidJobError, above_zero=True, longest=LONGEST)


def _share(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= 1:
        raise InvalidJobError(f"expect: success must be above 0 and at most 1 (got {quoted(value)})")
    return float(value)


def _wall_time(value: object) -> time:
    if isinstance(value, str):
        try:
            value = time.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, time) or value.tzinfo is not None:
        raise InvalidJobError('expect: ends_by must be a wall time without an offset, such as "06:00"')
    return value


def _end_of_gap(before: datetime, after: datetime, place: Any) -> datetime:
    """Return the first instant after a gap of the clock, which is between these two."""
    offset = before.astimezone(place).utcoffset()
    while after - before > _MICROSECOND:
        middle = before + (after - before) / 2
        if middle.astimezone(place).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def _span_of(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else microseconds * _MICROSECOND


def _span_text(span: timedelta) -> str:
    seconds = span.total_seconds()
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit if unit == 'h' else 'min'}"
    return f"{seconds:g} s"
