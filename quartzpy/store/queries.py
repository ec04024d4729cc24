"""The filters of the store's queries, and the positions at which a page of results ends.

A query has a fixed order, and the position of a record is its place in that order: a tuple that sorts as the records
do. The next page starts after the position of the last record. So the cost of a page does not depend on its position,
and rows that appear, vanish or change between two pages neither shift the others nor make one of them appear twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Self, TypeVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import (
    ENDED,
    ActionState,
    ExecutionState,
    JobMode,
    JoinState,
    MisfireAction,
    PublicState,
    TriggerState,
    Word,
    execution_states,
    trigger_states,
)
from quartzpy.store.filters import filtered
from quartzpy.store.records import (
    ActionRecord,
    ExecutionRecord,
    IncidentRecord,
    JobRecord,
    JoinRecord,
    MisfireRecord,
    TriggerRecord,
)

Position = tuple[Any, ...]
"""The place of a record in the order of its query: texts, whole numbers, instants and None."""

Shape = tuple[tuple[type, ...], ...]
"""The types that each value of a position may have, for the check of a cursor that comes from outside."""

_KEY: Shape = ((str,), (str,))
_Record = TypeVar("_Record")


class RecordQuery(Generic[_Record]):
    """A query, and the type of the records that it selects."""

    __slots__ = ()
    of: ClassVar[str]
    """What it selects: "jobs"."""

    @property
    def name(self) -> str:
        """The name of this query, which its cursors have in them."""
        return self.of

    @property
    def shape(self) -> Shape:
        """The shape of the positions of this query's records."""
        raise NotImplementedError

    def position(self, record: _Record) -> Position:
        """Return the position of a record in the order of this query."""
        raise NotImplementedError


