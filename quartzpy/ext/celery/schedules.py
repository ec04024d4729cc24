"""Triggers for the schedules of Celery."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from celery.schedules import crontab, schedule, solar

from quartzpy.errors import InvalidTriggerError
from quartzpy.texts import quoted
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleMisfire, SimpleTrigger
from quartzpy.triggers.trigger import Trigger


def trigger_of(
    celery_schedule: Any, name: str, group: str, *, time_zone: str, starting_deadline: timedelta | None = None
) -> Trigger:
    """Return the trigger for the schedule of an entry: a `crontab`, a `schedule`, a timedelta, or seconds.

    `starting_deadline` is Celery's `beat_cron_starting_deadline`: a cron fire that is later is not made up for.

    Raises:
        InvalidTriggerError: the schedule is of another class.
        InvalidCronError: a field of a `crontab` is wrong.
    """
    common: dict[str, Any] = {"name": name, "group": group}
    if isinstance(celery_schedule, crontab):
        line = crontab_line(celery_schedule)
        late: dict[str, Any] = {}
        if starting_deadline is not None:
            late = {"misfire": "do_nothing", "misfire_threshold": starting_deadline}
        return CronTrigger(line, dialect="crontab", time_zone=time_zone, day_or=False, **late, **common)
    if isinstance(celery_schedule, solar):
        raise InvalidTriggerError(
            f"entry {name}: quartzpy does not know where the sun is; replace solar({celery_schedule.event!r}, ...)"
            " by a crontab, or by a job that computes the next event and schedules itself"
        )
    # Subclasses of `schedule` compute times of their own.
    every = celery_schedule.run_every if type(celery_schedule) is schedule else celery_schedule
    if isinstance(every, int | float) and not isinstance(every, bool):
        every = timedelta(seconds=every)
    if not isinstance(every, timedelta):
        raise InvalidTriggerError(
            f"entry {name}: a crontab, a schedule, a timedelta or a number of seconds is needed"
            f" (got {quoted(celery_schedule)})"
        )
    # Celery sends an overdue task once, and counts from then.
    return SimpleTrigger(interval=every, misfire=SimpleMisfire.FIRE_NOW, **common)


def crontab_line(celery_schedule: crontab) -> str:
    """Return the five fields of a Celery crontab."""
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return " ".join(_field(getattr(celery_schedule, f"_orig_{name}")) for name in fields)


def _field(celery_schedule: int | str | Iterable[int]) -> str:
    if isinstance(celery_schedule, str):
        return "".join(celery_schedule.split()) or "*"
    if isinstance(celery_schedule, int):
        return str(celery_schedule)
    return ",".join(map(str, sorted(celery_schedule)))
