"""What a node does for the whole cluster beside its own work: pauses that end, zones, incidents, repairs, history."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.node.registration import Epoch
from quartzpy.node.service import Repetitions, is_without_connection, rest_after
from quartzpy.store.protocol import CheckIn, JobStore, TimeOff, ZoneRenewal
from quartzpy.store.records import LastingIncident

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


class Housekeeping:
    """Each part knows when it is due; a failure of one is logged, and holds up no other."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        config: SchedulerConfig,
        period: float,
        judge: Callable[[], Sequence[LastingIncident]] = tuple,
        during: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext(),
        time_off: Callable[[TimeOff], None] = lambda outcome: None,
    ) -> None:
        self.name = name
        self.incidents: Sequence[LastingIncident] = ()
        """What lasts of what is wrong with the cluster, by the last judgement that this node knows."""
        self._store = store
        self._clock = clock
        self._config = config
        self._period = period
        self._judge = judge
        self._during = during
        self._time_off = time_off
        self._time_off_at = float("inf")
        self._repetitions = Repetitions(clock.monotonic)
        self._judging = Repetitions(clock.monotonic)
        self._zones = ZoneWatch()
        self._purged_at = self._repaired_at = clock.monotonic()
        self._cutoff_found_at = float("-inf")
        self._history_cutoff: datetime | None = None
        self._has_more_to_purge = False

    @property
    def is_due(self) -> bool:
        """True if something is to be done although no check-in was answered since."""
        return self._has_more_to_purge or self._zones.has_more or self._clock.monotonic() >= self._time_off_at

    def observe(self, answer: CheckIn) -> None:
        """Note which nodes there are."""
        self._zones.observe(answer)

    def rest(self, seconds: float) -> float:
        """Return the seconds to rest, at most until a pause ends or a maintenance window needs something."""
        return max(0.0, min(seconds, self._time_off_at - self._clock.monotonic()))

    def expect_time_off(self, after: timedelta | None, *, is_done: bool = True) -> None:
        # What is still to be done although nothing could be done is locked by somebody.
        seconds = (
            float("inf") if after is None else after.total_seconds() if is_done else max(1.0, after.total_seconds())
        )
        self._time_off_at = self._clock.monotonic() + seconds

    def run(self, epoch: Epoch, *, judges: bool) -> float:
        """Do what is due. Return the seconds until the next pass."""
        self._apply_time_off(epoch)
        self._renew_zones(epoch)
        if judges:
            self._check_health()
        self._repair(self._clock.monotonic())
        rest = self.rest(self._purge(self._clock.monotonic()))
        return min(rest, ZONE_REST) if self._zones.has_more else rest

    def renew_at_start(self, epoch: Epoch, is_allowed: Callable[[], bool]) -> None:
        """Renew fire times before anything fires or misfires by them, for a few seconds: the rest follows."""
        until = self._clock.monotonic() + ZONE_AT_START
        while is_allowed():
            self._renew_zones(epoch)
            if not self._zones.has_more or self._clock.monotonic() >= until:
                return

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
                logger.warning("%s: pauses could not be ended or begun", self.name, exc_info=error)
            self._time_off_at = self._clock.monotonic() + self._period
            return
        self._repetitions.end()
        self.expect_time_off(outcome.next_change, is_done=bool(outcome.begun or outcome.ended))
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
            logger.warning("%s: fire times could not be renewed", self.name, exc_info=error)
            return
        self._zones.looked(renewal, self._clock.monotonic())
        for moved in renewal.moved[:ZONE_LINES]:
            logger.warning("the rules of a time zone have changed: %s", moved)
        if len(renewal.moved) > ZONE_LINES:
            logger.warning("the rules of time zones have changed: %d triggers more", len(renewal.moved) - ZONE_LINES)

    def _check_health(self) -> None:
        """Judge what is wrong with the cluster. A failure ends nothing here, and it is tried again at the next turn."""
        try:
            with self._during("judging what is wrong with the cluster"):
                self.incidents = self._judge()
        except Exception as error:
            if is_without_connection(error) or not self._judging.are_told(error):
                # Troubles and check-ins report it.
                logger.debug("%s: nothing was judged: %s", self.name, error)
            else:
                logger.warning("%s: what is wrong could not be judged", self.name, exc_info=error)
        else:
            self._judging.end()

    def _repair(self, at: float) -> None:
        """Regularly repair inconsistent rows."""
        if at - self._repaired_at < REPAIR_EVERY:
            return
        self._repaired_at = at
        repairs = self._store.repair()
        if repairs.total:
            logger.warning("inconsistent rows were repaired: %s", repairs)

    def _purge(self, at: float) -> float:
        """Regularly delete a batch of old history. Return the seconds until the next pass."""
        if not self._has_more_to_purge and at - self._purged_at < PURGE_EVERY:
            return self._period
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
            return self._period
        return rest_after(self._clock.monotonic() - at, 1 / PURGE_SHARE - 1, PURGE_REST)


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
