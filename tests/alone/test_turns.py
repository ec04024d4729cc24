"""In each turn one of several nodes is on time; the others look later, and take what it leaves soon after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.node.next_look import MAX_GRACE, Peers
from tests.alone.simulation import SLACK, How, SimulatedNode, Simulation
from tests.contract.harness import START, at, every, job, once

Make = Callable[..., Simulation]
QUIET = 5
"""The seconds after which one node takes what fires every second, and the others look later."""


def every_second(simulation: Simulation, count: int = 1) -> None:
    simulation.harness.schedule(job(), *[every(1, f"t{n}", start=at(1 + n / count)) for n in range(count)])
    simulation.notify()


def let_all_be_late(simulation: Simulation) -> None:
    """Let no node be the one that took something last."""
    for node in simulation.nodes:
        node.thread._knowledge = replace(node.thread._knowledge, took_last=False)


def let_it_be_the_turn_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peers, "place", lambda peers, instant: 1)


def instants_since(simulation: Simulation, seconds: float) -> list[float]:
    scheduled = ((one.scheduled_fire_time - START).total_seconds() for one in simulation.fires)
    return sorted(second for second in scheduled if second >= seconds)


def others_than(simulation: Simulation, node: SimulatedNode) -> list[SimulatedNode]:
    return [other for other in simulation.nodes if other is not node]


# --- what it saves


@pytest.mark.parametrize("nodes", [3, 10])
def test_the_looks_of_many_nodes_are_few_more_than_those_of_one(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    every_second(simulation, 50)
    simulation.run(QUIET)
    looks = Counter[SimulatedNode]()
    for node in simulation.nodes:
        _count_looks(node, looks)
    simulation.run(10)
    assert max(simulation.lateness()) < SLACK
    # Which node is on time may change meanwhile, so those of all nodes are counted.
    assert looks.total() < 10 * 50 + 10 * 10 * (nodes - 1), "the others look a few times a second"


def test_a_node_that_comes_back_takes_its_part_again_where_something_is_due_all_the_time(simulate: Make) -> None:
    simulation = simulate(3)
    every_second(simulation, 50)
    simulation.nodes[0].frozen_until = at(3)
    simulation.run_until(at(2.99))
    assert not simulation.nodes[0].fires
    before = [len(node.fires) for node in simulation.nodes]
    count = len(simulation.fires)
    simulation.run(20)
    taken = [len(node.fires) - number for node, number in zip(simulation.nodes, before, strict=True)]
    assert sum(taken) == 20 * 50
    assert min(taken) > 200, taken
    assert max(simulation.lateness()[count + 1 :]) < SLACK


def _count_looks(node: SimulatedNode, looks: Counter[SimulatedNode]) -> None:
    acquire: Any = node.thread._acquire

    def counted(*arguments: object) -> None:
        looks[node] += 1
        acquire(*arguments)

    cast("Any", node.thread)._acquire = counted


@pytest.mark.parametrize("nodes", [3, 10])
def test_notifications_are_answered_by_few_nodes_at_once(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    looks = Counter[SimulatedNode]()
    for node in simulation.nodes:
        _count_looks(node, looks)
    for number in range(100):
        simulation.run_until(at(number / 20))
        simulation.harness.schedule(job(f"job-{number}"), once(f"once-{number}", at(number / 20)))
        simulation.notify()
    simulation.run(1)
    assert len(simulation.fires) == 100
    # The passes of all nodes at the first instant, one after another.
    assert max(simulation.lateness()) < SLACK * 2
    assert sum(looks.values()) < 100 * nodes * (0.85 if nodes == 3 else 0.6)


# --- bad weather


@pytest.mark.parametrize("count", [2, 20], ids=["two triggers", "many triggers"])
def test_what_a_node_was_to_take_that_died_is_taken_within_the_grace(simulate: Make, count: int) -> None:
    simulation = simulate(3)
    every_second(simulation, count)
    simulation.run_until(at(QUIET + 0.12))
    taker = simulation.last_taker
    simulation.nodes = others_than(simulation, taker)
    fires = len(simulation.fires)
    simulation.run_until(at(QUIET + 1.12))
    assert len(simulation.fires) - fires == count
    assert max(simulation.lateness()) < MAX_GRACE + SLACK
    simulation.run_until(at(QUIET + 2.02))
    fires = len(simulation.fires)
    simulation.run_until(at(QUIET + 4.02))
    assert len(simulation.fires) - fires == 2 * count
    assert max(simulation.lateness()[fires:]) < SLACK, "the next ones are on time"


def test_what_only_a_dead_node_knew_is_taken_at_the_next_look(simulate: Make) -> None:
    """The others have read the lone trigger as claimed, so that nothing waits, and rest until their idle look."""
    simulation = simulate(3)
    every_second(simulation)
    simulation.run_until(at(2.5))
    simulation.nodes = others_than(simulation, simulation.last_taker)
    simulation.run_until(at(30))
    assert instants_since(simulation, 1) == [float(n) for n in range(1, 30)]
    assert max(simulation.lateness()) < 15 + SLACK


@pytest.mark.parametrize("how", ["it is frozen", "it cannot reach its store"])
def test_what_a_node_was_to_take_that_comes_back_is_taken_within_the_grace(simulate: Make, how: str) -> None:
    simulation = simulate(3)
    every_second(simulation, 2)
    simulation.run_until(at(QUIET + 0.1))
    taker = simulation.last_taker
    if how == "it is frozen":
        taker.frozen_until = at(QUIET + 3.1)
    taker.is_cut_off = how != "it is frozen"
    simulation.run_until(at(QUIET + 3.1))
    taker.is_cut_off = False
    simulation.run_until(at(QUIET + 5.9))
    assert instants_since(simulation, QUIET) == [QUIET + n / 2 for n in range(12)], "each once"
    assert max(simulation.lateness()) < MAX_GRACE + SLACK


def test_a_node_in_standby_leaves_its_triggers_to_others_that_are_on_time(simulate: Make) -> None:
    simulation = simulate(3)
    every_second(simulation)
    for second in range(QUIET, QUIET + 4):
        simulation.run_until(at(second + 0.3))
        let_all_be_late(simulation)
        simulation.last_taker.thread.signals.set_standby(True)
        if second == QUIET + 1:
            break
    simulation.run_until(at(QUIET + 6.5))
    assert instants_since(simulation, QUIET) == [QUIET + n for n in range(7)]
    assert max(simulation.lateness()) < SLACK


def test_full_nodes_do_not_make_triggers_late_that_others_can_take(simulate: Make) -> None:
    simulation = simulate(3, workers=4)
    every_second(simulation, 9)
    simulation.hows["job"] = How(takes=timedelta(seconds=0.9))
    simulation.run(QUIET + 10)
    late = simulation.lateness()
    assert len(late) >= 9 * (QUIET + 8)
    assert max(late) < MAX_GRACE + SLACK
    assert sorted(late)[len(late) * 9 // 10] < SLACK


def test_a_new_trigger_is_on_time_although_all_nodes_look_later(simulate: Make) -> None:
    simulation = simulate(3)
    for second in range(1, 8):
        let_all_be_late(simulation)
        simulation.harness.schedule(job(f"job-{second}"), once(f"once-{second}", at(second)))
        simulation.notify()
        simulation.run_until(at(second + 0.4))
    late = simulation.lateness()
    assert len(late) == 7
    assert max(late) < SLACK


def test_a_new_trigger_that_is_due_is_on_time_although_all_nodes_look_later(simulate: Make) -> None:
    simulation = simulate(3)
    for second in range(1, 8):
        simulation.run_until(at(second))
        let_all_be_late(simulation)
        simulation.harness.schedule(job(f"job-{second}"), once(f"once-{second}", at(second)))
        simulation.notify()
    simulation.run(1)
    late = simulation.lateness()
    assert len(late) == 7
    assert max(late) < SLACK


@pytest.mark.parametrize("lead", [0, 1], ids=["due", "due later"])
def test_a_new_trigger_that_is_for_a_dead_node_is_taken_within_the_grace(
    simulate: Make, lead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node that lives is on time for it: all think that another one is."""
    let_it_be_the_turn_of_nobody(monkeypatch)
    simulation = simulate(3)
    for second in range(1, 8):
        simulation.run_until(at(second))
        let_all_be_late(simulation)
        simulation.harness.schedule(job(f"job-{second}"), once(f"once-{second}", at(second + lead)))
        simulation.notify()
    simulation.run(2)
    late = simulation.lateness()
    assert len(late) == 7
    assert max(late) < MAX_GRACE + SLACK


