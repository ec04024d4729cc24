"""A process at its thread limit: work waits until a thread can be started."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quartzpy.clock import SystemClock
from quartzpy.node.workers import event_loop
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.event_loop import EventLoopThread
from quartzpy.node.workers.worker_pool import WorkerPool

SOON = 20.0


class Limit:
    """While `name` is set, no thread whose name starts with it can be started."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.refused = 0

    def start(self, thread: threading.Thread, really: Callable[[threading.Thread], None]) -> None:
        if self.name is not None and thread.name.startswith(self.name):
            self.refused += 1
            raise RuntimeError("can't start new thread")
        really(thread)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    made = Limit()
    really = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: made.start(thread, really))
    yield made
    made.name = None


def test_tasks_wait_for_a_worker_thread(limit: Limit, caplog: pytest.LogCaptureFixture) -> None:
    pool = WorkerPool(2, "test-pool")
    done = threading.Semaphore(0)

    def task() -> None:
        pool.release()
        done.release()

    limit.name = "test-pool"
    pool.submit([task])
    pool.submit([task])
    pool.keep_running()
    assert pool.free == 0
    assert limit.refused == 3
    limit.name = None
    pool.keep_running()
    assert all(done.acquire(timeout=SOON) for _ in range(2))
    pool.submit([task, task])
    assert all(done.acquire(timeout=SOON) for _ in range(2))
    pool.close()
    assert caplog.text.count("cannot be started") == 1
    assert caplog.text.count("was started at attempt") == 1


def test_existing_threads_do_the_work_of_those_that_cannot_be_started(limit: Limit) -> None:
    pool = WorkerPool(4, "test-pool")
    done = threading.Semaphore(0)

    def task() -> None:
        pool.release()
        done.release()

    pool.submit([task])
    assert done.acquire(timeout=SOON)
    limit.name = "test-pool"
    pool.submit([task] * 4)
    assert all(done.acquire(timeout=SOON) for _ in range(4))
    pool.close()


def test_a_worker_thread_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(1, "test-pool")
    done = threading.Event()
    run_tasks, fails = pool._run_tasks, [True]

    def out_of_memory() -> None:
        if fails[0]:
            fails[0] = False
            raise MemoryError
        run_tasks()

    monkeypatch.setattr(pool, "_run_tasks", out_of_memory)
    pool.submit([done.set])
    assert done.wait(SOON)
    pool.close()


def test_a_deadline_waits_for_its_thread(limit: Limit) -> None:
    deadlines = Deadlines("test-deadlines", SystemClock())
    done = threading.Event()
    limit.name = "test-deadlines"
    deadlines.add(0.0, done.set)
    limit.name = None
    assert not done.is_set()
    deadlines.keep_running()
    assert done.wait(SOON)
    deadlines.close()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_a_failing_deadline_does_not_affect_others(error: type[BaseException]) -> None:
    deadlines = Deadlines("test-deadlines", SystemClock())
    done = threading.Event()

    def fails() -> None:
        raise error

    deadlines.add(0.0, fails)
    deadlines.add(0.01, done.set)
    assert done.wait(SOON)
    deadlines.close()


def test_a_deadline_in_the_far_future_is_accepted() -> None:
    deadlines = Deadlines("test-deadlines", SystemClock())
    done = threading.Event()
    deadlines.add(1e15, lambda: None)
    deadlines.add(0.2, done.set)
    assert done.wait(SOON)
    deadlines.close()


def test_cancelled_deadlines_do_not_accumulate() -> None:
    deadlines = Deadlines("test-deadlines", SystemClock())
    for _ in range(5_000):
        deadlines.cancel(deadlines.add(3_600, lambda: None))
    assert len(deadlines._heap) < 2_000
    deadlines.close()


def test_async_work_waits_for_the_loops_thread(limit: Limit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "START_AGAIN_AFTER", 0.01)
    loop = EventLoopThread("test-loop")
    done = threading.Event()
    limit.name = "test-loop"

    async def work() -> None:
        done.set()

    giver = threading.Thread(target=lambda: loop.run(work()), name="giver")
    giver.start()
    while limit.refused < 3:
        giver.join(0.01)
    assert giver.is_alive()
    limit.name = None
    assert done.wait(SOON)
    giver.join(SOON)
    loop.close(SOON)


def test_a_callback_that_a_job_leaves_behind_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    loop = EventLoopThread("test-loop")
    done = threading.Event()

    async def leaves() -> None:
        def fails() -> None:
            raise SystemExit(3)

        asyncio.get_running_loop().call_soon(fails)

    async def work() -> None:
        done.set()

    left = threading.Event()
    loop.run(leaves(), "leaves", left.set)
    assert left.wait(SOON)
    loop.run(work())
    assert done.wait(SOON)
    loop.close(SOON)
    assert "a callback on the event loop has stopped it; the loop continues" in caplog.text


def test_work_that_is_cancelled_before_its_first_step_has_ended() -> None:
    loop = EventLoopThread("test-loop")
    ended = threading.Event()
    began: list[str] = []

    async def work() -> None:
        began.append("it")

    async def blocks() -> None:
        # The loop gets both calls in one iteration, so the task is cancelled before its first step.
        loop.run(work(), "work", ended.set).cancel_after(0)
        await asyncio.sleep(0)

    loop.run(blocks())
    assert ended.wait(SOON)
    loop.close(SOON)


def test_a_thread_pool_that_cannot_start_threads_logs_it(limit: Limit, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        pool: Any = WorkerPool(1, "test-pool")
        limit.name = "test-pool"
        pool.submit([lambda: None])
    assert "thread test-pool-1 cannot be started (can't start new thread); its work is delayed" in caplog.text
    pool.close()
