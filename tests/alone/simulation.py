"""Nodes whose scheduler threads are run by hand, on a clock that moves from one planned wake-up to the next.

So the rests that the passes return decide alone when a trigger fires, however slow the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import StoreUnavailableError
from quartzpy.events.listeners import Listeners
from quartzpy.node.next_look import Peers
from quartzpy.node.opened_gates import gates_of
from quartzpy.node.registration import Epoch
from quartzpy.node.scheduler_thread import SchedulerThread
from quartzpy.node.signals import SchedulerSignals
from quartzpy.states import Outcome
from quartzpy.store.protocol import (
    AvailableSlots,
    Completion,
    CompletionOutcome,
    DispatchKey,
    FiredTrigger,
    JobStore,
    Node,
)
from quartzpy.store.store_time import StoreTime
from tests.contract.harness import REPORT, Harness

PASS = timedelta(milliseconds=1)
"""What a pass of a thread takes by the clock."""
RETRY = timedelta(milliseconds=100)
"""When a node tries again that cannot reach its store."""
SLACK = 0.01
"""The lateness, in seconds, that some passes at one instant add up to."""


@dataclass
class Running:
    """An execution, with the instant at which it ends."""

    fired: FiredTrigger
    ends_at: datetime


@dataclass
class How:
    """How the executions of a job end: after how long, and with what."""

    takes: timedelta = timedelta()
    ending: dict[str, Any] = field(default_factory=dict)


class _Announcing:
    """A store whose notifications of other nodes arrive at once."""

    def __init__(self, store: JobStore, notify: Callable[[], None]) -> None:
        self._store = store
        self._notify = notify

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def acquire(self, *arguments: Any, **how: Any) -> Any:
        took = self._store.acquire(*arguments, **how)
        if not how["limit"]:
            # What waits for any node now is notified.
            self._notify()
        return took

    def wake_others(self, node: Node) -> None:
        self._store.wake_others(node)
        self._notify()


class SimulatedNode:
    """The scheduler thread of a node, and its executions, which end when the clock says so."""

    def __init__(
        self, simulation: Simulation, name: str, store: JobStore, workers: int, types: Sequence[str], **settings: Any
    ) -> None:
        clock = simulation.clock
        self.simulation = simulation
        self.store = store
        self.workers = workers
        self.types = types
        self.node: Node = store.register(
            name, host="host", pid=1, checkin_interval=timedelta(seconds=5), window=timedelta(seconds=20)
        )
        self.epoch = Epoch(self.node, SystemClock(), 1e9, 0.0)
        self.running: list[Running] = []
        self.fire_ids: set[int] = set()
        self.passes = 0
        self.at = clock.now()
        """When the next pass begins, unless something wakes the thread before."""
        self.frozen_until = clock.now()
        self.is_cut_off = False
        """True while the node cannot reach its store."""
        self.thread = SchedulerThread(
            name,
            signals=SchedulerSignals(),
            store=_Announcing(store, simulation.announce),
            clock=clock,
            store_time=StoreTime(clock),
            capacity=self,  # type: ignore[arg-type]
            decide=self.decide,
            executors=SimpleNamespace(  # type: ignore[arg-type]
                have_waiting=False, is_worth_filling=lambda at_most: True, workers=lambda: {"default": workers}
            ),
            config=SchedulerConfig(**settings),
            epoch=lambda: self.epoch,
            adopt=lambda fired, epoch, rows: None,
            submit=self._submit,
            hand_back=lambda patience: None,
            running=lambda epoch: [one.fired.fire_id for one in self.running],
            abandon=lambda fire_ids: None,
            backlog=lambda: 0,
            lease_lost=lambda epoch: None,
            listeners=Listeners(),
        )
        self.thread.signals.set_standby(False)

    # --- in place of the node's capacity

    met_pools: Collection[str] = frozenset({""})

    def available_slots(self) -> list[AvailableSlots]:
        free = self.workers - len(self.running)
        return [AvailableSlots(workers=free)] if free > 0 else []

    def meet(self, slot_pools: object) -> bool:
        return False

    def decide(self, node: Node, dispatch_keys: Collection[DispatchKey]) -> bool:
        return self.store.decide(node, {key: key.job_type in self.types for key in dispatch_keys})

    # --- executions

    def _submit(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        for one in fired:
            self.simulation.fires.append(one)
            self.fire_ids.add(one.fire_id)
            takes = self.simulation.how(one).takes
            self.running.append(Running(one, max(one.fire_time, self.simulation.clock.now()) + takes))

    def end_due(self) -> None:
        """End the executions that are over, as the completer does."""
        now = self.simulation.clock.now()
        over = [one for one in self.running if one.ends_at <= now]
        if not over:
            return
        self.running = [one for one in self.running if one not in over]
        ended = [
            Completion(
                one.fired,
                started_at=one.fired.fire_time,
                ended_at=now,
                **{"outcome": Outcome.SUCCEEDED, **self.simulation.how(one.fired).ending},
            )
            for one in over
        ]
        outcome: CompletionOutcome = self.store.complete(self.node, ended)
        self.epoch.discard_unrecorded([one.fired.fire_id for one in over])
        self.thread.signals.open_gates(gates_of(ended))
        if outcome.earliest_unblocked is not None:
            self.thread.signals.changes.add(own=outcome.earliest_unblocked)
            self.thread.signals.look_again()
        # A worker that becomes free wakes a thread that waits for one.
        if len(self.running) + len(over) >= self.workers:
            self.thread.wakeup.set()

    def wakes_at(self) -> datetime:
        ends = min((one.ends_at for one in self.running), default=self.at)
        woken = self.thread.wakeup._event.is_set()
        return max(min(self.simulation.clock.now() if woken else self.at, ends), self.frozen_until)

    @property
    def fires(self) -> list[FiredTrigger]:
        return [one for one in self.simulation.fires if one.fire_id in self.fire_ids]

    def wake_up(self) -> None:
        if self.is_cut_off:
            self.thread.wakeup._event.clear()
            self.at = self.frozen_until = self.simulation.clock.now() + RETRY
            self.thread.after_failure(StoreUnavailableError("cut off"))
            return
        self.end_due()
        if self.thread.wakeup._event.is_set() or self.at <= self.simulation.clock.now():
            self.thread.wakeup._event.clear()
            self.passes += 1
            rest = self.thread.run_once()
            self.simulation.clock.advance(PASS)
            self.at = self.simulation.clock.now() + timedelta(seconds=max(rest, 0))


class Simulation:
    """A cluster on one clock."""

    def __init__(
        self,
        harness: Harness,
        stores: Sequence[JobStore],
        *,
        workers: int = 10,
        types: Sequence[Sequence[str]] | None = None,
        **settings: Any,
    ) -> None:
        self.harness = harness
        self.clock = harness.clock
        self.fires: list[FiredTrigger] = []
        self.announcements = 0
        self.hows: dict[str, How] = {}
        self.nodes = [
            SimulatedNode(self, f"node-{number}", store, workers, types[number] if types else (REPORT,), **settings)
            for number, store in enumerate(stores)
        ]
        self.check_in()

    def how(self, fired: FiredTrigger) -> How:
        return self.hows.get(fired.job_name, How())

    def notify(self) -> None:
        """Wake all nodes, as a notification does."""
        for node in self.nodes:
            node.thread.signals.notify(then=lambda: None)

    def announce(self) -> None:
        """Wake all nodes because one of them asks for it."""
        self.announcements += 1
        for node in self.nodes:
            node.thread.signals.look_again()

    def check_in(self) -> None:
        """Let each node read which nodes there are, as check-ins do."""
        for node in self.nodes:
            answer = node.store.list_nodes()
            node.thread.signals.peers = Peers.of(answer, node.node.epoch)

    @property
    def last_taker(self) -> SimulatedNode:
        """The node that has fired last."""
        fire_id = self.fires[-1].fire_id
        return next(node for node in self.nodes if fire_id in node.fire_ids)

    def run(self, seconds: float) -> None:
        self.run_until(self.clock.now() + timedelta(seconds=seconds))

    def run_until(self, end: datetime) -> None:
        while True:
            node = min(self.nodes, key=SimulatedNode.wakes_at)
            if (at := node.wakes_at()) > end:
                break
            if at > self.clock.now():
                self.clock.set(at)
            node.wake_up()
        if end > self.clock.now():
            self.clock.set(end)

    @property
    def passes(self) -> int:
        return sum(node.passes for node in self.nodes)

    def lateness(self, *names: str) -> list[float]:
        """The lateness of each fire, in seconds, of all triggers or of the named ones."""
        return [
            (one.fire_time - one.scheduled_fire_time).total_seconds()
            for one in self.fires
            if not names or one.trigger_name in names
        ]