_GROUPS = "billing or bill*"
_CONTAINS: dict[str, Any] = {
    "kind": str,
    "text": "A part of the name; upper and lower case differ",
    "label": "Name contains",
}
_JOB_TYPE: dict[str, Any] = {"kind": str, "text": "The type of the job, as it is registered", "option": "type"}
_JOB: dict[str, Any] = {"kind": JobKey, "text": "The job", "name": "job", "hint": "billing.nightly"}
_TRIGGER: dict[str, Any] = {"kind": TriggerKey, "text": "The trigger", "name": "trigger", "is_rare": True}
_TRIGGER_STATES = tuple(
    dict.fromkeys([*map(str, TriggerState), *(str(state) for state in PublicState if state is not PublicState.NONE)])
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedQuery(RecordQuery[_Record]):
    """A query of pages, which can bound the number of records that a page examines."""

    among: int | None = None
    """The number of records of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

    @property
    def walk(self) -> Self | None:
        """The records that a page examines in their order; None if it finds those that match without others."""
        walk = self if self.among is None else self._walk()
        return None if walk == self else replace(walk, among=None)

    def _walk(self) -> Self:
        """Return the query of those of which an index has the order."""
        return self


STOPPED = frozenset({TriggerState.ERROR, TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED})
HELD = frozenset({TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED, TriggerState.COMPLETE})
"""The states that a database finds by an index: each state of STOPPED in the order of keys, and those of HELD in no
order."""


class Rank(Word):
    """What a list of executions can be sorted by, the largest first."""

    DURATION = "duration"
    """From the start to the end; those that never started are left out."""
    WAIT = "wait"
    """From the scheduled instant to the fire."""


class TriggerOrder(Word):
    """The orders in which triggers can be listed."""

    KEY = "key"
    """By group, then by name. Each page is one walk along an index."""
    NEXT_FIRE_TIME = "next_fire_time"
    """The soonest first, then the highest priority; triggers without a next fire time come last.

    A trigger that fires between two pages moves back in this order, and may appear on both.
    """


@dataclass(frozen=True, slots=True)
class JobQuery(BoundedQuery[JobRecord]):
    """Selects the jobs that match all given filters. The order is by group, then by name."""

    of = "jobs"
    contains: str | None = filtered(**_CONTAINS)
    group: GroupMatcher | None = filtered(GroupMatcher, "The group", hint=_GROUPS)
    job_type: str | None = filtered(**_JOB_TYPE)
    mode: JobMode | None = filtered(JobMode, "The mode of the job")
    job_key: JobKey | None = None
    """The key of the only job."""
    most_triggers: int | None = None
    """The number up to which the triggers of each job are counted; None counts all of them."""

    def _walk(self) -> JobQuery:
        if self.job_key is not None:
            return self
        return JobQuery(group=_one_group(self.group), most_triggers=self.most_triggers, among=self.among)

    @property
    def shape(self) -> Shape:
        return _KEY

    def position(self, record: JobRecord) -> Position:
        return record.key.group, record.key.name


@dataclass(frozen=True, slots=True)
class TriggerQuery(BoundedQuery[TriggerRecord]):
    """Selects the triggers that match all given filters.

    `since` and `until` bound the next fire time: `since` is inclusive, `until` exclusive.
    """

    contains: str | None = filtered(**_CONTAINS)
    group: GroupMatcher | None = filtered(GroupMatcher, "The group", hint=_GROUPS)
    job_key: JobKey | None = filtered(**_JOB, is_rare=True)
    states: frozenset[TriggerState] | None = filtered(
        TriggerState,
        "The state",
        name="state",
        words=_TRIGGER_STATES,
        read_words=trigger_states,
    )
    calendar: str | None = filtered(str, "The calendar that they use", is_rare=True)
    job_type: str | None = filtered(**_JOB_TYPE)
    kind: str | None = filtered(str, "The kind of schedule: simple, cron, ...", is_rare=True)
    since: datetime | None = filtered(datetime, "The earliest next fire time", is_ahead=True, is_rare=True)
    until: datetime | None = filtered(datetime, "The next fire time is before this", is_ahead=True, is_rare=True)
    by_schedule: bool = filtered(bool, "Only triggers that repeat by a schedule", instead=False, is_rare=True)
    """Neither triggers that fire once, nor those of runs by hand, of retries, of recoveries and of continuations."""
    order: TriggerOrder = filtered(
        TriggerOrder,
        "The order; key reads only the triggers of the page, next_fire_time all that match",
        name="order_by",
        option="order",
        instead=TriggerOrder.KEY,
        default="key",
        is_order=True,
    )

    @property
    def few(self) -> TriggerQuery | None:
        """The triggers that an index finds, but in no order: those of one job, of one calendar, or of states of HELD.

        If they are at most `among`, a page examines all of them and no others. Otherwise it examines those of `walk`.
        None if no such index serves.
        """
        if self.job_key is not None:
            return TriggerQuery(job_key=self.job_key)
        if self.calendar is not None:
            return TriggerQuery(calendar=self.calendar)
        if self.order is TriggerOrder.KEY and self.states is not None and self.states <= HELD and not self._is_stopped:
            return TriggerQuery(states=HELD)
        return None

    def _walk(self) -> TriggerQuery:
        if self.order is TriggerOrder.KEY:
            states = self.states if self._is_stopped else None
            return TriggerQuery(group=_one_group(self.group), states=states, among=self.among)
        of_order = {name: getattr(self, name) for name in ("states", "since", "until", "order", "among")}
        return TriggerQuery(**of_order)

    @property
    def _is_stopped(self) -> bool:
        return self.states is not None and self.states <= STOPPED

    @property
    def name(self) -> str:
        return f"triggers by {self.order}"

    @property
    def shape(self) -> Shape:
        return _KEY if self.order is TriggerOrder.KEY else ((datetime, type(None)), (int,), *_KEY)

    def position(self, record: TriggerRecord) -> Position:
        of_key = record.key.group, record.key.name
        if self.order is TriggerOrder.KEY:
            return of_key
        return record.next_fire_time, -record.priority, *of_key


@dataclass(frozen=True, slots=True)
class ExecutionQuery(BoundedQuery[ExecutionRecord]):
    """Selects the executions that match all given filters.

    `since` and `until` bound the scheduled fire time: `since` is inclusive, `until` exclusive. The latest comes first:
    by end, else by fire, else by scheduled fire time. Executions that are SCHEDULED come after all others, the
    soonest first. Of the executions of a trigger a page examines as many as it needs, whatever `among` is.
    """

    of = "executions"
    states: frozenset[ExecutionState] = filtered(
        ExecutionState,
        "The state",
        name="state",
        read_words=execution_states,
        instead=ENDED,
        default="all that have ended",
    )
    job_key: JobKey | None = filtered(**_JOB)
    trigger_key: TriggerKey | None = filtered(**_TRIGGER)
    job_group: GroupMatcher | None = filtered(
        GroupMatcher, "The group of the job", name="group", label="Job group", hint=_GROUPS
    )
    job_type: str | None = filtered(**_JOB_TYPE)
    instance_id: str | None = filtered(str, "The node that executed it", name="node")
    error: str | None = filtered(str, "A part of the error; upper and lower case differ", hint="a part of its text")
    since: datetime | None = filtered(datetime, "The earliest scheduled fire time")
    until: datetime | None = filtered(datetime, "The scheduled fire time is before this")
    exhausted: bool = filtered(bool, "Only those that failed and that no retry follows", instead=False, is_rare=True)

    def __post_init__(self) -> None:
        if self.exhausted:
            object.__setattr__(self, "states", self.states & {ExecutionState.FAILED})

    @property
    def shape(self) -> Shape:
        return (bool,), (datetime,), (int,), *_KEY

    def position(self, record: ExecutionRecord) -> Position:
        instant = record.ended_at or record.fire_time or record.scheduled_fire_time
        key = record.trigger_key
        return record.state is ExecutionState.SCHEDULED, instant, record.fire_id or 0, key.group, key.name


HISTORY = ExecutionQuery()
"""Selects all executions that have ended."""


MISFIRE_MARGIN = timedelta(minutes=1)
"""A misfire was handled after the missed fire time, if the clocks of two servers differ by no more than this."""


@dataclass(frozen=True, slots=True)
class MisfireQuery(BoundedQuery[MisfireRecord]):
    """Selects the misfires that match all given filters. The order is the latest first.

    `since` and `until` bound the scheduled fire time that was missed: `since` is inclusive, `until` exclusive.
    """

    of = "misfires"
    trigger_key: TriggerKey | None = filtered(**_TRIGGER)
    job_key: JobKey | None = filtered(**_JOB, is_rare=True)
    action: MisfireAction | None = filtered(MisfireAction, "The result of the misfire instruction", label="Result")
    instance_id: str | None = filtered(str, "The node that handled it", name="node")
    since: datetime | None = filtered(datetime, "The earliest scheduled fire time that was missed")
    until: datetime | None = filtered(datetime, "The missed fire time is before this")

    def _walk(self) -> MisfireQuery:
        return MisfireQuery(trigger_key=self.trigger_key, among=self.among)

    @property
    def shape(self) -> Shape:
        return ((int,),)

    def position(self, record: MisfireRecord) -> Position:
        return (record.misfire_id,)


@dataclass(frozen=True, slots=True)
class JoinQuery(RecordQuery[JoinRecord]):
    """Selects the joins and batches that match all given filters. The order is the latest first."""

    of = "joins"
    job_key: JobKey | None = filtered(JobKey, "The job that runs when enough has ended", name="job")
    state: JoinState | None = filtered(JoinState, "The state")
    occasion: str | None = None
    """The scheduled instant or the day, or the name of the batch."""

    @property
    def shape(self) -> Shape:
        return ((datetime,), *_KEY, (str,))

    def position(self, record: JoinRecord) -> Position:
        return (record.opened_at, record.job_key.group, record.job_key.name, record.occasion)


@dataclass(frozen=True, slots=True)
class ActionQuery(BoundedQuery[ActionRecord]):
    """Selects the actions of the audit log that match all given filters. The order is the latest first.

    `since` and `until` bound the instant at which they began: `since` is inclusive, `until` exclusive.
    """

    of = "audit log"
    actor: str | None = filtered(str, "The name of the actor", label="Who")
    action: str | None = filtered(str, "The name of the action: pause, delete, ...", hint="pause")
    subject: str | None = filtered(
        str, 'The whole subject: "trigger GROUP.NAME", "job GROUP.NAME", "node NAME", ...', is_rare=True
    )
    state: ActionState | None = filtered(ActionState, "The state of the action", label="Result")
    since: datetime | None = filtered(datetime, "The earliest begin")
    until: datetime | None = filtered(datetime, "They began before this")

    def _walk(self) -> ActionQuery:
        state = None if self.state is ActionState.SUCCEEDED else self.state
        return ActionQuery(subject=self.subject, state=state, since=self.since, until=self.until, among=self.among)

    @property
    def shape(self) -> Shape:
        return ((int,),)

    def position(self, record: ActionRecord) -> Position:
        return (record.action_id,)


@dataclass(frozen=True, slots=True)
class IncidentQuery(BoundedQuery[IncidentRecord]):
    """Selects the incidents that are over and match all given filters. The order is that of their ends, latest first.

    Those are selected that lasted at some instant from `since` until before `until`.
    """

    of = "incidents"
    contains: str | None = filtered(
        str,
        "A part of the subject or of the latest sentence; the case of ASCII letters is ignored",
        label="Text",
        hint="a part of the sentence",
    )
    kind: str | None = filtered(str, "The kind: dead-node, trigger-error, ...", hint="dead-node")
    since: datetime | None = filtered(
        datetime,
        "They ended at this instant or later",
        label="Ended within",
        spans=(("", "Last day"), ("1h", "Last hour"), ("7d", "Last week"), ("3660d", "Any time")),
    )
    until: datetime | None = filtered(datetime, "They began before this")

    def _walk(self) -> IncidentQuery:
        return IncidentQuery(since=self.since, among=self.among)

    @property
    def shape(self) -> Shape:
        return (datetime,), (int,)

    def position(self, record: IncidentRecord) -> Position:
        assert record.closed_at is not None, "only those that are over are selected"
        return record.closed_at, record.incident_id


_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def folded(text: str) -> str:
    """Return the text as a search compares it: with its ASCII letters in lower case."""
    return text.translate(_LOWER)


def _one_group(matcher: GroupMatcher | None) -> GroupMatcher | None:
    """Return a matcher of one group, whose keys follow each other; None for one that may match several."""
    return matcher if matcher is not None and matcher.operator is MatchOperator.EQUALS else None


AnyQuery = JobQuery | TriggerQuery | ExecutionQuery | MisfireQuery | ActionQuery | IncidentQuery | JoinQuery
"""All queries."""
