"""Maintenance windows as people see them: what they pause, when, and since or until when at present."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.instants import short
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.store.records import WindowRecord
from quartzpy.texts import instant_text

AHEAD = timedelta(days=1)
"""How long before a window the overview announces it."""


@dataclass(frozen=True, slots=True)
class WindowView:
    """A maintenance window."""

    name: str
    what: str
    """What is paused meanwhile: "everything", "trigger group billing" or "job group billing"."""
    schedule: str
    """When: the cron expression and the duration, or "once"."""
    words: str
    """The same in words: "at 02:00, on Sunday, for 4h (Europe/Berlin)"."""
    zone: str
    starts_at: datetime
    """The beginning of its present or next time."""
    ends_at: datetime
    is_open: bool
    """Whether that time has begun, and the triggers are paused."""
    missed: str
    """What becomes of the fires that came due meanwhile: misfire, skip or once."""
    reason: str | None
    by: str | None
    """Who wanted it so, the last one."""
    changed_at: datetime

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        if self.is_open:
            until = instant_text(self.ends_at)
            return f"Maintenance window {self.name} lasts until {until}; paused is {self.what}{reason}"
        return (
            f"Maintenance window {self.name} begins at {instant_text(self.starts_at)} and lasts until"
            f" {instant_text(self.ends_at)}; it pauses {self.what}{reason}"
        )


def view(record: WindowRecord) -> WindowView:
    window = record.window
    schedule, words = "once", "once"
    if window.cron is not None and window.duration is not None:
        lasting = short(window.duration)
        described = window.expression().describe()
        schedule, words = f"{window.cron} for {lasting}", f"{described}, for {lasting} ({window.time_zone})"
    return WindowView(
        window.name,
        window.subject,
        schedule,
        words,
        window.time_zone,
        record.starts_at,
        record.ends_at,
        record.is_open,
        str(window.missed),
        window.reason,
        record.changed_by,
        record.changed_at,
    )


def windows(reading: BatchedReads) -> list[WindowView]:
    """Return the maintenance windows; see `Operations.windows`."""
    return [view(record) for record in reading.defer(lambda store: store.windows())()]


def announced(records: Sequence[WindowRecord], now: datetime) -> tuple[WindowView, ...]:
    """Return the windows that are open or begin soon, the soonest first."""
    near = [record for record in records if record.is_open or record.starts_at <= now + AHEAD]
    return tuple(view(record) for record in sorted(near, key=lambda record: (not record.is_open, record.starts_at)))
