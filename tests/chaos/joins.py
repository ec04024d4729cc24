"""Two extracts and the jobs that join them, while nodes are killed: `python -m tests.chaos.joins [INSTANTS]`.

`a` and `b` run every 100 ms. `p` runs after `a`, `r` after `b`, and `q` after both. Three processes execute them, and
one of them is killed every few seconds and started again. Each instant must start each of the three jobs, once.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from quartzpy import JobDetail, JobKey, NoOpJob, Scheduler, SimpleTrigger
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.states import JoinState, Outcome
from quartzpy.store.postgresql.migrations import upgrade

AFTER = {"p": ["a"], "q": ["a", "b"], "r": ["b"]}
NODES = 3
LIFE = (1.0, 4.0)
"""Seconds between two kills."""
PATIENCE = 120.0
"""Seconds for what is left when the last instant has come."""
SETTINGS = {
    "checkin_interval": "300ms",
    "lock_timeout": "500ms",
    "failure_window": "1500ms",
    # Whoever is killed so often kills the same jobs.
    "max_node_deaths": 100_000,
}


def scheduler(url: str) -> Scheduler:
    return Scheduler(url, name="joins", pool_size=4, **SETTINGS)


def node(url: str) -> None:
    """Execute jobs until somebody kills the process."""
    with scheduler(url) as running:
        running.start()
        while True:
            time.sleep(60)


def store(url: str, instants: int) -> None:
    with scheduler(url) as storing:
        for name, after in {"a": None, "b": None, **AFTER}.items():
            storing.add_job(JobDetail(NoOpJob, name, after=after, durable=True, requests_recovery=True))
        start = datetime.now(UTC) + timedelta(seconds=3)
        storing.schedule(
            [
                SimpleTrigger(
                    f"every-{name}",
                    job_key=JobKey(name),
                    start_time=start,
                    interval="100ms",
                    repeat_count=instants - 1,
                    misfire="ignore",
                )
                for name in "ab"
            ]
        )


def play(url: str, instants: int, seed: int = 1) -> tuple[Counter[str], int, int]:
    """Return how often each job succeeded for an instant of its own, how many joins wait, and the number of kills."""
    chance = random.Random(seed)
    store(url, instants)
    command = [sys.executable, "-m", "tests.chaos.joins", "node", url]
    nodes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(NODES)]
    kills = 0
    over = time.monotonic() + instants / 10 + PATIENCE
    try:
        with scheduler(url) as reading:
            while time.monotonic() < over:
                time.sleep(chance.uniform(*LIFE))
                if counted(reading).total() >= instants * len(AFTER):
                    break
                victim = chance.randrange(NODES)
                nodes[victim].kill()
                nodes[victim].wait()
                kills += 1
                nodes[victim] = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            # Whatever was started twice shows.
            time.sleep(3)
            waiting = sum(row.state is JoinState.WAITING for row in reading.joins())
            return counted(reading), waiting, kills
    finally:
        for process in nodes:
            process.kill()
            process.wait()


def counted(reading: Scheduler) -> Counter[str]:
    """How often each of the jobs that follow others has succeeded."""
    return Counter({name: reading.executions(job=JobKey(name), state=Outcome.SUCCEEDED).count() for name in AFTER})


def main(instants: int) -> int:
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(Path(directory) / "pg", durable=False) as server:
        upgrade(server.dsn)
        starts, waiting, kills = play(server.dsn, instants)
    print(f"{starts.total():,} of {instants * len(AFTER):,} starts {dict(starts)}, {waiting} joins wait, {kills} kills")
    return 0 if set(starts.values()) == {instants} and not waiting else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        node(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 1_000))
