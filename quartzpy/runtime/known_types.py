"""The job types that a node can run: those that its process has registered, and those that it may import."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quartzpy.job import JobTypes
from quartzpy.runtime.capacity import Capacity
from quartzpy.store.protocol import JobStore, Node

logger = logging.getLogger(__name__)


class KnownTypes:
    """Keeps a node's capacity in step with the job types of its process, and tells the cluster about them."""

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
        """Import the modules of waiting job types where that is allowed, and publish what this node can run now."""
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
        if self._capacity.know(self._job_types.names(), placed):
            self.publish()

    def publish(self) -> None:
        """Tell the cluster what this node can run, and look at once for work that has become possible."""
        self._store.publish(self._node(), self._capacity.capabilities)
        self._changed()

    def _knows(self, job_type: str) -> bool:
        try:
            return self._job_types.load(job_type, self._job_modules)
        except Exception:
            # A user's module may do anything when it is imported. This node does without it.
            if job_type not in self._unknown:
                logger.exception("the module of job type %s cannot be imported", job_type)
            return False
