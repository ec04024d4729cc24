"""The timeline: what ran, what runs and what is planned, in lanes by node or by job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.agenda import Agenda
from quartzpy.operations.executions import running_view
from quartzpy.scheduler.reading import Reading
from quartzpy.states import ExecutionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.records import RunningRecord

MOST_BARS = 1_000
"""The largest number of bars of the past."""
MOST_PLANNED = 500
"""The largest number of planned runs."""
MOST_LANES = 100
LONGEST = timedelta(days=7)
MARGIN = timedelta(hours=1)
"""An execution that ended later than this after the end of the timeline is not found."""
PLANNED = "planned"
"""The name of the lane of planned runs in a timeline by node: no node has taken them yet."""


class Lanes(StrEnum):
    """The subjects of the lanes of a timeline."""

    NODE = "node"
    JOB = "job"


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
class Lane:
    """The bars of one node or job, in the order of their starts."""

    name: str
    bars: tuple[Bar, ...]


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
    """The instant from which all executions are shown: earlier ones were left out if there are too many."""
    complete_until: datetime
    """The instant up to which all planned runs are shown."""
    hidden_lanes: int
    """The number of lanes that were left out: those with the fewest bars."""


def timeline(reading: Reading, start: datetime, end: datetime, by: str) -> Timeline:
    try:
        lanes = Lanes(by)
    except ValueError:
        raise InvalidValueError(f"lanes: must be one of {', '.join(Lanes)} (got {by!r})") from None
    if not start < end <= start + LONGEST:
        raise InvalidValueError(
            f"end: must be after start, and at most 7 days after it (got {start.isoformat()} to {end.isoformat()})"
        )
    running = reading.ask(lambda store: store.list_running())
    # Those of a span that is to come are none.
    ended = reading.ask(lambda store: admin(store).executions_between(start, end, MOST_BARS, margin=MARGIN))
    now = reading.now()
    agenda = Agenda(reading, now, end, MOST_PLANNED, since=max(now, start)) if end > now else None
    planned = [] if agenda is None else agenda.fires()
    past = ended() if start < now else []
    bars = [
        *(
            Bar(
                record.started_at or record.fire_time or record.scheduled_fire_time,
                record.ended_at,
                record.state,
                record.trigger_key,
                record.job_key,
                record.instance_id,
                record.fire_id,
                record.scheduled_fire_time,
            )
            for record in past
        ),
        *_running(running(), now, start, end),
        *(
            Bar(at, None, ExecutionState.SCHEDULED, record.key, record.job_key, None, None, at)
            for at, record in planned
        ),
    ]
    of_lane: defaultdict[str, list[Bar]] = defaultdict(list)
    for bar in bars:
        of_lane[(bar.node or PLANNED) if lanes is Lanes.NODE else str(bar.job)].append(bar)
    chosen = sorted(of_lane, key=lambda name: (-len(of_lane[name]), name))[:MOST_LANES]
    return Timeline(
        now=now,
        start=start,
        end=end,
        by=lanes,
        lanes=tuple(
            Lane(name, tuple(sorted(of_lane[name], key=lambda bar: (bar.start, bar.trigger))))
            for name in sorted(chosen)
        ),
        complete_since=min(record.ended_at for record in past if record.ended_at) if len(past) == MOST_BARS else start,
        complete_until=planned[-1][0] if len(planned) == MOST_PLANNED else end,
        hidden_lanes=len(of_lane) - len(chosen),
    )


def _running(records: Iterable[RunningRecord], now: datetime, start: datetime, end: datetime) -> Iterator[Bar]:
    for record in records:
        view = running_view(record, now)
        begun = view.fire_time or view.scheduled_fire_time
        if start <= now and begun < end:
            yield Bar(
                begun, None, view.state, view.trigger, view.job, view.node, view.fire_id, view.scheduled_fire_time
            )
