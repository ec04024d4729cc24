"""The signals between the threads of a node. They exist before the threads, so that any part can wake any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime

from quartzpy.instants import EARLIEST
from quartzpy.node.next_look import Peers
from quartzpy.node.opened_gates import OpenedGates
from quartzpy.node.outlook import Changes
from quartzpy.store.protocol import Gate, Notification
from quartzpy.store.store_time import StoreTime

LATE_SECONDS = 0.1
"""The lateness of a new fire time, in seconds, from which the misfire handler is woken to apply the threshold."""


class Wakeup:
    """A wake-up for one waiting thread. Any thread may set it.

    It is latched: one that is set between two waits makes the next wait return at once (see Quartz's issue QTZ-336).
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        # The waiting thread clears the event before it looks for work, so setting it once is enough.
        if not self._event.is_set():
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`. Return whether the wake-up was set.

        The time of a suspension of the machine does not count; the supervisor wakes all services after one.
        """
        woken = self._event.wait(max(0.0, seconds))
        self._event.clear()
        return woken


class SchedulerSignals:
    """What the other threads ask of the scheduler thread, which takes it up in its next pass."""

    def __init__(self) -> None:
        self.wakeup = Wakeup()
        self.looks_again = True
        self.changes = Changes()
        self.peers = Peers()
        self.is_notified = False
        """True while a notification has not been looked for."""
        self._then: Callable[[], None] | None = None
        self.compare_due = False
        self.opened = OpenedGates()
        self.in_standby = True
        self.is_halted = False
        """True while nothing may fire, whatever the mode of the node is."""
        self.resting = threading.Event()
        """Set once the scheduler thread fires nothing more: by itself in standby, and by a drain that has joined it.

        A change of the mode clears it, and so does the begin of a stop."""
        self.afterwards: deque[Callable[[], None]] = deque()

    def look_again(self, then: Callable[[], None] | None = None) -> None:
        """Look for due triggers in the next pass.

        `then` is called when that pass has ended, even if it failed.
        """
        if then is not None:
            self.afterwards.append(then)
        self.looks_again = True
        self.wakeup.set()

    def notify(self, then: Callable[[], None], waits_from: datetime | None = None) -> None:
        """Look for due triggers soon: another process has announced one, perhaps to many nodes.

        `waits_from` is its fire time, if that is known. `then` is called when the pass that looks has ended.
        Notifications that arrive before that pass share it.
        """
        self._then = then
        self.changes.add(of_others=waits_from or EARLIEST)
        if not self.is_notified:
            self.is_notified = True
            self.wakeup.set()

    def answer_notification(self) -> None:
        """Call after this pass what was to be called for the notifications so far."""
        self.is_notified = False
        if self._then is not None:
            self.afterwards.append(self._then)

    def open_gates(self, gates: Collection[Gate]) -> None:
        """Look, in the next pass, for what is parked at these gates."""
        if gates:
            self.opened.add(gates)
            self.wakeup.set()

    def set_standby(self, standby: bool) -> None:
        self.resting.clear()
        self.in_standby = standby
        self.wakeup.set()

    @property
    def fires_nothing(self) -> bool:
        return self.in_standby or self.is_halted

    def halt(self, is_halted: bool) -> None:
        """Fire nothing until this is called again."""
        self.is_halted = is_halted
        self.wakeup.set()

    def wait_until_resting(self, timeout: float) -> bool:
        """After `set_standby(True)`, wait for the current pass to end. Return False on timeout."""
        return self.resting.wait(timeout)

    def compare(self) -> None:
        """In the next pass, compare the executions of this node with the rows of its epoch."""
        self.compare_due = True
        self.wakeup.set()


class Signals:
    """The signals of one node."""

    def __init__(self, store_time: StoreTime) -> None:
        self._store_time = store_time
        self.scheduler = SchedulerSignals()
        self.misfires = Wakeup()
        self.check_in = Wakeup()
        self.cluster = Wakeup()
        self.stop = Wakeup()
        """Set when the node stops, to end the waits of a start."""
        self.is_leaving = False
        """True from the begin of a drain that ends the node."""
        self.is_draining = False
        """True while the node finishes what it runs, for its end or until it is resumed."""

    def takes_more(self) -> bool:
        """Return whether the scheduler thread fires triggers."""
        return not (self.is_leaving or self.scheduler.fires_nothing)

    def leaves_refires(self) -> bool:
        """Return whether an immediate refire that a job asks for is left to another node.

        Before the last pass of the scheduler thread has ended, this node itself would take the refire.
        """
        return self.is_draining and self.scheduler.resting.is_set()

    def scheduling_changed(
        self, earliest: datetime | None = None, notification: Notification = Notification.SCHEDULED
    ) -> None:
        """Wake the scheduler thread, as this node has let triggers wait, of which it may know the earliest fire time;
        also the misfire handler, if it may have to handle one."""
        self.scheduler.changes.add(own=earliest or EARLIEST)
        self.scheduler.look_again()
        is_late = earliest is not None and self._store_time.seconds_until(earliest) < -LATE_SECONDS
        if is_late or notification is Notification.RESUMED:
            # It may be later than the trigger's misfire threshold, or it was resumed; the misfire handler decides.
            self.misfires.set()

    def look_in_turn(self, waits_from: datetime | None = None) -> None:
        """Let the scheduler thread look when it is its turn among the nodes, and then wake the misfire handler.

        Another process has let a trigger wait, perhaps from this fire time on.
        """
        self.scheduler.notify(self.misfires.set, waits_from)

    def look_for_due(self) -> None:
        """Wake the scheduler thread, and then the misfire handler: triggers may wait from any time on."""
        # At once it would delay the start of a due job, because both threads need the interpreter, and both of their
        # statements the processors of the database.
        self.scheduler.changes.add(of_others=EARLIEST)
        self.scheduler.look_again(then=self.misfires.set)
