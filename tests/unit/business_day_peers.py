"""The days off and the business-day arithmetic of QuantLib and exchange-calendars, as compact tables.

    python -m tests.unit.business_day_peers

writes `business_days_*.json.xz` with both libraries, which need not be installed for the tests. Each table has one
character for each date: how many days the date is moved, counted from "P".
"""

from __future__ import annotations

import importlib
import json
import lzma
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILES = [Path(__file__).with_name(f"business_days_{name}.json.xz") for name in ("quantlib", "exchanges")]
FIRST, LAST = date(2006, 1, 1), date(2025, 12, 31)
MARGIN = timedelta(days=62)
"""The days before and after these years, into which dates are moved."""
OFFSETS = (-3, -1, 1, 2, 5)
RULES = ("following", "preceding", "modified_following", "modified_preceding", "nearest")
_UNMOVED = ord("P")
_QUANTLIB = {
    "Argentina": "Merval",
    "Australia": "Settlement",
    "Brazil": "Settlement",
    "Canada": "TSX",
    "China": "IB",
    "CzechRepublic": "PSE",
    "Denmark": None,
    "Finland": None,
    "France": "Exchange",
    "Germany": "FrankfurtStockExchange",
    "HongKong": "HKEx",
    "India": "NSE",
    "Israel": "TASE",
    "Italy": "Exchange",
    "Japan": None,
    "Mexico": "BMV",
    "NewZealand": "Wellington",
    "Norway": None,
    "Poland": "WSE",
    "SaudiArabia": "Tadawul",
    "Singapore": "SGX",
    "SouthAfrica": None,
    "SouthKorea": "KRX",
    "Sweden": None,
    "Switzerland": None,
    "TARGET": None,
    "Turkey": None,
    "UnitedKingdom": "Exchange",
    "UnitedStates": "NYSE",
}
_JOINT = (("TARGET", "UnitedStates"), ("UnitedKingdom", "Japan", "TARGET"), ("Israel", "UnitedStates"))
_EXCHANGES = (
    *("ASEX", "BVMF", "XAMS", "XASX", "XBOM", "XBUD", "XCSE", "XDUB", "XFRA", "XHEL", "XHKG", "XJSE"),
    *("XKRX", "XLON", "XMAD", "XMEX", "XMIL", "XNYS", "XOSL", "XSHG", "XSTO", "XSWX", "XTAE", "XTKS", "XTSE"),
)


class Market(NamedTuple):
    """The days off of a market, and to which days a library moves each date of the years."""

    name: str
    days_off: frozenset[date]
    moved: dict[str, list[date]]
    """By the name of a rule, or by "+2" for an offset in business days."""
    month_ends: list[date]
    """The last business day of each month."""
    parts: tuple[str, ...] = ()
    """The markets whose days off it has together."""


@cache
def dates(first: date = FIRST, last: date = LAST) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


@cache
def months() -> list[tuple[date, date]]:
    """The first and the last date of each month."""
    starts = [date(year, month, 1) for year in range(FIRST.year, LAST.year + 1) for month in range(1, 13)]
    return [(start, (start + timedelta(days=31)).replace(day=1) - timedelta(days=1)) for start in starts]


def quantlib_markets(step: int = 1) -> Iterator[Market]:
    """Yield the markets of QuantLib, each `step`-th one; with all of them, the joint ones as well."""
    library = importlib.import_module("QuantLib")

    def day_of(moved: Any) -> date:
        return date(moved.year(), moved.month(), moved.dayOfMonth())

    def peer(day: date) -> Any:
        return library.Date(day.day, day.month, day.year)

    def market(name: str, calendar: Any, parts: tuple[str, ...] = ()) -> Market:
        off = frozenset(day for day in dates(FIRST - MARGIN, LAST + MARGIN) if calendar.isHoliday(peer(day)))
        moved = {}
        for rule in RULES:
            convention = getattr(library, "".join(word.title() for word in rule.split("_")))
            moved[rule] = [day_of(calendar.adjust(peer(day), convention)) for day in dates()]
        for offset in OFFSETS:
            moved[f"{offset:+}"] = [day_of(calendar.advance(peer(day), offset, library.Days)) for day in dates()]
        return Market(name, off, moved, [day_of(calendar.endOfMonth(peer(first))) for first, _ in months()], parts)

    calendars = {}
    for name, kind in list(_QUANTLIB.items())[::step]:
        cls = getattr(library, name)
        calendars[name] = cls() if kind is None else cls(getattr(cls, kind))
        yield market(f"QuantLib {name}", calendars[name])
    for parts in _JOINT if step == 1 else ():
        joint = library.JointCalendar(*(calendars[name] for name in parts), library.JoinHolidays)
        yield market(f"QuantLib {' and '.join(parts)}", joint, tuple(f"QuantLib {name}" for name in parts))


def exchange_markets(step: int = 1) -> Iterator[Market]:
    """Yield the markets of exchange-calendars, each `step`-th one."""
    library = importlib.import_module("exchange_calendars")
    for name in _EXCHANGES[::step]:
        calendar = library.get_calendar(name, start=FIRST - MARGIN, end=LAST + MARGIN)
        # The days to which it moves dates are positions in its list of sessions.
        sessions = [session.date() for session in calendar.sessions]
        off = frozenset(dates(FIRST - MARGIN, LAST + MARGIN)) - frozenset(sessions)
        following = [bisect_left(sessions, day) for day in dates()]
        preceding = [bisect_right(sessions, day) - 1 for day in dates()]
        moved = {
            "following": [sessions[at] for at in following],
            "preceding": [sessions[at] for at in preceding],
            **{
                f"{offset:+}": [sessions[at + offset] for at in (preceding if offset > 0 else following)]
                for offset in OFFSETS
            },
        }
        yield Market(name, off, moved, [sessions[bisect_right(sessions, last) - 1] for _, last in months()])


@cache
def stored_tables() -> dict[str, dict[str, Any]]:
    """The tables of the files by market, as they are written: decoding all of them takes seconds."""
    stored: dict[str, Any] = {}
    for path in FILES:
        with lzma.open(path, "rt") as file:
            stored |= json.load(file)
    return stored


@cache
def stored_market(name: str) -> Market:
    market = stored_tables()[name]
    every_date = dates(FIRST - MARGIN, LAST + MARGIN)
    off = frozenset(day for day, flag in zip(every_date, market["off"], strict=True) if flag == "1")
    moved = {rule: _decoded(dates(), table) for rule, table in market["moved"].items()}
    ends = _decoded([last for _, last in months()], market["month_ends"])
    return Market(name, off, moved, ends, tuple(market["parts"]))


def _decoded(days: list[date], table: str) -> list[date]:
    return [day + timedelta(days=ord(letter) - _UNMOVED) for day, letter in zip(days, table, strict=True)]


def _encoded(days: list[date], moved: list[date]) -> str:
    return "".join(chr(_UNMOVED + (to - day).days) for day, to in zip(days, moved, strict=True))


def _written(market: Market) -> dict[str, Any]:
    return {
        "off": "".join("01"[day in market.days_off] for day in dates(FIRST - MARGIN, LAST + MARGIN)),
        "moved": {rule: _encoded(dates(), table) for rule, table in market.moved.items()},
        "month_ends": _encoded([last for _, last in months()], market.month_ends),
        "parts": market.parts,
    }


def main() -> None:
    for path, source in zip(FILES, (quantlib_markets, exchange_markets), strict=True):
        with lzma.open(path, "wt", preset=9) as file:
            json.dump({market.name: _written(market) for market in source()}, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
