"""The thread of the event loop begins all that arrives, whoever brings it and whenever."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

from quartzpy.node.workers.event_loop import AT_ONCE, EventLoopThread
from quartzpy.node.workers.loop_work import LoopWork


def test_all_that_many_threads_bring_at_once_begins() -> None:
    loop = EventLoopThread("loop")
    ended = threading.Semaphore(0)
    together = threading.Barrier(8)

    async def work() -> None:
        ended.release()

    def bring() -> None:
        together.wait(30)
        for _ in range(200):
            loop.run(work())

    threads = [threading.Thread(target=bring) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert all(ended.acquire(timeout=60) for _ in range(8 * 200))
    for thread in threads:
        thread.join()
    loop.close(5)


def test_what_arrives_after_one_that_cannot_begin_begins_nevertheless() -> None:
    loop = EventLoopThread("loop")
    go_on, ended = threading.Event(), threading.Event()

    async def blocks() -> None:
        go_on.wait(30)

    async def works() -> None:
        ended.set()

    def refuses() -> None:
        raise SystemExit

    loop.run(blocks())
    # All three arrive before the loop looks again, and an error of the second one leaves its callback.
    loop.run(_NotACoroutine(), done=refuses)  # type: ignore[arg-type]
    loop.run(works())
    go_on.set()
    assert ended.wait(30)
    loop.close(5)


class _Held:
    """A loop that is busy until many coroutines have arrived."""

    def __init__(self) -> None:
        self.loop = EventLoopThread("loop")
        self._go_on = threading.Event()
        began = threading.Event()

        async def blocks() -> None:
            began.set()
            self._go_on.wait(30)

        self.loop.run(blocks())
        assert began.wait(30)

    def let_go(self) -> None:
        self._go_on.set()


def test_few_tasks_of_short_jobs_exist_at_once() -> None:
    held = _Held()
    tasks: list[int] = []
    ended = threading.Semaphore(0)

    async def work() -> None:
        tasks.append(len(asyncio.all_tasks()))

    for _ in range(10 * AT_ONCE):
        held.loop.run(work(), done=ended.release)
    held.let_go()
    assert all(ended.acquire(timeout=60) for _ in range(10 * AT_ONCE))
    assert max(tasks) <= 3 * AT_ONCE
    held.loop.close(5)


def test_work_that_has_ended_keeps_nothing() -> None:
    loop = EventLoopThread("loop")
    ended = threading.Event()

    class Thing:
        pass

    def start() -> tuple[LoopWork, weakref.ref[Thing]]:
        thing = Thing()

        async def work() -> None:
            assert thing

        return loop.run(work(), done=ended.set), weakref.ref(thing)

    begun, thing = start()
    assert ended.wait(30)
    loop.close(5)
    gc.collect()
    assert begun.task is None
    assert thing() is None


def test_a_cancelled_job_that_waits_to_begin_does_not_run() -> None:
    held = _Held()
    ran: list[int] = []
    ended = threading.Semaphore(0)

    async def work(number: int) -> None:
        ran.append(number)

    count = 4 * AT_ONCE
    begun = [held.loop.run(work(number), done=ended.release) for number in range(count)]
    begun[-1].cancel_after(0)
    held.let_go()
    assert all(ended.acquire(timeout=60) for _ in range(count))
    assert ran == list(range(count - 1))
    held.loop.close(5)


def test_all_that_waits_to_begin_ends_when_the_loop_is_closed() -> None:
    held = _Held()
    ended = threading.Semaphore(0)

    async def work() -> None:
        await asyncio.sleep(60)

    for _ in range(4 * AT_ONCE):
        held.loop.run(work(), done=ended.release)
    closing = threading.Thread(target=held.loop.close, args=(10,))
    closing.start()
    held.let_go()
    assert all(ended.acquire(timeout=60) for _ in range(4 * AT_ONCE))
    closing.join(20)
    assert not closing.is_alive()


class _NotACoroutine:
    """The loop cannot make a task of it."""

    def close(self) -> None:
        pass
