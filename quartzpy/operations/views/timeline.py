"""The timeline: what ran, what runs and what is planned, in lanes by node, by job or by group of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.views.agenda import Agenda
from quartzpy.operations.views.executions import running_view
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.states import PAUSED_STATES, ExecutionState
from quartzpy.store.filters import choice_of
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import CellRecord, EndedPause, Lanes, MisfireCell
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import RunningRecord, TriggerRecord
from quartzpy.texts import numbered

CELLS = 120
"""The number of equal parts of a timeline in which executions are counted."""
MAX_COUNTED = 500_000
"""The largest number of executions that are counted."""
MAX_BARS = 1_000
"""The largest number of executions of the past that are shown one by one."""
MAX_PLANNED = 500
"""The largest number of planned runs."""
MAX_MISFIRES = 20_000
"""The number of the latest misfires of the cluster among which those of a timeline are counted."""
MAX_PAUSED = 200
"""The number of paused triggers, the first by key, whose pauses are marked."""
MAX_ENTRIES = 20_000
"""The number of the latest entries of the audit log among which the pauses are found that have ended."""
MAX_PAUSES = 1_000
"""The largest number of such pauses."""
MAX_LANES = 100
LONGEST = timedelta(days=31)
SHORTEST = timedelta(seconds=1)
MARGIN = timedelta(hours=1)
"""An execution that ended later than this after the end of the timeline is not found."""
MAX_AFTER = 5_000
"""The number of executions that ended first after the timeline: later ones are not found."""
_PAUSED = TriggerQuery(states=frozenset(PAUSED_STATES))
PLANNED = "planned"
"""The name of the lane of planned runs in a timeline by node: no node has taken them yet."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An execution, or a run that is planned."""

    start: datetime
    end: datetime | None
    """None for an execution that is still running, and for a planned run."""
    state: ExecutionState
    """The outcome, or PROCESSING, ENQUEUED or SCHEDULED."""
    trigger: TriggerKey
    job: JobKey
    node: str | None
    fire_id: int | None
    scheduled_fire_time: datetime


