"""How often a node reads which job types wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.jobs.job import Job, JobTypes, job_types
from quartzpy.node.workers.capacity import MAX_REST, REST_OF_A_KEY, Capacity, KnownTypes
from quartzpy.node.workers.executors import Executors
from quartzpy.store.protocol import DispatchKey, Node
from tests.node.test_small_parts import ManualClock


class Waiting:
    """A store for which triggers of these types wait, and that counts how often it is asked."""

    def __init__(self, number: int) -> None:
        self.keys = {DispatchKey(f"type-{one}") for one in range(number)}
        self.reads = 0
        self.said: dict[DispatchKey, bool] = {}
        self.is_locked = False
        """True if another transaction has locked the row of the node."""

    def waiting_dispatch_keys(self) -> set[DispatchKey]:
        self.reads += 1
        if not self.keys:
            raise ConnectionError("the store does not answer")
        return self.keys

    def decide(self, node: Node, keys: dict[DispatchKey, bool]) -> bool:
        self.said |= {} if self.is_locked else keys
        return not self.is_locked

    def publish(self, *what: object) -> None:
        pass


class Learning:
    """The known types of a node whose check-ins come every five seconds."""

    def __init__(self, number: int, job_types: JobTypes | None = None, settings: SchedulerConfig | None = None) -> None:
        self.clock = ManualClock()
        self.store = Waiting(number)
        self.node = Node("node", 1)
        self.job_types = JobTypes() if job_types is None else job_types
        executors = Executors(1, {}, "worker", cast("Any", None))
        self.known = KnownTypes(
            store=cast("Any", self.store),
            job_types=self.job_types,
            settings=settings or SchedulerConfig(),
            capacity=Capacity(executors, (), {}),
            node=lambda: self.node,
            changed=lambda: None,
            monotonic=self.clock.monotonic,
        )
        self.known.learn()

    def check_in(self) -> int:
        """Check in, and return the number of reads."""
        self.clock.seconds += 5
        before = self.store.reads
        self.known.learn_in_turn()
        return self.store.reads - before


@pytest.mark.parametrize(
    ("number", "every"), [(1, 5.0), (200, 5.0), (1_000, 1_000 * REST_OF_A_KEY), (100_000, MAX_REST)]
)
def test_the_more_types_wait_the_rarer_they_are_read(number: int, every: float) -> None:
    learning = Learning(number)
    assert [learning.check_in() for _ in range(24)].count(1) == 24 * 5 / every


def test_a_type_that_a_step_has_met_is_read_at_the_next_check_in() -> None:
    learning = Learning(1_000)
    learning.known.decide(learning.node, [DispatchKey("new")])
    assert [learning.check_in(), learning.check_in()] == [1, 0]


@pytest.mark.parametrize("fails", [False, True])
def test_the_module_of_a_type_that_only_a_step_has_met_is_imported(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read of what waits examines some of the jobs of each type."""
    module = f"met_by_a_step_{fails}".lower()
    tmp_path.joinpath(f"{module}.py").write_text("from quartzpy import job\n\n\n@job\ndef report(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    learning = Learning(1, job_types, SchedulerConfig(job_modules=[module]))
    met = DispatchKey(f"{module}:report")
    learning.known.decide(learning.node, [met])
    if fails:
        keys, learning.store.keys = learning.store.keys, set()
        with pytest.raises(ConnectionError):
            learning.check_in()
        learning.store.keys = keys
    learning.check_in()
    assert learning.store.said[met]


def test_a_node_that_meets_a_new_type_decides_about_all_that_wait() -> None:
    """A step names some of those that it might meet."""
    learning = Learning(2)
    learning.store.keys |= {DispatchKey("new"), DispatchKey("newer")}
    learning.store.said.clear()
    assert learning.known.decide(learning.node, [DispatchKey("new")])
    assert learning.store.said == {DispatchKey("new"): False, DispatchKey("newer"): False}


def test_what_could_not_be_stored_is_said_again() -> None:
    learning = Learning(2)
    learning.store.keys |= {DispatchKey("new"), DispatchKey("newer")}
    learning.store.said.clear()
    learning.store.is_locked = True
    assert not learning.known.decide(learning.node, [DispatchKey("new")])
    learning.store.is_locked = False
    learning.check_in()
    assert learning.store.said == {DispatchKey("new"): False, DispatchKey("newer"): False}


def test_a_new_epoch_and_a_new_type_of_the_process_are_not_waited_for() -> None:
    learning = Learning(1_000)
    learning.node = Node("node", 2)
    learning.store.said.clear()
    assert [learning.check_in(), learning.check_in()] == [1, 0]
    assert len(learning.store.said) >= 1_000

    class Late(Job):
        def execute(self, context: object) -> None:
            raise NotImplementedError

    learning.job_types.register(Late, "late")
    assert [learning.check_in(), learning.check_in()] == [1, 0]
    assert learning.store.said[DispatchKey("late")]


def test_a_read_that_failed_is_repeated_at_the_next_check_in() -> None:
    learning = Learning(1_000)
    learning.known.decide(learning.node, [DispatchKey("new")])
    keys, learning.store.keys = learning.store.keys, set()
    with pytest.raises(ConnectionError):
        learning.check_in()
    learning.store.keys = keys
    assert [learning.check_in(), learning.check_in()] == [1, 0]
