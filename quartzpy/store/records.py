"""What operators see of a store: its rows as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from quartzpy.job import JobDetail
from quartzpy.job_data import decode, decode_value
from quartzpy.keys import RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.placement import Capabilities
from quartzpy.states import ENDED, ExecutionState, MisfireAction, Outcome, TriggerState
from quartzpy.triggers.trigger import Trigger, TriggerProgress


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A row of `scheduler_state`."""

    instance_id: str
    epoch: int
    host: str
    pid: int
    started_at: datetime
    last_checkin: datetime
    checkin_count: int
    checkin_interval: timedelta
    failure_window: timedelta
    """The silence after which it may be declared dead: its own setting."""
    process: str = ""
    """Which process it is; see `quartzpy.process_identity`."""
    capabilities: Capabilities = field(default_factory=Capabilities, compare=False)


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is paused for triggers that come later, too."""

    everything: bool
    trigger_groups: frozenset[str]
    job_groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Owned:
    """The jobs and triggers that an owner declared, and the version of the program that did so last."""

    jobs: frozenset[JobKey]
    triggers: frozenset[TriggerKey]
    version: str | None = None


@dataclass(frozen=True)
class TriggerRecord:
    """A stored trigger as operators see it.

    `trigger` is built when it is first asked for: a row that cannot be read is shown with the others.
    """

    key: TriggerKey
    job_key: JobKey
    load_trigger: Callable[[], Trigger] = field(compare=False, repr=False)
    job_type: str
    state: TriggerState
    progress: TriggerProgress
    generation: int
    upcoming: Sequence[datetime] = ()
    error: str | None = None
    catch_up_until: datetime | None = None
    """It makes up for missed fires up to then, and does not misfire meanwhile."""
    schedule_hash: int | None = field(default=None, repr=False)
    """Identifies the schedule as it was declared; see `quartzpy.triggers.schedule_hash`."""

    @cached_property
    def trigger(self) -> Trigger:
        """The trigger itself.

        Raises:
            Exception: the row holds what no trigger of this release can be.
        """
        return self.load_trigger()


@dataclass(frozen=True)
class JobRecord:
    """A stored job as operators see it; `job` is built when it is first asked for."""

    key: JobKey
    job_type: str
    load_job: Callable[[], JobDetail] = field(compare=False, repr=False)
    triggers: int

    @cached_property
    def job(self) -> JobDetail:
        """The job itself.

        Raises:
            Exception: the row holds what no job of this release can be.
        """
        return self.load_job()


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """A row of `fired_triggers` as operators see it."""

    fire_id: int
    trigger_key: TriggerKey
    job_key: JobKey
    instance_id: str
    epoch: int
    state: str
    scheduled_fire_time: datetime
    fire_time: datetime
    attempt: int
    cancel_requested: bool

    @property
    def recovering(self) -> bool:
        """Whether this repeats an execution whose node died."""
        return self.trigger_key.group == RECOVERING_JOBS


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution, from before its fire to the history. What is not known yet is None.

    `started_at` is recorded at its end, and never for one that did not begin, or whose node died. The data
    that the trigger brought and the job's result are kept as JSON text: `trigger_data` and `result` read it.
    """

    state: ExecutionState
    fire_id: int | None
    trigger_key: TriggerKey
    job_key: JobKey
    job_type: str
    instance_id: str | None
    scheduled_fire_time: datetime
    fire_time: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    error: str | None
    trigger_data_text: str | None = None
    result_text: str | None = None

    @property
    def trigger_data(self) -> Mapping[str, Any]:
        """The data that the trigger brought. Raises InvalidJobDataError: it cannot be read in this process."""
        return decode(self.trigger_data_text)

    @property
    def result(self) -> Any:
        """What the job returned; None also where that cannot be stored. Raises as `trigger_data`."""
        return None if self.result_text is None else decode_value(self.result_text)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None: it has not."""
        return Outcome(self.state) if self.state in ENDED else None

    @property
    def recovering(self) -> bool:
        """Whether this repeats an execution whose node died."""
        return self.trigger_key.group == RECOVERING_JOBS


@dataclass(frozen=True, slots=True)
class ExecutionQuery:
    """Which executions are looked for: all that is named holds. Scheduled from `since` on, and before `until`."""

    states: frozenset[ExecutionState] = ENDED
    job_key: JobKey | None = None
    trigger_key: TriggerKey | None = None
    since: datetime | None = None
    until: datetime | None = None


HISTORY = ExecutionQuery()
"""All that ended."""


@dataclass(frozen=True, slots=True)
class MisfireRecord:
    """A row of `misfires`: a misfire that was handled.

    `scheduled_fire_time` is the fire that was found late. `missed` are the instants that got no run of their own, the
    first 1,000 of them; `has_more`: others come after these. `made_up`: so many follow that run late, each by itself.
    `next_fire_time`: where the trigger went; None: it fires no more.
    """

    trigger_key: TriggerKey
    job_key: JobKey
    instance_id: str
    handled_at: datetime
    misfire: str
    action: MisfireAction
    scheduled_fire_time: datetime
    missed: tuple[datetime, ...]
    has_more: bool
    made_up: int
    next_fire_time: datetime | None
