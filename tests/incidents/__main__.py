"""Play the prepared incidents, and print what was seen: `python -m tests.incidents [--only NAME ...] [--healthy M]`.

Each incident has to be seen within ten seconds, its sentence has to be what the tables say, its mend has to mend, and
the overview has to be calm again. With `--healthy`, a cluster under load is watched that nothing is wrong with.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from quartzpy import JobDetail
from quartzpy.embedded import EmbeddedPostgres
from tests.incidents.app import Long, Quick
from tests.incidents.scenarios import SCENARIOS, every
from tests.incidents.stage import Stage

LOAD = 200
"""The number of triggers of a healthy cluster; each fires every two seconds."""


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    """A cluster of two nodes on an embedded server."""
    directory.chmod(0o755)
    with EmbeddedPostgres(directory / "server", durable=False, removed=True) as server:
        made = Stage(server.dsn, directory)
        try:
            for name in ("a", "b"):
                made.start_with(name)
            made.calms()
            yield made
        finally:
            made.stop()


def play(names: Sequence[str]) -> int:
    """Play incidents one after the other. Return the number of those that were not as they have to be."""
    failures = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="quartzpy-incidents-") as directory, stage(Path(directory)) as made:
            began = time.monotonic()
            try:
                SCENARIOS[name](made)
            except Exception:
                failures += 1
                traceback.print_exc()
                print(f"{name:50} FAILED", flush=True)
                continue
            seen = ", ".join(f"{kind} after {seconds:.1f} s" for kind, seconds in made.seen) or "nothing, rightly"
            print(f"{name:50} seen: {seen}; {time.monotonic() - began:.0f} s in all", flush=True)
    return failures


def watch(minutes: float) -> int:
    """Watch a healthy cluster under load. Return the number of times at which it was said to have an incident."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="quartzpy-incidents-") as directory, stage(Path(directory)) as made:
        made.store(JobDetail(Quick, "quick"), *(every(f"quick-{n}", timedelta(seconds=2)) for n in range(LOAD)))
        made.store(JobDetail(Long, "slow", data={"seconds": 1}), every("slow", timedelta(seconds=5)))
        limit = time.monotonic() + 60 * minutes
        looks = 0
        while time.monotonic() < limit:
            looks += 1
            for incident in made.look().incidents:
                wrong += 1
                print(f"{incident.kind}: {incident.what}", flush=True)
            time.sleep(1)
        [(executions,)] = made.rows("SELECT count(*) FROM qrtz_executions")
        print(f"a healthy cluster, {minutes:g} minutes, {executions:,} executions, {looks} looks: {wrong} false alarms")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.incidents", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--healthy", type=float, metavar="MINUTES")
    given = parser.parse_args()
    sys.exit(min(1, watch(given.healthy) if given.healthy else play(given.only)))


if __name__ == "__main__":
    main()
