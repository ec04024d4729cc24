"""What a node can run at present: its job types and dispatch keys, and its free slots by executor and execution group.

A node knows the job types that are registered in its process, and those that it can import from `job_modules`.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from quartzpy.config.config import Role
from quartzpy.jobs.job import JobTypes
from quartzpy.node.workers.executors import Executors
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.store.protocol import MANY, AvailableSlots, DispatchKey, JobStore, Node

logger = logging.getLogger(__name__)


class Capacity:
    """Tracks the running executions of each execution group, and the dispatch keys of this node."""

    def __init__(
        self, executors: Executors, labels: Collection[str], groups: Mapping[str, int], role: Role = Role.BOTH
    ) -> None:
        self._executors = executors
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._dispatch_keys: tuple[DispatchKey, ...] = ()
        self._all_keys: tuple[DispatchKey, ...] = ()
        self._needs: tuple[tuple[DispatchKey, str, str, int | None], ...] = ()
        """For each of the dispatch keys its executor, its execution group, and the limit of that group."""
        self._placed: frozenset[DispatchKey] = frozenset()
        self._role = role
        self._known_types: frozenset[str] = frozenset()
        self._others_perform_maintenance = False
        self.runs_jobs = role is not Role.SCHEDULER
        """True if this node runs jobs, and not only schedules them."""
        self.capabilities = Capabilities(
            frozenset(),
            executors.names() if self.runs_jobs else frozenset(),
            frozenset(labels),
            groups,
            workers=executors.workers() if self.runs_jobs else {},
            performs_maintenance=role is not Role.WORKER,
        )

    # --- dispatch keys

    def set_known(self, job_types: Collection[str], placed: Collection[DispatchKey]) -> bool:
        """Set the known job types, and the dispatch keys with a placement. Return whether they changed."""
        with self._lock:
            known_types = frozenset(job_types)
            if known_types == self._known_types and frozenset(placed) == self._placed:
                return False
            self._update(known_types, self.capabilities.groups, frozenset(placed))
            return True

    def learn(self, placed: Collection[DispatchKey]) -> bool:
        """Add dispatch keys with a placement. Return whether this node can run one of the new ones."""
        with self._lock:
            if self._placed.issuperset(placed):
                return False
            before = self._dispatch_keys
            self._update(self._known_types, self.capabilities.groups, self._placed.union(placed))
            return self._dispatch_keys != before

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Set the limits of execution groups. Running executions continue."""
        with self._lock:
            self._update(self._known_types, groups, self._placed)

    def _update(self, job_types: frozenset[str], groups: Mapping[str, int], placed: frozenset[DispatchKey]) -> None:
        self._known_types = job_types
        self.capabilities = replace(
            self.capabilities, job_types=job_types if self.runs_jobs else frozenset(), groups=groups
        )
        self._placed = placed
        dispatch_keys = [
            *map(DispatchKey, sorted(job_types)),
            *sorted(dispatch_key for dispatch_key in placed if dispatch_key.job_type in job_types),
        ]
        self._all_keys = tuple(dispatch_keys)
        self._dispatch_keys = tuple(
            dispatch_key
            for dispatch_key in (dispatch_keys if self.runs_jobs else ())
            if self.capabilities.allows(placement_from_text(dispatch_key.placement))
        )
        placements = [placement_from_text(dispatch_key.placement) for dispatch_key in self._dispatch_keys]
        self._needs = tuple(
            (dispatch_key, placement.pool, placement.group, self.capabilities.limit_of(placement.group))
            for dispatch_key, placement in zip(self._dispatch_keys, placements, strict=True)
        )

    @property
    def dispatch_keys(self) -> tuple[DispatchKey, ...]:
        """The dispatch keys that this node can run, whether or not it has free slots for them."""
        return self._dispatch_keys

    # --- housekeeping

    def note_peers(self, peers: Iterable[Capabilities]) -> None:
        """Record the capabilities of the other nodes. A worker does the housekeeping only if none of them does."""
        self._others_perform_maintenance = any(peer.performs_maintenance for peer in peers)

    @property
    def performs_maintenance(self) -> bool:
        """True if this node handles misfires, deletes old history and repairs rows."""
        return self._role is not Role.WORKER or not self._others_perform_maintenance

    @property
    def misfire_keys(self) -> tuple[DispatchKey, ...]:
        """The dispatch keys whose misfires this node handles: all known ones if the node runs no jobs."""
        if not self.performs_maintenance:
            return ()
        return self._dispatch_keys if self.runs_jobs else self._all_keys

    # --- free slots

    def available_slots(self, claims: Iterable[str]) -> list[AvailableSlots]:
        """Return the dispatch keys with free slots, beyond those reserved for `claims` (given by their placements).

        While jobs are short, an executor takes more executions than it has free workers. An execution group never does.
        """
        free = self._executors.headroom()
        with self._lock:
            running = self._running.copy()
            needs = self._needs
        for text in claims:
            placement = placement_from_text(text)
            free[placement.pool] -= 1
            running[placement.group] += 1
        available = []
        for dispatch_key, executor, group, limit in needs:
            slots = MANY if limit is None else limit - running[group]
            if free[executor] > 0 and slots > 0:
                available.append(AvailableSlots(*dispatch_key, executor, free[executor], group, slots))
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
    """Keeps the capacity of a node up to date with the job types of its process, and publishes it to the cluster."""

    def __init__(
        self,
        *,
        store: JobStore,
        job_types: JobTypes,
        job_modules: tuple[str, ...],
        capacity: Capacity,
        node: Callable[[], Node],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._job_types = job_types
        self._job_modules = job_modules
        self._capacity = capacity
        self._node = node
        self._changed = changed
        self._unknown: frozenset[str] = frozenset()

    def learn(self) -> None:
        """Import the modules of waiting job types if `job_modules` allows it, and publish changed capabilities."""
        waiting = self._store.waiting_dispatch_keys()
        names = {dispatch_key.job_type for dispatch_key in waiting}
        unknown = frozenset(name for name in names if not self._knows(name))
        if unknown - self._unknown and self._capacity.runs_jobs:
            logger.warning(
                "node %s does not know these job types and leaves their jobs to other nodes: %s (import the modules"
                " that define them, or name them in job_modules)",
                self._node().instance_id,
                ", ".join(sorted(unknown)),
            )
        self._unknown = unknown
        placed = {dispatch_key for dispatch_key in waiting if dispatch_key.placement}
        if self._capacity.set_known(self._job_types.names(), placed):
            self.publish()

    def publish(self) -> None:
        """Publish the capabilities of this node, and look for work that has become possible."""
        self._store.publish(self._node(), self._capacity.capabilities)
        self._changed()

    def _knows(self, job_type: str) -> bool:
        try:
            return self._job_types.load(job_type, self._job_modules)
        except Exception:
            # The import of a user's module may raise anything. The node continues without it.
            if job_type not in self._unknown:
                logger.exception("the module of job type %s cannot be imported", job_type)
            return False
