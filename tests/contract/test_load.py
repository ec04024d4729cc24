"""Tests of the load of the cluster."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.states import TriggerState
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.records import ClusterLoad
from tests.contract.harness import HOUR, SECOND, START, WINDOW, Harness, at, every, job, key, once, serial

NOTHING = ClusterLoad(
    due=0, late=0, longest_due=None, in_error=0, claimed=0, executing=0, nodes_alive=0, nodes_silent=0
)


def test_an_empty_store_has_no_load(store: Harness) -> None:
    assert store.store.cluster_load() == NOTHING


def test_the_load_counts_what_is_due_late_and_in_error(store: Harness) -> None:
    store.schedule(job("one", durable=True), once("due"), once("soon", START + HOUR), once("other", group="other"))
    store.schedule(job("two", execution_group="g"), every(60, "ignored", misfire="ignore"))
    store.schedule(job("three"), once("broken"))
    store.schedule(job("four"), once("paused"))
    store.set_state(key("broken"), TriggerState.ERROR)
    store.store.pause(NamedTriggers([key("paused")]))
    store.clock.advance(SECOND)
    load = store.store.cluster_load()
    assert (load.due, load.late, load.longest_due, load.in_error) == (3, 0, SECOND, 1)
    store.clock.advance(5 * SECOND)
    load = store.store.cluster_load()
    assert (load.due, load.late, load.longest_due, load.in_error) == (3, 3, 6 * SECOND, 1)


def test_what_a_rate_limit_holds_back_is_late_and_not_due(store: Harness) -> None:
    node = store.node()
    store.schedule(job(rate_limit=RateLimit(1, per="1h")), once("first"), once("second"))
    store.fire_one(node)
    store.acquire(node)
    store.clock.advance(6 * SECOND)
    load = store.store.cluster_load()
    assert (load.due, load.late) == (0, 1)


def test_blocked_triggers_can_be_late(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("first"), once("second", at(1)))
    store.fire_one(node)
    store.schedule(job("claimed"), once("claimed", at(2)))
    store.acquire(node, look_ahead=timedelta(minutes=1))
    load = store.store.cluster_load()
    assert (load.executing, load.claimed, load.late) == (1, 1, 0)
    store.clock.advance(8 * SECOND)
    load = store.store.cluster_load()
    assert (load.executing, load.claimed, load.due, load.late) == (2, 0, 0, 1)


def test_nodes_are_alive_within_their_windows(store: Harness) -> None:
    store.node("a")
    store.node("b", window=2 * WINDOW)
    assert store.store.cluster_load().nodes_alive == 2
    store.clock.advance(WINDOW + SECOND)
    load = store.store.cluster_load()
    assert (load.nodes_alive, load.nodes_silent) == (1, 1)
