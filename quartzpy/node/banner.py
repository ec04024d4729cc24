"""The log lines of a node's start: its identity, its database and the jobs that it can run."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from quartzpy.config.config import NodeRole, SchedulerConfig
from quartzpy.config.pools import ExecutorConfig
from quartzpy.placement import EngineCapability
from quartzpy.texts import numbered

MAX_LIST = 20
"""The maximum number of job types that are named. A program may have hundreds."""


def banner(
    config: SchedulerConfig,
    *,
    version: str,
    instance_id: str,
    epoch: int,
    database: str,
    job_types: Sequence[str],
    engines: Mapping[str, EngineCapability] = {},
) -> list[str]:
    """Return the lines that describe a node at its start."""
    lines = [
        f"quartzpy {version}: node {instance_id} of cluster {config.name!r} has started"
        f" (epoch {epoch}, pid {os.getpid()} on {socket.gethostname()})",
        f"  database: {database}",
    ]
    if config.role is NodeRole.SCHEDULER:
        lines.append("  role: scheduler; this node runs no jobs")
    else:
        housekeeping = "; housekeeping is left to other nodes" if config.role is NodeRole.WORKER else ""
        lines.append(f"  workers: {_workers(config, engines)}{housekeeping}")
        lines.append(f"  job types: {_listed(job_types)}")
        if config.labels:
            lines.append(f"  labels: {', '.join(config.labels)}")
        if config.execution_groups:
            limits = ", ".join(f"{group}={limit}" for group, limit in config.execution_groups.items())
            lines.append(f"  concurrency limits per execution group on this node: {limits}")
    lines.append(
        f"  checks in every {_seconds(config.checkin_interval.total_seconds())};"
        f" other nodes take over its work after {_seconds(config.failure_window.total_seconds())} without a check-in"
    )
    return lines


_UNITS = {
    "threads": ("thread", "threads"),
    "processes": ("process", "processes"),
    "asyncio": ("event loop slot", "event loop slots"),
}


def _workers(config: SchedulerConfig, engines: Mapping[str, EngineCapability]) -> str:
    pools = [f"default {numbered(config.workers, 'thread', 'threads')}"]
    for name, value in config.executors.items():
        pool = ExecutorConfig.of(value)
        if pool.workers is None or pool.kind not in _UNITS:
            pools.append(f"{name} on {engines.get(name, pool)}")
        else:
            pools.append(f"{name} {numbered(pool.workers, *_UNITS[pool.kind])}")
    return ", ".join(pools)


def _listed(job_types: Sequence[str]) -> str:
    if not job_types:
        return "none (import the modules that define this program's jobs)"
    more = len(job_types) - MAX_LIST
    return ", ".join(job_types[:MAX_LIST]) + (f" and {more} more" if more > 0 else "")


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s"
