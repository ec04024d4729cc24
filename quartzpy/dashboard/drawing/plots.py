"""Throughput, lateness, the durations of runs, where the time of one execution went, and the days of a year."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from quartzpy.dashboard.shown_times import span_text
from quartzpy.operations import ExecutionSummary, MinuteLateness, MinuteThroughput
from quartzpy.states import ExecutionState
from quartzpy.store.postgresql.admin.records import LastRun
from quartzpy.texts import numbered

HEIGHT = 100.0
"""The height of all plots in their own units; the style sheet stretches them."""
_SLOT = 10.0
_GAP = 1.5
_LEAST = 1.5
"""The least height of a bar that stands for something."""

TONES: Mapping[str, str] = {
    "SUCCEEDED": "good",
    "FAILED": "bad",
    "TERMINATED": "bad",
    "CANCELLED": "warn",
    "SKIPPED": "idle",
    "SNOOZED": "info",
    "PROCESSING": "info",
    "ENQUEUED": "info",
}
"""The tone of each state; the style sheet gives tones their colours."""
_STACKED = ("good", "info", "idle", "warn", "bad")


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A rectangle. `text` describes it."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    text: str = ""
    fire_id: int | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The column of one minute over the whole height, which shows its values when the pointer is over it."""

    x: float
    width: float
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with a time axis."""

    width: float
    top: str
    """The largest value."""
    bars: tuple[PlotBar, ...]
    lines: tuple[tuple[str, str], ...]
    """The class and the points of each line."""
    slots: tuple[Slot, ...]
    text: str = ""
    """The drawing in words."""
    scale: tuple[str, str, str] = ("", "", "")
    """The values at the upper edge, at half the height, and at the lower edge."""
    beyond: tuple[float, ...] = ()
    """The places of the values that are beyond the scale, each marked at the upper edge."""

    @property
    def height(self) -> float:
        return HEIGHT


_ROUND = (1, 2, 4, 6, 8, 10)
_ROUND_SECONDS = (60, 120, 240, 600, 1_200, 3_600, 7_200, 14_400, 43_200, 86_400)
_SPIKE = 3
"""A value that is more than so many times what nearly all values reach would flatten them all."""


def _top(values: Sequence[float], least: float, round_up: Callable[[float], float]) -> float:
    """Return the round value at the upper edge of a plot.

    It is at least the largest value, unless this is a spike: a few values that would flatten all others go beyond the
    scale.
    """
    ordered = sorted(value for value in values if value > 0)
    most = max([least, *ordered[-1:]])
    usual = ordered[int((len(ordered) - 1) * 0.95)] if ordered else 0.0
    if len(ordered) > 1 and most == ordered[-1] and usual == most:
        usual = ordered[-2] if len(ordered) <= _FEW else usual
    is_spike = most > max(least, _SPIKE * usual)
    return round_up(max(least, 1.25 * usual) if is_spike else most)


_FEW = 20
"""Of fewer values, the largest one alone may be a spike."""


def _round_number(value: float) -> float:
    """Return the next round number, whose half is round too."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(step for step in _ROUND if step * power >= value * (1 - 1e-9)) * power)


def _round_count(value: float) -> float:
    return max(2.0, _round_number(value))


def _round_span(value: float) -> float:
    if value <= _ROUND_SECONDS[0]:
        return _round_number(value) if value <= 10 else 20.0 if value <= 20 else 40.0 if value <= 40 else 60.0
    return next((float(step) for step in _ROUND_SECONDS if step >= value), value)


def _span_scale(top: float) -> tuple[str, str, str]:
    return span_text(top), span_text(top / 2), "0"


