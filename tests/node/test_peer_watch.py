from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.node.peers import PeerWatch
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import NodeRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
INTERVAL, WINDOW = timedelta(seconds=5), timedelta(seconds=20)


def answer(at: float, *peers: tuple[str, int, float]) -> CheckIn:
    """Return the answer to a check-in at `at` seconds: peers with name, counter, and second of their last check-in."""
    records = tuple(
        NodeRecord(name, hash(name), "h", 1, START, START + timedelta(seconds=last), count, INTERVAL, WINDOW)
        for name, count, last in peers
    )
    return CheckIn(START + timedelta(seconds=at), records)


def judged(watch: PeerWatch, at: float, *peers: tuple[str, int, float]) -> list[str]:
    return [peer.instance_id for peer in watch.observe(answer(at, *peers), -1, at)]


def test_a_peer_is_dead_after_its_failure_window_without_a_check_in_and_not_before() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    assert [judged(watch, at, ("b", 7, -1)) for at in (0, 5, 10, 15)] == [[], [], [], []]
    assert judged(watch, 20, ("b", 7, -1)) == ["b"]


def test_a_peer_whose_counter_changes_is_alive_even_if_its_last_check_in_seems_old() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    assert all(not judged(watch, 5 * n, ("b", n, -3600)) for n in range(10))


def test_an_old_check_in_alone_does_not_make_a_peer_dead_after_an_outage() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    judged(watch, 0, ("b", 7, 0))
    watch.interrupt()
    assert judged(watch, 60, ("b", 7, 0)) == [], "no node could check in during the outage"
    assert [judged(watch, at, ("b", 7, 0)) for at in (65, 70, 75)] == [[], [], []]
    assert judged(watch, 80, ("b", 7, 0)) == ["b"], "a full window after it is enough"


def test_a_gap_in_the_own_check_ins_restarts_the_observation() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    for at in (0, 5, 10, 15):
        judged(watch, at, ("b", 7, 0))
    assert judged(watch, 40, ("b", 7, 0)) == [], "this process itself was paused"


def test_two_epochs_of_one_instance_id_are_two_peers() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    for at in (0, 5, 10, 15):
        judged(watch, at, ("b", 7, -1))
    reborn = NodeRecord("b", 99, "h", 1, START, START, 7, INTERVAL, WINDOW)
    assert watch.observe(CheckIn(START + timedelta(seconds=20), (reborn,)), -1, 20) == []


def test_a_node_never_finds_itself_dead() -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    own = NodeRecord("a", 1, "h", 1, START, START, 0, INTERVAL, WINDOW)
    for at in range(0, 100, 5):
        assert watch.observe(CheckIn(START + timedelta(seconds=at), (own,)), 1, at) == []


def peer(name: str, count: int, last: float, interval: timedelta, window: timedelta) -> NodeRecord:
    return NodeRecord(name, 1, "h", 1, START, START + timedelta(seconds=last), count, interval, window)


def test_a_peer_is_dead_by_its_own_failure_window() -> None:
    watch = PeerWatch(timedelta(seconds=1), timedelta(seconds=5))
    patient = peer("b", 7, 0, timedelta(seconds=10), timedelta(seconds=60))
    judged_at = next(
        at for at in range(200) if watch.observe(CheckIn(START + timedelta(seconds=at), (patient,)), -1, float(at))
    )
    assert judged_at == 61


def test_the_own_window_of_a_node_does_not_matter_for_its_peers() -> None:
    watch = PeerWatch(INTERVAL, timedelta(hours=1))
    hasty = peer("b", 7, 0, timedelta(seconds=1), timedelta(seconds=6))
    assert [
        bool(watch.observe(CheckIn(START + timedelta(seconds=at), (hasty,)), -1, at)) for at in (0.0, 5.0, 10.0)
    ] == [
        False,
        False,
        True,
    ]


def test_nodes_with_different_settings_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = PeerWatch(INTERVAL, WINDOW)
    for at in range(0, 100, 5):
        other = peer("b", at, at, timedelta(seconds=1), timedelta(seconds=6))
        same = peer("c", at, at, INTERVAL, WINDOW)
        watch.observe(CheckIn(START + timedelta(seconds=at), (other, same)), -1, at)
    [record] = caplog.records
    assert record.getMessage().startswith(
        "node b has checkin_interval 0:00:01 and failure_window 0:00:06, but this node has"
    )