def test_a_node_that_takes_what_others_left_is_on_time_from_then_on(
    simulate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_it_be_the_turn_of_nobody(monkeypatch)
    simulation = simulate(2)
    simulation.nodes = simulation.nodes[:1]
    simulation.run(0.5)
    let_all_be_late(simulation)
    for second in range(1, 7):
        simulation.harness.schedule(job(f"job-{second}"), once(f"once-{second}", at(second)))
    simulation.notify()
    simulation.run(8)
    first, *others = simulation.lateness()
    assert SLACK < first < MAX_GRACE + SLACK
    assert len(others) == 5
    assert max(others) < SLACK


def test_a_notification_that_reaches_one_node_is_answered_within_the_grace(simulate: Make) -> None:
    simulation = simulate(3)
    for second, node in enumerate([*simulation.nodes, *simulation.nodes], start=1):
        simulation.run_until(at(second))
        let_all_be_late(simulation)
        simulation.harness.schedule(job(f"job-{second}"), once(f"once-{second}", at(second)))
        node.thread.signals.notify(then=lambda: None)
    simulation.run(1)
    late = simulation.lateness()
    assert len(late) == 6
    assert max(late) < MAX_GRACE + SLACK


def test_a_notification_is_answered_although_another_look_comes_first(
    simulate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It arrives before a fire that takes so long that the thread looks before the answer is due."""
    let_it_be_the_turn_of_nobody(monkeypatch)
    simulation = simulate(2)
    node = simulation.nodes[0]
    simulation.nodes = [node]
    simulation.harness.schedule(job(), every(5, start=at(5)))
    simulation.notify()
    simulation.run_until(at(4.95))
    let_all_be_late(simulation)
    fire = node.store.acquire
    answers: list[datetime] = []

    def slow(*arguments: object, **values: object) -> object:
        simulation.clock.advance(timedelta(seconds=1))
        return fire(*arguments, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "acquire", slow)
    simulation.run_until(at(4.998))
    node.at = at(5)
    simulation.clock.set(at(5))
    node.thread.signals.notify(then=lambda: answers.append(simulation.clock.now()))
    simulation.run_until(at(9))
    assert len(simulation.fires) == 1
    assert len(answers) == 1
    assert answers[0] < at(6 + MAX_GRACE + SLACK)


def test_a_node_that_goes_into_standby_answers_notifications_at_once(
    simulate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes the misfire handler, which works in standby as well."""
    let_it_be_the_turn_of_nobody(monkeypatch)
    simulation = simulate(3)
    simulation.run(1)
    answers: list[int] = []
    for number, node in enumerate(simulation.nodes):
        node.thread.signals.notify(then=lambda number=number: answers.append(number))  # type: ignore[misc]
    simulation.run(0.02)
    assert not answers
    for node in simulation.nodes:
        # Its announcement, which asks all nodes to look, may be lost.
        cast("Any", node.thread)._store = node.store
        node.thread.signals.set_standby(True)
    simulation.run(0.02)
    assert sorted(answers) == [0, 1, 2]


def test_a_node_looks_again_for_what_a_look_was_to_find_that_failed(simulate: Make) -> None:
    simulation = simulate(1)
    [node] = simulation.nodes
    simulation.run(1)
    simulation.harness.schedule(job(), once("once", at(2)))
    node.thread.signals.look_again()
    node.thread.signals.looks_again = False
    node.thread.after_failure(ConnectionError())
    simulation.run(2)
    assert max(simulation.lateness()) < SLACK


def test_the_node_that_took_something_last_is_on_time_for_what_comes_next(
    simulate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is after notifications, too, for which it finds nothing."""
    let_it_be_the_turn_of_nobody(monkeypatch)
    simulation = simulate(2)
    every_second(simulation)
    simulation.run_until(at(1.5))
    simulation.nodes = [simulation.last_taker]
    for second in range(2, 8):
        simulation.notify()
        simulation.run_until(at(second + 0.4))
    assert instants_since(simulation, 1) == [float(n) for n in range(1, 8)]
    assert max(simulation.lateness()[2:]) < SLACK


def test_a_node_whose_epoch_is_lost_costs_the_others_no_more_than_the_grace(simulate: Make) -> None:
    simulation = simulate(3)
    every_second(simulation, 2)
    simulation.run_until(at(QUIET + 0.1))
    taker = simulation.last_taker
    taker.store.leave(taker.node)
    taker.thread.signals.look_again()
    with pytest.raises(LeaseLostError):
        taker.thread.run_as(taker.epoch)
    simulation.nodes = others_than(simulation, taker)
    simulation.run_until(at(QUIET + 3.9))
    assert instants_since(simulation, QUIET) == [QUIET + n / 2 for n in range(8)]
    assert max(simulation.lateness()) < MAX_GRACE + SLACK
