from __future__ import annotations

import threading

import pytest

from quartzpy.node.workers.worker_pool import WorkerPool


def test_blocking_tasks_get_a_thread_each() -> None:
    pool = WorkerPool(8, "test")
    together = threading.Barrier(8)
    done = threading.Semaphore(0)

    def task() -> None:
        together.wait(30)
        done.release()
        pool.release()

    pool.submit([task] * 8)
    assert all(done.acquire(timeout=60) for _ in range(8))
    assert pool.wait_until_idle(5)
    pool.close()


def test_slots_may_share_fewer_threads() -> None:
    """Each task keeps its slot after its end, as an async job that waits does."""
    pool = WorkerPool(8, "shared", threads=3)
    together = threading.Barrier(4)
    done = threading.Semaphore(0)

    def blocks() -> None:
        together.wait(30)
        done.release()

    pool.submit([*[blocks] * 3, *[lambda: done.release()] * 5])
    assert not done.acquire(timeout=0.05), "three tasks have the three threads, and the others wait for one"
    together.wait(30)
    assert all(done.acquire(timeout=60) for _ in range(8))
    assert pool.free == 0
    assert sum(thread.name.startswith("shared-") for thread in threading.enumerate()) == 3
    for _ in range(8):
        pool.release()
    pool.close()


def test_slots_are_counted_from_submission_to_release() -> None:
    pool = WorkerPool(3, "test")
    go = threading.Event()
    pool.submit([lambda: go.wait(30) and pool.release()] * 3)  # type: ignore[func-returns-value, list-item]
    assert pool.free == 0
    go.set()
    assert pool.wait_until_idle(5)
    assert pool.free == 3
    pool.close()


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_task_that_raises_does_not_end_its_thread(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    pool = WorkerPool(1, "test")
    ran = threading.Event()

    def fails() -> None:
        pool.release()
        raise error

    def works() -> None:
        ran.set()
        pool.release()

    pool.submit([fails])
    pool.submit([works])
    assert ran.wait(30)
    pool.close()
    assert "a task of a worker raised an error" in caplog.text


def test_tasks_submitted_before_close_still_run() -> None:
    pool = WorkerPool(1, "test")
    count: list[int] = []
    pool.submit([lambda n=n: (count.append(n), pool.release()) for n in range(50)])  # type: ignore[misc]
    pool.close()
    assert pool.wait_until_idle(5)
    assert count == list(range(50))
