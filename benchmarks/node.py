"""A node in a process of its own, which obeys the lines of its standard input. Run by `benchmarks.nodes`."""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import calm_jobs, jobs
from benchmarks.processes import heap
from benchmarks.situations import SITUATIONS
from quartzpy import Scheduler


def main() -> None:
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    assert calm_jobs.JOBS, "the types of the calm soak's jobs are registered by their module"
    if (interval := order.get("switch_interval")) is not None:
        sys.setswitchinterval(interval)
    for number in range(order["job_types"]):
        jobs.numbered_type(number)
    scheduler = Scheduler(order["url"], **order["settings"])
    scheduler.start(standby=True)
    # As `Scheduler.run` does: a full garbage collection would pause the node for tens of milliseconds.
    gc.collect()
    gc.freeze()
    _answer(None)
    for line in sys.stdin:
        match line.strip():
            case "start":
                scheduler.start()
                _answer(None)
            case "standby":
                scheduler.standby()
                _answer(None)
            case command if command.startswith("schedule "):
                begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
                scheduler.schedule_jobs(SITUATIONS[command.removeprefix("schedule ")](begin))
                _answer(None)
            case "runs":
                _answer(jobs.runs.value)
            case "heap":
                _answer(heap()._asdict())
            case "objects":
                _answer(Counter(type(one).__name__ for one in gc.get_objects()).most_common(200))
            case "starts":
                _answer([jobs.starts.popleft() for _ in range(len(jobs.starts))])
            case "stop":
                break
    scheduler.shutdown(timeout="30s")


def _answer(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
