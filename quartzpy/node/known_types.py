"""The job types that a node can run: registered ones, and those that it can import from `job_modules`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quartzpy.jobs.job import JobTypes
from quartzpy.node.workers.capacity import Capacity
from quartzpy.store.protocol import JobStore, Node

logger = logging.getLogger(__name__)


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
