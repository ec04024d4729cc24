from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import StoreUnavailableError
from quartzpy.node.cluster_manager import ClusterManager
from quartzpy.node.housekeeping import CUTOFF_EVERY, PURGE_EVERY, PURGE_REST, PURGE_ROWS
from quartzpy.node.registration import Epoch
from quartzpy.node.service import StoreWatch
from quartzpy.store.protocol import (
    EVERYTHING,
    CheckIn,
    JobStore,
    Node,
    PauseSubjects,
    Purged,
    RecoveryOutcome,
    Repairs,
    TimeOff,
)
from tests.node.test_small_parts import ManualClock

A_CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)


class OldHistory:
    """A store with so many old executions."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.limits: list[int] = []
        self.before: list[datetime | None] = []
        self.cutoffs = 0
        self.is_down = False
        self.next_time_off: timedelta | None = None
        self.ended: list[PauseSubjects] = []
        self.applied = 0
        self.is_broken = False
        self.on_purge: Callable[[], None] = lambda: None

    def recover(self, node: Node, dead: Collection[object], *, max_node_deaths: int) -> RecoveryOutcome:
        return RecoveryOutcome(next_time_off=self.next_time_off)

    def apply_time_off(self, by: str) -> TimeOff:
        self.applied += 1
        if self.is_broken:
            raise ValueError("a row that somebody has written by hand")
        return TimeOff(ended=self.ended, next_change=self.next_time_off)

    def repair(self) -> Repairs:
        return Repairs()

    def purge_history(
        self,
        older_than: timedelta,
        *,
        limit: int,
        ended_triggers: timedelta,
        actions: timedelta,
        before: datetime | None,
        most: int | None,
    ) -> Purged:
        if most is not None:
            self.cutoffs += 1
            before = A_CUTOFF if self.rows > most else None
        self.before.append(before)
        self.on_purge()
        if self.is_down:
            raise StoreUnavailableError("down")
        self.limits.append(limit)
        purged = min(self.rows, limit)
        self.rows -= purged
        return Purged(purged, before)

    def check_tables(self) -> None:
        """The tables are in order."""


def manager(
    store: OldHistory,
    clock: ManualClock,
    *,
    performs_maintenance: bool = True,
    history_max_rows: int | None = None,
    judge: Callable[[], None] = lambda: None,
) -> tuple[ClusterManager, Epoch]:
    epoch = Epoch(Node("node", 1), clock, 1e6, 0.0)
    return (
        ClusterManager(
            "cluster-manager",
            store=cast("JobStore", store),
            clock=clock,
            config=SchedulerConfig(history_max_rows=history_max_rows),
            epoch=lambda: epoch,
            watch=StoreWatch(logging.getLogger("test"), "node", clock),
            checked_in=lambda: None,
            recovered=lambda outcome: None,
            lease_lost=lambda epoch: None,
            rejoin=lambda: None,
            performs_maintenance=lambda: performs_maintenance,
            judge=judge,
        ),
        epoch,
    )


def check_in(managed: ClusterManager, epoch: Epoch, clock: ManualClock) -> None:
    managed.check_in_answered(CheckIn(clock.now(), ()), epoch, clock.monotonic())


def test_a_node_rests_until_a_pause_ends_and_ends_it() -> None:
    clock, store = ManualClock(), OldHistory(0)
    managed, epoch = manager(store, clock)
    check_in(managed, epoch, clock)
    assert managed.run_once() == managed.period, "there is none"
    store.next_time_off = timedelta(seconds=2)
    check_in(managed, epoch, clock)
    assert (managed.run_once(), store.applied) == (2.0, 0)
    clock.seconds += 2
    store.ended, store.next_time_off = [EVERYTHING], timedelta(0)
    assert (managed.run_once(), store.applied) == (0.0, 1), "there is more to do"
    store.next_time_off = None
    assert (managed.run_once(), store.applied) == (managed.period, 2)


def test_a_node_rests_before_it_tries_again_what_somebody_has_locked() -> None:
    clock, store = ManualClock(), OldHistory(0)
    managed, epoch = manager(store, clock)
    store.next_time_off = timedelta(seconds=-1)
    check_in(managed, epoch, clock)
    assert (managed.run_once(), store.applied) == (1.0, 1)


def test_what_cannot_be_ended_does_not_hold_up_the_housekeeping() -> None:
    clock, store = ManualClock(), OldHistory(5)
    managed, epoch = manager(store, clock)
    store.is_broken, store.next_time_off = True, timedelta(seconds=-1)
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    assert managed.run_once() == managed.period
    assert (store.applied, store.rows) == (1, 0)


def test_old_history_is_deleted_in_batches_without_waiting_for_the_next_check_in() -> None:
    clock, store = ManualClock(), OldHistory(3 * PURGE_ROWS + 5)
    managed, epoch = manager(store, clock)
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    rests = [managed.run_once() for _ in range(4)]
    assert rests == [PURGE_REST[0]] * 3 + [managed.period]
    assert store.rows == 0
    assert store.limits == [PURGE_ROWS] * 4, "each statement stays short"
    managed.run_once()
    check_in(managed, epoch, clock)
    managed.run_once()
    assert len(store.limits) == 4, "the next round begins after a minute"


@pytest.mark.parametrize(("spent", "rest"), [(0.001, 0.05), (0.1, 0.3), (5.0, 1.0)])
def test_deleting_takes_a_quarter_of_the_time(spent: float, rest: float) -> None:
    clock, store = ManualClock(), OldHistory(2 * PURGE_ROWS)
    managed, epoch = manager(store, clock)
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    store.on_purge = lambda: setattr(clock, "seconds", clock.seconds + spent)
    assert managed.run_once() == pytest.approx(rest)


def test_the_history_is_measured_every_five_minutes_if_it_has_a_limit() -> None:
    clock, store = ManualClock(), OldHistory(2 * PURGE_ROWS)
    managed, epoch = manager(store, clock, history_max_rows=100)
    for _ in range(int(2 * CUTOFF_EVERY / PURGE_EVERY)):
        clock.seconds += PURGE_EVERY
        check_in(managed, epoch, clock)
        while managed.run_once() == PURGE_REST[0]:
            pass
    assert store.cutoffs == 2
    assert store.before[:3] == [A_CUTOFF] * 3
    assert store.before[-1] is None, "the second time it is small enough"


def test_a_node_that_does_no_housekeeping_deletes_no_history() -> None:
    clock, store = ManualClock(), OldHistory(5)
    managed, epoch = manager(store, clock, performs_maintenance=False)
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    assert managed.run_once() == managed.period
    assert store.rows == 5


def test_a_batch_that_fails_is_not_repeated_at_once() -> None:
    clock, store = ManualClock(), OldHistory(2 * PURGE_ROWS)
    managed, epoch = manager(store, clock)
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    assert managed.run_once() == PURGE_REST[0]
    store.is_down = True
    with pytest.raises(StoreUnavailableError):
        managed.run_once()
    store.is_down = False
    assert managed.run_once() == managed.period
    clock.seconds += PURGE_EVERY
    check_in(managed, epoch, clock)
    managed.run_once()
    assert store.rows == 0


def test_what_is_wrong_is_judged_after_each_check_in_by_nodes_that_do_maintenance() -> None:
    clock, judged = ManualClock(), list[float]()
    managed, epoch = manager(OldHistory(0), clock, judge=lambda: judged.append(clock.seconds))
    idle, other = manager(OldHistory(0), clock, judge=lambda: judged.append(-1), performs_maintenance=False)
    managed.run_once()
    assert judged == [], "no check-in was answered"
    check_in(managed, epoch, clock)
    check_in(idle, other, clock)
    for node in (managed, idle, managed):
        node.run_once()
    assert judged == [clock.seconds]
    managed.schema.problem = "the tables are of another release"
    check_in(managed, epoch, clock)
    managed.schema.check = lambda: None  # type: ignore[method-assign]
    managed.run_once()
    assert judged == [clock.seconds]


def test_a_judgement_that_fails_is_logged_once_and_keeps_nothing_from_being_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, store = ManualClock(), OldHistory(5)
    error: list[Exception] = [ZeroDivisionError("a bug")]

    def judge() -> None:
        if error:
            raise error[0]

    managed, epoch = manager(store, clock, judge=judge)

    def judge_and_count() -> int:
        caplog.clear()
        check_in(managed, epoch, clock)
        managed.run_once()
        return sum("could not be judged" in record.message for record in caplog.records)

    clock.seconds += PURGE_EVERY
    with caplog.at_level(logging.WARNING):
        assert judge_and_count() == 1
        assert store.rows == 0, "the history is purged"
        assert judge_and_count() == 0
        error.clear()
        assert judge_and_count() == 0
        error.append(StoreUnavailableError("gone"))
        assert judge_and_count() == 0, "the check-ins report an outage"
        error[:] = [ValueError("another one")]
        assert judge_and_count() == 1, "an error of another kind"
        assert judge_and_count() == 0
        error.clear()
        judge_and_count()
        error.append(ValueError("another one"))
        assert judge_and_count() == 1
