"""A store in memory has no engines whose calls need tickets."""

from __future__ import annotations

import pytest

from quartzpy.clock import SystemClock
from quartzpy.errors import InvalidValueError
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Node


def test_a_store_in_memory_takes_no_submissions() -> None:
    store, node = RamJobStore(SystemClock()), Node("node", 1)
    with pytest.raises(InvalidValueError, match="memory:// has no engines that need tickets; use a database"):
        store.submit(node, {1: False})
    assert (store.submitted(node, [1]), store.settle(node, {1: 1})) == ({}, {})
