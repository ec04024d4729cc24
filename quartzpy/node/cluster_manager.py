"""The check-ins of a node, and the cluster manager: it detects dead nodes, recovers their work, and does housekeeping.

The check-in thread renews the lease of this node. Slow work happens on other threads: recovery, publishing, importing
job modules, listeners. The thread has its own connection. A check-in that takes longer than an interval is abandoned
and retried at once on a new connection.

Two conditions must hold before a peer is declared dead. Its last check-in is older than its failure window by the
store's clock; and this node, in an unbroken series of its own check-ins that spans the window, has seen that the peer's
check-in counter did not change. An outage of the database or a pause of this process breaks the series. Every peer then
gets a full window to check in again, so a starved observer decides late rather than wrongly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import CopiedDatabaseError, InstanceIdInUseError, SchemaError
from quartzpy.node.registration import Epoch
from quartzpy.node.service import NO_REST, EpochService, Repetitions, StoreWatch, is_without_connection, rest_after
from quartzpy.node.signals import Wakeup
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import CheckIn, Gate, JobStore, RecoveryOutcome, TimeOff, ZoneRenewal
from quartzpy.store.records import LastingIncident, NodeRecord
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)

PURGE_EVERY = 60.0
PURGE_ROWS = 10_000
CUTOFF_EVERY = 300.0
"""The interval, in seconds, at which the history is measured against `history_max_rows`: this reads an index entry for
each row that is kept."""
PURGE_SHARE = 1 / 4
"""The share of the time that deleting takes while there is more history to delete. A node then deletes more rows than
it can write, and each statement stays short."""
PURGE_REST = 0.05, 1.0
"""The shortest and the longest rest, in seconds, between two batches."""
ENDED_TRIGGERS_KEPT = timedelta(days=7)
"""The time for which ended triggers are kept if the history is kept for ever."""
REPAIR_EVERY = 3_600.0
"""The interval, in seconds, of repairs. They read all triggers, to fix what only manual edits or bugs can cause."""
ZONE_CHECK_EVERY = 60.0
"""The interval, in seconds, at which a node looks whether something was computed by other rules of time zones."""
ZONE_REST = 0.1
"""The rest, in seconds, between two parts of a renewal."""
ZONE_AT_START = 10.0
"""The seconds for which the start of a node waits for a renewal."""
ZONE_LINES = 20
"""The number of fires that the log names of those that one part of a renewal has moved."""
SCHEMA_CHECK_EVERY = 30.0
"""The interval, in seconds, at which the tables are checked."""


class ClusterManager(EpochService):
    """The thread that observes the other nodes. Each check-in of this node wakes it."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        watch: StoreWatch,
        checked_in: Callable[[], None],
        recovered: Callable[[RecoveryOutcome], None],
        opened: Callable[[Collection[Gate]], None] = lambda gates: None,
        lease_lost: Callable[[Epoch], None],
        rejoin: Callable[[], None],
        performs_maintenance: Callable[[], bool],
        halt: Callable[[bool], None] = lambda is_halted: None,
        judge: Callable[[], Sequence[LastingIncident]] = tuple,
        during: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext(),
        time_off: Callable[[TimeOff], None] = lambda outcome: None,
        wakeup: Wakeup | None = None,
    ) -> None:
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch, wakeup=wakeup)
        self.period = max(self.period, config.checkin_interval.total_seconds())
        self.refusal: str | None = None
        """The reason why this node could not rejoin after it lost its epoch."""
        self.incidents: Sequence[LastingIncident] = ()
        """What lasts of what is wrong with the cluster, by the last judgement that this node knows."""
        self._store = store
        self._clock = clock
        self._config = config
        self._checked_in = checked_in
        self._recovered = recovered
        self._opened = opened
        self._rejoin = rejoin
        self._performs_maintenance = performs_maintenance
        self._judge = judge
        self._during = during
        self._repetitions = Repetitions(clock.monotonic)
        self._judging = Repetitions(clock.monotonic)
        self._time_off = time_off
        self._time_off_at = float("inf")
        self.schema = SchemaWatch(store, clock, halt)
        self._peers = PeerWatch(config.checkin_interval, config.failure_window)
        self._zones = ZoneWatch()
        self._lock = threading.Lock()
        self._dead: list[NodeRecord] = []
        self._has_answer = False
        self._purged_at = self._repaired_at = clock.monotonic()
        self._cutoff_found_at = float("-inf")
        self._history_cutoff: datetime | None = None
        self._has_more_to_purge = False

    # --- called by the check-in thread

    def check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        """Evaluate the answer to a check-in sent at `asked_at`, and wake this thread for the consequences."""
        with self._lock:
            self._dead = self._peers.observe(answer, epoch.node.epoch, asked_at)
            self._zones.observe(answer)
            self._has_answer = True
        self.wakeup.set()

    def wake(self) -> None:
        """Do the work that follows a check-in now, because this process has registered another job type."""
        with self._lock:
            self._has_answer = True
        self.wakeup.set()

    def check_in_failed(self, error: BaseException) -> None:
        self.schema.failed(error)
        self._interrupt()

    # --- the loop

    def run_as(self, epoch: Epoch) -> float:
        """Recover the work of nodes that the last check-in showed to be dead, and do the housekeeping.

        Return the seconds until the next pass, unless a check-in wakes this thread before.
        """
        if epoch.lost:
            return self._try_rejoin()
        with self._lock:
            dead, has_answer = self._dead, self._has_answer
            self._dead, self._has_answer = [], False
        if has_answer:
            self._recover(epoch, dead)
            with self._during("what follows a check-in"):
                self._checked_in()
            self.schema.check()
        elif not (self._has_more_to_purge or self._zones.has_more or self._clock.monotonic() >= self._time_off_at):
            return self._rest(self.period)
        if not self._performs_maintenance():
            return self.period
        self._apply_time_off(epoch)
        self._renew_zones(epoch)
        if has_answer and self.schema.problem is None:
            self._judge_incidents()
        self._repair(self._clock.monotonic())
        rest = self._rest(self._purge(self._clock.monotonic()))
        return min(rest, ZONE_REST) if self._zones.has_more else rest

    def _rest(self, seconds: float) -> float:
        """Return the seconds to rest, at most until a pause ends or a maintenance window needs something."""
        return max(0.0, min(seconds, self._time_off_at - self._clock.monotonic()))

    def _expect_time_off(self, after: timedelta | None, *, is_done: bool = True) -> None:
        # What is still to be done although nothing could be done is locked by somebody.
        seconds = (
            float("inf") if after is None else after.total_seconds() if is_done else max(1.0, after.total_seconds())
        )
        self._time_off_at = self._clock.monotonic() + seconds

    def _apply_time_off(self, epoch: Epoch) -> None:
        """Begin maintenance windows and end pauses, if it is time for that."""
        if self._clock.monotonic() < self._time_off_at:
            return
        try:
            outcome = self._store.apply_time_off(epoch.node.instance_id)
        except Exception as error:
            if is_without_connection(error):
                raise
            # The other work of this thread must not wait for that.
            if self._repetitions.are_told(error):
                self._logger.warning("%s: pauses could not be ended or begun", self.name, exc_info=error)
            self._time_off_at = self._clock.monotonic() + self.period
            return
        self._repetitions.end()
        self._expect_time_off(outcome.next_change, is_done=bool(outcome.begun or outcome.ended))
        if outcome.begun or outcome.ended:
            self._time_off(outcome)

    def _renew_zones(self, epoch: Epoch) -> None:
        """Renew what was computed by other rules of time zones: when nodes come or go, and regularly."""
        if not self._zones.is_due(self._clock.monotonic()):
            return
        try:
            renewal = self._store.renew_zones(epoch.node)
        except Exception as error:
            if is_without_connection(error):
                raise
            self._logger.warning("%s: fire times could not be renewed", self.name, exc_info=error)
            return
        self._zones.looked(renewal, self._clock.monotonic())
        for moved in renewal.moved[:ZONE_LINES]:
            self._logger.warning("the rules of a time zone have changed: %s", moved)
        if len(renewal.moved) > ZONE_LINES:
            self._logger.warning(
                "the rules of time zones have changed: %d triggers more", len(renewal.moved) - ZONE_LINES
            )

    def renew_at_start(self, epoch: Epoch) -> None:
        """Renew fire times before anything fires or misfires by them, for a few seconds: the rest follows."""
        until = self._clock.monotonic() + ZONE_AT_START
        while self._performs_maintenance() and not self.schema.is_copy:
            self._renew_zones(epoch)
            if not self._zones.has_more or self._clock.monotonic() >= until:
                return

    def _recover(self, epoch: Epoch, dead: Sequence[NodeRecord]) -> None:
        for peer in dead:
            self._logger.warning(
                "node %s (epoch %d, host %s, pid %d) is dead: its last check-in was at %s; recovering its work",
                peer.instance_id,
                peer.epoch,
                peer.host,
                peer.pid,
                peer.last_checkin.isoformat(),
            )
        outcome = self._store.recover(epoch.node, dead, max_node_deaths=self._config.max_node_deaths)
        self._expect_time_off(outcome.next_time_off)
        self._opened(outcome.opened)
        if outcome.changed_anything:
            self._recovered(outcome)

    def _try_rejoin(self) -> float:
        try:
            self._rejoin()
        except InstanceIdInUseError as error:
            if self.refusal is None:
                self._logger.error("this node lost its epoch and cannot rejoin the cluster: %s", error)
            self.refusal = str(error)
            return self._config.checkin_interval.total_seconds()
        self.refusal = None
        self._interrupt()
        return NO_REST

    def _interrupt(self) -> None:
        with self._lock:
            self._peers.interrupt()

    def _judge_incidents(self) -> None:
        """Judge what is wrong with the cluster. A failure ends nothing here, and it is tried again at the next turn."""
        try:
            with self._during("judging what is wrong with the cluster"):
                self.incidents = self._judge()
        except Exception as error:
            if is_without_connection(error) or not self._judging.are_told(error):
                # Troubles and check-ins report it.
                self._logger.debug("%s: nothing was judged: %s", self.name, error)
            else:
                self._logger.warning("%s: what is wrong could not be judged", self.name, exc_info=error)
        else:
            self._judging.end()

    def _repair(self, at: float) -> None:
        """Regularly repair inconsistent rows."""
        if at - self._repaired_at < REPAIR_EVERY:
            return
        self._repaired_at = at
        repairs = self._store.repair()
        if repairs.total:
            self._logger.warning("inconsistent rows were repaired: %s", repairs)

    def _purge(self, at: float) -> float:
        """Regularly delete a batch of old history. Return the seconds until the next pass."""
        if not self._has_more_to_purge and at - self._purged_at < PURGE_EVERY:
            return self.period
        self._purged_at, self._has_more_to_purge = at, False
        keep = self._config.history_retention
        most = self._config.history_max_rows
        if at - self._cutoff_found_at < CUTOFF_EVERY:
            most = None
        if most is not None:
            self._cutoff_found_at = at
        purged = self._store.purge_history(
            keep,
            limit=PURGE_ROWS,
            ended_triggers=keep or ENDED_TRIGGERS_KEPT,
            actions=self._config.audit_retention,
            before=self._history_cutoff,
            most=most,
        )
        if most is not None:
            self._history_cutoff = purged.before
        self._has_more_to_purge = purged.rows >= PURGE_ROWS
        if not self._has_more_to_purge:
            return self.period
        return rest_after(self._clock.monotonic() - at, 1 / PURGE_SHARE - 1, PURGE_REST)