@dataclass(frozen=True, slots=True)
class Cell:
    """Several executions of a lane that ended in the same part of the timeline.

    Those that ended after the timeline are in its last cell.
    """

    start: datetime
    end: datetime
    states: dict[ExecutionState, int]
    """The number of executions of each state; those that are shown as bars are not among them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something else that happened in a lane: misfires that were handled, or a pause."""

    at: datetime
    """The instant of the pause, or the beginning of the part of the timeline in which misfires are counted."""
    number: int
    """The number of misfires; 0 for a pause."""
    text: str
    """"3 misfires", or "trigger g.t was paused by ann: maintenance"."""
    until: datetime | None = None
    """The end of a pause that an operator has ended; None for others."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The executions of one node, job or group: one by one where a cell has few of them, counted elsewhere."""

    name: str
    bars: tuple[Bar, ...]
    """In the order of their starts."""
    cells: tuple[Cell, ...] = ()
    job: JobKey | None = None
    """The job, in a timeline by job."""
    marks: tuple[Mark, ...] = ()
    """In the order of their instants: of the latest 20,000 misfires of the cluster, of 200 paused triggers, and of the
    pauses among the latest 20,000 entries of the audit log that have ended."""

    @property
    def number(self) -> int:
        """The number of executions and planned runs."""
        return len(self.bars) + sum(sum(cell.states.values()) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The executions that overlap a span of time, and the runs that are planned in it."""

    now: datetime
    start: datetime
    end: datetime
    by: Lanes
    lanes: tuple[Lane, ...]
    """Sorted by name, at most 100 of them."""
    complete_since: datetime
    """The instant from which all executions are counted: earlier ones were left out if there are too many."""
    complete_until: datetime
    """The instant up to which all planned runs are shown."""
    hidden_lanes: int
    """The number of lanes that were left out: those with the fewest executions."""
    marks: tuple[Mark, ...] = ()
    """The pauses of everything that have ended, which each lane has among its own."""


def timeline(reading: BatchedReads, start: datetime, end: datetime, by: str, group: str | None = None) -> Timeline:
    lanes = choice_of(by, Lanes, "lanes")
    if not start + SHORTEST <= end <= start + LONGEST:
        raise InvalidValueError(
            "end: must be after start, by at least 1 second and at most 31 days"
            f" (got {start.isoformat()} to {end.isoformat()})"
        )
    running = reading.defer(lambda store: store.list_running())
    counted = reading.defer(
        lambda store: admin(store).executions_in_cells(
            start,
            end,
            by=lanes,
            cells=CELLS,
            lanes=MAX_LANES,
            bars=MAX_BARS,
            limit=MAX_COUNTED,
            margin=MARGIN,
            most_after=MAX_AFTER,
            group=group,
        )
    )
    misfires = reading.defer(
        lambda store: admin(store).misfires_in_cells(start, end, by=lanes, cells=CELLS, limit=MAX_MISFIRES, group=group)
    )
    paused = reading.defer(lambda store: store.find(_PAUSED, MAX_PAUSED)) if lanes is not Lanes.NODE else list
    # A node has no triggers, so only a pause of everything is one of its lane.
    ended = reading.defer(
        lambda store: admin(store).ended_pauses(
            start, end, MAX_PAUSES, among=MAX_ENTRIES, of_everything=lanes is Lanes.NODE
        )
    )
    now = reading.now()
    agenda = Agenda(reading, now, end, MAX_PLANNED, since=max(now, start)) if end > now else None
    planned = [] if agenda is None else agenda.fires()
    past = counted()
    bars: defaultdict[JobKey | str, list[Bar]] = defaultdict(list)
    counts: defaultdict[JobKey | str, defaultdict[int, dict[ExecutionState, int]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for record in past.cells:
        subject = _counted_subject(record, lanes)
        if (bar := _bar(record)) is not None:
            bars[subject].append(bar)
        else:
            # What ended after the span is counted by itself, and belongs to the last cell.
            states = counts[subject][record.cell]
            state = ExecutionState(record.outcome)
            states[state] = states.get(state, 0) + record.number
    counted_lanes = bars.keys() | counts.keys()
    to_come = (
        Bar(at, None, ExecutionState.SCHEDULED, record.key, record.job_key, None, None, at) for at, record in planned
    )
    for bar in (*_running(running(), now, start, end), *to_come):
        if group is None or bar.job.group == group:
            bars[_subject(bar, lanes)].append(bar)
    size = (end - start) / CELLS
    pauses = ended()
    handled = misfires()
    hides_lanes = past.lanes > len(counted_lanes)
    if hides_lanes:
        # Of the lanes that were left out nothing else is known. Their misfires may be very many.
        shown = {(record.lane_group, record.lane_name) for record in past.cells}
        handled = [cell for cell in handled if (cell.lane_group, cell.lane_name) in shown]
    marks = _marks(handled, paused(), pauses, start, end, lanes, group)
    if hides_lanes:
        marks = defaultdict(list, {subject: marks[subject] for subject in marks if subject in counted_lanes})
    subjects = bars.keys() | counts.keys() | marks.keys()
    every = [
        _lane(
            subject, bars[subject], counts[subject], [*marks[subject], *_marks_of_wholes(pauses, subject)], start, size
        )
        for subject in subjects
    ]
    chosen = sorted(every, key=lambda lane: (-lane.number, lane.name))[:MAX_LANES]
    return Timeline(
        now=now,
        start=start,
        end=end,
        by=lanes,
        lanes=tuple(sorted(chosen, key=lambda lane: lane.name)),
        complete_since=max(start, past.complete_since),
        complete_until=planned[-1][0] if len(planned) == MAX_PLANNED else end,
        # Lanes that have only runs now or to come are not among those that the database counted.
        hidden_lanes=past.lanes + len(every) - len(counted_lanes) - len(chosen),
        marks=tuple(_ended(pause) for pause in pauses if pause.job_group is None),
    )


def _lane(
    subject: JobKey | str,
    bars: Iterable[Bar],
    counts: Mapping[int, dict[ExecutionState, int]],
    marks: Iterable[Mark],
    start: datetime,
    size: timedelta,
) -> Lane:
    return Lane(
        str(subject),
        tuple(sorted(bars, key=lambda bar: (bar.start, bar.trigger))),
        tuple(
            Cell(start + number * size, start + (number + 1) * size, states)
            for number, states in sorted(counts.items())
        ),
        subject if isinstance(subject, JobKey) else None,
        tuple(sorted(dict.fromkeys(marks), key=lambda mark: mark.at)),
    )


def _marks(
    misfires: Iterable[MisfireCell],
    paused: Iterable[TriggerRecord],
    ended: Iterable[EndedPause],
    start: datetime,
    end: datetime,
    lanes: Lanes,
    group: str | None,
) -> defaultdict[JobKey | str, list[Mark]]:
    marks: defaultdict[JobKey | str, list[Mark]] = defaultdict(list)
    size = (end - start) / CELLS
    for cell in misfires:
        text = numbered(cell.number, "misfire", "misfires")
        marks[_counted_subject(cell, lanes)].append(Mark(start + cell.cell * size, cell.number, text))
    for trigger in paused:
        at, job = trigger.paused_at, trigger.job_key
        if at is not None and start <= at < end and group in (None, job.group):
            marks[job if lanes is Lanes.JOB else job.group].append(Mark(at, 0, _paused(trigger)))
    for pause in ended:
        subject = _paused_subject(pause, lanes)
        if subject is not None and group in (None, pause.job_group):
            marks[subject].append(_ended(pause))
    return marks


def _paused_subject(pause: EndedPause, lanes: Lanes) -> JobKey | str | None:
    """Return the lane of the only job or group that a pause is about; None if it is about others as well."""
    if pause.job_group is None or lanes is Lanes.NODE:
        return None
    if lanes is Lanes.GROUP:
        return pause.job_group
    return None if pause.job_name is None else JobKey(pause.job_name, pause.job_group)


def _marks_of_wholes(pauses: Iterable[EndedPause], subject: JobKey | str) -> list[Mark]:
    """Return the pauses of everything, and of the group of a job."""
    group = subject.group if isinstance(subject, JobKey) else None
    return [
        _ended(pause)
        for pause in pauses
        if pause.job_group is None or (pause.job_name is None and pause.job_group == group)
    ]


def _paused(trigger: TriggerRecord) -> str:
    by = "" if trigger.paused_by is None else f" by {trigger.paused_by}"
    reason = "" if not trigger.pause_reason else f": {trigger.pause_reason}"
    return f"trigger {trigger.key} was paused{by}{reason}"


def _ended(pause: EndedPause) -> Mark:
    ended_by = "" if pause.ended_by == pause.paused_by else f", until {pause.ended_by} resumed it"
    text = f"{pause.subject} was paused by {pause.paused_by}{ended_by}{f': {pause.reason}' if pause.reason else ''}"
    return Mark(pause.paused_at, 0, text, pause.ended_at)


def _counted_subject(record: CellRecord | MisfireCell, lanes: Lanes) -> JobKey | str:
    match lanes:
        case Lanes.NODE:
            return record.lane_name
        case Lanes.JOB:
            return JobKey(record.lane_name, record.lane_group)
        case Lanes.GROUP:
            return record.lane_group


def _subject(bar: Bar, lanes: Lanes) -> JobKey | str:
    """Return the subject of the lane in which an execution or a run is."""
    match lanes:
        case Lanes.NODE:
            return bar.node or PLANNED
        case Lanes.JOB:
            return bar.job
        case Lanes.GROUP:
            return bar.job.group


def _bar(record: CellRecord) -> Bar | None:
    alone = record.alone
    if alone is None:
        return None
    return Bar(
        alone.began,
        alone.ended_at,
        ExecutionState(record.outcome),
        alone.trigger_key,
        alone.job_key,
        alone.instance_id,
        alone.fire_id,
        alone.scheduled_fire_time,
    )


def _running(records: Iterable[RunningRecord], now: datetime, start: datetime, end: datetime) -> Iterator[Bar]:
    for record in records:
        view = running_view(record, now)
        begun = view.fire_time or view.scheduled_fire_time
        if start <= now and begun < end:
            yield Bar(
                begun, None, view.state, view.trigger, view.job, view.node, view.fire_id, view.scheduled_fire_time
            )
