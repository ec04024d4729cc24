"""A run in a world has all that the world consists of."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quartzpy.config.config import SchedulerConfig
from tests.chaos import __main__ as program
from tests.chaos import plans, workload
from tests.chaos.conductor import MODES, Mode, mode_of, nodes_of
from tests.chaos.lives import fire_times
from tests.chaos.made_up import good, iso
from tests.chaos.records import SECOND, wall_ns
from tests.chaos.tempo import Limits, Tempo
from tests.worlds import current
from tests.worlds.world import COMPETITORS, WORLDS, World

STARVED = Tempo.of(WORLDS["starved"])
START = datetime(2026, 11, 26, 7, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _same_world_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "world", current.world)


def test_a_run_in_the_starved_world_shares_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def play_all(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
        busy = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, check=True)
        seen.append((len(os.sched_getaffinity(0)), len(busy.stdout.split()) >= COMPETITORS, current.or_newest().name))
        return 0

    monkeypatch.setattr(program, "_play_all", play_all)
    monkeypatch.setattr(sys, "argv", ["chaos", "--world", "starved"])
    before = os.sched_getaffinity(0)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 0
    assert seen == [(1, True, "starved")]
    assert os.sched_getaffinity(0) == before


def test_a_run_in_the_world_of_another_python_begins_anew_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    class BeganAnewError(Exception):
        pass

    def execute(path: Path, arguments: list[str]) -> None:
        assert str(path) == arguments[0]
        raise BeganAnewError(arguments)

    monkeypatch.setattr(program, "interpreter", lambda version: Path("/python") / version)
    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(sys, "argv", ["chaos", "--seed", "7", "--world", "python3.13"])
    with pytest.raises(BeganAnewError) as began:
        program.main()
    assert began.value.args[0] == ["/python/3.13", "-m", "tests.chaos", "--seed", "7", "--world", "python3.13"]


@pytest.mark.parametrize("world", [None, *(world for world in WORLDS.values() if not world.competitors)])
def test_where_a_run_has_a_machine_nothing_is_slower(world: World | None) -> None:
    tempo = Tempo.of(world)
    assert tempo.limits == Limits(window=3.0, recovered_within=6.0, epsilon=4.0, slowness=1)
    assert tempo.settings["failure_window"] == "3.0s"
    assert plans.make("X14", random.Random(1), ["n1"], 1, tempo).hold == 3.0
    assert "misfire_threshold" not in tempo.settings
    assert mode_of("smoke", tempo) == Mode("smoke", 3, 1.5, 13.0, 0.5, 4.0, 3.0)
    assert mode_of("quick", tempo) == Mode("quick", 3, 8.0, 30.0, 1.0, 8.0, 3.0)
    assert mode_of("long", tempo) == Mode("long", 5, 2.0, 30.0, 1.0, 8.0, 3.0)


def test_the_starved_world_has_limits_that_a_node_accepts_and_time_at_the_end() -> None:
    assert STARVED.limits == Limits(window=12.0, recovered_within=24.0, epsilon=16.0, slowness=4, misfires_after=240.0)
    settings = {name: value for name, value in STARVED.settings.items() if name != "name"}
    assert SchedulerConfig.of({"name": "chaos", **settings}).failure_window.total_seconds() == STARVED.window
    for name in MODES:
        # What was due before the last faults is judged, and what they have delayed has its time.
        assert mode_of(name, STARVED).liveness > STARVED.limits.recovered_within + STARVED.limits.epsilon


@pytest.mark.parametrize("mode", ["smoke", "quick"])
def test_the_starved_world_has_the_same_faults_in_the_same_order(mode: str) -> None:
    nodes = nodes_of(mode_of(mode, STARVED))
    usual, slower = plans.plan(mode, 321, nodes), plans.plan(mode, 321, nodes, tempo=STARVED)
    assert [(one.family, one.name, one.node) for one in slower] == [(one.family, one.name, one.node) for one in usual]
    assert all(one.hold >= other.hold for one, other in zip(slower, usual, strict=True))
    assert all(one.hold > STARVED.window for one in slower if one.family == "X2")
    # A second process with the id of a node is only refused once it has started.
    assert all(one.hold > min(STARVED.starts_within, 29) for one in slower if one.name == "twin")


def test_a_day_has_each_of_its_faults_and_a_migration_in_the_middle() -> None:
    day = plans.day(["n1", "n2", "n3"], 60)
    assert Counter(one.name for one in day) == {
        "renew": 12,
        "end_sessions": 6,
        "restart_pooler": 6,
        "failover": 3,
        "standby": 3,
        "server_restart": 3,
        "deploy": 27,
        "migrate": 1,
    }
    [middle] = [place for place, one in enumerate(day) if one.name == "migrate"]
    assert middle == 30
    assert {one.values["release"] for one in day[:middle] if one.name == "deploy"} == {"this"}
    deployed = [(one.node, one.values["release"]) for one in day[middle:] if one.name == "deploy"]
    nodes = ("n1", "n2", "n3")
    assert deployed[:6] == [*((node, "next") for node in nodes), *((node, "this") for node in nodes)]


def _scheduled(tempo: Tempo) -> list[workload.Planned]:
    rate = mode_of("quick", tempo).rate
    declared = workload.declared(START, rate, tempo.slowness, tempo.sparseness)
    return [*declared, *workload.moved(START, 6, tempo.sparseness)]


def _kind(planned: workload.Planned) -> str:
    return planned.job.name.rstrip("0123456789")


def _a_second(planned: Iterable[workload.Planned]) -> float:
    """How often it fires, over half an hour."""
    until = wall_ns(START) + 1_800 * SECOND
    return sum(1 for one in planned for spec in one.specs for _ in fire_times(spec, until)) / 1_800


def test_the_starved_world_has_a_workload_of_every_kind_that_fits() -> None:
    usual, sparse = _scheduled(Tempo()), _scheduled(STARVED)
    assert Counter(map(_kind, sparse)).keys() == Counter(map(_kind, usual)).keys()
    assert 90 < _a_second(usual) < 120
    assert 5 < _a_second(sparse) < 8
    # The jobs that fail at each third of their fire times do and do not.
    [one, *_] = [planned for planned in sparse if planned.job.name == "transactional-0"]
    instants = list(fire_times(one.specs[0], wall_ns(START) + 300 * SECOND))
    assert {instant // SECOND // 2 % 3 for instant in instants} == {0, 1, 2}


def test_schedules_of_the_starved_world_are_what_the_checker_expects() -> None:
    for planned in _scheduled(STARVED):
        for trigger, spec in zip(planned.triggers, planned.specs, strict=True):
            computed = [wall_ns(instant) for instant in itertools.islice(trigger.fire_times(START), 5)]
            assert computed == list(itertools.islice(fire_times(spec, wall_ns(START) + 3_600 * SECOND), 5))


def test_slowness_excuses_nothing_that_is_lost_doubled_or_stuck() -> None:
    assert good().violated(STARVED.limits) == set()
    made = good()
    made.forget(event="start", trigger="chaos.plain", instant=iso(11))
    assert "lost" in made.violated(STARVED.limits)
    made = good()
    made.run("chaos.plain", 11, at=30)
    assert "duplicated" in made.violated(STARVED.limits)
    made = good()
    made.end["triggers"] = [{"trigger": "chaos.serial", "state": "BLOCKED", "next": iso(40), "error": None}]
    assert made.violated(STARVED.limits) == {"stuck"}


def test_the_deadlines_of_the_starved_world_are_finite() -> None:
    made = good()
    made.once("once.late", 10)
    made.run("once.late", 10, at=10 + STARVED.limits.epsilon - 0.1)
    made.once("once.later", 10)
    made.run("once.later", 10, at=10 + STARVED.limits.epsilon + 0.1)
    assert [text.split("@")[0] for kind, text in made.report(STARVED.limits).violations if kind == "late"] == [
        "once.later"
    ]
