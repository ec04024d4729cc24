"""A node process of a chaos run: `python -m tests.chaos.node --dsn ... --settings '{...}'`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path

from quartzpy import Scheduler
from quartzpy.cli.node import EXIT_STATUS
from quartzpy.events.events import Event, NodesRecovered
from quartzpy.node.run import run_until_stopped
from tests.chaos import engines, history, jobs

PULSE_SECONDS = 0.05
STALL_SECONDS = 0.3
DRAIN = 6.0


def listen(scheduler: Scheduler) -> None:
    """Verdicts, and all else that only a listener hears."""

    def told(event: Event) -> None:
        if isinstance(event, NodesRecovered):
            history.append("verdict", nodes=list(event.nodes), recovered=event.recovered, terminated=event.terminated)

    scheduler.listeners.add_listener(told, NodesRecovered)


def pulse(stall_seconds: float) -> None:
    """Write down when this process did not get to run: nobody can do in that time what he should."""
    last = time.monotonic()
    beats = 0
    conductor = os.getppid()
    while True:
        history.rest(PULSE_SECONDS)
        if os.getppid() != conductor:
            # A conductor that was killed leaves nothing running.
            os._exit(1)
        beats += 1
        if beats % 200 == 100:
            history.append(
                "size", rss_kb=rss_kb(), threads=threading.active_count(), files=len(os.listdir("/proc/self/fd"))
            )
        now = time.monotonic()
        if now - last > stall_seconds:
            history.append("stall", seconds=round(now - last, 3))
        last = now


def rss_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--settings", required=True)
    parser.add_argument("--slowness", type=int, default=1)
    given = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
    assert jobs.Plain.type_name
    settings = json.loads(given.settings)
    settings["executors"] = engines.executors(settings["executors"])
    scheduler = Scheduler(given.dsn, **settings)
    listen(scheduler)
    threading.Thread(target=pulse, args=(STALL_SECONDS * given.slowness,), name="pulse", daemon=True).start()
    history.append("up")
    status = EXIT_STATUS[run_until_stopped(scheduler, DRAIN * given.slowness)]
    history.append("down", status=status)
    # What a job left running is not waited for.
    logging.shutdown()
    os._exit(status)


if __name__ == "__main__":
    main()
