"""A thousand jobs on a Dask cluster that is broken all the time; by hand: `python -m tests.chaos.dask_by_hand`.

The oldest worker is killed every two seconds, the scheduler twice, and the node twice. In the end, each job has
succeeded, no ticket was taken twice, nothing is lost or stuck, and the history says what the jobs themselves wrote
down: each execution that has begun is recorded, or was repeated by a recovery that is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sized
from pathlib import Path

from quartzpy import RetryPolicy
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.states import Outcome
from quartzpy.store.postgresql import migrations
from quartzpy.store.records import ExecutionRecord
from tests.cluster.nodes import Cluster
from tests.engines.dask import jobs
from tests.engines.dask.clusters import DaskProcesses

WORKERS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=0.1, help="processor time of a job")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two faults")
    parser.add_argument("--limit", type=float, default=900, help="the longest time of the whole, in seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quartzpy-dask-") as directory, EmbeddedPostgres.temporary() as server:
        migrations.upgrade(server.dsn)
        return _play(Path(directory), server.dsn, options)


def _play(directory: Path, url: str, options: argparse.Namespace) -> int:
    dask = DaskProcesses(directory, environment={"QUARTZPY_WORKER_URL": url})
    for _ in range(WORKERS):
        dask.add_worker()
    nodes = Cluster(
        url,
        directory,
        name="dask-by-hand",
        checkin_interval="1s",
        lock_timeout="1s",
        failure_window="4s",
        engine_window="10s",
        executors={"big": f"dask:{3 * WORKERS}:{dask.address}"},
        job_modules=[jobs.__name__],
    )
    runs = directory / "runs"
    try:
        for number in range(options.jobs):
            nodes.client.schedule_job(
                jobs.Computes,
                name=f"job-{number}",
                data={"runs": str(runs), "number": number, "seconds": options.seconds},
                executor="big",
                requests_recovery=True,
                retry=RetryPolicy(attempts=20, delay="500ms", factor=1.0),
            ).trigger()
        began = time.monotonic()
        nodes.start("first")
        faults = _break(dask, nodes, options, began)
        ended = list(nodes.client.executions())
        running = list(nodes.client.running())
    finally:
        nodes.stop()
        dask.close()
    return _judge(ended, running, runs.read_text().splitlines(), faults, options.jobs, time.monotonic() - began)


def _succeeded(nodes: Cluster) -> int:
    return len({execution.job_key for execution in nodes.client.executions(state="SUCCEEDED")})


def _break(dask: DaskProcesses, nodes: Cluster, options: argparse.Namespace, began: float) -> Counter[str]:
    """Break something again and again until all jobs have succeeded."""
    faults: Counter[str] = Counter()
    node = 0
    larger = {0.25: "scheduler", 0.4: "node", 0.6: "scheduler", 0.75: "node"}
    while (done := _succeeded(nodes)) < options.jobs and time.monotonic() < began + options.limit:
        time.sleep(options.every)
        share = next((share for share in larger if done >= share * options.jobs), None)
        fault = "worker" if share is None else larger.pop(share)
        faults[fault] += 1
        if fault == "scheduler":
            dask.restart_scheduler()
        elif fault == "node":
            nodes.kill(list(nodes.processes)[node])
            node += 1
            nodes.launch(f"node-{node}")
        elif dask.workers:
            dask.kill_worker(dask.workers[0])
        # Those of a scheduler that is gone end by themselves.
        dask.workers = [worker for worker in dask.workers if worker.is_alive()]
        while len(dask.workers) < WORKERS:
            dask.add_worker()
        print(f"{time.monotonic() - began:5.0f} s: {done} of {options.jobs} jobs have succeeded; {dict(faults)}")
    return faults


def _judge(
    ended: list[ExecutionRecord], running: Sized, lines: list[str], faults: Counter[str], wanted: int, took: float
) -> int:
    begun = [(int(fire_id), job) for fire_id, job in map(str.split, lines)]
    job_of, began = dict(begun), Counter(fire_id for fire_id, _ in begun)
    by_job = Counter(execution.job_key for execution in ended if execution.outcome is Outcome.SUCCEEDED)
    recorded = {execution.fire_id for execution in ended}
    recovered = {execution.job_key.name for execution in ended if execution.recovering}
    unrecorded = began.keys() - recorded
    repeated = {fire_id for fire_id in unrecorded if job_of[fire_id] in recovered}
    figures = {
        "jobs": wanted,
        "executions": len(ended),
        "outcomes": dict(Counter(str(execution.outcome) for execution in ended)),
        "begun by a ticket": sum(began.values()),
        "tickets doubled": sum(count - 1 for count in began.values()),
        "jobs that succeeded twice": sum(count - 1 for count in by_job.values()),
        "jobs lost": wanted - len(by_job),
        "stuck": len(running),
        "begun and repeated by recovery": len(repeated),
        "begun and neither recorded nor repeated": len(unrecorded - repeated),
        "faults": dict(faults),
        "seconds": round(took),
    }
    print(json.dumps(figures, indent=2))
    bad = (
        "tickets doubled",
        "jobs that succeeded twice",
        "jobs lost",
        "stuck",
        "begun and neither recorded nor repeated",
    )
    return 1 if any(figures[name] for name in bad) else 0


if __name__ == "__main__":
    raise SystemExit(main())
