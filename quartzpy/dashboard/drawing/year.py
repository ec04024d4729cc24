"""A year of a calendar as a heat map: a column for each week, a row for each day of the week."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

CELL = 15.0
LEFT, TOP = 34.0, 18.0
"""The room for the names of the days and of the months."""
_GAP = 2.5


@dataclass(frozen=True, slots=True)
class DayBox:
    """One day."""

    x: float
    y: float
    size: float
    kind: str
    """The class in the style sheet: "off", "part" or ""."""
    is_today: bool
    text: str


@dataclass(frozen=True, slots=True)
class YearDrawing:
    """The days of a year, with the places of the month names."""

    year: int
    days: tuple[DayBox, ...]
    months: tuple[tuple[str, float], ...]
    weekdays: tuple[tuple[str, float], ...]
    width: float
    height: float


def draw_year(year: int, excluded: Collection[date], partly: Collection[date], today: date) -> YearDrawing:
    """Return the geometry of a year's heat map."""
    off, part = set(excluded), set(partly)
    first = date(year, 1, 1)
    days, months = [], []
    for number in range((date(year + 1, 1, 1) - first).days):
        day = first + timedelta(days=number)
        week = (number + first.weekday()) // 7
        x = LEFT + week * CELL
        kind, said = (
            ("off", "excluded") if day in off else ("part", "partly excluded") if day in part else ("", "included")
        )
        text = f"{day:%A, %d %B %Y}: {said}"
        days.append(DayBox(x, TOP + day.weekday() * CELL, CELL - _GAP, kind, day == today, text))
        if day.day == 1:
            months.append((f"{day:%b}", x + (CELL if day.weekday() else 0)))
    width = days[-1].x + CELL
    weekdays = tuple((name, TOP + row * CELL + 9.5) for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"), (6, "Sun")))
    return YearDrawing(year, tuple(days), tuple(months), weekdays, width, TOP + 7 * CELL)
