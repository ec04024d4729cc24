"""Collects all metrics of a scheduler at a scrape: what was counted, its health, and the load of the cluster."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from quartzpy.errors import QuartzpyError
from quartzpy.metrics.families import Family, Kind
from quartzpy.metrics.recorder import Recorder
from quartzpy.node.health import HealthState, SchedulerHealth
from quartzpy.scheduler.local_node import LocalNode
from quartzpy.scheduler.scheduler import SchedulerMetadata
from quartzpy.store.records import ClusterLoad

logger = logging.getLogger(__name__)

CLUSTER_EVERY = 10.0
"""The shortest time, in seconds, between two reads of the load of the cluster."""


class Watched(Protocol):
    """A scheduler, as far as metrics and probes need one."""

    @property
    def name(self) -> str: ...

    @property
    def is_shut_down(self) -> bool: ...

    @property
    def is_in_standby(self) -> bool: ...

    @property
    def metadata(self) -> SchedulerMetadata: ...

    def health(self) -> SchedulerHealth: ...

    @property
    def node(self) -> LocalNode: ...


class Collector:
    """Collects the metrics of one scheduler.

    The load of the cluster is read at most once in `CLUSTER_EVERY`: with `cluster=None` only by the oldest node of the
    cluster, so that its samples exist once.
    """

    def __init__(
        self,
        scheduler: Watched,
        recorder: Recorder,
        *,
        cluster: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._recorder = recorder
        self._reads_cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._load: ClusterLoad | None = None
        self._read_at: float | None = None

    def collect(self) -> list[Family]:
        """Return all metrics. The database is asked for the load of the cluster only, and may be unavailable."""
        health = self._scheduler.health()
        labels = {"scheduler": self._scheduler.name}
        families = [*self._of_health(health), *self._of_cluster(health), *self._recorder.collect()]
        return [family.with_labels(labels) for family in families]

    # --- this node

    def _of_health(self, health: SchedulerHealth) -> list[Family]:
        info = _gauge("quartzpy_node_info", "The node of this process; always 1.")
        info.add(1, node=health.instance_id or "", version=self._scheduler.metadata.version)
        state = _gauge("quartzpy_node_state", "1 for the present state of the node, 0 for the others.")
        for possible in HealthState:
            state.add(float(possible is health.state), state=str(possible))
        standby = _gauge("quartzpy_node_standby", "1 if the node takes no triggers, because it is in standby.")
        standby.add(float(health.state is not HealthState.STOPPED and self._scheduler.is_in_standby))
        return [info, state, standby, *_of_node(health), *_of_executors(health), *_of_threads(health)]

    # --- the cluster

    def _of_cluster(self, health: SchedulerHealth) -> list[Family]:
        load = self._present_load(health)
        if load is None:
            return []
        triggers = _gauge(
            "quartzpy_cluster_triggers",
            "Triggers that could fire now (due), whose fire time passed over 5 s ago (late), or in ERROR (error).",
        )
        triggers.add(load.due, state="due")
        triggers.add(load.late, state="late")
        triggers.add(load.in_error, state="error")
        executions = _gauge("quartzpy_cluster_executions", "Executions; `claimed`: the instant is a moment away.")
        executions.add(load.claimed, state="claimed")
        executions.add(load.executing, state="executing")
        nodes = _gauge(
            "quartzpy_cluster_nodes", "Nodes that are alive, and dead ones that none has recovered yet (silent)."
        )
        nodes.add(load.nodes_alive, state="alive")
        nodes.add(load.nodes_silent, state="silent")
        incidents = _gauge("quartzpy_cluster_incidents", "Incidents that last, by kind and severity, of the first 100.")
        for (kind, severity), number in Counter((row.kind, str(row.severity)) for row in health.incidents).items():
            incidents.add(number, kind=kind, severity=severity)
        longest = _gauge("quartzpy_cluster_longest_due_seconds", "The age of the oldest fire time that has come.")
        longest.add(0.0 if load.longest_due is None else load.longest_due.total_seconds())
        return [triggers, executions, nodes, incidents, longest]

    def _present_load(self, health: SchedulerHealth) -> ClusterLoad | None:
        if not (health.is_oldest if self._reads_cluster is None else self._reads_cluster):
            return None
        with self._lock:
            now = self._clock()
            if self._read_at is None or now - self._read_at >= CLUSTER_EVERY:
                self._read_at, self._load = now, None
                try:
                    self._load = self._scheduler.node.cluster_load()
                except QuartzpyError as error:
                    logger.debug("the load of the cluster cannot be read: %s", error)
            return self._load


def _gauge(name: str, what: str) -> Family:
    return Family(name, Kind.GAUGE, what)


def _of_node(health: SchedulerHealth) -> list[Family]:
    checkin = _gauge("quartzpy_checkin_age_seconds", "The time since the last successful check-in was sent.")
    if health.checkin_age is not None:
        checkin.add(health.checkin_age.total_seconds())
    lease = _gauge("quartzpy_lease_left_seconds", "The remaining time of the lease of this node.")
    if health.lease_left is not None:
        lease.add(health.lease_left.total_seconds())
    outage = _gauge("quartzpy_database_outage_seconds", "The time for which check-ins have failed; 0 if they succeed.")
    outage.add(0.0 if health.outage is None else health.outage.total_seconds())
    skew = _gauge("quartzpy_clock_ahead_seconds", "The time by which this machine's clock is ahead of the database's.")
    skew.add(health.clock_skew.total_seconds())
    connections = _gauge("quartzpy_connections", "Connections for steps and calls: in use, and the most there may be.")
    if health.connections is not None:
        connections.add(health.connections.in_use, state="in_use")
        connections.add(health.connections.most, state="most")
    opened = Family("quartzpy_connections_opened", Kind.COUNTER, "Connections to the database that were opened.")
    if health.connections is not None:
        opened.add(health.connections.opened)
    unrecorded = _gauge("quartzpy_unrecorded_executions", "Executions that have ended and are not recorded yet.")
    unrecorded.add(health.unrecorded)
    problems = _gauge("quartzpy_node_problems", "Problems that the node finds with itself; the health names them.")
    problems.add(len(health.details))
    return [checkin, lease, outage, skew, connections, opened, unrecorded, problems]


def _of_executors(health: SchedulerHealth) -> list[Family]:
    workers = _gauge("quartzpy_workers", "Workers of an executor.")
    busy = _gauge("quartzpy_workers_busy", "Workers of an executor that run an execution.")
    waiting = _gauge("quartzpy_executions_waiting", "Fires that wait for a worker, because the node fired ahead.")
    for executor in health.executors:
        workers.add(executor.workers, executor=executor.name)
        busy.add(executor.busy, executor=executor.name)
        waiting.add(executor.waiting, executor=executor.name)
    return [workers, busy, waiting]


def _of_threads(health: SchedulerHealth) -> list[Family]:
    overdue = _gauge("quartzpy_threads_overdue", "Threads of the node whose next pass is overdue, or that have ended.")
    overdue.add(sum(thread.overdue or not thread.alive for thread in health.threads))
    restarts = Family("quartzpy_thread_restarts", Kind.COUNTER, "Threads of the node that ended and were restarted.")
    restarts.add(sum(thread.restarts for thread in health.threads))
    return [overdue, restarts]
