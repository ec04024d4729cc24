"""The capacity of a node at this moment: its dispatch keys, and free slots by executor and execution group."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from quartzpy.config import Role
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.runtime.executors import Executors
from quartzpy.store.protocol import MANY, AvailableSlots, DispatchKey


class Capacity:
    """Counts what runs by execution group, and knows the dispatch_keys that there are."""

    def __init__(
        self, executors: Executors, labels: Collection[str], groups: Mapping[str, int], role: Role = Role.BOTH
    ) -> None:
        self._executors = executors
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._dispatch_keys: tuple[DispatchKey, ...] = ()
        self._all_keys: tuple[DispatchKey, ...] = ()
        self._placed: frozenset[DispatchKey] = frozenset()
        self._role = role
        self._known_types: frozenset[str] = frozenset()
        self._others_keep_house = False
        self.runs_jobs = role is not Role.SCHEDULER
        """True if this node runs jobs at all."""
        self.capabilities = Capabilities(
            frozenset(),
            executors.names() if self.runs_jobs else frozenset(),
            frozenset(labels),
            groups,
            workers=executors.workers() if self.runs_jobs else {},
            keeps_house=role is not Role.WORKER,
        )

    # --- what there is

    def know(self, job_types: Collection[str], placed: Collection[DispatchKey]) -> bool:
        """These job types can be run here, and these dispatch_keys have a placement; whether that is news."""
        with self._lock:
            known = frozenset(job_types)
            if known == self._known_types and frozenset(placed) == self._placed:
                return False
            self._become(known, self.capabilities.groups, frozenset(placed))
            return True

    def learn(self, placed: Collection[DispatchKey]) -> bool:
        """There are dispatch_keys with these placements; whether that opens one here."""
        with self._lock:
            if self._placed.issuperset(placed):
                return False
            before = self._dispatch_keys
            self._become(self._known_types, self.capabilities.groups, self._placed.union(placed))
            return self._dispatch_keys != before

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Limit execution groups anew; what runs goes on."""
        with self._lock:
            self._become(self._known_types, groups, self._placed)

    def _become(self, job_types: frozenset[str], groups: Mapping[str, int], placed: frozenset[DispatchKey]) -> None:
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

    @property
    def dispatch_keys(self) -> tuple[DispatchKey, ...]:
        """Those that this node has a place for, full or not."""
        return self._dispatch_keys

    # --- housekeeping

    def note_peers(self, peers: Iterable[Capabilities]) -> None:
        """Learn which other nodes there are. A worker keeps house only where none of them does."""
        self._others_keep_house = any(peer.keeps_house for peer in peers)

    @property
    def keeps_house(self) -> bool:
        """True if this node handles misfires, deletes old history and repairs rows."""
        return self._role is not Role.WORKER or not self._others_keep_house

    @property
    def misfire_keys(self) -> tuple[DispatchKey, ...]:
        """The dispatch keys whose misfires this node handles: a node that runs no jobs handles all that it knows."""
        if not self.keeps_house:
            return ()
        return self._dispatch_keys if self.runs_jobs else self._all_keys

    # --- what is free

    def available_slots(self, held: Iterable[str]) -> list[AvailableSlots]:
        """The dispatch_keys that there is room for, beside what is `held` (by placement) and did not start yet."""
        free = self._executors.free()
        with self._lock:
            running = self._running.copy()
            dispatch_keys, capabilities = self._dispatch_keys, self.capabilities
        for text in held:
            placement = placement_from_text(text)
            free[placement.pool] -= 1
            running[placement.group] += 1
        found = []
        for dispatch_key in dispatch_keys:
            placement = placement_from_text(dispatch_key.placement)
            executor = placement.pool
            limit = capabilities.limit_of(placement.group)
            room = MANY if limit is None else limit - running[placement.group]
            if free[executor] > 0 and room > 0:
                found.append(AvailableSlots(*dispatch_key, executor, free[executor], placement.group, room))
        return found

    def take(self, placements: Sequence[str]) -> None:
        """These begin to run."""
        with self._lock:
            self._running.update(placement_from_text(text).group for text in placements)

    def give_back(self, placement: str) -> bool:
        """One ended; whether its group was full, so that others may have waited for it."""
        group = placement_from_text(placement).group
        with self._lock:
            self._running[group] -= 1
            limit = self.capabilities.limit_of(group)
            return limit is not None and self._running[group] + 1 >= limit


def workers_of(available_slots: Iterable[AvailableSlots]) -> int:
    """Return the number of workers that are free for these."""
    return sum({opening.executor: opening.workers for opening in available_slots}.values())
