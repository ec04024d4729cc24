"""What a node can run at present: its job types, and its free slots by executor and execution group.

A node knows the job types that are registered in its process, and those that it can import from `job_modules`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from quartzpy.config.config import NodeRole, SchedulerConfig
from quartzpy.jobs.job import JobTypes, if_moved
from quartzpy.node.workers.executors import Executors
from quartzpy.placement import Capabilities, placement_from_text, placement_of_slot_pool
from quartzpy.store.node_problems import FAILING_IMPORT, NodeProblem
from quartzpy.store.protocol import MANY, AvailableSlots, DispatchKey, JobStore, Node
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

REST_OF_A_KEY = 0.02
"""The time, in seconds, until a node reads the waiting dispatch keys again, for each of them: a read takes a step of an
index for each, and all nodes of a cluster read. A key that a step meets is read at the next check-in."""
MAX_REST = 60.0
"""The longest such time."""


class Capacity:
    """Tracks the running executions of each execution group, and the slot pools of this node."""

    def __init__(
        self, executors: Executors, labels: Collection[str], groups: Mapping[str, int], role: NodeRole = NodeRole.BOTH
    ) -> None:
        self._executors = executors
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._pools: dict[str, tuple[str, str, int | None]] = {}
        """For each slot pool for which this node has slots its executor, its execution group, and the limit of that."""
        self._met: frozenset[str] = frozenset({""})
        """The slot pools for which triggers have waited, whether or not this node has slots for them."""
        self._role = role
        self._others_perform_maintenance = False
        self.runs_jobs = role is not NodeRole.SCHEDULER
        """True if this node runs jobs, and not only schedules them."""
        self.capabilities = Capabilities(
            frozenset(),
            executors.names() if self.runs_jobs else frozenset(),
            frozenset(labels),
            groups,
            workers=executors.workers() if self.runs_jobs else {},
            engines=executors.engines() if self.runs_jobs else {},
            performs_maintenance=role is not NodeRole.WORKER,
        )

        self._update(groups)

    # --- what it can run

    def has_job_types(self, job_types: Collection[str]) -> bool:
        """Return whether these are the known job types; a node that runs no jobs knows none."""
        return not self.runs_jobs or self.capabilities.job_types == frozenset(job_types)

    def set_job_types(self, job_types: Collection[str]) -> bool:
        """Set the known job types. Return whether they changed."""
        with self._lock:
            if self.has_job_types(job_types):
                return False
            self.capabilities = replace(self.capabilities, job_types=frozenset(job_types))
            return True

    @property
    def met_pools(self) -> frozenset[str]:
        """The slot pools for which triggers have waited."""
        return self._met

    def meet(self, slot_pools: Iterable[str]) -> bool:
        """Note slot pools for which triggers wait. Return whether this node has slots for a new one."""
        with self._lock:
            if self._met.issuperset(slot_pools):
                return False
            before = len(self._pools)
            self._met = self._met.union(slot_pools)
            self._update(self.capabilities.groups)
            return len(self._pools) > before

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Set the limits of execution groups. Running executions continue."""
        with self._lock:
            self._update(groups)

    def _update(self, groups: Mapping[str, int]) -> None:
        self.capabilities = replace(self.capabilities, groups=groups)
        self._pools = {
            slot_pool: (placement.pool, placement.group, self.capabilities.limit_of(placement.group))
            for slot_pool in sorted(self._met if self.runs_jobs else ())
            if self.capabilities.allows(placement := placement_of_slot_pool(slot_pool))
        }

    def allows(self, placement: str) -> bool:
        """Return whether jobs with this placement may run here, or, on a node that only schedules, are watched here."""
        return not self.runs_jobs or self.capabilities.allows(placement_from_text(placement))

    # --- housekeeping

    def note_peers(self, peers: Iterable[Capabilities]) -> None:
        """Record the capabilities of the other nodes. A worker does the housekeeping only if none of them does."""
        self._others_perform_maintenance = any(peer.performs_maintenance for peer in peers)

    @property
    def performs_maintenance(self) -> bool:
        """True if this node handles misfires, deletes old history and repairs rows."""
        return self._role is not NodeRole.WORKER or not self._others_perform_maintenance

    def follow_workers(self) -> bool:
        """Take note of executors whose engines take more or fewer jobs than before. Return whether there are any."""
        with self._lock:
            if not self.runs_jobs or (workers := self._executors.workers()) == self.capabilities.workers:
                return False
            self.capabilities = replace(self.capabilities, workers=workers)
            return True

    # --- free slots

    def available_slots(self) -> list[AvailableSlots]:
        """Return the slot pools with free slots.

        While jobs are short, an executor takes more executions than it has free workers. An execution group never does.
        """
        free = self._executors.headroom()
        with self._lock:
            running = self._running.copy()
            pools = self._pools
        available = []
        for slot_pool, (executor, group, limit) in pools.items():
            slots = MANY if limit is None else limit - running[group]
            if free[executor] > 0 and slots > 0:
                available.append(AvailableSlots(slot_pool, executor, free[executor], group, slots))
        return available

    def occupy(self, placements: Sequence[str]) -> None:
        """Count executions that start, given by their placements."""
        with self._lock:
            self._running.update(placement_from_text(text).group for text in placements)

    def release(self, placement: str) -> bool:
        """Count an execution that ended. Return whether its group was full, so that other jobs may be waiting."""
        group = placement_from_text(placement).group
        with self._lock:
            self._running[group] -= 1
            limit = self.capabilities.limit_of(group)
            return limit is not None and self._running[group] + 1 >= limit


def workers_of(available_slots: Iterable[AvailableSlots]) -> int:
    """Return the number of free workers for these slots."""
    return sum({opening.executor: opening.workers for opening in available_slots}.values())


