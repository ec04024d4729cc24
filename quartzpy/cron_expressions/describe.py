"""Descriptions of cron expressions in plain English: "every 15 minutes from 09:00 to 17:59, Monday to Friday".

Both dialects' fields number the weekdays as Quartz does, so the words are the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from quartzpy.cron_expressions.fields import HOURS, MINUTES, MONTH, SECONDS, CronFields, FieldKind, FieldPart
from quartzpy.cron_expressions.timetable import ALL_WEEKDAYS, DayRule, LastDay, NthWeekday

_MAX_TIMES = 8
"""The most times of day that are listed one by one. More are described by their minutes and hours."""
_MAX_SPELLED = 3
"""The most seconds or minutes of an uneven step that are listed one by one."""
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def description(fields: CronFields) -> str:
    """Return the expression in words, without its time zone."""
    seconds, minutes, hours, month_days, months, weekdays, years = fields.parts
    said = [
        _clock(_spelled_out(seconds, SECONDS), _spelled_out(minutes, MINUTES), hours),
        _days(fields, month_days, weekdays),
        _months(months),
        _years(years),
    ]
    return ", ".join(part for part in said if part)


def listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _values(parts: Sequence[FieldPart]) -> list[int] | None:
    """Return the values of a field that lists single values."""
    return sorted({part.first for part in parts}) if all(part.is_value for part in parts) else None


def _is_every(parts: Sequence[FieldPart]) -> bool:
    return any(part.is_all and part.step == 1 for part in parts)


# --- the time of day


def _spelled_out(parts: Sequence[FieldPart], kind: FieldKind) -> Sequence[FieldPart]:
    """Replace each step with few values and unequal gaps, such as */45, by its values."""
    spelled: list[FieldPart] = []
    for part in parts:
        is_uneven = (part.is_all or part.is_open) and 60 % part.step != 0
        values = part.values(kind) if is_uneven else ()
        spelled += [FieldPart(value, value) for value in values] if 0 < len(values) <= _MAX_SPELLED else [part]
    return spelled


def _clock(seconds: Sequence[FieldPart], minutes: Sequence[FieldPart], hours: Sequence[FieldPart]) -> str:
    at_seconds, at_minutes, at_hours = _values(seconds), _values(minutes), _values(hours)
    if at_seconds and at_minutes and at_hours:
        times = sorted(product(at_hours, at_minutes, at_seconds))
        if len(times) <= _MAX_TIMES:
            return "at " + listed([_time(*time) for time in times])
    if at_seconds and len(at_seconds) == 1 and at_minutes and len(at_minutes) == 1:
        return _hourly(hours, at_minutes[0], at_seconds[0])
    if at_seconds == [0] and at_hours and len(at_hours) == 1 and len(minutes) == 1 and not minutes[0].is_value:
        return _within_an_hour(at_hours[0], minutes[0])
    if _is_every(seconds) and at_minutes and at_hours and len(at_minutes) == len(at_hours) == 1:
        [hour], [minute] = at_hours, at_minutes
        return f"every second from {_time(hour, minute)} to {_time(hour, minute, 59)}"
    all_minute_long = all(part.is_all or part.is_open for part in seconds)
    words = [
        _seconds(seconds, at_seconds),
        _minutes(minutes, at_minutes, at_seconds, all_minute_long=all_minute_long),
        _hours(hours, 59 if _is_every(seconds) and _is_every(minutes) else 0),
    ]
    return " ".join(part for part in words if part)


def _time(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _hourly(hours: Sequence[FieldPart], minute: int, second: int) -> str:
    """Describe one time in each of many hours."""
    said = []
    for part in hours:
        every = "every hour" if part.step == 1 else f"every {part.step} hours"
        first, last = _time(part.first, minute, second), _time(part.last, minute, second)
        if part.is_value:
            said.append(f"at {first}")
        elif part.last == 23 and 24 % part.step:
            # The gap from the last time of a day to the first time of the next day differs.
            said.append("at " + listed([_time(hour, minute, second) for hour in part.values(HOURS)]))
        elif part.is_all and part.step == 1:
            past = f" at minute {minute}" if minute or second else ""
            said.append(every + past + (f" and second {second}" if second else ""))
        elif part.is_all or part.is_open:
            said.append(every if first == "00:00" else f"{every} from {first}")
        else:
            said.append(f"{every} from {first} to {last}")
    return listed(said)


def _within_an_hour(hour: int, part: FieldPart) -> str:
    """Describe an interval of minutes within one hour of the day."""
    every = "every minute" if part.step == 1 else f"every {part.step} minutes"
    return f"{every} from {_time(hour, part.first)} to {_time(hour, part.last)}"


def _seconds(parts: Sequence[FieldPart], values: list[int] | None) -> str:
    if values == [0]:
        return ""
    if _is_every(parts):
        return "every second"
    if values is not None:
        return f"at second{'s' if len(values) > 1 else ''} {listed([str(value) for value in values])}"
    said = listed([_stepping(part, "second") for part in parts])
    return f"at {said}" if parts[0].is_value else said


def _minutes(
    parts: Sequence[FieldPart], values: list[int] | None, seconds: list[int] | None, *, all_minute_long: bool
) -> str:
    if _is_every(parts):
        return "every minute" if seconds == [0] else "" if all_minute_long else "of every minute"
    if values is not None:
        said = f"minute{'s' if len(values) > 1 else ''} {listed([str(value) for value in values])}"
        return f"at {said}" if seconds == [0] else f"in {said}"
    said = listed([_stepping(part, "minute") for part in parts])
    if seconds == [0]:
        return f"at {said}" if parts[0].is_value else said
    return f"in {said}" if seconds is None else f"of {said}"


def _hours(parts: Sequence[FieldPart], last_second: int) -> str:
    if _is_every(parts):
        return ""
    said = []
    for part in parts:
        span = "" if part.is_all else f" from {_time(part.first, 0)} to {_time(part.last, 59, last_second)}"
        said.append(f"of every {_nth_word(part.step)} hour{span}" if part.step > 1 else span.strip())
    return listed(said)


def _nth_word(number: int) -> str:
    """Return the ordinal: 2nd, 3rd, 4th, ..."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _stepping(part: FieldPart, unit: str) -> str:
    if part.is_value:
        return f"{unit} {part.first}"
    every = f"every {unit}" if part.step == 1 else f"every {part.step} {unit}s"
    if part.is_all or (part.is_open and part.first == 0):
        # The step does not divide 60 minutes, so it restarts in each hour.
        return every if 60 % part.step == 0 else f"{every} from {unit} 0"
    return f"{every} from {unit} {part.first}" + ("" if part.is_open else f" to {part.last}")


