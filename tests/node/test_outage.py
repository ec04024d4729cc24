from __future__ import annotations

import heapq
import logging

import pytest

from quartzpy.errors import OutcomeUnknownError, StoreUnavailableError
from quartzpy.node.service import StoreWatch, is_without_connection
from tests.node.test_small_parts import ManualClock

DOWN = StoreUnavailableError("down")
WINDOW = 20.0


def watch(clock: ManualClock, woken: list[float]) -> StoreWatch:
    store = StoreWatch(logging.getLogger("test"), "node a", clock)
    store.wake_when_back(lambda: woken.append(clock.seconds))
    return store


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_single_failure_is_neither_a_warning_nor_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    store = watch(clock, [])
    assert store.check_in_failed(DOWN, WINDOW) == 0, "the second attempt is immediate"
    assert store.outage is None, "a busy machine or a lost packet makes no node unhealthy"
    clock.seconds += 1
    store.checked_in()
    assert store.outage is None
    assert not warnings(caplog)
    store.check_in_failed(DOWN, WINDOW)
    clock.seconds += 1
    store.check_in_failed(DOWN, WINDOW)
    assert store.outage == 1, "since the first of them"


def test_an_outage_is_two_lines_regardless_of_the_other_threads_errors(caplog: pytest.LogCaptureFixture) -> None:
    clock, woken = ManualClock(), list[float]()
    store = watch(clock, woken)
    for _ in range(50):
        clock.seconds += store.check_in_failed(DOWN, WINDOW)
        store.try_failed()
    assert len(warnings(caplog)) == 1
    assert not woken, "no thread is woken before the store is back"
    lasted = store.outage
    store.checked_in()
    began, ended = warnings(caplog)
    assert began == "node a: the database is unavailable: down"
    assert ended == f"node a: the database is back after {lasted:.1f} s and 50 failed check-ins"
    assert woken == [clock.seconds], "the waiting threads try now"


def test_during_an_outage_a_node_connects_at_most_twenty_times_a_minute() -> None:
    clock = ManualClock()
    store = watch(clock, [])
    begin = clock.seconds
    tries: list[float] = []
    # The check-in thread, and five threads that need a connection.
    due = [(begin, thread) for thread in range(6)]
    while due[0][0] < begin + 600:
        at, thread = heapq.heappop(due)
        clock.seconds = at
        tries.append(at)
        wait = store.check_in_failed(DOWN, WINDOW) if thread == 0 else store.try_failed()
        heapq.heappush(due, (at + wait, thread))
    steady = [at for at in tries if at >= begin + 60]
    assert len(steady) / 9 <= 20
    assert len(tries) - len(steady) <= 35


def test_a_node_of_a_short_window_tries_often_enough_to_check_in_within_it_after_an_outage() -> None:
    """The first node that is back watches the others for one window, and would take one that waits for a dead one."""
    clock = ManualClock()
    store = watch(clock, [])
    waits = [store.check_in_failed(DOWN, 2.0) for _ in range(50)]
    assert max(waits) <= 0.5
    assert min(waits[10:]) < max(waits[10:]), "not all nodes at once"
    assert max(store.check_in_failed(DOWN, WINDOW) for _ in range(50)) > 4


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DOWN, True),
        (OutcomeUnknownError("lost"), True),
        (StoreUnavailableError("shutting down", sqlstate="57P01"), True),
        (StoreUnavailableError("too many", sqlstate="53300"), True),
        (StoreUnavailableError("read-only", sqlstate="25006"), True),
        (StoreUnavailableError("lock timeout", sqlstate="55P03"), False),
        (StoreUnavailableError("statement timeout", sqlstate="57014"), False),
        (ValueError(), False),
    ],
)
def test_errors_that_mean_a_lost_connection_are_recognized(error: Exception, expected: bool) -> None:
    assert is_without_connection(error) is expected
