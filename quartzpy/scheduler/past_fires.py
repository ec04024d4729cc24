"""The past instants of a trigger's schedule, for which a backfill runs its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from quartzpy.budget import MAX_STEPS, Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.texts import quoted
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.trigger import Trigger

MAX_RUNS = 10_000
"""The largest number of instants for which one backfill runs a job."""
_MAX_STEPS = 5 * MAX_STEPS


@dataclass(frozen=True, slots=True)
class PastFires:
    """A trigger as it is stored, with its calendar."""

    trigger: Trigger
    calendar: Calendar | None = None

    def between(self, since: datetime, until: datetime, *, max_runs: int) -> list[datetime]:
        """Return the fire times from `since` until before `until`; see `Scheduler.backfill_times`.

        Raises:
            InvalidValueError: as there.
        """
        check_span(since, until, max_runs)
        times = self.first(since, until, max_runs + 1)
        if len(times) > max_runs:
            raise InvalidValueError(
                f"trigger {self.trigger.key} has more than max_runs={max_runs:,} fire times from {since} until {until}:"
                f" {times[0]}, ..., {times[-1]}, ...; choose a shorter span, or a larger max_runs (at most"
                f" {MAX_RUNS:,})"
            )
        return times

    def longest_span(self, until: datetime, spans: Sequence[timedelta], *, max_runs: int) -> timedelta | None:
        """Return the longest of these spans before `until` that has at most `max_runs` fire times, or None.

        A span is tried only if it is shorter than the instants that were too many: of a schedule that is about even,
        two spans are tried.
        """
        limit = None
        for span in sorted(spans, reverse=True):
            if limit is None or span < limit:
                times = self.first(until - span, until, max_runs + 1)
                if len(times) <= max_runs:
                    return span
                limit = times[-1] - times[0]
        return None

    def first(self, since: datetime, until: datetime, count: int) -> list[datetime]:
        """Return the first fire times, at most `count`, from `since` until before `until`."""
        first, trigger = as_instant(since, "since"), self.trigger
        if isinstance(trigger, CronTrigger) and trigger.anchor > first:
            trigger = replace(trigger, start_time=first)
        last = as_instant(until, "until") - timedelta.resolution
        with Budget(_MAX_STEPS):
            return list(islice(trigger.fire_times(first, last, self.calendar), count))


def check_span(since: datetime, until: datetime, max_runs: int) -> None:
    """Check what a backfill takes.

    Raises:
        InvalidValueError: `since` or `until` is no datetime with a time zone, `until` is not after `since`, or
            `max_runs` is not a number of runs.
    """
    first, end = as_instant(since, "since", InvalidValueError), as_instant(until, "until", InvalidValueError)
    if first >= end:
        raise InvalidValueError(f"until: must be after since (got {since} and {until})")
    if type(max_runs) is not int or not 1 <= max_runs <= MAX_RUNS:
        raise InvalidValueError(f"max_runs: a number from 1 to {MAX_RUNS:,} (got {quoted(max_runs)})")
