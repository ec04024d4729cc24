"""The thread of the event loop begins all that arrives, whoever brings it and whenever."""

from __future__ import annotations

import threading

from quartzpy.runtime.event_loop import EventLoopThread


def test_all_that_many_threads_bring_at_once_begins() -> None:
    loop = EventLoopThread("loop")
    ended = threading.Semaphore(0)
    together = threading.Barrier(8)

    async def work() -> None:
        ended.release()

    def bring() -> None:
        together.wait(10)
        for _ in range(200):
            loop.run(work())

    threads = [threading.Thread(target=bring) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert all(ended.acquire(timeout=20) for _ in range(8 * 200))
    for thread in threads:
        thread.join()
    loop.close(5)


def test_what_arrives_after_one_that_cannot_begin_begins_nevertheless() -> None:
    loop = EventLoopThread("loop")
    go_on, ended = threading.Event(), threading.Event()

    async def blocks() -> None:
        go_on.wait(10)

    async def works() -> None:
        ended.set()

    def refuses() -> None:
        raise SystemExit

    loop.run(blocks())
    # All three arrive before the loop looks again, and an error of the second one leaves its callback.
    loop.run(_NotACoroutine(), done=refuses)  # type: ignore[arg-type]
    loop.run(works())
    go_on.set()
    assert ended.wait(10)
    loop.close(5)


class _NotACoroutine:
    """The loop cannot make a task of it."""

    def close(self) -> None:
        pass
