"""The firing protocol: the steps by which a node fires and completes triggers, and handles misfires."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from quartzpy.jobs.context import Progress
from quartzpy.jobs.fired_trigger import Gate
from quartzpy.keys import JobKey
from quartzpy.store.protocol.cluster import Node
from quartzpy.store.protocol.fires import AvailableSlots, DispatchKey, Refill, UnfilledTrigger
from quartzpy.store.protocol.outcomes import (
    ANYTHING,
    Acquisition,
    Completion,
    CompletionOutcome,
    Expectation,
    Holdings,
    MisfireOutcome,
    Reconciliation,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection


class OpenJobTransaction(Protocol):
    """A database transaction of a job's own."""

    @property
    def connection(self) -> Connection: ...

    def complete(self, node: Node, completion: Completion) -> CompletionOutcome:
        """Record the execution and commit it together with the job's changes on the connection.

        Raises:
            LeaseLostError: the node has lost the execution; the store rolls everything back.
        """
        ...

    def commit(self, node: Node, fire_id: int) -> None:
        """Commit the job's changes on the connection while the execution continues.

        A recovery of the execution comes wholly before or wholly after this commit, and does not wait for work that
        started before it.

        Raises:
            LeaseLostError: the node has lost the execution; the store rolls everything back.
        """
        ...

    def close(self) -> None:
        """Return the connection. The store rolls back what was not committed."""
        ...


