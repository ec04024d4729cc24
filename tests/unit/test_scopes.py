from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scopes import OF_ONE_OPERATION, PATIENT, QUICK, TOGETHER, ByScope, is_patient, scope_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("place", [*TOGETHER, *QUICK, *PATIENT, OF_ONE_OPERATION])
def test_each_place_exists(place: str) -> None:
    assert list(ROOT.glob(f"{place.partition('::')[0].rstrip('/')}*"))


def test_tests_that_share_a_dear_fixture_are_run_by_one_worker() -> None:
    browser = ("tests/dashboard/browser/test_live.py::test_a", "tests/dashboard/browser/test_pages.py::test_b[1]")
    assert len({scope_of(one) for one in browser}) == 1
    faults = [f"{OF_ONE_OPERATION}test_any[{name}]" for name in ("check-in-timed-out", "check-in-dead", "fire-dead")]
    assert [scope_of(one).partition("::")[2] for one in faults] == ["check-in", "check-in", "fire"]
    assert scope_of(f"{OF_ONE_OPERATION}test_without_a_fault[check-in]") == scope_of(faults[0])


def test_quick_tests_are_given_out_by_module_and_others_one_by_one() -> None:
    assert scope_of("tests/unit/test_keys.py::test_a[x]") == "tests/unit/test_keys.py"
    assert scope_of("tests/cluster/test_states.py::test_a[x]") == "tests/cluster/test_states.py::test_a[x]"


class Worker:
    """A worker of xdist, as its scheduler knows it."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.tests: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True


PATIENT_TESTS = [f"tests/cluster/test_states.py::test_{n}" for n in range(30)]
BUSY_TESTS = [f"tests/node/test_run.py::test_{n}" for n in range(60)]


def scheduled(tests: list[str], workers: list[Worker], durations: Path = Path("none")) -> Any:
    option = SimpleNamespace(tx=["popen"] * len(workers), loadscopereorder=True, maxprocesses=None)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduler: Any = ByScope(config, None, durations)
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    return scheduler


def run_all(scheduler: Any, workers: list[Worker]) -> Iterator[int]:
    """Run a test of each worker in turn until none has any, and yield its place in the collection."""
    while any(worker.tests for worker in workers):
        for worker in workers:
            if worker.tests:
                test = worker.tests.pop(0)
                scheduler.mark_test_complete(worker, test)
                yield test


def test_at_most_half_of_the_workers_wait_while_there_is_something_to_compute() -> None:
    workers = [Worker(f"gw{n}") for n in range(6)]
    tests = [*BUSY_TESTS, *PATIENT_TESTS]
    scheduler = scheduled(tests, workers)
    most = 0
    for _ in run_all(scheduler, workers):
        if not all(map(is_patient, scheduler.workqueue)):
            waiting = [units for units in scheduler.assigned_work.values() if any(map(is_patient, units))]
            most = max(most, len(waiting))
    assert most == 3
    assert scheduler.tests_finished
    assert all(worker.shutting_down for worker in workers)


def test_each_test_runs_once_also_if_a_worker_crashes() -> None:
    workers = [Worker(f"gw{n}") for n in range(3)]
    tests = [*BUSY_TESTS, *PATIENT_TESTS]
    scheduler = scheduled(tests, workers)
    running = run_all(scheduler, workers)
    ran = [next(running) for _ in range(20)]
    running.close()
    crashed = workers.pop(0)
    assert scheduler.remove_node(crashed) == tests[crashed.tests[0]]
    ran += run_all(scheduler, workers)
    assert sorted(ran) == list(range(len(tests)))


def test_what_took_longest_the_last_time_is_given_out_first(tmp_path: Path) -> None:
    durations = tmp_path / "durations.json"
    durations.write_text(json.dumps({PATIENT_TESTS[7]: 30.0, BUSY_TESTS[5]: 9.0, BUSY_TESTS[2]: 4.0, "left": 1.0}))
    tests = [*BUSY_TESTS, *PATIENT_TESTS]
    workers = [Worker("gw0"), Worker("gw1")]
    scheduler = scheduled(tests, workers, durations)
    sent = [tests[index] for worker in workers for index in worker.tests]
    assert {PATIENT_TESTS[7], BUSY_TESTS[5], BUSY_TESTS[2]} < set(sent)
    scheduler.mark_test_complete(workers[0], tests.index(PATIENT_TESTS[7]), 12.5)
    scheduler.remember()
    assert json.loads(durations.read_text()) == {
        PATIENT_TESTS[7]: 12.5,
        BUSY_TESTS[5]: 9.0,
        BUSY_TESTS[2]: 4.0,
        "left": 1.0,
    }
