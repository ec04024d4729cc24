"""The engines of a node, made as its settings say."""

from __future__ import annotations

from quartzpy.clock import Clock
from quartzpy.config.pools import MAX_WORKERS, ExecutorConfig, as_bytes
from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import JobFactory, JobTypes
from quartzpy.node.workers.execution import JobProcesses


def new_process_workers(
    executor: str,
    config: ExecutorConfig,
    *,
    name: str,
    job_types: JobTypes,
    job_factory: JobFactory,
    max_job_data_bytes: int,
    tracing: Tracing | None,
    clock: Clock,
) -> JobProcesses:
    """Return the child processes of an executor. `name` begins the names of all child processes of the node.

    Raises:
        InvalidValueError: `job_factory` cannot be pickled.
    """
    # Most nodes have no process pool, and do not need multiprocessing.
    from quartzpy.node.engines.processes import ProcessWorkers

    return ProcessWorkers(
        f"{name}-{executor}",
        config.workers or MAX_WORKERS,
        memory_limit=None if config.memory_limit is None else as_bytes(config.memory_limit, executor),
        job_types=job_types,
        job_factory=job_factory,
        max_job_data_bytes=max_job_data_bytes,
        tracing=tracing,
        clock=clock,
    )
