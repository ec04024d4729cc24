"""The kinds of triggers in Quartz's tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time, timedelta
from typing import Any

from quartzpy.errors import InvalidCronError
from quartzpy.migrate import java
from quartzpy.migrate.class_map import LeftOut, Undecided
from quartzpy.migrate.databases import Row, boolean
from quartzpy.migrate.quartz.calendars import NO_ZONE
from quartzpy.texts import quoted
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.simple import SimpleMisfire, SimpleTrigger
from quartzpy.triggers.trigger import Trigger

_RECURRING_MISFIRES = {-1: "ignore", 0: "smart", 1: "fire_once_now", 2: "do_nothing"}
_SIMPLE_MISFIRES = {
    -1: SimpleMisfire.IGNORE,
    0: SimpleMisfire.SMART,
    1: SimpleMisfire.FIRE_NOW,
    2: SimpleMisfire.RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT,
    3: SimpleMisfire.RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT,
    4: SimpleMisfire.RESCHEDULE_NEXT_WITH_REMAINING_COUNT,
    5: SimpleMisfire.RESCHEDULE_NEXT_WITH_EXISTING_COUNT,
}
CRON, SIMPLE, CALENDAR_INTERVAL, DAILY = "CRON", "SIMPLE", "CAL_INT", "DAILY_I"


def misfire_of(row: Row) -> str:
    """Return the misfire instruction of a row of `triggers`."""
    instructions: Mapping[int, str] = _SIMPLE_MISFIRES if row["trigger_type"] == SIMPLE else _RECURRING_MISFIRES
    number = int(row["misfire_instr"] or 0)
    try:
        return instructions[number]
    except KeyError:
        raise Undecided(f"its misfire instruction {number} is none of Quartz's") from None


def read_trigger(row: Row, details: Row | None, java_zone: str | None, **common: Any) -> tuple[Trigger, int]:
    """Return the trigger of a row of `triggers` and the row of its kind, and the number of its fires so far.

    `common` are the values that all triggers have. `java_zone` is the default time zone of the Java programs.

    Raises:
        LeftOut: the trigger is of a kind that cannot be read.
        Undecided: it needs a time zone that is in none of the tables.
        QuartzpyError: a value is wrong.
    """
    kind = str(row["trigger_type"])
    if kind not in _KINDS:
        shown = "a class of its own, which Quartz stores as a blob" if kind == "BLOB" else f"the kind {kind}"
        raise LeftOut(f"it is of {shown}; define a trigger for it by hand")
    if details is None:
        raise LeftOut(f"its row in the table of the kind {kind} is missing")
    return _KINDS[kind](details, java_zone, common)


def _cron(details: Row, java_zone: str | None, common: dict[str, Any]) -> tuple[Trigger, int]:
    expression, zone = str(details["cron_expression"]), _zone(details["time_zone_id"], java_zone)
    try:
        return CronTrigger(expression, dialect="quartz", time_zone=zone, dst="quartz", **common), 0
    except InvalidCronError as error:
        raise Undecided(f"its cron expression {quoted(expression)}: {error}") from error


def _simple(details: Row, java_zone: str | None, common: dict[str, Any]) -> tuple[Trigger, int]:
    count = int(details["repeat_count"])
    trigger = SimpleTrigger(
        interval=timedelta(milliseconds=int(details["repeat_interval"])),
        repeat_count=None if count < 0 else count,
        **common,
    )
    return trigger, int(details["times_triggered"])


def _calendar_interval(details: Row, java_zone: str | None, common: dict[str, Any]) -> tuple[Trigger, int]:
    trigger = CalendarIntervalTrigger(
        interval=int(details["int_prop_1"]),
        unit=str(details["str_prop_1"]).lower(),
        time_zone=_zone(details["str_prop_2"], java_zone),
        preserve_hour_of_day=boolean(details["bool_prop_1"]),
        skip_day_if_hour_does_not_exist=boolean(details["bool_prop_2"]),
        **common,
    )
    return trigger, int(details["int_prop_2"])


def _daily(details: Row, java_zone: str | None, common: dict[str, Any]) -> tuple[Trigger, int]:
    count = int(details["long_prop_1"])
    # "1,30,5,18,0,0" is from 01:30:05 to 18:00:00.
    hour, minute, second, *end = [int(number) for number in str(details["str_prop_3"]).split(",")]
    trigger = DailyTimeIntervalTrigger(
        interval=int(details["int_prop_1"]),
        unit=str(details["str_prop_1"]).lower(),
        repeat_count=None if count < 0 else count,
        days_of_week={int(day) for day in str(details["str_prop_2"]).split(",") if day},
        start_time_of_day=time(hour, minute, second),
        end_time_of_day=time(end[0], end[1], end[2]),
        # Quartz does not store the zone of these triggers: it is that of the process that reads them.
        time_zone=_zone(None, java_zone),
        dst="quartz",
        **common,
    )
    return trigger, int(details["int_prop_2"])


def _zone(identifier: object, java_zone: str | None) -> str:
    if identifier is not None:
        return java.zone_name(str(identifier))
    if java_zone is None:
        raise Undecided(NO_ZONE)
    return java_zone


_KINDS = {CRON: _cron, SIMPLE: _simple, CALENDAR_INTERVAL: _calendar_interval, DAILY: _daily}