def throughput_plot(minutes: Sequence[MinuteThroughput]) -> Plot | None:
    """Return the executions of each minute as stacked bars; None if there were none."""
    most = max((minute.total for minute in minutes), default=0)
    if not most:
        return None
    edge = _top([minute.total for minute in minutes], 2, _round_count)
    bars: list[PlotBar] = []
    slots: list[Slot] = []
    beyond = []
    for number, minute in enumerate(minutes):
        x, top = number * _SLOT, HEIGHT
        by_tone: dict[str, int] = {}
        for state, count in minute.outcomes.items():
            tone = TONES.get(str(state), "idle")
            by_tone[tone] = by_tone.get(tone, 0) + count
        unit = HEIGHT / max(edge, minute.total)
        if minute.total > edge:
            beyond.append(x + _SLOT / 2)
        for tone in _STACKED:
            if by_tone.get(tone):
                height = max(_LEAST, by_tone[tone] * unit)
                top -= height
                bars.append(PlotBar(x, max(0.0, top), _SLOT - _GAP, height, tone))
        parts = ", ".join(f"{count:,} {str(state).lower()}" for state, count in minute.outcomes.items() if count)
        slots.append(Slot(x, _SLOT, minute.at, parts or "nothing ended"))
    scale = (f"{edge:,.0f}", f"{edge / 2:,.0f}", "0")
    top_text = f"{most:,} a minute"
    return Plot(len(minutes) * _SLOT, top_text, tuple(bars), (), tuple(slots), scale=scale, beyond=tuple(beyond))


def lateness_plot(minutes: Sequence[MinuteLateness]) -> Plot | None:
    """Return the median and the 99th percentile of each minute's lateness as lines; None if nothing started."""
    values = [minute.p99.total_seconds() for minute in minutes if minute.p99 is not None]
    if not values:
        return None
    # A scale that ends below 100 ms would make a healthy cluster look restless.
    top = _top(values, 0.1, _round_span)
    slots = tuple(
        Slot(
            number * _SLOT,
            _SLOT,
            minute.at,
            "nothing started"
            if minute.p50 is None
            else f"median {span_text(minute.p50)}, 99th percentile {span_text(minute.p99)}",
        )
        for number, minute in enumerate(minutes)
    )
    lines = [
        *_pieces("line-b", [minute.p99 for minute in minutes], top),
        *_pieces("line-a", [minute.p50 for minute in minutes], top),
    ]
    beyond = tuple(
        slot.x + _SLOT / 2
        for slot, minute in zip(slots, minutes, strict=True)
        if minute.p99 is not None and minute.p99.total_seconds() > top
    )
    width = len(minutes) * _SLOT
    return Plot(width, span_text(max(values)), (), tuple(lines), slots, scale=_span_scale(top), beyond=beyond)


def _pieces(name: str, values: Sequence[timedelta | None], top: float) -> list[tuple[str, str]]:
    """Return a line, in pieces where minutes have no value. A single minute becomes a short stroke."""
    pieces: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            pieces.append([])
            continue
        y = HEIGHT - min(1.0, max(0.0, value.total_seconds() / top)) * HEIGHT
        pieces[-1].append(f"{number * _SLOT + _SLOT / 2:.1f},{y:.2f}")
    polylines = []
    for piece in pieces:
        if len(piece) == 1:
            x, _, height = piece[0].partition(",")
            piece = [f"{float(x) - _SLOT / 3:.1f},{height}", f"{float(x) + _SLOT / 3:.1f},{height}"]
        if piece:
            polylines.append((name, " ".join(piece)))
    return polylines


def run_bars(runs: Sequence[ExecutionSummary]) -> Plot | None:
    """Return the durations of the last runs as bars, the latest at the right; None if there were none."""
    if not runs:
        return None
    in_order = list(reversed(runs))
    spans = [(run.ran or timedelta()).total_seconds() for run in in_order]
    top = _top(spans, 0.002, _round_span)
    bars, beyond = [], []
    # Few runs are at the right, where the latest is.
    for number, (run, seconds) in enumerate(zip(in_order, spans, strict=True), start=max(0, 30 - len(in_order))):
        # A run that took no time, or never started, is still visible.
        height = min(HEIGHT, max(6.0, seconds / top * HEIGHT))
        state = str(run.state).lower()
        text = f"{state} after {span_text(run.ran)}" if run.ran is not None else state
        tone = TONES.get(str(run.state), "idle")
        bars.append(PlotBar(number * _SLOT, HEIGHT - height, _SLOT - _GAP, height, tone, text, run.fire_id))
        if seconds > top:
            beyond.append(number * _SLOT + (_SLOT - _GAP) / 2)
    width = max(30, len(bars)) * _SLOT
    return Plot(width, span_text(max(spans)), tuple(bars), (), (), scale=_span_scale(top), beyond=tuple(beyond))


