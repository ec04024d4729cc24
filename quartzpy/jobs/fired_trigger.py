"""A fire that the store has committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from quartzpy.calendars.calendar import Calendar
from quartzpy.job_data import BATCH
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.jobs.stored_options import stored_option
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import UpcomingFireTimes


class Gate(NamedTuple):
    """The limits that hold for a trigger: that of its job, for a value of its concurrency key, and those it shares.

    A gate is opened as a whole: a step looks for what is parked at the job's own limit, and at any set of shared ones
    that has a name of `limits`.
    """

    job_group: str
    job_name: str
    concurrency_key: str
    """With the two before: the limit of the job's own; all three are empty where it has none."""
    limits: str = ""
    """The names of the limits that the job shares with others, as the text of the set; empty where it shares none."""


class FireFacts(NamedTuple):
    """What a store tells of a fire: the one list of these facts. The SQL selects them in this order."""

    fire_id: int
    fire_time: datetime
    trigger_group: str
    trigger_name: str
    job_group: str
    job_name: str
    job_type: str
    generation: int
    scheduled_fire_time: datetime
    previous_fire_time: datetime | None
    next_fire_time: datetime | None
    times_triggered: int
    attempt: int
    placement: str
    definition: str | None
    """The options of its job that no statement reads."""
    persists_data: bool
    job_data: str | None
    trigger_data: str | None
    calendar_revision: int | None
    upcoming_instants: Sequence[datetime] | None = None
    """The fire times that are stored after the next one; None while so many are left that none is needed."""
    upcoming_is_complete: bool = False
    coalesced: Sequence[datetime] | None = None
    node_deaths: int = 0
    pause_after_failures: int | None = None
    continuations: str | None = None
    max_concurrent: int | None = None
    job_is_durable: bool = False
    limits: str | None = None
    """The names of the limits that its job shares with others."""
    is_joined: bool = False
    gate_key: str | None = None
    """The value of the concurrency key, if others may wait for the end of this execution."""


_T = TypeVar("_T")


class _BuiltOnce(Generic[_T]):
    """An attribute that is built on first access. Unlike `functools.cached_property`, it takes no lock."""

    def __init__(self, build: Callable[[Any], _T]) -> None:
        self._build = build
        self._name = build.__name__
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, fired: None, owner: type) -> Self: ...
    @overload
    def __get__(self, fired: object, owner: type) -> _T: ...
    def __get__(self, fired: object | None, owner: type) -> Any:
        if fired is None:
            return self
        value = fired.__dict__[self._name] = self._build(fired)
        return value


class FiredTrigger(FireFacts):
    """A fire that the store has committed, with everything that is needed to run the job and to complete it.

    The keys, `trigger`, `job_detail` and `calendar` are built on first access, because most executions never read them.
    A fire is the tuple of its facts, and not an object beside it, because a node makes thousands of them in a second:
    each object less is one that the garbage collector does not visit.
    """

    # A fire is itself, and no value: two stores may tell the same facts, some of which have no hash.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        # The facts include the data of the job, which is none of a log's business.
        return f"<{type(self).__name__} {self.fire_id} of {self.trigger_key}>"

    @property
    def coalesced_fire_times(self) -> tuple[datetime, ...]:
        """The fire times that this fire stands for, if they are several."""
        return tuple(self.coalesced) if self.coalesced else ()

    @property
    def retry(self) -> RetryPolicy | None:
        policy: RetryPolicy | None = stored_option(self.definition, "retry")
        return policy

    @property
    def timeout(self) -> timedelta | None:
        timeout: timedelta | None = stored_option(self.definition, "timeout")
        return timeout

    @property
    def capture_logs(self) -> str | None:
        level: str | None = stored_option(self.definition, "capture_logs")
        return level

    @property
    def continues(self) -> bool:
        """True if other jobs run after this one."""
        return self.continuations is not None

    @property
    def joins(self) -> bool:
        """True if a job may wait for this end and for others."""
        data = self.trigger_data
        # The text is searched and not parsed: a word that a user has written there costs a look, and means nothing.
        return self.is_joined or (data is not None and BATCH in data)

    @property
    def gate(self) -> Gate | None:
        """The gate at which the end of this execution leaves places; None if nobody waits for that."""
        if self.gate_key is None:
            return Gate("", "", "", self.limits) if self.limits else None
        return Gate(self.job_group, self.job_name, self.gate_key, self.limits or "")

    @property
    def upcoming(self) -> UpcomingFireTimes | None:
        """The fire times that are stored after `next_fire_time`; None while so many are left that none is needed."""
        instants = self.upcoming_instants
        return None if instants is None else UpcomingFireTimes(tuple(instants), self.upcoming_is_complete)

    @property
    def last_known_fire_time(self) -> datetime | None:
        """The last of the next fire time and those after it, from which further ones are computed."""
        instants = self.upcoming_instants
        return instants[-1] if instants else self.next_fire_time

    @_BuiltOnce
    def trigger_key(self) -> TriggerKey:
        return TriggerKey(self.trigger_name, self.trigger_group)

    @_BuiltOnce
    def job_key(self) -> JobKey:
        return JobKey(self.job_name, self.job_group)

    @_BuiltOnce
    def trigger(self) -> Trigger:
        return self._built_trigger()

    @_BuiltOnce
    def job_detail(self) -> JobDetail:
        return self._built_job()

    @_BuiltOnce
    def calendar(self) -> Calendar | None:
        """The trigger's calendar as it was at the fire."""
        return self._built_calendar()

    def _built_trigger(self) -> Trigger:
        raise NotImplementedError

    def _built_job(self) -> JobDetail:
        raise NotImplementedError

    def _built_calendar(self) -> Calendar | None:
        raise NotImplementedError


class LoadedFire(FiredTrigger):
    """A fire whose trigger, job and calendar are built by functions."""

    _load_trigger: Callable[[], Trigger]
    _load_job: Callable[[], JobDetail]
    _load_calendar: Callable[[], Calendar | None]

    @classmethod
    def of(
        cls,
        facts: FireFacts,
        *,
        load_trigger: Callable[[], Trigger],
        load_job: Callable[[], JobDetail],
        load_calendar: Callable[[], Calendar | None],
    ) -> Self:
        fired = cls._make(facts)
        fired._load_trigger, fired._load_job, fired._load_calendar = load_trigger, load_job, load_calendar
        return fired

    def _built_trigger(self) -> Trigger:
        return self._load_trigger()

    def _built_job(self) -> JobDetail:
        return self._load_job()

    def _built_calendar(self) -> Calendar | None:
        return self._load_calendar()
