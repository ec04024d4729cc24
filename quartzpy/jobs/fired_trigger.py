"""A fire that the store has committed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal

from quartzpy.calendars.calendar import Calendar
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import UpcomingFireTimes


class _Unread(Enum):
    """The mark of a calendar that has not been read yet. None means that the trigger has no calendar."""

    UNREAD = 0


_UNREAD: Literal[_Unread.UNREAD] = _Unread.UNREAD


class FiredTrigger:
    """A fire that the store has committed, with everything that is needed to run the job and to complete it.

    `trigger`, `job_detail` and `calendar` are built on first access, because most executions never read them. The class
    has slots, because a node makes thousands of them in a second: each object less is one that the garbage collector
    does not visit.
    """

    __slots__ = (
        "_calendar",
        "_job_detail",
        "_job_key",
        "_load_calendar",
        "_load_job",
        "_load_trigger",
        "_trigger",
        "_trigger_key",
        "_upcoming",
        "attempt",
        "calendar_revision",
        "capture_logs",
        "coalesced_fire_times",
        "continues",
        "fire_id",
        "fire_time",
        "generation",
        "job_data",
        "job_group",
        "job_is_durable",
        "job_name",
        "job_type",
        "max_concurrent",
        "next_fire_time",
        "node_deaths",
        "pause_after_failures",
        "persists_data",
        "placement",
        "previous_fire_time",
        "retry",
        "scheduled_fire_time",
        "timeout",
        "times_triggered",
        "trigger_data",
        "trigger_group",
        "trigger_name",
    )

    def __init__(
        self,
        *,
        fire_id: int,
        trigger_group: str,
        trigger_name: str,
        job_group: str,
        job_name: str,
        job_type: str,
        generation: int,
        fire_time: datetime,
        scheduled_fire_time: datetime,
        previous_fire_time: datetime | None,
        next_fire_time: datetime | None,
        upcoming: UpcomingFireTimes | None,
        times_triggered: int,
        attempt: int,
        placement: str,
        coalesced_fire_times: tuple[datetime, ...],
        retry: str | None,
        timeout: timedelta | None,
        persists_data: bool,
        job_data: str | None,
        trigger_data: str | None,
        calendar_revision: int | None,
        load_trigger: Callable[[], Trigger],
        load_job: Callable[[], JobDetail],
        load_calendar: Callable[[], Calendar | None],
        node_deaths: int = 0,
        pause_after_failures: int | None = None,
        continues: bool = False,
        max_concurrent: int | None = None,
        capture_logs: str | None = None,
        job_is_durable: bool = False,
    ) -> None:
        self.fire_id = fire_id
        self.trigger_group = trigger_group
        self.trigger_name = trigger_name
        self.job_group = job_group
        self.job_name = job_name
        self.job_type = job_type
        self.generation = generation
        self.fire_time = fire_time
        self.scheduled_fire_time = scheduled_fire_time
        self.previous_fire_time = previous_fire_time
        self.next_fire_time = next_fire_time
        self.times_triggered = times_triggered
        self.attempt = attempt
        self.placement = placement
        self.coalesced_fire_times = coalesced_fire_times
        self.retry = retry
        self.timeout = timeout
        self.persists_data = persists_data
        self.job_data = job_data
        self.trigger_data = trigger_data
        self.calendar_revision = calendar_revision
        self.node_deaths = node_deaths
        self.pause_after_failures = pause_after_failures
        self.continues = continues
        self.max_concurrent = max_concurrent
        self.capture_logs = capture_logs
        self.job_is_durable = job_is_durable
        self._load_trigger = load_trigger
        self._load_job = load_job
        self._load_calendar = load_calendar
        self._nothing_is_built(upcoming)

    def _nothing_is_built(self, upcoming: UpcomingFireTimes | None = None) -> None:
        self._upcoming = upcoming
        self._trigger: Trigger | None = None
        self._job_detail: JobDetail | None = None
        self._calendar: Calendar | Literal[_Unread.UNREAD] | None = _UNREAD
        self._trigger_key: TriggerKey | None = None
        self._job_key: JobKey | None = None

    @property
    def upcoming(self) -> UpcomingFireTimes | None:
        """The fire times that are stored after `next_fire_time`; None while so many are left that none is needed."""
        if self._upcoming is None:
            self._upcoming = self._built_upcoming()
        return self._upcoming

    @property
    def last_known_fire_time(self) -> datetime | None:
        """The last of the next fire time and those after it, from which further ones are computed."""
        upcoming = self.upcoming
        return upcoming.instants[-1] if upcoming is not None and upcoming.instants else self.next_fire_time

    @property
    def trigger_key(self) -> TriggerKey:
        key = self._trigger_key
        if key is None:
            key = self._trigger_key = TriggerKey(self.trigger_name, self.trigger_group)
        return key

    @property
    def job_key(self) -> JobKey:
        key = self._job_key
        if key is None:
            key = self._job_key = JobKey(self.job_name, self.job_group)
        return key

    @property
    def trigger(self) -> Trigger:
        if self._trigger is None:
            self._trigger = self._built_trigger()
        return self._trigger

    @property
    def job_detail(self) -> JobDetail:
        if self._job_detail is None:
            self._job_detail = self._built_job()
        return self._job_detail

    @property
    def calendar(self) -> Calendar | None:
        """The trigger's calendar as it was at the fire."""
        if self._calendar is _UNREAD:
            self._calendar = self._built_calendar()
        return self._calendar

    def _built_upcoming(self) -> UpcomingFireTimes | None:
        return None

    def _built_trigger(self) -> Trigger:
        return self._load_trigger()

    def _built_job(self) -> JobDetail:
        return self._load_job()

    def _built_calendar(self) -> Calendar | None:
        return self._load_calendar()
