"""When a node looks for due triggers next, as a function of what it knows.

Time is divided into turns. Each turn belongs to one of the nodes that can run the same jobs: in each round every node
has one, and all nodes compute the same order. For what is due in its turn a node looks on time. The others look later,
each at a delay of its own, read before they lock anything, and take what is left. So a look finds something mostly, and
if the node whose turn it is has died, is frozen or has no free worker, another one comes within `MAX_GRACE`.

The node whose turn it is knows what is due in it. What a look reads is the soonest that waits, and what other nodes
take then waits later still. So a node whose last look read something that is due before its turn looks again when its
turn begins. What is stored meanwhile is announced, which is as if the last look had read it.

The node that took something last has read what comes next, and is there just after the node whose turn it is. So while
that one does not come, only the first trigger is late by the delay.

Nothing of this is stored, and no node relies on it: each may be wrong about all others, and looks soon nevertheless.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from quartzpy.node.outlook import Outlook
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.protocol import Acquisition, CheckIn

TURN = timedelta(seconds=0.25)
"""The duration of a turn."""
SHORTEST_GRACE = 0.15
"""The delay, in seconds, below which no node comes that is neither on time nor next: the one on time has taken it."""
MAX_GRACE = 0.25
"""The longest delay, in seconds, after a fire time or a notification."""
NEXT_GRACE = 0.002
"""The delay, in seconds, of the node that took something last, where it is another one's turn."""
FIRST_RETRY = 0.001
"""The delay, in seconds, before another look for a trigger that was not yet within reach by the store's clock."""
SHORTEST_RETRY = 0.02
"""The first delay, in seconds, before a due trigger is tried again whose row another transaction has locked."""
MAX_RETRY = 0.25
"""The longest such delay. The delay doubles with each attempt."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Peers:
    """The nodes that can take the same triggers as this one."""

    epochs: tuple[int, ...] = ()
    """Their epochs, with that of this node, in their order. It is alone if there are fewer than two."""
    own: int = 0
    """The position of this node."""

    @classmethod
    def of(cls, answer: CheckIn, epoch: int) -> Peers:
        """Return the peers of the node with this epoch, from the answer to a check-in of this node."""
        equals = {
            node.epoch: _runs(node.capabilities)
            for node in answer.nodes
            if node.epoch == epoch
            or (node.mode is NodeMode.RUNNING and answer.now - node.last_checkin <= node.failure_window)
        }
        epochs = sorted(other for other, runs in equals.items() if runs == equals.get(epoch))
        return cls(tuple(epochs), epochs.index(epoch)) if epoch in equals else cls()

    def place(self, at: datetime) -> int:
        """Return how many nodes are to look before this one for what is due then: 0 if it is its turn."""
        nodes = len(self.epochs)
        if nodes < 2:
            return 0
        number, turn = divmod((at - _BEGIN) // TURN, nodes)
        # Each round begins with another node, so that fires of each full minute do not all fall to the same one.
        return (self.own - turn - zlib.crc32(b"%d" % number)) % nodes

    def grace(self, at: datetime) -> float:
        """Return how many seconds after this fire time this node looks, if it is not its turn then."""
        return SHORTEST_GRACE + (MAX_GRACE - SHORTEST_GRACE) * self.place(at) / len(self.epochs)

    def next_turn(self, after: datetime, before: datetime) -> datetime | None:
        """Return when the next turn of this node begins, if it does so between these instants."""
        begin = _BEGIN + ((after - _BEGIN) // TURN + 1) * TURN
        while begin < before:
            if self.place(begin) == 0:
                return begin
            begin += TURN
        return None


def _runs(capabilities: Capabilities) -> tuple[object, ...]:
    return capabilities.job_types, capabilities.executors, capabilities.labels, dict(capabilities.groups)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a node knows from its last look, and from what it was told since."""

    looked_at: float = float("-inf")
    """The monotonic time of the last look."""
    rests: float = 0.0
    """The seconds after which it looks again in any case."""
    slot_pools: frozenset[str] = frozenset()
    """The slot pools for which it looked."""
    next_due: datetime | None = None
    """The soonest fire time that it read."""
    is_due: bool = False
    """True if that had come already: another transaction has locked the trigger, or it waits for something else."""
    retry: float = FIRST_RETRY
    """The seconds after the last look before which there is none for what it read."""
    took_last: bool = False
    """True if no other node is known to have taken something since this one did, or was asked to look."""
    more_is_due: bool = False
    """True if it took all that it could."""
    looks_at_once: bool = True
    """True if another look follows at once for a reason that the last look has found."""
    outlook: Outlook = field(default_factory=Outlook)
    """What it expects the next step to meet."""
    told_at: datetime | None = None
    """When it was told first that something is due, and has not looked since."""


