"""The acquire step. Lock: TRIGGER_ACCESS. Fires triggers that are due, or soon will be.

There are three statements, and each has a shorter form for nodes with one executor and no groups. `ACQUIRE_UNLIMITED`
takes triggers of jobs without a limit, as nothing has to be decided about them; `ACQUIRE` takes those of jobs with
slots of their own as well, and `ACQUIRE_SHARED` those with rates and shared limits, too. Each leaves the others where
they are, and `NEXT_DUE`, which follows in the same round trip, tells that they are due. So a wrong expectation costs a
second round trip, and never a fire.

A node that expects nothing, or that others were faster, reads first, without the lock. The node keeps what is expected,
and is told what it needs for that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from quartzpy.instants import earliest, is_until
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import ANY_TIME, HANDED_OVER, by_outcome, without_unparked
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.bad_rows import set_aside_parked, set_aside_waiting
from quartzpy.store.protocol import ANYTHING, Acquisition, AvailableSlots, DispatchKey, Expectation, Front, Gate, Node

_NEXT_FIRE_TIME = HANDED_OVER.index("next_fire_time")
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
"""The least number of triggers that a step reads where jobs have limits, so that a node with few free workers gets
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
    expected: Expectation = ANYTHING,
) -> Acquisition:
    """Fire due triggers; see `JobStore.acquire`."""
    step = _Step(session, node, available_slots, limit, look_ahead, misfire_threshold, passed_over, opened, expected)
    try:
        return _acquire(step)
    except RefusedRowError:
        if not step.set_bad_rows_aside():
            raise
        return _acquire(step)


