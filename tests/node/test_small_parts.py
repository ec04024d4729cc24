from __future__ import annotations

import gc
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.clock import SystemClock
from quartzpy.errors import LeaseLostError, StoreUnavailableError
from quartzpy.jobs.context import Cancellation
from quartzpy.node.misfire_handler import rest_in_backlog
from quartzpy.node.reactions import NotificationListener
from quartzpy.node.registration import Epoch, is_held_here
from quartzpy.node.service import EpochService, Outage, Service, StoreWatch
from quartzpy.node.signals import Wakeup
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Node
from quartzpy.store.store_time import StoreTime


class ManualClock:
    def __init__(self) -> None:
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = 100.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds


def test_a_wakeup_between_two_waits_is_not_lost() -> None:
    wakeup = Wakeup()
    wakeup.set()
    assert wakeup.wait(30)
    assert not wakeup.wait(0)


def test_an_outage_is_two_lines_of_log(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(logging.getLogger("test"), "thread")
    waits = [outage.failed(StoreUnavailableError("down")) for _ in range(20)]
    assert outage.succeeded()
    assert not outage.succeeded()
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"] * 2
    assert waits[0] <= 0.2
    assert max(waits) <= 15.0


def test_the_store_time_follows_the_monotonic_clock_and_not_the_wall_clock() -> None:
    clock = ManualClock()
    time = StoreTime(clock)
    said = datetime(2030, 5, 5, tzinfo=UTC)
    asked = clock.monotonic()
    clock.seconds += 0.2
    assert time.skew == timedelta()
    time.learn(said, asked)
    assert time.skew == clock.wall - said - timedelta(seconds=0.1)
    clock.wall -= timedelta(days=1)
    clock.seconds += 9.9
    assert time.now() == said + timedelta(seconds=10)
    assert time.seconds_until(said + timedelta(seconds=13)) == pytest.approx(3)


def test_a_slow_answer_does_not_move_the_store_time_unless_the_one_before_is_old_or_the_clock_was_set() -> None:
    clock = ManualClock()
    time = StoreTime(clock)
    begin = clock.wall

    def answered(read_after: float, seconds: float, ahead: float = 0.0) -> float:
        """The store reads its clock in the course of a request; return by how much the estimate is ahead then."""
        asked_at = clock.monotonic()
        clock.seconds += seconds
        time.learn(begin + timedelta(seconds=asked_at + read_after + ahead), asked_at)
        return round((time.now() - begin).total_seconds() - clock.monotonic(), 3)

    assert answered(0.0, 0.1) == -0.05
    assert answered(0.001, 0.002) == 0.0
    assert answered(0.0, 0.1) == 0.0
    assert answered(0.1, 0.1) == 0.0
    assert answered(0.0, 0.1, ahead=3.0) == 2.95, "the clock was set"
    assert answered(0.001, 0.002, ahead=3.0) == 3.0
    clock.seconds += 1_000
    assert answered(0.0, 0.1, ahead=3.0) == 2.95, "the one before is old"


def test_the_store_time_never_says_that_an_instant_is_reached_before_it_is() -> None:
    clock = ManualClock()
    time = StoreTime(clock)
    begin = clock.wall

    def answered(read_after: float, seconds: float, ahead: float = 0.0) -> None:
        """The store reads its clock in the course of a request, and its clock is `ahead` of this machine's."""
        asked_at = clock.monotonic()
        now = begin + timedelta(seconds=asked_at + read_after + ahead)
        clock.seconds += seconds
        time.learn(now, asked_at)

    def late() -> float:
        """The time by which the estimate of an instant is late."""
        return round(time.seconds_until_surely(begin + timedelta(seconds=clock.monotonic())), 3)

    answered(0.0, 0.5)
    assert late() == 0.5
    answered(0.4, 0.5)
    assert late() == 0.1, "the quickest answer counts"
    answered(0.0, 0.5)
    assert late() == 0.1
    clock.seconds += 30
    answered(0.2, 0.5)
    assert late() == 0.1
    clock.seconds += 30
    answered(0.2, 0.5)
    assert late() == 0.3, "old answers are forgotten"
    answered(0.2, 0.5, ahead=-5.0)
    assert late() == 5.3, "the clock of the store was set back"


def test_a_clock_that_is_set_back_after_a_slow_answer_makes_no_job_early() -> None:
    """The bound of a window that is over counts no more either."""
    clock = ManualClock()
    time = StoreTime(clock)
    begin = clock.wall

    def answered(seconds: float, *, ahead: float) -> float:
        """The store reads its clock at the start of a request; return by how much the estimate is late then."""
        asked_at = clock.monotonic()
        clock.seconds += seconds
        time.learn(begin + timedelta(seconds=asked_at + ahead), asked_at)
        at_the_store = begin + timedelta(seconds=clock.monotonic() + ahead)
        return round(time.seconds_until_surely(at_the_store), 3)

    assert answered(0.001, ahead=0.0) == 0.001
    clock.seconds += 11
    assert answered(0.5, ahead=0.0) == 0.001
    assert answered(0.001, ahead=-0.3) == 0.001


def test_an_expired_lease_blocks_until_it_is_renewed_or_the_epoch_is_lost() -> None:
    clock = ManualClock()
    epoch = Epoch(Node("a", 1), clock, 15.0, clock.monotonic())
    assert epoch.trusted
    clock.seconds += 15.1
    assert not epoch.trusted
    waiter_saw: list[bool] = []
    waiter = threading.Thread(target=lambda: waiter_saw.append(epoch.wait_until_trusted()))
    waiter.start()
    epoch.renew(clock.monotonic())
    waiter.join(60)
    assert waiter_saw == [True]
    epoch.lose()
    epoch.renew(clock.monotonic())
    assert not epoch.trusted
    assert not epoch.wait_until_trusted()


def test_a_cancellation_wakes_present_and_later_waiters() -> None:
    cancellation = Cancellation()
    assert not cancellation.wait(0.001)
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(cancellation.wait(60)))
    waiter.start()
    cancellation.set()
    waiter.join(60)
    assert woken == [True]
    assert cancellation.wait(0)
    assert cancellation.is_requested


