"""Short jobs are fired ahead: more of them than there are free workers. None of them waits for long."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from quartzpy.node.workers.worker_pool import HORIZON, WINDOW, Pace, WorkerPool

PATIENCE = 0.1
PASSED = 2 * WINDOW


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(pace: Pace, clock: Clock, count: int, seconds: float) -> None:
    """Let `count` executions end, each after a run of `seconds`, within one window."""
    pace.within(0.0, clock.now)
    for _ in range(count):
        pace.ended(seconds)
    clock.now += PASSED


def test_nothing_is_fired_ahead_before_an_execution_has_ended() -> None:
    assert Pace(1_000).ahead(100.0) == 0


def test_as_many_are_fired_ahead_as_start_within_the_horizon() -> None:
    pace, clock = Pace(1_000), Clock()
    paced(pace, clock, 80, 0.000_1)
    assert pace.ahead(clock.now) == pytest.approx(80 * HORIZON / PASSED, abs=1)
    few = Pace(7)
    paced(few, clock, 80, 0.000_1)
    assert few.ahead(clock.now) == 7


def test_nothing_is_fired_ahead_while_a_recent_job_ran_for_long() -> None:
    pace, clock = Pace(1_000), Clock()
    paced(pace, clock, 80, 0.000_1)
    pace.ended(1.0)
    assert pace.ahead(clock.now) == 0
    for _ in range(200):
        pace.ended(0.000_1)
    assert pace.ahead(clock.now) > 0


def fast_pool(size: int, clock: Clock, ended: int = 800) -> WorkerPool:
    """A pool whose executions have been short so far."""
    pool = WorkerPool(size, "test", most_ahead=1_000, clock=clock)
    paced(pool._pace, clock, ended, 0.000_1)
    return pool


def test_no_more_tasks_have_a_slot_than_the_pool_has_even_if_they_leave_their_thread() -> None:
    # As with async jobs: the task ends at once, and its slot is released later.
    pool = fast_pool(2, Clock())
    assert pool.headroom > 5
    began = threading.Semaphore(0)
    pool.submit([began.release] * 5)
    assert began.acquire(timeout=60)
    assert began.acquire(timeout=60)
    assert not began.acquire(timeout=0.05)
    assert pool.has_waiting
    for _ in range(3):
        pool.release()
        assert began.acquire(timeout=60)
    assert not pool.has_waiting
    pool.release()
    pool.release()
    assert pool.wait_until_idle(5)
    pool.close()


def test_a_continuation_of_a_started_task_does_not_wait_for_a_slot() -> None:
    pool = fast_pool(1, Clock())
    began, resumed = threading.Event(), threading.Event()
    pool.submit([began.set, lambda: None])
    assert began.wait(30)
    pool.resume(resumed.set)
    assert resumed.wait(30)
    pool.take_back(0.0)
    pool.close()


def test_what_waits_behind_a_job_that_turned_out_to_be_long_is_taken_back() -> None:
    clock = Clock()
    pool = fast_pool(1, clock)
    began, go_on = threading.Event(), threading.Event()

    def long() -> None:
        began.set()
        go_on.wait(30)
        pool.release(1.0)

    waiting = [lambda: None, lambda: None]
    pool.submit([long, *waiting])
    assert began.wait(30)
    assert pool.take_back(PATIENCE) == []
    clock.now += 2 * PATIENCE
    assert set(pool.take_back(PATIENCE)) == set(waiting)
    assert pool.take_back(PATIENCE) == [], "the job that runs is not taken back"
    for _ in waiting:
        pool.release()
    assert pool.headroom == 0, "nothing more is fired ahead, or the same fire would come back"
    go_on.set()
    assert pool.wait_until_idle(5)
    assert pool.headroom == 1
    pool.close()


def test_what_waits_behind_long_jobs_is_taken_back_although_tasks_still_start() -> None:
    clock = Clock()
    pool = fast_pool(2, clock)
    began, go_on = threading.Semaphore(0), threading.Event()

    def long() -> None:
        began.release()
        go_on.wait(30)

    pool.submit([long] * 100)
    for _ in range(2):
        assert began.acquire(timeout=60)
    clock.now += 2 * PATIENCE
    pool.release(1.0)
    go_on.set()
    assert began.acquire(timeout=60), "another one has just started"
    assert len(pool.take_back(PATIENCE)) == 97
    pool.close()


def test_what_waits_in_a_long_row_of_short_jobs_is_not_taken_back() -> None:
    clock = Clock()
    pool = fast_pool(1, clock)
    pool._occupied, pool._tasks = 100, deque([lambda: None] * 100)
    for _ in range(50):
        clock.now += PATIENCE / 2
        assert pool.take_back(PATIENCE) == []
        assert pool._next() is not None
        pool.release(0.000_1)
    assert pool.has_waiting


def test_a_pool_of_long_jobs_asks_for_more_at_its_first_free_slot_and_one_of_short_jobs_at_a_batch() -> None:
    clock = Clock()
    slow = WorkerPool(8, "slow", most_ahead=100, clock=clock)
    slow._occupied = 8
    assert not slow.is_worth_filling(8)
    assert [slow.release(1.0) for _ in range(3)] == [True, False, False]
    fast = fast_pool(8, clock, ended=32)
    fast._occupied = 8 + 20
    assert not fast.is_worth_filling(100)
    # There is room for 28, and half of it is worth a round trip.
    assert [fast.release(0.000_1) for _ in range(15)].index(True) == 13