def _acquire(step: _Step) -> Acquisition:
    """Look, unless something is expected; take; return what was taken and what waits."""
    if step.expected.reads_first:
        # This read takes no lock and writes nothing, so it costs the cluster much less than a step that finds nothing.
        # A step that follows begins where it has found something, and walks under the lock over nothing.
        look = step.peek()
        if not (look.is_due or step.looks_at_gates):
            return step.outcome(look)
    done = step.take()
    if not done.taken and step.needs() - done.needs:
        # Triggers that this step has not looked at may be due already.
        done = step.take()
    return step.outcome(done)


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
        expected: Expectation,
    ) -> None:
        self.expected = expected
        """What is expected at present: each round trip of the step teaches more."""
        self._seconds: float | None = None
        """The time that the first read took, if there was one."""
        self._waits_from: datetime | None = None
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
        self.looks_at_gates = bool(opened)
        self._available_slots = available_slots
        self._limit = limit
        self._look_ahead = look_ahead
        self.limited = ACQUIRE_OF_ONE_POOL if of_one_pool else ACQUIRE
        self.everything = ACQUIRE_SHARED_OF_ONE_POOL if of_one_pool else ACQUIRE_SHARED
        self.unlimited = ACQUIRE_UNLIMITED_OF_ONE_POOL if of_one_pool else ACQUIRE_UNLIMITED
        self._pools: list[str] = self._due["slot_pools"]

    def needs(self) -> frozenset[str]:
        """Return what a step does beside taking triggers of jobs without limits, as far as is known."""
        expected = self.expected
        has_limits = self.looks_at_gates or expected.has_new or expected.has_limited
        needs = {
            "new triggers": expected.has_new,
            "jobs with a limit": has_limits,
            "rates and shared limits": has_limits and expected.has_shared,
        }
        return frozenset(need for need, is_needed in needs.items() if is_needed)

    def _sinces(self) -> list[datetime | str]:
        """Return where a read begins in each slot pool."""
        begins, fronts = self.expected.begins, self.expected.fronts
        return [fronts[pool] if pool in begins else ANY_TIME for pool in self._pools]

    def _noted(self, done: _RoundTrip) -> _RoundTrip:
        """Keep what the next round trip of this step may expect."""
        waiting = done.waiting
        if self._seconds is None:
            self._seconds = waiting.took
        self.expected = replace(
            self.expected,
            # A read sees only the soonest of each range, behind which others may wait.
            has_limited=self.expected.has_limited or is_until(waiting.limited_at, waiting.now + self._look_ahead),
            has_shared=waiting.has_shared,
            has_new=waiting.new is not None,
            fronts={**self.expected.fronts, **done.fronts(self._pools)},
            begins=self._pools,
            met_pools={*self.expected.met_pools, *waiting.new_pools},
        )
        return done

    def peek(self) -> _RoundTrip:
        """Read what waits, without a lock."""
        [answer] = self._session.read(self._next_due(self._sinces()))
        return self._noted(_RoundTrip(_Waiting(*require_epoch(self._node, answer)), (), self._look_ahead))

    def take(self) -> _RoundTrip:
        """Take triggers, and read what waits then."""
        needs = self.needs()
        sinces = self._sinces()
        *_, taken, answer = self._session.locked(*self._statements(self._text(needs), sinces))
        waiting = _Waiting(*require_epoch(self._node, answer))
        self._waits_from = earliest(self._waits_from, *(row[_NEXT_FIRE_TIME] for row in taken.rows))
        rows = without_unparked(taken.rows)
        # What was parked and has fired may wait now before the read after the statement has begun.
        begin = max((since for since in sinces if isinstance(since, datetime)), default=None)
        fired = earliest(*(row[_NEXT_FIRE_TIME] for row in rows))
        follows = fired if begin is not None and is_until(fired, begin) else None
        return self._noted(_RoundTrip(waiting, rows, self._look_ahead, needs, follows))

    def _text(self, needs: frozenset[str]) -> str:
        if "rates and shared limits" in needs:
            return self.everything
        return self.limited if "jobs with a limit" in needs else self.unlimited

    def _statements(self, text: str, sinces: Sequence[datetime | str], **values: Any) -> list[BoundStatement]:
        before = [self._session.bind(RECONCILE_NEW)] if self.expected.has_new else []
        return [*before, self._taking(text, sinces, **values), self._next_due(sinces, **values)]

    def _taking(self, text: str, sinces: Sequence[datetime | str], **values: Any) -> BoundStatement:
        changing: dict[str, Any] = {
            "sinces": sinces,
            "pool_limits": self._pool_limits(0 if text == self.unlimited else LEAST_MET),
        }
        return self._session.bind(text, **{**self._due, **values}, **self._take, **changing)

    def _next_due(self, sinces: Sequence[datetime | str], **values: Any) -> BoundStatement:
        # In the order of the tables, whose collation of this column is that of Python.
        met = sorted(self.expected.met_pools)
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
        at_node = {"instance": due["instance"], "epoch": due["epoch"]}
        return set_aside_parked(self._session, at_node) or set_aside_waiting(
            self._session,
            at_node,
            due["slot_pools"],
            self._take["look_ahead"],
            due["passed_over"],
            lambda passed_over: self._statements(
                self.everything, [ANY_TIME] * len(due["slot_pools"]), passed_over=list(passed_over)
            ),
        )

    def _pool_limits(self, least: int) -> list[int]:
        """Return how many triggers a step reads and locks of each slot pool, at least `least` where it reads no part.

        It takes the soonest of all. Of many slot pools, most of what it would read in each is later than these, so it
        reads a part, except of those with the soonest. It reads all of them, so that none starves behind others, and
        what a transaction has locked in one hides nothing of another.
        """
        part = max(LEAST_OF_A_POOL, ceil(2 * self._limit / max(1, len(self._pools))))
        fronts = self.expected.fronts
        of_part = sorted(fronts.keys() & self._pools, key=lambda pool: (fronts[pool], pool))[WHOLE_POOLS:]
        return [
            min(part, slots.workers, slots.group_slots)
            if slots.slot_pool in of_part
            else max(min(self._limit, slots.workers, slots.group_slots), least)
            for slots in self._available_slots
        ]

    def outcome(self, done: _RoundTrip) -> Acquisition:
        """Return what the step has done, and what waits after it."""
        waiting = done.waiting
        fired, skipped, unfilled = by_outcome(done.taken)
        return Acquisition(
            waiting.now,
            fired,
            earliest(waiting.new, done.soonest, done.follows),
            skipped,
            undecided=set(map(DispatchKey, waiting.undecided_types, waiting.undecided_placements)),
            slot_pools=self.expected.met_pools,
            unfilled=unfilled,
            front=Front(
                done.fronts(self._pools),
                waiting.limited_at,
                waiting.has_shared,
                waiting.new is not None,
                self._seconds or 0.0,
                earliest(waiting.new, self._waits_from),
            ),
        )


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
        return earliest(self.soonest_limited, self.opens_at)


@dataclass(frozen=True, slots=True)
class _RoundTrip:
    """What waits, and the rows of the statement before it."""

    waiting: _Waiting
    taken: Sequence[tuple[Any, ...]]
    look_ahead: timedelta
    needs: frozenset[str] = frozenset()
    """What the statement has done beside taking triggers of jobs without limits."""
    follows: datetime | None = None
    """When something waits that the read does not say: what was parked and has fired."""

    @property
    def soonest(self) -> datetime | None:
        """The soonest waiting trigger, or the first instant at which a rate opens."""
        return earliest(self.waiting.opens_at, *self.waiting.soonest_of_pools)

    def fronts(self, pools: Sequence[str]) -> Mapping[str, datetime]:
        """Return for each of these pools, which are those of the step, where its next read may begin.

        That is not after the present: what others store later may be due then. What has yet to be reconciled may be of
        any pool.
        """
        now, new = self.waiting.now, self.waiting.new
        return {
            pool: min(at or now, new or now, now) for pool, at in zip(pools, self.waiting.soonest_of_pools, strict=True)
        }

    @property
    def is_due(self) -> bool:
        """Return whether a trigger is left that is due, or has yet to be reconciled."""
        waiting = self.waiting
        return waiting.new is not None or is_until(self.soonest, waiting.now + self.look_ahead)
