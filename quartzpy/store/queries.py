"""The filters of the store's queries, and the positions at which a page of results ends.

A query has a fixed order, and the position of a record is its place in that order: a tuple that sorts as the records
do. The next page starts after the position of the last record. So the cost of a page does not depend on its position,
and rows that appear, vanish or change between two pages neither shift the others nor make one of them appear twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import ENDED, ActionState, ExecutionState, JobMode, JoinState, MisfireAction, TriggerState, Word
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

    @property
    def shape(self) -> Shape:
        """The shape of the positions of this query's records."""
        raise NotImplementedError

    def position(self, record: _Record) -> Position:
        """Return the position of a record in the order of this query."""
        raise NotImplementedError


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
class JobQuery(RecordQuery[JobRecord]):
    """Selects the jobs that match all given filters. The order is by group, then by name."""

    group: GroupMatcher | None = None
    contains: str | None = None
    """A part of the name; upper and lower case differ."""
    job_type: str | None = None
    mode: JobMode | None = None
    job_key: JobKey | None = None
    """The key of the only job."""
    most_triggers: int | None = None
    """The number up to which the triggers of each job are counted; None counts all of them."""
    among: int | None = None
    """The number of jobs of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

    @property
    def walk(self) -> JobQuery | None:
        """The jobs that a page examines in their order; None if it finds those that match without others."""
        if self.among is None or self.job_key is not None:
            return None
        walk = JobQuery(group=_one_group(self.group), most_triggers=self.most_triggers, among=self.among)
        return None if walk == self else replace(walk, among=None)

    @property
    def shape(self) -> Shape:
        return _KEY

    def position(self, record: JobRecord) -> Position:
        return record.key.group, record.key.name


@dataclass(frozen=True, slots=True)
class TriggerQuery(RecordQuery[TriggerRecord]):
    """Selects the triggers that match all given filters.

    `since` and `until` bound the next fire time: `since` is inclusive, `until` exclusive.
    """

    job_key: JobKey | None = None
    group: GroupMatcher | None = None
    contains: str | None = None
    """A part of the name; upper and lower case differ."""
    states: frozenset[TriggerState] | None = None
    calendar: str | None = None
    job_type: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    by_schedule: bool = False
    """Only triggers that fire by a schedule, and not those that fire once, or those of runs by hand, of retries, of
    recoveries and of continuations."""
    order: TriggerOrder = TriggerOrder.KEY
    among: int | None = None
    """The number of triggers of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

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

    @property
    def walk(self) -> TriggerQuery | None:
        """The triggers that a page examines in their order; None if it finds those that match without others."""
        if self.among is None:
            return None
        if self.order is TriggerOrder.NEXT_FIRE_TIME:
            walk = replace(
                self,
                job_key=None,
                calendar=None,
                group=None,
                contains=None,
                job_type=None,
                kind=None,
                by_schedule=False,
            )
        else:
            states = self.states if self._is_stopped else None
            walk = TriggerQuery(group=_one_group(self.group), states=states, among=self.among)
        return None if walk == self else replace(walk, among=None)

    @property
    def _is_stopped(self) -> bool:
        return self.states is not None and self.states <= STOPPED

    @property
    def shape(self) -> Shape:
        return _KEY if self.order is TriggerOrder.KEY else ((datetime, type(None)), (int,), *_KEY)

    def position(self, record: TriggerRecord) -> Position:
        of_key = record.key.group, record.key.name
        if self.order is TriggerOrder.KEY:
            return of_key
        return record.next_fire_time, -record.priority, *of_key


