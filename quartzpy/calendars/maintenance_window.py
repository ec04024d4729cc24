"""Maintenance windows: spans, once or recurrent, in which the triggers of a group or all triggers do not fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from quartzpy.checks import Check, check_values, checking, optional, refuses
from quartzpy.cron_expressions.crontab import CrontabExpression, crontab_expression, is_crontab
from quartzpy.cron_expressions.expression import CronExpression, checked_text, cron_expression
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.errors import InvalidValueError
from quartzpy.instants import Converted, Span, as_instant, as_span, checked_zone, zone
from quartzpy.keys import check_name
from quartzpy.states import Missed, missed_of
from quartzpy.texts import check_description, quoted

_MICROSECOND = timedelta(microseconds=1)
LONGEST = timedelta(days=366)
WINDOW_LEAD = timedelta(minutes=1)
"""How long before a window the triggers that are not due before it are paused, so that none fires as it begins."""
_SHORT_LEAD = timedelta(seconds=5)


@dataclass(frozen=True)
class MaintenanceWindow:
    """A time in which triggers do not fire: recurrent, or one span.

        MaintenanceWindow("database", cron="0 2 * * SUN", duration="4h", time_zone="Europe/Berlin", job_group="billing")
        MaintenanceWindow("move", start=datetime(2026, 12, 5, 18, tzinfo=UTC), end=datetime(2026, 12, 6, 6, tzinfo=UTC))

    `cron` is a crontab line such as `@weekly`, or a Quartz expression, and says when the window begins, by the clock of
    `time_zone`. The window ends when that clock has moved by `duration`: "2:00 for 4 h" ends at 6:00, also on a day on
    which the clock is changed in between, so that it is an hour shorter or longer then. A beginning that the clock
    leaves out comes when the clock is changed; one that comes twice is the first, and a window from 2:00 to 3:00 lasts
    for both hours.

    `trigger_group` or `job_group` names what is paused meanwhile; without either, everything is, as by `pause_all`.
    Executions that run when a window begins go on. `missed` says what becomes of the fires that came due in it, as for
    `resume_trigger`. `reason` is a sentence for those who look.

    Raises:
        InvalidValueError: the values do not fit together, or one is wrong.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "name": lambda name: check_name(name, "window"),
        "trigger_group": optional(partial(check_name, subject="trigger_group")),
        "job_group": optional(partial(check_name, subject="job_group")),
        "reason": checking(check_description, InvalidValueError, "reason"),
        "missed": missed_of,
        "time_zone": checked_zone,
        "duration": optional(partial(as_span, subject="duration", above_zero=True, longest=LONGEST)),
        "start": optional(partial(as_instant, subject="start", error=InvalidValueError)),
        "end": optional(partial(as_instant, subject="end", error=InvalidValueError)),
    }

    name: str
    _: KW_ONLY
    cron: str | None = None
    duration: Converted[Span | None, timedelta | None] = Converted(None)
    time_zone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    trigger_group: str | None = None
    job_group: str | None = None
    missed: str = Missed.MISFIRE
    reason: str | None = None

    def __post_init__(self) -> None:
        check_values(self)

    @refuses("", "cron", "duration", "start")
    def _check_forms(self) -> None:
        is_recurrent = self.cron is not None
        if is_recurrent != (self.duration is not None) or is_recurrent == (self.start is not None):
            raise InvalidValueError(
                f"window {quoted(self.name)}: needs either cron and duration ('0 2 * * SUN', '4h'), or start and end"
            )

    @refuses("", "start", "end")
    def _check_bounds(self) -> None:
        if (self.start is None) != (self.end is None):
            raise InvalidValueError(f"window {quoted(self.name)}: start and end belong together")

    @refuses("", "trigger_group", "job_group")
    def _check_groups(self) -> None:
        if self.trigger_group is not None and self.job_group is not None:
            raise InvalidValueError(f"window {quoted(self.name)}: names a group of triggers or one of jobs, not both")

    @refuses("cron")
    def _check_cron(self) -> None:
        if self.cron is not None:
            self.expression()

    @refuses("end", "start")
    def _check_order(self) -> None:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise InvalidValueError(f"end: must be after start (got {self.start} and {self.end})")

    def expression(self) -> CronExpression | CrontabExpression:
        """Return the cron expression of a recurrent window."""
        text = checked_text(self.cron)
        return (crontab_expression if is_crontab(text) else cron_expression)(text, self.time_zone, DaylightSaving.ONCE)

    def next_span(self, after: datetime) -> tuple[datetime, datetime] | None:
        """Return the beginning and the end of the first time that ends after an instant; None if there is none."""
        if self.cron is None:
            assert self.start is not None
            assert self.end is not None
            return (self.start, self.end) if self.end > after else None
        expression = self.expression()
        before = expression.previous_before(after + _MICROSECOND)
        if before is not None and (end := self._end_of(before)) > after:
            return before, end
        start = expression.next_after(after)
        return None if start is None else (start, self._end_of(start))

    def _end_of(self, start: datetime) -> datetime:
        """Return the first instant after `start` at which the clock has moved by the duration."""
        assert self.duration is not None
        there = zone(self.time_zone)
        clock = start.astimezone(there).replace(tzinfo=None) + self.duration
        ends = (clock.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (0, 1))
        # A clock that is set back within the window may show its end before it began.
        return next((end for end in ends if end > start), start.astimezone(UTC) + self.duration)

    def as_json(self) -> dict[str, Any]:
        """Return the schedule, the treatment of missed fires and the reason, as a store keeps them."""
        values = {
            "cron": self.cron,
            "duration_us": None if self.duration is None else self.duration // _MICROSECOND,
            "time_zone": self.time_zone,
            "start": None if self.start is None else self.start.isoformat(),
            "end": None if self.end is None else self.end.isoformat(),
            "missed": str(self.missed),
            "reason": self.reason,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(
        cls, name: str, values: Mapping[str, Any], *, trigger_group: str | None, job_group: str | None
    ) -> MaintenanceWindow:
        """Return the window that `as_json` has described."""
        instants = {end: datetime.fromisoformat(values[end]) for end in ("start", "end") if end in values}
        duration = values.get("duration_us")
        return cls(
            name,
            cron=values.get("cron"),
            duration=None if duration is None else duration * _MICROSECOND,
            time_zone=values["time_zone"],
            trigger_group=trigger_group,
            job_group=job_group,
            missed=values["missed"],
            reason=values.get("reason"),
            **instants,
        )

    @property
    def subject(self) -> str:
        """What is paused meanwhile, in words."""
        if self.trigger_group is not None:
            return f"trigger group {self.trigger_group}"
        return "everything" if self.job_group is None else f"job group {self.job_group}"

    @property
    def note(self) -> str:
        """The reason that a pause by this window has."""
        return f"maintenance window {self.name}{f': {self.reason}' if self.reason else ''}"


def window_due_at(starts_at: datetime, now: datetime) -> datetime:
    """Return the next instant at which a node has to pause triggers for a window that begins at `starts_at`."""
    return next((at for at in (starts_at - WINDOW_LEAD, starts_at - _SHORT_LEAD) if at > now), starts_at)
