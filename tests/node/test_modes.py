"""The mode of a node: commands of the program and of operators, in whatever order they arrive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from quartzpy.errors import StoreUnavailableError
from quartzpy.node.reactions import NodeModes
from quartzpy.states import NodeMode
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import NodeRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
INTERVAL = timedelta(seconds=5)
RUNNING, STANDBY, DRAINING = NodeMode.RUNNING, NodeMode.STANDBY, NodeMode.DRAINING


class Records:
    """A store that holds the mode of one node."""

    def __init__(self) -> None:
        self.mode, self.since = RUNNING, None
        self.is_down = False
        self.seconds = 0

    since: datetime | None

    def set_node_mode(self, instance_id: str, mode: NodeMode) -> datetime:
        if self.is_down:
            raise StoreUnavailableError("down")
        self.seconds += 1
        self.mode, self.since = mode, START + timedelta(seconds=self.seconds)
        return self.since

    @property
    def record(self) -> NodeRecord:
        return NodeRecord("a", 1, "h", 1, START, START, 0, INTERVAL, INTERVAL, mode=self.mode, mode_since=self.since)


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def applied() -> list[NodeMode]:
    return []


@pytest.fixture
def modes(records: Records, applied: list[NodeMode]) -> NodeModes:
    return NodeModes(cast("JobStore", records), applied.append)


def test_a_command_of_an_operator_is_applied_once(records: Records, applied: list[NodeMode], modes: NodeModes) -> None:
    assert modes.observe(records.record) is None
    records.set_node_mode("a", DRAINING)
    assert [modes.observe(records.record) for _ in range(3)] == [DRAINING, None, None]
    records.set_node_mode("a", RUNNING)
    assert modes.observe(records.record) is RUNNING
    assert applied == [DRAINING, RUNNING]


def test_a_command_of_the_program_is_published_and_not_undone_by_an_older_answer(
    records: Records, applied: list[NodeMode], modes: NodeModes
) -> None:
    records.set_node_mode("a", DRAINING)
    records.set_node_mode("a", RUNNING)
    stale = records.record
    modes.set_here(STANDBY)
    assert modes.observe(stale) is None, "read before the command was published"
    modes.publish("a")
    assert records.mode is STANDBY
    assert modes.observe(stale) is None
    assert modes.observe(records.record) is None
    assert applied == [STANDBY]


def test_a_command_of_the_program_is_published_when_the_store_is_back(records: Records, modes: NodeModes) -> None:
    records.is_down = True
    modes.set_here(STANDBY)
    with pytest.raises(StoreUnavailableError):
        modes.publish("a")
    records.is_down = False
    modes.publish("a")
    assert (modes.mode, records.mode) == (STANDBY, STANDBY)
    before = records.since
    modes.publish("a")
    assert records.since == before, "only once"


def test_an_operator_ends_a_standby_that_the_program_began(records: Records, modes: NodeModes) -> None:
    modes.set_here(STANDBY)
    modes.publish("a")
    records.set_node_mode("a", RUNNING)
    assert modes.observe(records.record) is RUNNING


def test_a_node_that_rejoins_keeps_its_mode(records: Records, applied: list[NodeMode], modes: NodeModes) -> None:
    records.set_node_mode("a", DRAINING)
    modes.observe(records.record)
    records.mode, records.since = RUNNING, None
    modes.start_epoch()
    assert modes.observe(records.record) is None
    modes.publish("a")
    assert (records.mode, applied) == (DRAINING, [DRAINING])
