"""The lanes of the timeline: bars in rows so that they do not overlap, or counts where there are too many bars."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from quartzpy.dashboard.drawing.plots import TONES
from quartzpy.dashboard.shown_times import span_text
from quartzpy.operations.views.timeline import CELLS, Lane, Timeline
from quartzpy.operations.views.timeline import Bar as Run
from quartzpy.operations.views.timeline import Mark as RunMark
from quartzpy.states import ExecutionState

WIDTH = 1_000.0
"""The width of a lane in its own units; the style sheet stretches it."""
_ROW, _GAP, _MARGIN = 12.0, 3.0, 7.0
_MARK = 4.0
"""Half the width of a mark."""
_LEAST = 3.0
"""The least width of a bar, so that quick executions are visible."""
_MAX_ROWS = 5
_MAX_BARS = 150
"""The number of executions of a lane from which on they are counted in cells instead."""
_LEAST_SHARE = 0.2
"""The least share of a cell that a tone has, so that one failure among many successes is seen."""
_WORST_FIRST = ("bad", "warn", "info", "good", "idle", "plan")
_MAX_MARKS = 7
_SECOND, _MINUTE, _HOUR, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_STEPS = (
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 5)),
)
"""The distances between the marks of the time axis."""
_EDGE = 48.0
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
    """The execution or run; None for several of them."""
    until: datetime | None = None
    """The end of the cell; None for an execution or a run."""


@dataclass(frozen=True, slots=True)
class LaneMark:
    """A mark at the upper edge of a lane."""

    x: float
    is_pause: bool
    text: str
    at: datetime
    until: datetime | None = None
    """The end of a pause that is over."""
    width: float = 0.0
    """The width of the band of such a pause, which begins at `x`; 0 for others."""


@dataclass(frozen=True, slots=True)
class LaneDrawing:
    """One lane: its boxes, or the cells in which its many executions are counted."""

    lane: Lane
    boxes: tuple[Box, ...]
    paths: tuple[tuple[str, str], ...]
    """For each tone the outline of its parts of all cells, as the attribute `d` of an SVG path."""
    counts: tuple[tuple[int, str], ...]
    """The number of each cell that is not empty, and its executions in words."""
    height: float
    summary: str
    """The lane in words, for readers who do not see it."""
    marks: tuple[LaneMark, ...] = ()


@dataclass(frozen=True, slots=True)
class TickMark:
    """A mark of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """All lanes, and the place of the present."""

    lanes: tuple[LaneDrawing, ...]
    now: float | None
    """None if the present is not within the span."""
    marks: tuple[TickMark, ...]


def draw_timeline(timeline: Timeline, clock: tzinfo) -> TimelineDrawing:
    """Return the geometry of a timeline, with marks at round times by a clock."""
    scale = _Scale(timeline.start, timeline.end, timeline.now)
    return TimelineDrawing(
        lanes=tuple(_lane(lane, scale) for lane in timeline.lanes if lane.number or lane.marks),
        now=scale.x(timeline.now) if timeline.start <= timeline.now <= timeline.end else None,
        marks=tuple(_marks(scale, clock)),
    )