@dataclass(frozen=True, slots=True)
class NextLook:
    """The next look."""

    seconds: float
    """The seconds until then; it is time now if they are not positive."""
    is_on_time: bool
    """True if the node is to be on time. Otherwise it takes only what another one has left."""


AT_ONCE = NextLook(0.0, is_on_time=True)


def next_look(knowledge: Knowledge, peers: Peers, lead: float, now: datetime, monotonic: float) -> NextLook:
    """Return when to look next. A look on time begins `lead` seconds before the fire time."""
    if knowledge.looks_at_once or knowledge.more_is_due:
        return AT_ONCE
    since = monotonic - knowledge.looked_at
    looks = [NextLook(knowledge.rests - since, is_on_time=peers.place(now) == 0)]
    if knowledge.told_at is not None:
        looks.append(_look_for(knowledge.told_at, peers, lead, now, took_last=False))
    if knowledge.is_due:
        looks.append(NextLook(knowledge.retry - since, is_on_time=True))
    elif knowledge.next_due is not None:
        look = _look_for(knowledge.next_due, peers, lead, now, took_last=knowledge.took_last)
        looks.append(NextLook(max(look.seconds, knowledge.retry - since), look.is_on_time))
    return min(looks, key=lambda look: (look.seconds, not look.is_on_time))


def _look_for(at: datetime, peers: Peers, lead: float, now: datetime, *, took_last: bool) -> NextLook:
    until = (at - now).total_seconds()
    if peers.place(at) == 0:
        return NextLook(until - lead, is_on_time=True)
    grace = NEXT_GRACE if took_last else peers.grace(at)
    if (begin := peers.next_turn(at, at + timedelta(seconds=grace + lead))) is not None:
        return NextLook((begin - now).total_seconds() - lead, is_on_time=True)
    return NextLook(until + grace, is_on_time=False)


def after_look(
    knowledge: Knowledge,
    acquired: Acquisition,
    *,
    limit: int,
    look_ahead: timedelta,
    was_asked: bool,
    looks_at_once: bool,
    slot_pools: frozenset[str],
    looked_at: float,
    rests: float,
    outlook: Outlook,
) -> Knowledge:
    """Return what a node knows after a look that could take `limit` triggers.

    `was_asked` says that a part of this node, or another node that can take nothing more, has asked for the look.
    `looks_at_once` says that the node has done something upon the look that lets it take more.
    """
    planned, next_due = knowledge.next_due, acquired.next_due
    is_due = next_due is not None and next_due <= acquired.now
    was_late = has_cleared = False
    if planned is not None:
        was_late = not is_due and planned <= acquired.now + look_ahead
        # It has set triggers of full jobs aside: others may be due behind them.
        has_cleared = knowledge.is_due and next_due is not None and planned < next_due <= acquired.now
    is_locked = is_due and not acquired.taken
    return Knowledge(
        looked_at=looked_at,
        rests=rests,
        slot_pools=slot_pools,
        next_due=next_due,
        is_due=is_due,
        retry=min(max(2 * knowledge.retry, SHORTEST_RETRY), MAX_RETRY) if is_locked else FIRST_RETRY,
        took_last=bool(acquired.taken) or was_asked or (knowledge.took_last and not was_late),
        more_is_due=acquired.taken >= limit,
        looks_at_once=looks_at_once or has_cleared,
        outlook=outlook,
    )