class FiringStore(Protocol):
    """The steps that a node repeats continuously.

    Each takes the node's epoch. Once the epoch's row is gone, because the node was declared dead, a step changes
    nothing and raises `LeaseLostError`. No step waits for a row that an open transaction of a user has locked: it
    skips the row and reports that in its result.
    """

    def decide(self, node: Node, runs: Mapping[DispatchKey, bool]) -> bool:
        """Store for each of these dispatch keys whether the node runs its triggers. Return whether that is stored.

        It is not where another transaction has locked the row of the node.

        `acquire` and `recover_misfires` take only triggers of a dispatch key that the epoch runs, as it has said here.
        `acquire` passes over those that it does not run, and names some about which it has said nothing, if there are
        any.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def acquire(
        self,
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
        """Fire at most `limit` triggers: of those that are WAITING, and of those that are parked at a gate.

        Eligible is a trigger

        - whose dispatch key the node runs (`decide`);
        - whose slot pool is among `available_slots`, as long as its executor and its group have slots left;
        - whose next fire time is at most `look_ahead` away (the node starts the job at that instant, which is the fire
          time then), and not so long ago that it is a misfire by the trigger's
          own threshold or else `misfire_threshold` (a trigger that ignores misfires is never too late);
        - whose row no open transaction holds, and whose generation is not in `passed_over` (triggers that this node
          could not compute).

        Order: by fire time, then by priority, the highest first.

        A job that executes as often as its limit allows, for a value of its concurrency key, is treated by its overlap
        policy. BLOCK parks what the step meets: it is BLOCKED, and no step meets it again. SKIP records the fire as
        SKIPPED and moves the trigger on. BUFFER_ONE parks the trigger, or skips the fire where another trigger of the
        job is parked already. CANCEL_OTHER parks it and asks the oldest execution to stop; of several that are due, it
        keeps the newest.

        What a rate does not admit is parked as well, at the limit of its job; and what finds no place at the limits
        that its job shares, at the set of these. A fire needs a place at each of its limits at the same instant. A set
        of several that has waited for longer than `misfire_threshold` is not passed over by others any more: what is
        free of its limits is kept for its soonest trigger.

        An end releases nothing: the node names in `opened` the gates of the executions that have ended since the last
        step that answered, and the step takes what is parked there together with what is WAITING, in one order. It
        does so as well where a rate admits the next fire by now; until then, `next_due` says when. What finds a place
        and cannot be taken by this node becomes WAITING, for any node, which is notified; with a `limit` of 0, all of
        it. What a rate or a shared limit has held back is not too late, nor are the fire times that have passed
        meanwhile: the trigger catches up.

        A trigger that fires becomes WAITING, or COMPLETE if no fire time follows. All triggers of a job that is at its
        limit are seen as BLOCKED, whatever is stored. Under BUFFER_ONE and CANCEL_OTHER one fire coalesces all fire
        times that have passed. An eligible trigger of which the store does not know the fire times that follow does not
        fire; it is returned as unfilled.

        `expected` decides which statements a store sends, and never what fires.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def refill(self, node: Node, refills: Sequence[Refill]) -> None:
        """Store the upcoming fire times of unfilled triggers.

        One is passed over that was replaced or has moved on since it was returned, or whose calendar was replaced; and
        one whose row an open transaction holds.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def reject(self, node: Node, reasons: Sequence[tuple[UnfilledTrigger, str]]) -> None:
        """Put unfilled triggers into ERROR, each with its reason; those that `refill` would pass over stay as they are.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def wake_others(self, node: Node) -> None:
        """Notify the other nodes (`RESUMED`): perhaps only this one was waiting for what is due next."""
        ...

    def complete(
        self, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False, at_length: bool = False
    ) -> CompletionOutcome:
        """End executions.

        For each: delete its row, write the history, store changed job data, and store the retry. Then remove triggers
        that are COMPLETE, and jobs that are not durable and have no trigger left.

        A completion has an effect only if the execution is still this epoch's, and changes the trigger only if its
        generation is still the one that fired. An execution that would have to write a row held by an open transaction
        is deferred as a whole. One that was asked to stop is not stored again: see `CompletionOutcome.stopped`. With
        `wakes_others`, which a node that takes no more work sets, other nodes are notified of the waiting triggers.

        An end that pauses its job, or gives all triggers of the job a state, may change so many that the call leaves it
        out: see `CompletionOutcome.halting`. These are ended by another call with `at_length`, on a thread that may
        wait for it. Others see all triggers changed by it, or none.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def recover_misfires(self, node: Node, *, threshold: timedelta, limit: int) -> MisfireOutcome:
        """Apply the misfire instruction to at most `limit` triggers that fired too late and that the node runs.

        The triggers that are latest come first, and each that is moved leaves a `MisfireRecord`. A trigger that is
        catching up is not a misfire until its next fire time is in the future again.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def holdings(self, node: Node) -> Holdings:
        """Return the executions of this epoch. Takes no shared lock.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def reconcile(self, node: Node, *, executions: Collection[int]) -> Reconciliation:
        """Return the fires of this epoch that are not in `executions`: the answers to their steps were lost.

        The node runs them.

        Raises:
            LeaseLostError: the epoch is no longer registered.
        """
        ...

    def request_cancel(self, executions: int | JobKey) -> Collection[int]:
        """Ask one execution, or all executions of a job, to stop, on whichever nodes they run; return their fire_ids.

        An execution that was asked is not stored again, whether it is completed or recovered.
        """
        ...

    def cancel_requests(self, node: Node) -> set[int]:
        """Return the fire_ids of this epoch's executions that were asked to stop."""
        ...

    def report_progress(
        self, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
    ) -> Collection[int]:
        """Store the progress of this epoch's executions by their fire_ids, and return the fire_ids of those stored.

        `logs` are the last captured log lines of executions, by their fire_ids. They replace those stored before, and
        are readable as the log of the running execution. The execution keeps them if its node dies; otherwise the lines
        of its completion replace them. An execution in only one of the two mappings keeps its other values.

        An execution that has ended, that belongs to another epoch, or whose row an open transaction holds, is passed
        over. No lock is taken, and nobody is notified.
        """
        ...

    def begin_job_transaction(self) -> OpenJobTransaction:
        """Begin a transaction for a job's own work.

        Raises:
            InvalidValueError: the store is not on a database.
        """
        ...
