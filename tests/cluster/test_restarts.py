"""Nodes of a program that schedules at each start are restarted at random moments: each instant fires once."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from quartzpy import JobKey
from tests.cluster import restarting
from tests.cluster.nodes import Cluster
from tests.waiting import LIMIT

NODES = 3
KILLED_EACH = 4
"""Of so many restarts one is by SIGKILL; the others are by SIGTERM, as a deploy does it."""


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def test_restarts_at_random_moments_lose_no_instant_and_repeat_none(
    make_cluster: Callable[..., Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    restarts = request.config.getoption("--restarts")
    chance = random.Random(restarts)
    record = tmp_path / "instants.jsonl"
    monkeypatch.setenv(restarting.RECORD_VARIABLE, str(record))
    cluster = make_cluster(app="tests.cluster.restarting:make_scheduler")
    release = 0

    def launch() -> str:
        nonlocal release
        release += 1
        monkeypatch.setenv(restarting.RELEASE_VARIABLE, str(release))
        cluster.launch(f"node-{release}")
        return f"node-{release}"

    # All at once, as the pods of a deployment do.
    running = [launch() for _ in range(NODES)]
    cluster.wait_for_nodes(running)
    for number in range(restarts):
        time.sleep(chance.uniform(0.1, 1.0))  # the moment is what is tested
        goes = running.pop(chance.randrange(NODES))
        if number % KILLED_EACH == 1:
            cluster.kill(goes)
            cluster.expire(goes)
        else:
            cluster.send(goes, signal.SIGTERM)
        running.append(launch())
        assert cluster.processes[goes].wait(LIMIT) in (0, -signal.SIGKILL), cluster.logs()
        cluster.wait_for_nodes(running[-1:])
    names = [f"{way}-{kind}" for way in restarting.WAYS for kind in ("cron", "interval")]

    # What the last dead node held is recovered, and everybody has caught up.
    def caught_up() -> bool:
        now = cluster.client.nodes().now
        running = cluster.client.running()
        # Recovery triggers among them, which the pause below would keep from firing.
        due = [record.progress.next_fire_time for record in cluster.client.triggers()]
        return not running and len(due) == len(names) and all(at is not None and at > now for at in due)

    cluster.wait(caught_up, "the cluster to catch up")
    for name in names:
        cluster.client.pause_job(name)
    cluster.wait(lambda: not cluster.client.running(), "the last executions to end")

    happened: dict[str, dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for line in lines(record):
        happened[str(line["job"])][float(str(line["instant"]))].append(bool(line["recovering"]))
    assert set(happened) == set(names)
    for name, instants in happened.items():
        record_of = cluster.client.trigger_record(cluster.client.triggers_of_job(JobKey(name))[0].key)
        assert record_of is not None
        assert record_of.progress.previous_fire_time is not None
        last = round(record_of.progress.previous_fire_time.timestamp(), 3)
        first = min(instants)
        expected = {round(first + second, 3) for second in range(round(last - first) + 1)}
        assert set(instants) == expected, f"{name}: lost {expected - set(instants)}, extra {set(instants) - expected}"
        # An execution whose node was killed runs again, as it asks for.
        twice = {at for at, runs in instants.items() if runs.count(False) > 1}
        assert not twice, f"{name}: {twice}"
        assert record_of.progress.times_triggered == len(instants), name
        # The last that has started describes it, whichever that was.
        detail = cluster.client.get_job_detail(JobKey(name))
        assert detail is not None
        assert str(detail.description).startswith("release ")
    assert len(cluster.client.trigger_keys("DEFAULT")) == len(names), "no start made triggers of its own"
