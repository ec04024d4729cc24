"""Calendars as tables of declared files.

    [calendar.holidays]
    kind = "holiday"
    time_zone = "Europe/Berlin"
    excluded_dates = [2026-12-25, 2026-12-26]
    base = { kind = "weekly", excluded_days = [1, 7] }

The keys are the rules of its kind, as the stores keep them. `base` is a calendar in the same form, and a calendar of
the user's own class has `class = "module:Class"` instead of a kind. Pure functions, but for the import of such a class.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import date, time
from typing import Any

from quartzpy.calendars.calendar import CALENDAR_KINDS, MAX_CHAINED, BaseCalendar
from quartzpy.calendars.days import HolidayCalendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.calendars.years import years_in
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.main_module import import_path
from quartzpy.object_references import object_at
from quartzpy.texts import did_you_mean, quoted, stored_object

_JOINED = "joined"
CLASS, STORED_RULES = "class", "stored_rules"
_COMMON = ("kind", "time_zone", "description", "base")
_OWN_MODULES = "quartzpy.calendars."


def calendar_table(calendar: BaseCalendar) -> dict[str, Any]:
    """Return the table of a calendar. Values that TOML may not have are left as they are; see `with_stored_rules`.

    Raises:
        InvalidCalendarError: the calendar cannot be stored.
    """
    return _table_of(calendar_to_json(calendar))


def _table_of(written: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(written)
    cls = CALENDAR_KINDS[table["kind"]]
    if not cls.__module__.startswith(_OWN_MODULES):
        del table["kind"]
        table = {CLASS: import_path(cls), **table}
    if "base" in table:
        table["base"] = _table_of(table.pop("base"))
    return table


def rules_in(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules of a calendar's table: all values but those that calendars of every kind have."""
    return {name: value for name, value in table.items() if name not in (*_COMMON, CLASS)}


def with_stored_rules(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with its rules as one JSON text, for rules that TOML cannot express."""
    rules = rules_in(table)
    others = {name: value for name, value in table.items() if name not in rules}
    return {**others, STORED_RULES: json.dumps(rules)}


def read_calendar(declared: object, where: str) -> BaseCalendar:
    """Return the calendar of a table.

    Raises:
        SettingsError: a value is wrong or missing. The message begins with `where`, and names the value.
    """
    written = _json_of(declared, where, MAX_CHAINED)
    try:
        return calendar_from_json(written)
    except InvalidValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def _json_of(declared: object, where: str, may_chain: int) -> dict[str, Any]:
    if not isinstance(declared, Mapping):
        raise SettingsError(f"{where}: a table is needed (got {quoted(declared)})")
    if may_chain == 0:
        raise SettingsError(f"{where}: more than {MAX_CHAINED} calendars in one chain")
    values = dict(declared)
    if values.get("kind") == _JOINED:
        return _joined(values, where, may_chain)
    if is_made_of_others(values):
        values = _with_holidays(values, where)
    if STORED_RULES in values:
        rules = stored_object(str(values.pop(STORED_RULES)), f"{where}: {STORED_RULES}", SettingsError)
        if rules_in(values):
            raise SettingsError(f"{where}: {STORED_RULES} has all rules; remove {quoted(next(iter(rules_in(values))))}")
        values.update(rules)
    if CLASS in values and "kind" in values:
        raise SettingsError(f"{where}: give kind or {CLASS}, not both")
    is_own = CLASS in values
    if is_own:
        values["kind"] = _kind_of(values.pop(CLASS), where)
    elif "kind" not in values:
        raise SettingsError(f"{where}: kind is missing; the kinds are {', '.join(sorted(CALENDAR_KINDS))}")
    for name in rules_in(values):
        values[name] = _plain(values[name], f"{where}: {name}", is_own=is_own)
    if values.get("base") is not None:
        values["base"] = _json_of(values["base"], f"{where}: base", may_chain - 1)
    return values


def is_made_of_others(table: object) -> bool:
    """Return True if the table of a calendar says where its dates come from, and is not as calendars are stored."""
    return isinstance(table, Mapping) and (table.get("kind") == _JOINED or "country" in table or "exchange" in table)


def _joined(values: Mapping[str, Any], where: str, may_chain: int) -> dict[str, Any]:
    """Return the chain of several calendars, which excludes what any of them excludes."""
    _checked_table(values, where, {"kind", "calendars", "description", "time_zone"})
    calendars = values.get("calendars")
    if not isinstance(calendars, list) or not calendars:
        raise SettingsError(f"{where}: calendars is a list of at least one calendar, each a table with its kind")
    made = []
    for number, each in enumerate(calendars, start=1):
        if isinstance(each, Mapping) and "time_zone" in values:
            each = {"time_zone": values["time_zone"], **each}
        made.append(calendar_from_json(_json_of(each, f"{where}: calendars {number}", may_chain)))
    first, *others = made
    whole = calendar_to_json(first.joined(*others))
    return {**whole, "description": values["description"]} if "description" in values else whole


def _with_holidays(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the table of a calendar with the holidays of a country or an exchange as dates."""
    words = {"country", "exchange", "years", "kind", "time_zone", "description", "base"}
    table = _checked_table(values, where, words)
    if table.pop("kind", HolidayCalendar.kind) != HolidayCalendar.kind or ("country" in table and "exchange" in table):
        raise SettingsError(f"{where}: country or exchange makes a calendar of the kind {HolidayCalendar.kind}")
    if "years" not in table:
        raise SettingsError(f"{where}: years is missing, the years of the holidays, such as 2026-2028")
    years = years_in(str(table.pop("years")).strip("[]"))
    place = {"time_zone": table["time_zone"]} if "time_zone" in table else {}
    if "country" in table:
        code, _, part = str(table.pop("country")).partition("-")
        made = HolidayCalendar.country(code, subdiv=part or None, years=years, **place)
    else:
        made = HolidayCalendar.exchange(str(table.pop("exchange")), years=years, **place)
    return {**calendar_to_json(made), **table}


def _kind_of(path: object, where: str) -> str:
    """Import the user's own class of a calendar, and return its kind."""
    cls = object_at(path, f"{where}: {CLASS}", "billing.calendars:Closings")
    if not isinstance(cls, type) or not issubclass(cls, BaseCalendar) or "kind" not in cls.__dict__:
        raise SettingsError(f"{where}: {CLASS} {quoted(path)} is not a calendar with a kind of its own")
    return cls.kind


def _plain(value: object, where: str, *, is_own: bool) -> Any:
    """Return a value as JSON has it. TOML and YAML also have dates and times, which the kinds keep as texts."""
    if isinstance(value, date | time):
        if is_own:
            # It is unknown which text the class reads.
            raise SettingsError(f"{where}: write {quoted(value)} as `quartzpy export` does")
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(item, where, is_own=is_own) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item, where, is_own=is_own) for name, item in value.items()}
    return value


def _checked_table(declared: Mapping[str, Any], where: str, words: Collection[str]) -> dict[str, Any]:
    for word in declared:
        if word not in words:
            hint = did_you_mean(str(word), sorted(words), "words")
            raise SettingsError(f"{where}: {quoted(word)} is not known; {hint}")
    return dict(declared)
