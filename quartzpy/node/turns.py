"""Which node of a cluster looks for a due trigger on time, and which ones look a little later.

One node takes a trigger, and the looks of all others find nothing. So a node whose looks found that others were faster
looks a little after the fire times that it reads, instead of before them. If nobody has taken the trigger by then, it
takes it, and looks on time again. The delay is random, so that some node is always the first, and never longer than
`LONGEST_GRACE`: this is how late a trigger is if the node that was to take it has died, is frozen or is cut off.

Somebody is on time as long as all nodes work:

- The node that has fired something last has read what waits, in the same round trip, and looks on time.
- Nobody else knows when a trigger fires next that a node has just fired: it looks on time for that.
- Each fire time, and each second in which notifications arrive, belongs to one node by its number: to the same one in
  the eyes of all nodes that can run the same jobs. It looks on time, which covers triggers that nobody has fired yet.

Nothing of this is stored, and no node relies on it: each may be wrong about all others, and looks soon nevertheless.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from quartzpy.clock import uniform
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.protocol import CheckIn, FiredTrigger, SkippedTrigger

FREE_LOSSES = 1
"""The number of looks in a row for which others were faster, before a node looks later."""
FIRST_GRACE = 0.032
"""The first delay, in seconds. It doubles with each further look for which others were faster."""
LONGEST_GRACE = 0.25
"""The longest delay, in seconds, after a fire time or a notification."""
LEAST_SHARE = 0.4
"""The shortest delay as a share of the longest one: until then, the node on time has usually taken the trigger."""
DISAGREEMENT = timedelta(milliseconds=20)
"""The difference between the store's time as two nodes estimate it, within which both take a second for theirs."""
MOST_OWN = 1_000
"""The number of fire times, the soonest, that a node remembers of triggers that it has fired."""


class Turns:
    """Decides when this node looks: on time, or after a delay that lets another node be faster."""

    def __init__(self) -> None:
        self._nodes: tuple[int, ...] = ()
        """The epochs of the nodes that can take the same triggers, with this one, in their order."""
        self._epoch = 0
        self._losses = 0
        self._own: list[datetime] = []
        """When triggers fire next that this node has fired; a heap."""

    # --- the other nodes

    def note_nodes(self, answer: CheckIn, epoch: int) -> None:
        """Note which nodes there are, from the answer to a check-in of this node with this epoch."""
        equals: dict[int, tuple[object, ...]] = {
            node.epoch: _runs(node.capabilities)
            for node in answer.nodes
            if node.epoch == epoch
            or (node.mode is NodeMode.RUNNING and answer.now - node.last_checkin <= node.failure_window)
        }
        self._epoch = epoch
        self._nodes = tuple(sorted(other for other, runs in equals.items() if runs == equals.get(epoch)))

    @property
    def are_taken(self) -> bool:
        """Return False if no other node can take what this one can: it is always on time."""
        return len(self._nodes) > 1

    def belongs_here(self, at: datetime) -> bool:
        """Return whether this fire time is for this node to be on time for."""
        nodes = self._nodes
        return len(nodes) < 2 or nodes[zlib.crc32(at.isoformat().encode()) % len(nodes)] == self._epoch

    def is_on_duty(self, now: datetime) -> bool:
        """Return whether a notification that arrives now is for this node to look for at once."""
        return any(
            self.belongs_here((now + difference).replace(microsecond=0)) for difference in (-DISAGREEMENT, DISAGREEMENT)
        )

    # --- the looks of this node

    def look_on_time(self) -> None:
        """Look on time from now on: a look has fired something, or all nodes are asked to look."""
        self._losses = 0

    def note_loss(self) -> None:
        """Note that a look came too late for what it was planned for."""
        self._losses += 1

    def note_moved(self, triggers: Iterable[FiredTrigger | SkippedTrigger]) -> None:
        """Note when triggers fire next that this node has fired or skipped."""
        if not self.are_taken:
            self._own.clear()
            return
        own = self._own
        for trigger in triggers:
            if trigger.next_fire_time is not None:
                heapq.heappush(own, trigger.next_fire_time)
        if len(own) > 2 * MOST_OWN:
            own[:] = heapq.nsmallest(MOST_OWN, own)

    def drop_own(self, until: datetime) -> bool:
        """Drop the fire times of own triggers for which this node has looked now. Return whether there were any."""
        own, count = self._own, len(self._own)
        while own and own[0] <= until:
            heapq.heappop(own)
        return len(own) < count

    @property
    def soonest_own(self) -> datetime | None:
        """The soonest fire time of a trigger that this node has fired, and for which it has not looked."""
        return self._own[0] if self._own else None

    @property
    def is_behind(self) -> bool:
        """Return whether others were faster for the last looks: this node takes only what they leave."""
        return self._losses > FREE_LOSSES and self.are_taken

    def grace(self, at: datetime) -> float | None:
        """Return how many seconds after this fire time to look for its trigger; None to be on time."""
        return None if self.belongs_here(at) else self._grace()

    def delay(self, now: datetime) -> float:
        """Return the seconds after which to look for what a notification announces that arrives now."""
        return 0.0 if self.is_on_duty(now) else self._grace() or 0.0

    def _grace(self) -> float | None:
        if not self.is_behind:
            return None
        doublings = min(self._losses - FREE_LOSSES - 1, 30)
        return min(FIRST_GRACE * 2.0**doublings, LONGEST_GRACE) * uniform(LEAST_SHARE, 1.0)


def _runs(capabilities: Capabilities) -> tuple[object, ...]:
    return capabilities.job_types, capabilities.executors, capabilities.labels, dict(capabilities.groups)
