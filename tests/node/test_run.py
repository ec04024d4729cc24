"""While a scheduler runs as the main task of a process, garbage collections pass over what existed at its start."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import cast

import pytest

from quartzpy.node.health import HealthState, SchedulerHealth
from quartzpy.node.run import RunEnd, run_until_stopped


class Health:
    state = HealthState.HEALTHY


class Node:
    """A scheduler whose run ends at the second look."""

    def __init__(self) -> None:
        self.frozen: list[int] = []
        self.garbage: weakref.ref[Node] | None = None

    def start(self) -> None:
        # Garbage that only a full collection finds: it must not be kept for the whole run.
        other = Node()
        other.__dict__["itself"] = other
        self.garbage = weakref.ref(other)

    def wait_until_shut_down(self, timeout: float) -> bool:
        self.frozen.append(gc.get_freeze_count())
        return len(self.frozen) == 2

    def health(self) -> SchedulerHealth:
        return cast("SchedulerHealth", Health)

    def shutdown(self, *, wait: bool, timeout: float | None, interrupt: bool) -> bool:
        return True


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_the_objects_of_the_start_are_frozen_during_the_run_only() -> None:
    node = Node()
    assert run_until_stopped(node, None) is RunEnd.DRAINED
    assert min(node.frozen) > 1_000
    assert node.garbage is not None
    assert node.garbage() is None
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_a_program_that_has_frozen_objects_itself_keeps_its_choice() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    # Another freeze would add these. Some frozen objects end meanwhile, which lowers the count.
    young = [[number] for number in range(10_000)]
    node = Node()
    run_until_stopped(node, None)
    assert all(before - len(young) / 2 < count <= before for count in (*node.frozen, gc.get_freeze_count()))
