"""Cron triggers for the fields of APScheduler's.

APScheduler combines all fields by AND, counts the days of the week from Monday (0), and has fields for the year and for
the week of the year.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quartzpy.migrate.class_map import LeftOut
from quartzpy.migrate.pickles import Made
from quartzpy.triggers.cron import CronTrigger

_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_LARGEST = {"second": 59, "minute": 59, "hour": 23, "day": 31, "month": 12, "day_of_week": 6, "year": 2099}
_POSITION = "WeekdayPositionExpression"
_LAST_POSITION = 5
# The number of a day of the week before L, by APScheduler's number: in crontab Sunday is 0, in Quartz it is 1.
_CRONTAB, _QUARTZ = (1, 2, 3, 4, 5, 6, 0), (2, 3, 4, 5, 6, 7, 1)


def cron_trigger(fields: Sequence[Made], **values: Any) -> CronTrigger:
    """Return the trigger for the pickled fields of an APScheduler `CronTrigger`; `values` are those of `CronTrigger`.

    Raises:
        LeftOut: the fields cannot be written as a cron expression.
    """
    expressions = {str(_attributes(one)["name"]): _attributes(one)["expressions"] for one in fields}
    if _text("week", expressions["week"]) != "*":
        raise LeftOut("it restricts the week of the year, which no cron expression can do")
    year = _text("year", expressions["year"])
    days = expressions["day"]
    positions = [one for one in days if _kind(one) == _POSITION]
    weekday = _text("day_of_week", expressions["day_of_week"])
    if positions and (len(positions) < len(days) or weekday != "*"):
        raise LeftOut('it mixes days such as "2nd fri" with others, which no cron expression can do')
    has_year = year != "*"
    if positions:
        numbers = _QUARTZ if has_year else _CRONTAB
        day, weekday = "*", ",".join(_position(_attributes(one), numbers) for one in positions)
    else:
        day = _text("day", days)
    rest = [_text(name, expressions[name]) for name in ("second", "minute", "hour")]
    month = _text("month", expressions["month"])
    if not has_year:
        return CronTrigger(
            " ".join([*rest, day, month, weekday]), dialect="crontab", day_or=None if positions else False, **values
        )
    if day != "*" and weekday != "*":
        raise LeftOut("it restricts the year and both day fields, which no cron expression can do")
    day, weekday = ("?", weekday) if weekday != "*" else (day, "?")
    return CronTrigger(" ".join([*rest, day, month, weekday, year]), dialect="quartz", **values)


def _attributes(made: Made) -> Mapping[str, Any]:
    # A class with slots has its state as a pair.
    state = made.state
    found: Mapping[str, Any] = state[1] if isinstance(state, tuple) else state
    return found


def _kind(made: Made) -> str:
    name = made.args[0].name if made.callee == "copyreg._reconstructor" else made.callee
    return str(name).rpartition(".")[2]


def _text(field: str, expressions: Sequence[Made]) -> str:
    parts = [_part(field, _kind(one), _attributes(one) if one.state is not None else {}) for one in expressions]
    return "*" if "*" in parts else ",".join(parts)


def _part(field: str, kind: str, values: Mapping[str, Any]) -> str:
    step = values.get("step")
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "AllExpression":
        if not step or field == "day_of_week":
            return _weekdays(0, None, step) if step else "*"
        return f"*/{step}"
    if kind not in ("RangeExpression", "MonthRangeExpression", "WeekdayRangeExpression"):
        raise LeftOut(f"its field {field} has an expression of the class {kind}")
    first, last = values["first"], values["last"]
    if field == "day_of_week":
        return _weekdays(first, last, step)
    if last is None and step:
        last = _LARGEST[field]
    text = str(first) if last in (None, first) else f"{first}-{last}"
    return f"{text}/{step}" if step and last != first else text


def _weekdays(first: int, last: int | None, step: int | None) -> str:
    if last is None:
        last = _LARGEST["day_of_week"] if step else first
    return ",".join(_WEEKDAYS[day] for day in range(first, last + 1, step or 1))


def _position(values: Mapping[str, Any], numbers: Sequence[int]) -> str:
    number, weekday = values["option_num"], values["weekday"]
    return f"{numbers[weekday]}L" if number == _LAST_POSITION else f"{_WEEKDAYS[weekday]}#{number + 1}"