def _marks(scale: _Scale, clock: tzinfo) -> Iterator[TickMark]:
    span = scale.end - scale.start
    step = next((step for step in _STEPS if span / step <= _MAX_MARKS), _STEPS[-1])
    at = scale.start.astimezone(clock).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    at += step * ((scale.start - at) // step)
    while at < scale.end:
        if _EDGE <= (x := scale.x(at)) <= WIDTH - _EDGE:
            local = at.astimezone(clock)
            time = f"{local:%H:%M:%S}" if step < _MINUTE else f"{local:%H:%M}"
            yield TickMark(x, time if local.hour or local.minute or local.second else f"{local:%a %d}")
        at += step


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime
    now: datetime

    def x(self, at: datetime) -> float:
        share = (at - self.start) / (self.end - self.start)
        return min(1.0, max(0.0, share)) * WIDTH

    def cell(self, at: datetime) -> int:
        return min(CELLS - 1, max(0, int((at - self.start) * CELLS / (self.end - self.start))))


def _tone(state: ExecutionState) -> str:
    return "plan" if state is ExecutionState.SCHEDULED else TONES.get(str(state), "idle")


def _lane(lane: Lane, scale: _Scale) -> LaneDrawing:
    states = Counter(bar.state for bar in lane.bars)
    for cell in lane.cells:
        states.update(cell.states)
    summary = ", ".join(filter(None, [_tally(states), *(_all_marks(lane.marks))])) or "nothing"
    marks = tuple(_mark(mark, scale) for mark in lane.marks)
    if lane.number > _MAX_BARS:
        paths, counts = _counted(lane, scale)
        return LaneDrawing(lane, (), paths, counts, 2 * _ROW + 2 * _MARGIN, summary, marks)
    boxes = _packed(lane, scale)
    height = max((box.y + box.height for box in boxes), default=_MARGIN + _ROW) + _MARGIN
    return LaneDrawing(lane, tuple(boxes), (), (), height, summary, marks)


def _all_marks(marks: Sequence[RunMark]) -> Iterator[str]:
    if missed := sum(mark.number for mark in marks):
        yield f"{missed:,} {'misfire' if missed == 1 else 'misfires'}"
    if pauses := sum(not mark.number for mark in marks):
        yield f"{pauses} {'pause' if pauses == 1 else 'pauses'}"


def _mark(mark: RunMark, scale: _Scale) -> LaneMark:
    # Misfires are counted in a part of the span, and marked in its middle.
    x = scale.x(mark.at) + (WIDTH / CELLS / 2 if mark.number else 0)
    if mark.until is not None:
        width = max(_LEAST, scale.x(mark.until) - x)
        return LaneMark(min(x, WIDTH - width), True, mark.text, mark.at, mark.until, width)
    return LaneMark(min(WIDTH - _MARK, max(_MARK, x)), not mark.number, mark.text, mark.at)


def _packed(lane: Lane, scale: _Scale) -> list[Box]:
    boxes = [_box_of(run, scale) for run in lane.bars]
    for cell in lane.cells:
        x, width = scale.x(cell.start), WIDTH / CELLS - 1
        worst = min((_tone(state) for state in cell.states), key=_WORST_FIRST.index)
        boxes.append(Box(x, 0, width, _ROW, worst, _tally(cell.states), cell.start, until=cell.end))
    ends: list[float] = []
    placed = []
    for box in sorted(boxes, key=lambda box: box.x):
        row = next((number for number, free in enumerate(ends) if free <= box.x), len(ends))
        if row == len(ends):
            if row < _MAX_ROWS:
                ends.append(0.0)
            else:
                # All rows are taken: it goes over the run that is free first.
                row = ends.index(min(ends))
        ends[row] = box.x + box.width
        y = _MARGIN + row * (_ROW + _GAP)
        placed.append(Box(box.x, y, box.width, _ROW, box.tone, box.text, box.at, box.run, box.until))
    return placed


def _box_of(run: Run, scale: _Scale) -> Box:
    x = scale.x(run.start)
    is_planned = run.state is ExecutionState.SCHEDULED
    end = scale.x(run.end or (run.start if is_planned else scale.now))
    return Box(x, 0, max(_LEAST, end - x), _ROW, _tone(run.state), _text(run, scale.now), run.start, run)


def _text(run: Run, now: datetime) -> str:
    if run.state is ExecutionState.SCHEDULED:
        return f"{run.job} is planned"
    if run.end is None:
        return f"{run.job} has been running for {span_text(max(timedelta(), now - run.start))}"
    return f"{run.job} {str(run.state).lower()} after {span_text(run.end - run.start)}"


def _counted(lane: Lane, scale: _Scale) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[int, str], ...]]:
    """Return the cells as outlines by tone, and in words.

    A cell is divided among the tones of its runs: the worst at the top, always visible.
    """
    states: defaultdict[int, Counter[ExecutionState]] = defaultdict(Counter)
    for cell in lane.cells:
        states[scale.cell(cell.start + (cell.end - cell.start) / 2)].update(cell.states)
    for run in lane.bars:
        states[scale.cell(run.end or run.start)][run.state] += 1
    size, height = WIDTH / CELLS, 2 * _ROW
    outlines: defaultdict[str, list[str]] = defaultdict(list)
    for number, counts in states.items():
        of_tone: Counter[str] = Counter()
        for state, count in counts.items():
            of_tone[_tone(state)] += count
        tones = [tone for tone in _WORST_FIRST if of_tone[tone]]
        shares = [max(_LEAST_SHARE, of_tone[tone] / counts.total()) for tone in tones]
        y = _MARGIN
        for tone, share in zip(tones, shares, strict=True):
            part = height * share / sum(shares)
            outlines[tone].append(f"M{number * size:.1f} {y:.1f}h{size - 1:.1f}v{part:.1f}h-{size - 1:.1f}z")
            y += part
    words = {number: [_tally(counts)] for number, counts in states.items()}
    for mark in lane.marks:
        at = mark.at + (scale.end - scale.start) / CELLS / 2 if mark.number else mark.at
        words.setdefault(scale.cell(at), []).append(mark.text)
    return (
        tuple((tone, "".join(outlines[tone])) for tone in _WORST_FIRST if tone in outlines),
        tuple((number, ", ".join(texts)) for number, texts in sorted(words.items())),
    )


def _tally(states: Mapping[ExecutionState, int]) -> str:
    words = {"SCHEDULED": "planned", "PROCESSING": "running", "ENQUEUED": "claimed"}
    counts: Counter[str] = Counter()
    for state, number in states.items():
        counts[words.get(str(state), str(state).lower())] += number
    return ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