@dataclass(frozen=True, slots=True)
class ExecutionQuery(RecordQuery[ExecutionRecord]):
    """Selects the executions that match all given filters.

    `since` and `until` bound the scheduled fire time: `since` is inclusive, `until` exclusive. The latest comes first:
    by end, else by fire, else by scheduled fire time. Executions that are SCHEDULED come after all others, the
    soonest first.
    """

    states: frozenset[ExecutionState] = ENDED
    job_key: JobKey | None = None
    trigger_key: TriggerKey | None = None
    job_group: GroupMatcher | None = None
    job_type: str | None = None
    instance_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    exhausted: bool = False
    """Only executions that FAILED and are not retried."""
    error: str | None = None
    """Only executions whose error has this text."""
    among: int | None = None
    """The number of ended executions that are examined at most; a page then has those among them that match. None
    examines as many as the page needs. It has no effect on the executions of a trigger."""

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
class MisfireQuery(RecordQuery[MisfireRecord]):
    """Selects the misfires that match all given filters. The order is the latest first.

    `since` and `until` bound the scheduled fire time that was missed: `since` is inclusive, `until` exclusive.
    """

    trigger_key: TriggerKey | None = None
    job_key: JobKey | None = None
    action: MisfireAction | None = None
    instance_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    among: int | None = None
    """The number of misfires of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

    @property
    def walk(self) -> MisfireQuery | None:
        """The misfires that a page examines in their order; None if it finds those that match without others."""
        if self.among is None:
            return None
        walk = MisfireQuery(trigger_key=self.trigger_key, among=self.among)
        return None if walk == self else replace(walk, among=None)

    @property
    def shape(self) -> Shape:
        return ((int,),)

    def position(self, record: MisfireRecord) -> Position:
        return (record.misfire_id,)


@dataclass(frozen=True, slots=True)
class JoinQuery(RecordQuery[JoinRecord]):
    """Selects the joins and batches that match all given filters. The order is the latest first."""

    job_key: JobKey | None = None
    """The job that runs when enough has ended."""
    state: JoinState | None = None
    occasion: str | None = None
    """The scheduled instant or the day, or the name of the batch."""

    @property
    def shape(self) -> Shape:
        return ((datetime,), *_KEY, (str,))

    def position(self, record: JoinRecord) -> Position:
        return (record.opened_at, record.job_key.group, record.job_key.name, record.occasion)


@dataclass(frozen=True, slots=True)
class ActionQuery(RecordQuery[ActionRecord]):
    """Selects the actions of the audit log that match all given filters. The order is the latest first.

    `since` and `until` bound the instant at which they began: `since` is inclusive, `until` exclusive.
    """

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    """The whole subject, as in the record."""
    state: ActionState | None = None
    since: datetime | None = None
    until: datetime | None = None
    among: int | None = None
    """The number of actions of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

    @property
    def walk(self) -> ActionQuery | None:
        """The actions that a page examines in their order; None if it finds those that match without others."""
        if self.among is None:
            return None
        state = None if self.state is ActionState.SUCCEEDED else self.state
        walk = ActionQuery(subject=self.subject, state=state, since=self.since, until=self.until, among=self.among)
        return None if walk == self else replace(walk, among=None)

    @property
    def shape(self) -> Shape:
        return ((int,),)

    def position(self, record: ActionRecord) -> Position:
        return (record.action_id,)


@dataclass(frozen=True, slots=True)
class IncidentQuery(RecordQuery[IncidentRecord]):
    """Selects the incidents that are over and match all given filters. The order is that of their ends, latest first.

    Those are selected that lasted at some instant from `since` until before `until`.
    """

    kind: str | None = None
    contains: str | None = None
    """A part of the subject or of the latest sentence; the case of ASCII letters is ignored."""
    since: datetime | None = None
    until: datetime | None = None
    among: int | None = None
    """The number of incidents of `walk` that are examined at most; a page then has those among them that match. None
    examines as many as the page needs."""

    @property
    def walk(self) -> IncidentQuery | None:
        """The incidents that a page examines in their order; None if it finds those that match without others."""
        if self.among is None:
            return None
        walk = IncidentQuery(since=self.since, among=self.among)
        return None if walk == self else replace(walk, among=None)

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


BoundedQuery = JobQuery | TriggerQuery | ExecutionQuery | MisfireQuery | ActionQuery | IncidentQuery
"""The queries of pages. The field `among` of each bounds the number of records that a page examines."""

AnyQuery = BoundedQuery | JoinQuery
"""All queries."""
