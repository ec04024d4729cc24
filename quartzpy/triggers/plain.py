"""The two simplest schedules, as functions: `every` repeats at an interval, `at` fires once at an instant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, TypedDict, Unpack

from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import LONGEST_SPAN, Span, as_instant, as_span
from quartzpy.keys import DEFAULT_GROUP, JobKey
from quartzpy.texts import quoted
from quartzpy.triggers.simple import SimpleTrigger

TIME_OF_DAY = "a time of day is written as cron.daily_at(2, 30)"


class _Options(TypedDict, total=False):
    """The values that triggers of all kinds have; see `Trigger`."""

    job_key: JobKey | None
    description: str | None
    end_time: datetime | None
    priority: int
    calendar: str | None
    misfire: str
    data: Mapping[str, Any] | None
    misfire_threshold: Span | None
    catch_up_max: int | None
    catch_up_within: Span | None


def every(
    interval: Span | None = None,
    name: str | None = None,
    group: str = DEFAULT_GROUP,
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    repeat_count: int | None = None,
    start_time: datetime | None = None,
    **options: Unpack[_Options],
) -> SimpleTrigger:
    """Return a trigger that fires immediately and then at an interval: `every("10s")`, `every(minutes=5)`.

    The interval is a length of time (a timedelta, a number of seconds, or a text such as "1h30m"), or the sum of
    `weeks`, `days`, `hours`, `minutes` and `seconds`. It counts elapsed time from `start_time`, which defaults to the
    moment of scheduling; an execution that takes long does not delay later fires. `repeat_count` is the number of
    fires after the first; without it the trigger repeats for ever. `options` are those of every trigger.
    `IntervalTrigger` is the same function under APScheduler's name.

    Raises:
        InvalidTriggerError: The interval is missing, given in both ways, negative or shorter than one millisecond; or
            another value is wrong.
    """
    units = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    for unit, number in units.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidTriggerError(f"{unit}: must be a number (got {quoted(number)})")
    if options.keys() - _Options.__annotations__.keys():
        SimpleTrigger(name, group, **options)  # It raises the error that names the unknown argument.
    if (interval is not None) == any(units.values()):
        raise InvalidTriggerError(
            "interval: give it either as a length of time, every('5m'), or by units, every(minutes=5)"
        )
    if interval is None:
        try:
            interval = timedelta(**units)
        except (OverflowError, ValueError):
            raise InvalidTriggerError(f"interval: must be at most {LONGEST_SPAN.days} days") from None
    span = as_span(interval, "interval", InvalidTriggerError, above_zero=True)
    return SimpleTrigger(name, group, span, repeat_count, start_time=start_time, **options)


def at(
    run_date: datetime | str | None = None,
    name: str | None = None,
    group: str = DEFAULT_GROUP,
    **options: Unpack[_Options],
) -> SimpleTrigger:
    """Return a trigger that fires once at an instant: `at(datetime(2026, 12, 24, 18, tzinfo=UTC))`.

    The instant is a datetime with a time zone, or a text in ISO 8601 with an offset ("2026-12-24T18:00+01:00").
    Without an instant the trigger fires immediately. `options` are those of every trigger. `DateTrigger` is the same
    function under APScheduler's name.

    Raises:
        InvalidTriggerError: The instant is not a datetime or has no time zone, or another value is wrong.
    """
    instant: object = run_date
    if isinstance(run_date, time) or (isinstance(run_date, str) and is_time_of_day(run_date)):
        raise InvalidTriggerError(f"run_date: {TIME_OF_DAY}; at() needs a date too (got {quoted(run_date)})")
    if isinstance(run_date, str):
        try:
            instant = datetime.fromisoformat(run_date)
        except ValueError:
            raise InvalidTriggerError(
                f"run_date: must be a datetime, or a text such as '2026-12-24T18:00+01:00' (got {quoted(run_date)})"
            ) from None
    start = None if instant is None else as_instant(instant, "run_date")
    return SimpleTrigger(name, group, start_time=start, **options)


def is_time_of_day(text: str) -> bool:
    """Return whether a text is a time of day, such as "02:30"."""
    return re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text.strip()) is not None


IntervalTrigger = every
DateTrigger = at