SPARK_SLOTS = 20
"""The number of runs that a sparkline has room for."""
_SPARK_LEAST = 18.0


def sparkline(runs: Sequence[LastRun]) -> Plot | None:
    """Return the last runs as small bars, the latest at the right; None if there were none.

    The scale is by the root, so that a run that took much longer than the others leaves them visible.
    """
    if not runs:
        return None
    shown = runs[-SPARK_SLOTS:]
    # A scale that ends below 10 ms would make a quick job look restless.
    most = max(0.01, *(run.ran.total_seconds() for run in shown if run.ran is not None), 0.0)
    bars = []
    for number, run in enumerate(shown, SPARK_SLOTS - len(shown)):
        share = (run.ran.total_seconds() / most) ** 0.5 if run.ran else 0.0
        height = max(_SPARK_LEAST, share * HEIGHT)
        bars.append(PlotBar(number * _SLOT, HEIGHT - height, _SLOT - 2 * _GAP, height, TONES.get(run.outcome, "idle")))
    return Plot(SPARK_SLOTS * _SLOT, "", tuple(bars), (), (), _in_words(shown))


def _in_words(runs: Sequence[LastRun]) -> str:
    outcomes = Counter(run.outcome.lower() for run in runs)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    spans = sorted(run.ran for run in runs if run.ran is not None)
    range_ = f"; {span_text(spans[0])} to {span_text(spans[-1])}" if spans else ""
    return f"{numbered(len(runs), 'run', 'runs')}: {counts}{range_}"


@dataclass(frozen=True, slots=True)
class PlotPart:
    """A part of an execution's time."""

    name: str
    span: timedelta
    tone: str
    meaning: str
    x: float
    width: float


def split_bar(execution: ExecutionSummary, elapsed: timedelta | None = None) -> tuple[PlotPart, ...]:
    """Return the parts of an execution's time: waited for a node, queued for a worker, ran. Unknown ones are left out.

    `elapsed` is the time since the fire of one that is still running. Each part is at least a hundredth of the width,
    so that none is invisible. A single part would say nothing, so it is left out too.
    """
    ran_tone = TONES.get(str(execution.state), "info") if execution.state is not ExecutionState.PROCESSING else "info"
    phases = [
        ("waited", execution.waited, "warn", "from the scheduled instant until a node fired it"),
        ("queued", execution.queued, "idle", "from the fire until a worker was free and started it"),
        ("ran", execution.ran, ran_tone, "from the start of the job until its end"),
        ("running", elapsed, ran_tone, "from the fire until now"),
    ]
    measured = [(name, span, tone, meaning) for name, span, tone, meaning in phases if span is not None]
    if len(measured) < 2:
        return ()
    whole = sum(span.total_seconds() for _, span, _, _ in measured) or 1.0
    shares = [max(1.0, span.total_seconds() / whole * 100) for _, span, _, _ in measured]
    scale = 100 / sum(shares) if shares else 1.0
    parts: list[PlotPart] = []
    x = 0.0
    for (name, span, tone, meaning), share in zip(measured, shares, strict=True):
        parts.append(PlotPart(name, span, tone, meaning, x, share * scale))
        x += share * scale
    return tuple(parts)


CELL = 15.0
LEFT, TOP = 34.0, 18.0
"""The room for the names of the days and of the months."""
_CELL_GAP = 2.5


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
        days.append(DayBox(x, TOP + day.weekday() * CELL, CELL - _CELL_GAP, kind, day == today, text))
        if day.day == 1:
            months.append((f"{day:%b}", x + (CELL if day.weekday() else 0)))
    width = days[-1].x + CELL
    weekdays = tuple((name, TOP + row * CELL + 9.5) for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"), (6, "Sun")))
    return YearDrawing(year, tuple(days), tuple(months), weekdays, width, TOP + 7 * CELL)
