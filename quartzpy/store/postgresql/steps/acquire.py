"""The acquire step. Lock: TRIGGER_ACCESS. Fires triggers that are due, or soon will be.

There are three statements, and each has a shorter form for nodes with one executor and no groups. `ACQUIRE_UNLIMITED`
takes triggers of jobs without a limit, as nothing has to be decided about them; `ACQUIRE` takes those of jobs with
slots of their own as well, and `ACQUIRE_SHARED` those with rates and shared limits, too. Each leaves the others where
they are, and `NEXT_DUE`, which follows in the same round trip, tells that they are due. So a wrong expectation costs a
second round trip, and never a fire.

A node that expects nothing, or that others were faster, reads first, without the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.next_due import ANY_TIME, Backlog, NextDueRead
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import CLAIMED, by_outcome, without_unparked
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.bad_rows import set_aside_waiting
from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Gate, Node

BACKLOG = 50
"""The size of a full batch after which the next step expects to find more."""
# The positions of these columns in a row of `ACQUIRE`.
_AT, _SCHEDULED_TIME, _NEXT_FIRE_TIME, _DECISION = map(
    CLAIMED.index, ("fire_time", "scheduled_fire_time", "next_fire_time", "decision")
)

_SQL = SqlFile("steps/acquire.sql")
ACQUIRE = _SQL("acquire", several_pools=True)
ACQUIRE_SHARED = _SQL("acquire", several_pools=True, shared=True)
ACQUIRE_UNLIMITED = _SQL("acquire_unlimited", several_pools=True)
# Most nodes have one executor and no groups.
ACQUIRE_OF_ONE_POOL = _SQL("acquire")
ACQUIRE_SHARED_OF_ONE_POOL = _SQL("acquire", shared=True)
ACQUIRE_UNLIMITED_OF_ONE_POOL = _SQL("acquire_unlimited")
NEXT_DUE = _SQL("next_due")
WHOLE_POOLS = 8
"""The number of slot pools of which a step reads as many triggers as it may take: those with the soonest triggers."""
LEAST_OF_A_POOL = 8
"""The least number of triggers that it reads of each other one; usual is twice what a pool has of a full batch."""
LEAST_MET = 100
"""The least number of triggers that a claim reads where jobs have limits, so that a node with few free workers gets
past those of full jobs."""
LAST_POOL = "\U0010ffff"
"""Follows each slot pool."""
RECONCILE_NEW = _SQL("reconcile_new")


def acquire(
    session: SqlSession,
    node: Node,
    available_slots: Sequence[AvailableSlots],
    *,
    limit: int,
    look_ahead: timedelta,
    misfire_threshold: timedelta,
    passed_over: Collection[int] = (),
    opened: Collection[Gate] = (),
    reads_first: bool = False,
) -> Acquisition:
    """Fire due triggers; see `JobStore.acquire`."""
    step = _Step(session, node, available_slots, limit, look_ahead, misfire_threshold, passed_over, opened)
    try:
        return _acquire(step, reads_first=reads_first)
    except RefusedRowError:
        if not step.set_bad_rows_aside():
            raise
        return _acquire(step)


def _acquire(step: _Step, *, reads_first: bool = False) -> Acquisition:
    """Look, unless something is expected; claim; return what was taken and what waits."""
    if step.looks_first(reads_first):
        # This read takes no lock and writes nothing, so it costs the cluster much less than a step that finds nothing.
        look = step.peek()
        if not look.is_due:
            return look.outcome()
    if (backlog := step.backlog()) is not None:
        return step.claim_backlog(backlog)
    done = step.claim()
    if not done.taken and step.needs() - done.needs:
        # Triggers that this step has not looked at may be due already.
        done = step.claim()
    step.note_backlog(done)
    return done.outcome()


class _Step:
    """The statements of one acquire step, with their values."""

    def __init__(
        self,
        session: SqlSession,
        node: Node,
        available_slots: Sequence[AvailableSlots],
        limit: int,
        look_ahead: timedelta,
        misfire_threshold: timedelta,
        passed_over: Collection[int],
        opened: Collection[Gate],
    ) -> None:
        self._session = session
        self._node = node
        self._due: dict[str, Any] = {
            "instance": node.instance_id,
            "epoch": node.epoch,
            "slot_pools": [slots.slot_pool for slots in available_slots],
            "threshold": misfire_threshold,
            "passed_over": list(passed_over),
        }
        of_one_pool = len({(slots.executor, slots.group) for slots in available_slots}) == 1
        pool_limit = min(min(slots.workers, slots.group_slots) for slots in available_slots) if of_one_pool else limit
        self._take: dict[str, Any] = {
            "executors": [slots.executor for slots in available_slots],
            "workers": [slots.workers for slots in available_slots],
            "groups": [slots.group for slots in available_slots],
            "group_slots": [slots.group_slots for slots in available_slots],
            "limit": min(limit, pool_limit),
            "look_ahead": look_ahead,
            "channel": session.channel,
            "opened_groups": [gate.job_group for gate in opened],
            "opened_jobs": [gate.job_name for gate in opened],
            "opened_keys": [gate.concurrency_key for gate in opened],
            "opened_limits": [gate.limits for gate in opened],
        }
        self._looks_at_gates = bool(opened)
        self._available_slots = available_slots
        self._limit = limit
        self._look_ahead = look_ahead
        self.limited = ACQUIRE_OF_ONE_POOL if of_one_pool else ACQUIRE
        self.everything = ACQUIRE_SHARED_OF_ONE_POOL if of_one_pool else ACQUIRE_SHARED
        self.unlimited = ACQUIRE_UNLIMITED_OF_ONE_POOL if of_one_pool else ACQUIRE_UNLIMITED
        self._others = (node.epoch, tuple(self._due["passed_over"]))
        self._pools: list[str] = self._due["slot_pools"]
        self.slots = (tuple(self._pools), *self._others)

    def looks_first(self, reads_first: bool) -> bool:
        """Return whether to look before a claim: nothing is expected, or others are expected to be faster."""
        session = self._session
        if session.has_new or self._looks_at_gates:
            return False
        return reads_first or not session.next_due.is_due(self.slots, self._look_ahead)

    def needs(self) -> frozenset[str]:
        """Return what a claim does beside taking triggers of jobs without limits, as far as is known."""
        session = self._session
        has_limits = (
            self._looks_at_gates or session.has_new or session.next_due.limited_is_due(self.slots, self._look_ahead)
        )
        needs = {
            "new triggers": session.has_new,
            "jobs with a limit": has_limits,
            "rates and shared limits": has_limits and session.has_shared,
        }
        return frozenset(need for need, is_needed in needs.items() if is_needed)

    def _next_read(self) -> NextDueRead:
        return self._session.next_due.next_read(self._pools, self._others)

    @property
    def is_costly(self) -> bool:
        """True if this step would walk over many triggers of other nodes under the lock."""
        return self._session.next_due.is_costly(self._pools, self._next_read())

    def _noted(self, done: _RoundTrip) -> _RoundTrip:
        """Keep what the next acquire step may expect."""
        session, waiting = self._session, done.waiting
        if waiting.new_pools:
            session.next_due.meet(waiting.new_pools)
        session.has_new = waiting.new is not None
        session.next_due.note_waiting(waiting.new)
        session.has_shared = waiting.has_shared
        session.next_due.note(self.slots, waiting.now, done.soonest, waiting.limited_at)
        session.next_due.note_read(
            done.read, self._pools, self._others, waiting.now, waiting.soonest_of_pools, waiting.took
        )
        return replace(done, met_pools=session.next_due.slot_pools)

    def peek(self, taken: Sequence[tuple[Any, ...]] = ()) -> _RoundTrip:
        """Read what waits, without a lock. `taken` are triggers that this step has claimed already."""
        session, read = self._session, self._next_read()
        [answer] = session.read(self._next_due(_begins(read)))
        waiting = _Waiting(*require_epoch(self._node, answer))
        return self._noted(_RoundTrip(waiting, taken, read, self._look_ahead))

    def _taken(self, result: Result, sinces: Sequence[datetime | str]) -> Sequence[tuple[Any, ...]]:
        """Return what a claim has taken. What was parked may wait now before the next read would begin."""
        taken = without_unparked(result.rows)
        begin = max((since for since in sinces if isinstance(since, datetime)), default=None)
        if len(taken) < len(result.rows) or (
            begin is not None and any(row[_NEXT_FIRE_TIME] and row[_NEXT_FIRE_TIME] < begin for row in taken)
        ):
            self._session.next_due.require_full_read()
        return taken

    def claim(self) -> _RoundTrip:
        """Claim triggers, and read what waits then."""
        session, needs = self._session, self.needs()
        text = self._text(needs)
        if self.is_costly:
            # A read without the lock walks over the triggers of other nodes, and the step begins behind them.
            self.peek()
        read = self._next_read()
        sinces = _begins(read)
        *_, taken, answer = session.locked(*self._statements(text, sinces), keeps_next_due=True)
        waiting = _Waiting(*require_epoch(self._node, answer))
        rows = self._taken(taken, sinces)
        return self._noted(_RoundTrip(waiting, rows, read, self._look_ahead, needs))

    def _text(self, needs: frozenset[str]) -> str:
        if "rates and shared limits" in needs:
            return self.everything
        return self.limited if "jobs with a limit" in needs else self.unlimited

    def _statements(self, text: str, sinces: Sequence[datetime | str], **values: Any) -> list[BoundStatement]:
        before = [self._session.bind(RECONCILE_NEW)] if self._session.has_new else []
        return [*before, self._claim(text, sinces, **values), self._next_due(sinces, **values)]

    def _claim(self, text: str, sinces: Sequence[datetime | str], **values: Any) -> BoundStatement:
        changing: dict[str, Any] = {
            "sinces": sinces,
            "pool_limits": self._pool_limits(0 if text == self.unlimited else LEAST_MET),
        }
        return self._session.bind(text, **{**self._due, **values}, **self._take, **changing)

    def _next_due(self, sinces: Sequence[datetime | str], **values: Any) -> BoundStatement:
        # In the order of the tables, whose collation of this column is that of Python.
        met = sorted(self._session.next_due.slot_pools)
        more: dict[str, Any] = {
            "sinces": sinces,
            "met_pools": met,
            "following_pools": [*met[1:], LAST_POOL],
            "look_ahead": self._look_ahead,
        }
        return self._session.bind(NEXT_DUE, **{**self._due, **values, **more})

    def set_bad_rows_aside(self) -> bool:
        """Put the triggers into ERROR that make this step fail. Return whether there were any."""
        due = self._due
        return set_aside_waiting(
            self._session,
            {"instance": due["instance"], "epoch": due["epoch"]},
            due["slot_pools"],
            self._take["look_ahead"],
            due["passed_over"],
            lambda passed_over: self._statements(
                self.everything, [ANY_TIME] * len(due["slot_pools"]), passed_over=list(passed_over)
            ),
        )

    def _pool_limits(self, least: int) -> list[int]:
        """Return how many triggers a claim reads and locks of each slot pool, at least `least` where it reads no part.

        It takes the soonest of all. Of many slot pools, most of what it would read in each is later than these, so it
        reads a part, except of those with the soonest. It reads all of them, so that none starves behind others, and
        what a transaction has locked in one hides nothing of another.
        """
        part = max(LEAST_OF_A_POOL, ceil(2 * self._limit / max(1, len(self._pools))))
        of_part = self._session.next_due.not_soonest(self._pools, WHOLE_POOLS)
        return [
            min(part, slots.workers, slots.group_slots)
            if slots.slot_pool in of_part
            else max(min(self._limit, slots.workers, slots.group_slots), least)
            for slots in self._available_slots
        ]

    def backlog(self) -> Backlog | None:
        """Return what is expected to be due of what the last step left; None if that has to be looked up."""
        session = self._session
        if session.has_new:
            return None
        backlog = session.next_due.backlog(self.slots)
        return None if backlog is None or (self._looks_at_gates and not backlog.has_limits) else backlog

    def claim_backlog(self, backlog: Backlog) -> Acquisition:
        """Claim triggers of a backlog. What is left need not be looked up after each batch."""
        if backlog.has_limits:
            # A trigger that was parked may have waited for longer.
            text = self.everything if self._session.has_shared else self.limited
            sinces = _begins(self._next_read())
        else:
            text, sinces = self.unlimited, [backlog.taken_up_to] * len(self._pools)
        [result] = self._session.locked(self._claim(text, sinces), keeps_next_due=True)
        taken = self._taken(result, sinces)
        if len(taken) < self._limit or not _is_backlog(taken):
            return self.peek(taken).outcome()
        self._session.next_due.note_backlog(self.slots, _taken_up_to(taken), has_limits=backlog.has_limits)
        return _outcome_without_read(taken)

    def note_backlog(self, done: _RoundTrip) -> None:
        """Note whether the next step may expect more than it can take, after a claim that took as much as it might."""
        if len(done.taken) == self._limit >= BACKLOG and done.waiting.new is None:
            has_limits = done.limited_is_due(self._look_ahead)
            self._session.next_due.note_backlog(self.slots, _taken_up_to(done.taken), has_limits=has_limits)


def _begins(read: NextDueRead) -> list[datetime | str]:
    return [since or ANY_TIME for since in read.sinces]


def _outcome_without_read(taken: Sequence[tuple[Any, ...]]) -> Acquisition:
    """Return what was taken: the next trigger is due when the last one was, as far as is known without a read."""
    fired, skipped, unfilled = by_outcome(taken)
    return Acquisition(taken[0][_AT], fired, taken[-1][_SCHEDULED_TIME], skipped, unfilled=unfilled)


def _taken_up_to(taken: Sequence[tuple[Any, ...]]) -> datetime:
    """Return where the step after this one begins. What is to be refilled waits as before, and goes first then."""
    up_to: datetime = next((row for row in taken if row[_DECISION] == "REFILL"), taken[-1])[_SCHEDULED_TIME]
    return up_to


def _is_backlog(taken: Sequence[tuple[Any, ...]]) -> bool:
    """Return True if the soonest of what was taken was late: its time of fire is that of the step."""
    return bool(taken) and taken[0][_AT] > taken[0][_SCHEDULED_TIME]


class _Waiting(NamedTuple):
    """The answer of `NEXT_DUE`: what waits after the statements before it."""

    now: datetime
    new: datetime | None
    """The soonest trigger that waits to be reconciled, which must happen before the next acquire step."""
    soonest_limited: datetime | None
    """The soonest trigger of a job with a limit."""
    opens_at: datetime | None
    """The first instant at which a limit opens by time."""
    has_shared: bool
    """True if there is a job with a rate or shared limits."""
    new_pools: list[str]
    """Slot pools for which triggers wait, and that were not known here."""
    soonest_of_pools: list[datetime | None]
    """The soonest trigger of each slot pool of the step, in its order."""
    undecided_types: list[str]
    """The job types of those of these about which this node has yet to say whether it runs them."""
    undecided_placements: list[str]
    took: float
    """The time of this read on the server, in seconds."""

    @property
    def limited_at(self) -> datetime | None:
        """When jobs with limits have something to do."""
        return min((at for at in (self.soonest_limited, self.opens_at) if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class _RoundTrip:
    """What waits, the rows of the statement before it, and where the read began."""

    waiting: _Waiting
    taken: Sequence[tuple[Any, ...]]
    read: NextDueRead
    look_ahead: timedelta
    needs: frozenset[str] = frozenset()
    """What the claim has done beside taking triggers of jobs without limits."""
    met_pools: Collection[str] = ()
    """The slot pools for which triggers have waited."""

    @property
    def soonest(self) -> datetime | None:
        """The soonest waiting trigger, or the first instant at which a rate opens."""
        instants = (self.waiting.opens_at, *self.waiting.soonest_of_pools)
        return min((at for at in instants if at is not None), default=None)

    @property
    def is_due(self) -> bool:
        """Return whether a trigger is left that is due, or has yet to be reconciled."""
        waiting = self.waiting
        return waiting.new is not None or (
            (soonest := self.soonest) is not None and soonest <= waiting.now + self.look_ahead
        )

    def limited_is_due(self, look_ahead: timedelta) -> bool:
        """Return whether a trigger of a job with a limit is left that is due."""
        limited_at = self.waiting.limited_at
        return limited_at is not None and limited_at <= self.waiting.now + look_ahead

    def outcome(self) -> Acquisition:
        waiting = self.waiting
        fired, skipped, unfilled = by_outcome(self.taken)
        # What a partial read did not find, the next full one does.
        valid_for = self.read.valid_for
        next_full_read = None if valid_for is None else waiting.now + timedelta(seconds=valid_for)
        return Acquisition(
            waiting.now,
            fired,
            min((at for at in (waiting.new, self.soonest, next_full_read) if at is not None), default=None),
            skipped,
            undecided=set(map(DispatchKey, waiting.undecided_types, waiting.undecided_placements)),
            slot_pools=self.met_pools,
            unfilled=unfilled,
        )