class KnownTypes:
    """Keeps the capacity of a node up to date with the job types of its process, and publishes it to the cluster.

    It says of dispatch keys whether the node runs them: of the job types that it knows and the keys of stored jobs when
    it learns, and of new ones when a step meets them.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        job_types: JobTypes,
        settings: SchedulerConfig,
        capacity: Capacity,
        node: Callable[[], Node],
        changed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._job_types = job_types
        self._settings = settings
        self._capacity = capacity
        self._node = node
        self._changed = changed
        self._unknown: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._failing: dict[str, NodeProblem] = {}
        """The job types whose modules raise an error when they are imported."""
        self._monotonic = monotonic
        self._learns_at = float("-inf")
        """The time of the next read of the waiting dispatch keys, unless something calls for one before."""
        self._met: frozenset[DispatchKey] = frozenset()
        """The keys that a step has met since the last read, which looks at some of the jobs of each type only."""
        self._lock = threading.Lock()
        self._of: Node | None = None
        self._runs: dict[DispatchKey, bool] = {}
        """What this epoch has said."""

    def learn(self) -> None:
        """Import the modules of waiting job types if `job_modules` allows it, and publish changed capabilities."""
        began = self._monotonic()
        # Before the read: what a step meets from now on may not be part of it.
        met, self._learns_at = self._met, began
        waiting = self._store.waiting_dispatch_keys() | met
        with self._lock:
            self._met -= met
        names = {dispatch_key.job_type for dispatch_key in waiting}
        unknown = frozenset(name for name in names if not self._knows(name))
        refused = frozenset(name for name in names - unknown if not self._job_types.allows(name, self._settings))
        if refused - self._refused and self._capacity.runs_jobs:
            logger.info(
                "node %s leaves the jobs of these types to nodes whose settings allow them: %s",
                self._node().instance_id,
                ", ".join(sorted(refused)),
            )
        self._refused = refused
        if unknown - self._unknown and self._capacity.runs_jobs:
            logger.warning(
                "node %s does not know these job types and leaves their jobs to other nodes: %s (import the modules"
                " that define them, or name them in job_modules; %s)",
                self._node().instance_id,
                ", ".join(sorted(unknown)),
                if_moved(min(unknown)),
            )
        self._unknown = unknown
        allowed = self._job_types.allowed_names(self._settings)
        has_new_types = self._capacity.set_job_types(allowed)
        has_new_pools = self._capacity.meet({dispatch_key.slot_pool for dispatch_key in waiting})
        if has_new_types:
            self._store.publish(self._node(), self._capacity.capabilities)
        in_use = waiting.union(map(DispatchKey, allowed))
        self._learns_at = began + min(REST_OF_A_KEY * len(waiting), MAX_REST)
        if self._decide(self._node(), in_use) or has_new_types or has_new_pools:
            self._changed()

    def problems(self) -> list[NodeProblem]:
        """Return a problem for each job type whose module cannot be imported."""
        return [problem for name, problem in self._failing.copy().items() if name in self._unknown]

    def learn_in_turn(self) -> None:
        """Learn, unless that was done a short while ago and nothing calls for it; each check-in asks for it."""
        if self._capacity.follow_workers():
            self._store.publish(self._node(), self._capacity.capabilities)
        if (
            self._met
            or self._monotonic() >= self._learns_at
            or self._of != self._node()
            or not self._capacity.has_job_types(self._job_types.allowed_names(self._settings))
        ):
            self.learn()

    def allow(self, settings: SchedulerConfig) -> None:
        """Follow other settings: publish the job types that they allow."""
        self._settings = settings
        self.learn()

    def publish(self) -> None:
        """Publish the capabilities of this node, and look for work that has become possible."""
        self._store.publish(self._node(), self._capacity.capabilities)
        self._decide(self._node(), ())
        self._changed()

    def decide(self, node: Node, dispatch_keys: Collection[DispatchKey]) -> bool:
        """Say of dispatch keys that a step has met whether the node runs them. Return whether that is stored.

        A step names some of those that it might meet, so the node decides at once about all others that wait and that
        are new here. A module that it may import is left to `learn`: that takes time.
        """
        with self._lock:
            self._met |= frozenset(dispatch_keys)
        waiting = self._store.waiting_dispatch_keys()
        self._capacity.meet({dispatch_key.slot_pool for dispatch_key in waiting.union(dispatch_keys)})
        return self._decide(node, waiting, met=dispatch_keys)

    def _decide(self, node: Node, dispatch_keys: Collection[DispatchKey], *, met: Collection[DispatchKey] = ()) -> bool:
        """Store what has changed, and what is new. Return whether anything has."""
        with self._lock:
            if self._of != node:
                self._of, self._runs = node, {}
            runs = {
                key: self._job_types.allows(key.job_type, self._settings) and self._capacity.allows(key.placement)
                for key in {*dispatch_keys, *met, *self._runs}
            }
            # What a step meets was not stored, whatever was believed here.
            changed = {key: is_run for key, is_run in runs.items() if key in met or self._runs.get(key) is not is_run}
            if not (changed and self._store.decide(node, changed)):
                return False
            self._runs = {**self._runs, **changed}
            return True

    def _knows(self, job_type: str) -> bool:
        try:
            return self._job_types.load(job_type, self._settings.job_modules)
        except Exception as error:
            # The import of a user's module may raise anything. The node continues without it.
            what = f"the module of job type {job_type} cannot be imported: {reason(error)}"
            self._failing[job_type] = NodeProblem(FAILING_IMPORT, what, job_type)
            if job_type not in self._unknown:
                logger.exception("the module of job type %s cannot be imported", job_type)
            return False
