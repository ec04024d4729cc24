"""A test that leaves a node running fails itself, and not the tests after it."""

from __future__ import annotations

import pytest

from quartzpy import Scheduler
from tests import leftovers


def test_a_node_that_still_runs_is_named_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE", 0.1)
    assert leftovers.stop_leftover_nodes() == []
    scheduler = Scheduler("memory://", instance_id="forgotten")
    scheduler.start()
    assert leftovers.stop_leftover_nodes() == ["quartzpy-forgotten-check-in"]
    assert leftovers.stop_leftover_nodes() == []
    scheduler.shutdown()