class _Passes(Service):
    def __init__(self, outcomes: list[BaseException | None]) -> None:
        super().__init__("test", longest_wait=0.001)
        self.outcomes = outcomes
        self.over = threading.Event()
        self.lease_losses = 0

    def on_lease_lost(self) -> None:
        self.lease_losses += 1

    def run_once(self) -> float:
        if not self.outcomes:
            self.over.set()
            return 60.0
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return 0.0


def test_no_exception_of_a_pass_ends_its_thread() -> None:
    service = _Passes([MemoryError(), SystemExit(1), KeyboardInterrupt(), LeaseLostError("gone"), ValueError(), None])
    service.start()
    assert service.over.wait(30)
    service.stop()
    assert service.join(30)
    assert service.lease_losses == 1


class _FindsItsEpochGone(EpochService):
    """A service whose pass fails for its own epoch after another thread has rejoined with the next one."""

    def __init__(self, old: Epoch, new: Epoch) -> None:
        self.present = old
        self.told: list[Epoch] = []
        self.over = threading.Event()
        super().__init__("test", epoch=lambda: self.present, lease_lost=self.told.append)
        self.new = new

    def run_as(self, epoch: Epoch) -> float:
        if epoch is self.new:
            self.over.set()
            return 60.0
        self.present = self.new
        raise LeaseLostError("gone")


def test_only_the_epoch_of_the_failed_pass_is_lost() -> None:
    old, new = (Epoch(Node("a", number), ManualClock(), 10.0, 100.0) for number in (1, 2))
    service = _FindsItsEpochGone(old, new)
    service.start()
    assert service.over.wait(30)
    service.stop()
    assert service.join(30)
    assert service.told == [old]


def test_an_epoch_is_held_here_until_it_is_lost_or_its_scheduler_is_garbage() -> None:
    first, second = (Epoch(Node("a", number), ManualClock(), 10.0, 100.0) for number in (-1, -2))
    assert is_held_here("a", -1)
    assert not is_held_here("b", -1), "each database counts its own epochs"
    first.lose()
    assert not is_held_here("a", -1)
    assert is_held_here("a", -2)
    del second
    gc.collect()
    assert not is_held_here("a", -2)


def test_the_listener_for_notifications_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quartzpy.node.reactions.MAX_WAIT", 3600.0)
    waiting = threading.Event()
    listener = NotificationListener(
        "notifications",
        store=RamJobStore(SystemClock()),
        on_notification=lambda received: waiting.set(),
        watch=StoreWatch(logging.getLogger("test"), "node", SystemClock()),
    )
    listener.start()
    assert waiting.wait(30)
    listener.stop()
    assert listener.join(30)


@pytest.mark.parametrize(("spent", "rest"), [(0.0, 0.003), (0.021, 0.0035), (0.12, 0.02), (2.0, 0.05)])
def test_a_slow_batch_of_misfires_is_followed_by_a_longer_rest(spent: float, rest: float) -> None:
    assert rest_in_backlog(spent) == pytest.approx(rest)