# --- days, months, years


def _days(fields: CronFields, month_days: Sequence[FieldPart], weekdays: Sequence[FieldPart]) -> str:
    if fields.either_day and fields.days.weekly == ALL_WEEKDAYS:
        return ""
    on_month_days = _days_of_month(fields.month_days, month_days)
    on_weekdays = _days_of_week(fields.weekdays, weekdays)
    if on_month_days and on_weekdays:
        return f"on {on_month_days}{' or ' if fields.either_day else ', if that is '}{on_weekdays}"
    text = on_month_days or on_weekdays
    return text if not text or (text.startswith((*WEEKDAYS, "every")) and not on_month_days) else f"on {text}"


def _days_of_month(rule: DayRule, parts: Sequence[FieldPart]) -> str:
    """Describe the restriction of the day of the month; empty if there is none."""
    if not rule.restricts:
        return ""
    said = [_month_days(parts)] if parts else []
    said += [f"the weekday (Monday to Friday) nearest to day {day} of the month" for day in rule.nearest_workdays]
    said += [_last(last) for last in rule.last_days]
    return listed(list(dict.fromkeys(said)))


def _days_of_week(rule: DayRule, parts: Sequence[FieldPart]) -> str:
    """Describe the restriction of the day of the week; empty if there is none."""
    if not rule.restricts:
        return ""
    said = [_named(part, WEEKDAYS, "day of the week") for part in parts]
    said += [_nth(chosen) for chosen in rule.nth_weekdays]
    # Quartz's "L" alone has no part and means Saturday.
    return listed(list(dict.fromkeys(said))) if said else WEEKDAYS[6]


def _month_days(parts: Sequence[FieldPart]) -> str:
    values = _values(parts)
    if values is not None:
        return f"day{'s' if len(values) > 1 else ''} {listed([str(value) for value in values])} of the month"
    said = []
    for part in parts:
        if part.is_value:
            said.append(f"day {part.first}")
        elif part.step == 1:
            said.append(f"days {part.first} to {part.last}")
        else:
            span = "" if part.is_all else f" from day {part.first}" + ("" if part.is_open else f" to {part.last}")
            said.append(f"every {_nth_word(part.step)} day{span}")
    return f"{listed(said)} of the month"


def _last(last: LastDay) -> str:
    day = "the last day" if not last.days_before else f"the day {last.days_before} before the last"
    if last.days_before == 1:
        day = "the last day but one"
    if not last.or_nearest_workday:
        return f"{day} of the month"
    if not last.days_before:
        return "the last weekday (Monday to Friday) of the month"
    return f"the weekday (Monday to Friday) nearest to {day} of the month"


def _nth(chosen: NthWeekday) -> str:
    which = "last" if chosen.nth is None else _ORDINALS[chosen.nth - 1]
    return f"the {which} {WEEKDAYS[chosen.weekday]} of the month"


def _named(part: FieldPart, names: Sequence[str], what: str) -> str:
    first, last = names[part.first - 1], names[part.last - 1]
    if part.is_value:
        return first
    if part.step == 1:
        return f"{first} to {last}"
    steps = f"every {_nth_word(part.step)} {what}"
    if part.is_all:
        return steps
    return f"{steps} from {first}" + ("" if part.is_open else f" to {last}")


def _months(parts: Sequence[FieldPart]) -> str:
    if _is_every(parts):
        return ""
    if any(part.step > 1 and 12 % part.step for part in parts):
        return "in " + listed(
            [MONTHS[month - 1] for month in sorted({m for part in parts for m in part.values(MONTH)})]
        )
    said = listed([_named(part, MONTHS, "month") for part in parts])
    return said if said.startswith("every") else f"in {said}"


def _years(parts: Sequence[FieldPart]) -> str:
    if _is_every(parts):
        return ""
    said = []
    for part in parts:
        if part.is_value:
            said.append(f"in {part.first}")
        else:
            every = "every year" if part.step == 1 else f"every {part.step} years"
            said.append(
                every if part.is_all else f"{every} from {part.first}" + ("" if part.is_open else f" to {part.last}")
            )
    return listed(said)
