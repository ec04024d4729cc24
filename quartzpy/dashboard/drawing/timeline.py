"""The lanes of the timeline: bars in rows so that they do not overlap, or counts where there are too many bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from quartzpy.dashboard.drawing.plots import TONES
from quartzpy.dashboard.times import span_text
from quartzpy.operations.timeline import Bar as Run
from quartzpy.operations.timeline import Timeline
from quartzpy.states import ExecutionState

WIDTH = 1_000.0
"""The width of a lane in its own units; the style sheet stretches it."""
_ROW, _GAP, _MARGIN = 12.0, 3.0, 7.0
_LEAST = 3.0
"""The least width of a bar, so that quick executions are visible."""
_MOST_ROWS = 5
_MOST_BARS = 150
"""The number of bars of a lane from which on they are counted in cells instead."""
_CELLS = 120
_LEAST_SHARE = 0.2
"""The least share of a cell that a tone has, so that one failure among many successes is seen."""
_WORST_FIRST = ("bad", "warn", "info", "good", "idle", "plan")
_MOST_MARKS = 7
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_STEPS = (
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2)),
)
"""The distances between the marks of the time axis."""
_EDGE = 20.0
"""A mark that is nearer to an end of the axis has no room for its text."""


@dataclass(frozen=True, slots=True)
class Box:
    """An execution or a planned run, or the part of a cell for several of them."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    text: str
    at: datetime
    run: Run | None = None
    """The execution or run; None for a cell with several of them."""


@dataclass(frozen=True, slots=True)
class LaneDrawing:
    """The boxes of one lane."""

    name: str
    first: Run
    """Its first run, which has the key of the lane's job."""
    boxes: tuple[Box, ...]
    height: float
    summary: str
    """The lane in words, for readers who do not see it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """All lanes, and the place of the present."""

    lanes: tuple[LaneDrawing, ...]
    now: float
    marks: tuple[Mark, ...]


def draw_timeline(timeline: Timeline, clock: tzinfo) -> TimelineDrawing:
    """Return the geometry of a timeline, with marks at round times by a clock."""
    scale = _Scale(timeline.start, timeline.end, timeline.now)
    return TimelineDrawing(
        lanes=tuple(_lane(lane.name, lane.bars, scale) for lane in timeline.lanes if lane.bars),
        now=scale.x(timeline.now),
        marks=tuple(_marks(scale, clock)),
    )


def _marks(scale: _Scale, clock: tzinfo) -> Iterator[Mark]:
    span = scale.end - scale.start
    step = next((step for step in _STEPS if span / step <= _MOST_MARKS), _STEPS[-1])
    at = scale.start.astimezone(clock).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    at += step * ((scale.start - at) // step)
    while at < scale.end:
        if _EDGE <= (x := scale.x(at)) <= WIDTH - _EDGE:
            local = at.astimezone(clock)
            yield Mark(x, f"{local:%H:%M}" if local.hour or local.minute else f"{local:%a %d}")
        at += step


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime
    now: datetime

    def x(self, at: datetime) -> float:
        share = (at - self.start) / (self.end - self.start)
        return min(1.0, max(0.0, share)) * WIDTH

    def at(self, x: float) -> datetime:
        return self.start + (self.end - self.start) * (x / WIDTH)


def _tone(run: Run) -> str:
    return "plan" if run.state is ExecutionState.SCHEDULED else TONES.get(str(run.state), "idle")


def _lane(name: str, runs: Sequence[Run], scale: _Scale) -> LaneDrawing:
    boxes = _counted(runs, scale) if len(runs) > _MOST_BARS else _packed(runs, scale)
    height = max((box.y + box.height for box in boxes), default=_ROW) + _MARGIN
    return LaneDrawing(name, runs[0], tuple(boxes), height, _tally(runs))


def _packed(runs: Sequence[Run], scale: _Scale) -> list[Box]:
    ends: list[float] = []
    boxes = []
    for run in sorted(runs, key=lambda run: run.start):
        x = scale.x(run.start)
        is_planned = run.state is ExecutionState.SCHEDULED
        end = scale.x(run.end or (run.start if is_planned else scale.now))
        width = max(_LEAST, end - x)
        row = next((number for number, free in enumerate(ends) if free <= x), len(ends))
        if row == len(ends):
            if row < _MOST_ROWS:
                ends.append(0.0)
            else:
                # All rows are taken: it goes over the run that is free first.
                row = ends.index(min(ends))
        ends[row] = x + width
        boxes.append(
            Box(x, _MARGIN + row * (_ROW + _GAP), width, _ROW, _tone(run), _text(run, scale.now), run.start, run)
        )
    return boxes


def _text(run: Run, now: datetime) -> str:
    if run.state is ExecutionState.SCHEDULED:
        return f"{run.job} is planned"
    if run.end is None:
        return f"{run.job} has been running for {span_text(max(timedelta(), now - run.start))}"
    return f"{run.job} {str(run.state).lower()} after {span_text(run.end - run.start)}"


def _counted(runs: Sequence[Run], scale: _Scale) -> list[Box]:
    """Return a cell for each short span, divided among the tones of its runs: the worst at the top, always visible."""
    size, height = WIDTH / _CELLS, 2 * _ROW
    cells: dict[int, list[Run]] = {}
    for run in runs:
        cells.setdefault(min(_CELLS - 1, int(scale.x(run.start) / size)), []).append(run)
    boxes = []
    for number, several in sorted(cells.items()):
        counts = Counter(_tone(run) for run in several)
        tones = [tone for tone in _WORST_FIRST if counts[tone]]
        shares = [max(_LEAST_SHARE, counts[tone] / len(several)) for tone in tones]
        y = _MARGIN
        for tone, share in zip(tones, shares, strict=True):
            part = height * share / sum(shares)
            boxes.append(Box(number * size, y, size - 1, part, tone, _tally(several), scale.at(number * size)))
            y += part
    return boxes


def _tally(runs: Sequence[Run]) -> str:
    words = {"SCHEDULED": "planned", "PROCESSING": "running", "ENQUEUED": "claimed"}
    counts = Counter(words.get(str(run.state), str(run.state).lower()) for run in runs)
    return ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
