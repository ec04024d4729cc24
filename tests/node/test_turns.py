"""Which node is on time, as each node decides by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from quartzpy.node.turns import DISAGREEMENT, FREE_LOSSES, LONGEST_GRACE, MOST_OWN, Turns
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import NodeRecord

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
COMMON = Capabilities(frozenset({"report"}), frozenset({"default"}), workers={"default": 10})


def node(epoch: int, **values: Any) -> NodeRecord:
    fields: dict[str, Any] = {
        "instance_id": f"node-{epoch}",
        "epoch": epoch,
        "host": "host",
        "pid": epoch,
        "started_at": NOW,
        "last_checkin": NOW,
        "checkin_count": 1,
        "checkin_interval": timedelta(seconds=5),
        "failure_window": timedelta(seconds=20),
        "capabilities": COMMON,
    }
    return NodeRecord(**{**fields, **values})


def turns_of(epoch: int, *nodes: NodeRecord, losses: int = FREE_LOSSES + 20) -> Turns:
    turns = Turns()
    turns.note_nodes(CheckIn(NOW, nodes), epoch)
    for _ in range(losses):
        turns.note_loss()
    return turns


def test_each_fire_time_belongs_to_one_node_and_each_node_has_some() -> None:
    nodes = [node(epoch) for epoch in (7, 8, 9)]
    cluster = [turns_of(one.epoch, *nodes) for one in nodes]
    instants = [NOW + timedelta(milliseconds=37 * number) for number in range(300)]
    owners = [[turns.belongs_here(at) for turns in cluster].index(True) for at in instants]
    assert all(sum(turns.belongs_here(at) for turns in cluster) == 1 for at in instants)
    assert all(owners.count(number) > 60 for number in range(3))


def test_fire_times_at_full_seconds_and_minutes_belong_to_all_nodes_in_turn() -> None:
    nodes = [node(epoch) for epoch in (7, 8, 9)]
    turns = turns_of(7, *nodes)
    for step in (timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)):
        assert 20 < sum(turns.belongs_here(NOW + step * number) for number in range(100)) < 50


@pytest.mark.parametrize(
    "other",
    [
        node(8, last_checkin=NOW - timedelta(seconds=21)),
        node(8, mode=NodeMode.STANDBY),
        node(8, mode=NodeMode.DRAINING),
        node(8, capabilities=Capabilities(frozenset({"another"}), COMMON.executors)),
        node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, frozenset({"gpu"}))),
        node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, groups={"heavy": 0})),
    ],
    ids=["dead", "in standby", "draining", "of other types", "with other labels", "with other groups"],
)
def test_a_node_that_is_alone_in_what_it_takes_is_always_on_time(other: NodeRecord) -> None:
    turns = turns_of(7, node(7), other)
    assert not turns.is_behind
    assert all(turns.grace(NOW + timedelta(seconds=number)) is None for number in range(50))
    assert all(turns.delay(NOW + timedelta(seconds=number)) == 0 for number in range(50))


def test_nodes_with_other_numbers_of_workers_are_equals() -> None:
    turns = turns_of(7, node(7), node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, workers={})))
    assert turns.is_behind


def test_the_delay_grows_with_each_loss_up_to_its_bound_and_ends_with_a_claim() -> None:
    nodes = [node(epoch) for epoch in (7, 8)]
    turns = turns_of(7, *nodes, losses=0)
    at = next(at for n in range(99) if not turns.belongs_here(at := NOW + timedelta(seconds=n)))
    longest = []
    for _ in range(FREE_LOSSES + 8):
        longest.append(max(turns.grace(at) or 0.0 for _ in range(200)))
        turns.note_loss()
    assert longest[: FREE_LOSSES + 1] == [0.0] * (FREE_LOSSES + 1)
    assert longest[FREE_LOSSES + 1] < longest[FREE_LOSSES + 2] < longest[FREE_LOSSES + 3]
    assert LONGEST_GRACE * 0.8 < longest[-1] <= LONGEST_GRACE
    turns.look_on_time()
    assert turns.grace(at) is None


def test_nodes_whose_clocks_differ_a_little_leave_no_second_to_nobody() -> None:
    nodes = [node(epoch) for epoch in (7, 8, 9)]
    cluster = [turns_of(one.epoch, *nodes) for one in nodes]
    ahead = DISAGREEMENT / 2
    for number in range(2_000):
        now = NOW + timedelta(milliseconds=5 * number)
        assert any(turns.is_on_duty(now + ahead * (place - 1)) for place, turns in enumerate(cluster))


def test_the_fire_times_that_a_node_remembers_are_few_and_the_soonest() -> None:
    turns = turns_of(7, node(7), node(8))
    fired: Any = [SimpleNamespace(next_fire_time=NOW + timedelta(seconds=n)) for n in range(5 * MOST_OWN, 0, -1)]
    for trigger in fired:
        turns.note_moved([trigger])
    assert len(turns._own) <= 2 * MOST_OWN
    assert turns.soonest_own == NOW + timedelta(seconds=1)
    assert turns.drop_own(NOW + timedelta(seconds=3))
    assert turns.soonest_own == NOW + timedelta(seconds=4)
    assert not turns.drop_own(NOW + timedelta(seconds=3))
