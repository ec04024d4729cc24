"""Calendars as tables of a file of declarations: what `exporting` writes, `declarations` reads back.

    [calendar.holidays]
    kind = "holiday"
    time_zone = "Europe/Berlin"
    excluded_dates = [2026-12-25, 2026-12-26]
    base = { kind = "weekly", excluded_days = [1, 7] }

The other keys are the rules of the kind, as the stores keep them. `base` is a calendar in the same form, and a calendar
of the user's own class has `class = "module:Class"` instead of a kind.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any

from quartzpy.calendars.calendar import CALENDAR_KINDS, MAX_CHAINED, BaseCalendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.main_module import import_path
from quartzpy.texts import quoted, reason, stored_object

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
    kept = {name: value for name, value in table.items() if name not in rules}
    return {**kept, STORED_RULES: json.dumps(rules)}


def read_calendar(given: object, where: str) -> BaseCalendar:
    """Return the calendar of a table.

    Raises:
        SettingsError: a value is wrong or missing. The message begins with `where`, and names the value.
    """
    written = _json_of(given, where, MAX_CHAINED)
    try:
        return calendar_from_json(written)
    except InvalidValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def _json_of(given: object, where: str, may_chain: int) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where}: a table is needed (got {quoted(given)})")
    if may_chain == 0:
        raise SettingsError(f"{where}: more than {MAX_CHAINED} calendars in one chain")
    values = dict(given)
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


def _kind_of(path: object, where: str) -> str:
    """Import the user's own class of a calendar, and return its kind."""
    module, colon, name = str(path).partition(":")
    if not colon or not module or not name:
        raise SettingsError(f'{where}: {CLASS} is "module:Class" (got {quoted(path)})')
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        # The import runs user code, which may raise anything.
        raise SettingsError(f"{where}: {CLASS} {quoted(path)} cannot be imported: {reason(error)}") from error
    if not isinstance(found, type) or not issubclass(found, BaseCalendar) or "kind" not in found.__dict__:
        raise SettingsError(f"{where}: {CLASS} {quoted(path)} is not a calendar with a kind of its own")
    return found.kind


def _plain(value: object, where: str, *, is_own: bool) -> Any:
    """Return a value as JSON has it. TOML and YAML also have dates and times, which the kinds keep as texts."""
    if isinstance(value, date | time):
        if is_own:
            # It is unknown which text the class reads.
            raise SettingsError(f"{where}: write {quoted(value)} as `quartzpy export` does")
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(one, where, is_own=is_own) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one, where, is_own=is_own) for name, one in value.items()}
    return value
