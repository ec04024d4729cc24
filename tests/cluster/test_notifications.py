"""Incidents under kills of the nodes that notify and a webhook that fails half the time: each is told, and once.

`python -m tests.cluster.test_notifications --incidents 1000` tells of more of them, and prints the figures.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quartzpy import JobDetail, SimpleTrigger
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from tests.cluster.app import Quick
from tests.cluster.nodes import Cluster
from tests.database import execute
from tests.waiting import wait_until
from tests.webhooks import SECRET, Receiver, receiver

APP = "tests.cluster.notifying:make_scheduler"
LIMIT = 240.0


class Trouble:
    """A cluster whose triggers the test breaks and mends, and the receiver of its channels, one for each job group."""

    def __init__(self, cluster: Cluster, server: Receiver, groups: int, *, kills: int, seed: int = 1) -> None:
        self.cluster, self.server, self.groups = cluster, server, groups
        self.chance = random.Random(seed)
        self.kills, self.kills_by_now = kills, 0
        self.killed: list[str] = []
        self._lock = threading.Lock()
        server.decide = self.decide
        cluster.settings["notify_channels"] = {
            f"c{number}": {
                "url": f"{server.url}/c{number}",
                "secret": "env:QUARTZPY_TEST_SECRET",
                "gather": 0,
                "routes": [{"groups": [f"g{number}"], "kinds": ["trigger-error"]}],
            }
            for number in range(groups)
        }

    def start(self, *names: str) -> None:
        for name in names:
            self.launch(name)
        self.cluster.wait_for_nodes(names)

    def launch(self, name: str) -> None:
        self.cluster.launch(name, environment={"QUARTZPY_TEST_SECRET": SECRET})

    def decide(self, path: str, headers: Mapping[str, str]) -> int:
        """Fail half the time, and kill some of the nodes that send before they know the answer."""
        with self._lock:
            status = 200 if self.chance.random() < 0.5 else 503
            if len(self.killed) < self.kills_by_now and self.chance.random() < 0.25:
                name = headers["x-node"]
                if self.cluster.processes[name].poll() is None:
                    self.killed.append(name)
                    self.cluster.kill(name)
                    self.launch(name)
        return status

    def store(self, number: int) -> None:
        """Store triggers that are not due before the end of the test."""
        later = datetime.now(UTC) + timedelta(days=1)
        pairs = [
            (
                JobDetail(Quick, f"t{place}", f"g{place % self.groups}"),
                [SimpleTrigger(f"t{place}", f"g{place % self.groups}", start_time=later)],
            )
            for place in range(number)
        ]
        self.cluster.client.schedule_jobs(pairs)

    def set_state(self, first: int, last: int, state: str) -> None:
        names = ", ".join(f"'t{place}'" for place in range(first, last))
        execute(
            self.cluster.dsn,
            f"UPDATE qrtz_triggers SET trigger_state = '{state}' WHERE trigger_name IN ({names}) RETURNING 1",
        )

    def messages_about(self, event: str) -> Counter[str]:
        """Return the number of messages, told apart by their keys, that each trigger is in."""
        return Counter(
            listed["trigger"]
            for document in self.server.documents().values()
            if document["type"] == f"incidents.{event}"
            for listed in document["incidents"]
        )

    def play(self, number: int, at_once: int) -> dict[str, Any]:
        """Break all triggers, some at a time, and mend them. Return the figures, after they were checked."""
        began = time.monotonic()
        self.store(number)
        parts = range(0, number, at_once)
        phases = itertools.count(1)
        for first in parts:
            last = min(first + at_once, number)
            for state, event in (("ERROR", "began"), ("WAITING", "over")):
                self.kills_by_now = self.kills * next(phases) // (2 * len(parts))
                self.set_state(first, last, state)
                self.wait(lambda event=event, last=last: len(self.messages_about(event)) == last, f"{event} of {last}")
                print(f"{event} of {last} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        stored = "SELECT count(*), count(delivered_at), count(failed_at) FROM qrtz_notifications"
        # The last node may have been killed before it could note what was delivered.
        self.wait(lambda: execute(self.cluster.dsn, stored)[0][1] == len(self.server.accepted()), "all to be noted")
        [(notifications, delivered, failed)] = execute(self.cluster.dsn, stored)
        accepted = self.server.accepted()
        for event in ("began", "over"):
            assert set(self.messages_about(event).values()) == {1}, event
        assert (delivered, failed) == (notifications, 0)
        assert len(accepted) == notifications
        assert all(row.is_signed for row in self.server.requests)
        bodies = {(row.headers["webhook-id"], row.body) for row in self.server.requests}
        assert len(bodies) == notifications, "a repetition says the same"
        return {
            "incidents": number,
            "notifications": notifications,
            "requests": len(self.server.requests),
            "answered with an error": sum(row.status != 200 for row in self.server.requests),
            "accepted more than once": sum(times > 1 for times in accepted.values()),
            "kills": len(self.killed),
            "seconds": round(time.monotonic() - began),
        }

    def wait(self, reached: Callable[[], Any], what: str) -> None:
        wait_until(reached, what, seconds=LIMIT, every=0.2, seen=self.cluster.logs)


def test_each_incident_is_told_once_under_kills(make_cluster: Callable[..., Cluster]) -> None:
    with receiver() as server:
        trouble = Trouble(make_cluster(app=APP), server, 2, kills=2)
        trouble.start("a", "b")
        figures = trouble.play(8, 8)
        assert figures["kills"] == len(trouble.killed) == 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quartzpy-notifications-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        with EmbeddedPostgres(place / "server", durable=False, removed=True) as postgres, receiver() as server:
            migrations.upgrade(postgres.dsn)
            settings = {"checkin_interval": "1s", "failure_window": "6s", "max_node_deaths": 1_000}
            cluster = Cluster(postgres.dsn, place, app=APP, **settings)
            try:
                trouble = Trouble(cluster, server, options.groups, kills=options.kills, seed=options.seed)
                trouble.start("a", "b", "c")
                for name, value in trouble.play(options.incidents, options.at_once).items():
                    print(f"{name:25} {value:,}", flush=True)
            finally:
                cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