class CheckInThread(EpochService):
    """The thread that checks in at a fixed rate, and passes on the answers of the store."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        watch: StoreWatch,
        answered: Callable[[CheckIn, Epoch, float], None],
        failed: Callable[[BaseException], None],
        lease_lost: Callable[[Epoch], None],
        problems: Callable[[], Sequence[NodeProblem]] = tuple,
        wakeup: Wakeup | None = None,
    ) -> None:
        # Its own success must not wake it.
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, wakeup=wakeup)
        self.period = config.checkin_interval.total_seconds()
        self.answered_at: float | None = None
        """The time at which the last successful check-in was sent, by the monotonic clock."""
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._config = config
        self._store_watch = watch
        self._answered = answered
        self._failed = failed
        self._problems = problems
        self._failures = 0

    def after_failure(self, error: BaseException) -> None:
        self._failures += 1
        self._failed(error)

    def retry_in(self, error: BaseException) -> float:
        wait = self._store_watch.check_in_failed(error, self._config.failure_window.total_seconds())
        epoch = self._epoch()
        # While the lease is valid, retry before half of its remaining time has passed.
        return min(wait, self.period, epoch.seconds_left / 2) if epoch.trusted else wait

    def run_as(self, epoch: Epoch) -> float:
        """Check in once. Return the seconds until the next check-in."""
        if epoch.lost:
            # The cluster manager rejoins, and then wakes this thread.
            return self.period
        asked_at = self._clock.monotonic()
        within = self._config.checkin_deadline(self._failures).total_seconds()
        answer = self._store.check_in(epoch.node, within=within, problems=self._problems_to_report())
        epoch.renew(asked_at)
        self._failures = 0
        self.answered_at = asked_at
        self._store_time.learn(answer.now, asked_at)
        self._answered(answer, epoch, asked_at)
        self._store_watch.checked_in()
        return max(0.0, self.period - (self._clock.monotonic() - asked_at))

    def _problems_to_report(self) -> Sequence[NodeProblem]:
        # The lease must not depend on what the node can say about itself.
        try:
            return self._problems()
        except Exception:
            self._logger.exception("%s: the health of this node could not be determined", self.name)
            return ()


@dataclass(slots=True)
class _Sighting:
    """The check-in counter of a peer, and the time at which this node first observe that value."""

    checkin_count: int
    since: float


class PeerWatch:
    """Finds dead peers in the answers to check-ins. It reads no clock: the caller passes the times.

    The failure window of a peer is the one that the peer itself stored, so nodes may have different settings.
    """

    def __init__(self, interval: timedelta, window: timedelta) -> None:
        self._interval = interval
        self._window = window
        self._longest_gap = 1.5 * interval.total_seconds()
        self._last: float | None = None
        self._sightings: dict[tuple[str, int], _Sighting] = {}
        self._reported: set[tuple[str, timedelta, timedelta]] = set()

    def interrupt(self) -> None:
        """Restart the series of check-ins after a failed one."""
        self._last = None

    def observe(self, answer: CheckIn, own_epoch: int, at: float) -> list[NodeRecord]:
        """Return the peers that this answer shows to be dead. The check-in was sent at `at` of the monotonic clock."""
        if self._last is None or at - self._last > self._longest_gap:
            self._sightings.clear()
        self._last = at
        peers = {(peer.instance_id, peer.epoch): peer for peer in answer.nodes if peer.epoch != own_epoch}
        for key, peer in peers.items():
            sighting = self._sightings.get(key)
            if sighting is None or sighting.checkin_count != peer.checkin_count:
                self._sightings[key] = _Sighting(peer.checkin_count, at)
        for key in self._sightings.keys() - peers.keys():
            del self._sightings[key]
        self._report_differences(peers.values())
        return [
            peer
            for key, peer in peers.items()
            if at - self._sightings[key].since >= peer.failure_window.total_seconds()
            and answer.now - peer.last_checkin > peer.failure_window
        ]

    def _report_differences(self, peers: Iterable[NodeRecord]) -> None:
        for peer in peers:
            settings = (peer.checkin_interval, peer.failure_window)
            if settings != (self._interval, self._window) and (peer.instance_id, *settings) not in self._reported:
                self._reported.add((peer.instance_id, *settings))
                logger.warning(
                    "node %s has checkin_interval %s and failure_window %s, but this node has %s and %s;"
                    " the failure window of each node is its own",
                    peer.instance_id,
                    *settings,
                    self._interval,
                    self._window,
                )


class ZoneWatch:
    """Knows when to look whether something was computed by other rules of time zones."""

    def __init__(self) -> None:
        self._nodes: frozenset[tuple[str, int]] = frozenset()
        self._look_at = float("-inf")
        self.has_more = False
        """True if the last look has left something to do."""

    def observe(self, answer: CheckIn) -> None:
        """Look at once when nodes have come or gone."""
        nodes = frozenset((node.instance_id, node.epoch) for node in answer.nodes)
        if nodes != self._nodes:
            self._nodes, self._look_at = nodes, float("-inf")

    def is_due(self, at: float) -> bool:
        """Return whether to look now."""
        return at >= self._look_at

    def looked(self, renewal: ZoneRenewal, at: float) -> None:
        """Note when to look again: at the next check-in, while other nodes have other rules or have said nothing."""
        self.has_more = not renewal.is_whole
        self._look_at = at if self.has_more or renewal.waits else at + ZONE_CHECK_EVERY


class SchemaWatch:
    """Knows what is wrong with the tables, by regular checks and by the errors of check-ins.

    The start of a node checks them. Afterwards somebody may migrate them for another release, or drop them. Tables of a
    newer release that say that this one can use them are in order: the node is part of a rolling upgrade.
    """

    def __init__(self, store: JobStore, clock: Clock, halt: Callable[[bool], None] = lambda is_halted: None) -> None:
        self._store = store
        self._clock = clock
        self._halt = halt
        self._checked_at = clock.monotonic()
        self.problem: str | None = None
        """What is wrong with the tables, in words."""
        self.is_copy = False
        """True if the tables were made for another database, so that nothing may fire."""

    def failed(self, error: BaseException) -> None:
        """Note the error of a check-in, if it is about the tables."""
        if isinstance(error, SchemaError):
            self._found(str(error))
        # The next answer may come from another database.
        self._checked_at = float("-inf")

    def check_at_start(self) -> None:
        """Look whether the tables were made for this database, before anything fires."""
        self._checked_at = float("-inf")
        self.check()

    def check(self) -> None:
        """Check the tables if that is due; those with a problem are checked each time."""
        at = self._clock.monotonic()
        if self.problem is None and at - self._checked_at < SCHEMA_CHECK_EVERY:
            return
        self._checked_at = at
        try:
            self._store.check_tables()
        except CopiedDatabaseError as error:
            self._found(str(error), is_copy=True)
        except SchemaError as error:
            self._found(str(error))
        else:
            self._found(None)

    def _found(self, problem: str | None, *, is_copy: bool = False) -> None:
        if problem == self.problem:
            return
        was_copy, self.problem, self.is_copy = self.is_copy, problem, is_copy
        if was_copy or is_copy:
            self._halt(is_copy)
        if is_copy:
            logger.error("this node fires nothing: %s", problem)
        elif problem is None and was_copy:
            logger.warning("the database was adopted: this node fires again")
        elif problem is None:
            logger.warning("this release can use the tables again")
        else:
            logger.error("this release cannot use the tables any more: %s", problem)
