"""Nodes judge together what is wrong, by the code of the overview, and record it with its times."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from quartzpy import outgoing
from quartzpy.errors import StoreUnavailableError
from quartzpy.events.events import ExpectationBroken
from quartzpy.expect import BreachRecord
from quartzpy.keys import NOTIFICATIONS
from quartzpy.monitors import Moment, ping
from quartzpy.operations.incidents.cluster_diagnosis import ClusterDiagnosis
from quartzpy.operations.incidents.incident import MAX_OF_A_KIND, Incident, by_severity, capped
from quartzpy.operations.incidents.kinds.not_judged import not_judged
from quartzpy.operations.read_context import ReadContext
from quartzpy.operations.telling.expectation_check import CheckedTriggers, DueCheck, check_expectations, check_joins
from quartzpy.operations.telling.expectations import Checkpoint
from quartzpy.operations.telling.notifications import NotifiedIncident, Planned, compose, job_key_of, plan
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.secret_texts import Redaction
from quartzpy.store.postgresql.admin import admin, of_steps
from quartzpy.store.postgresql.admin.incidents import MAX_LASTING
from quartzpy.store.postgresql.admin.operators import Admin
from quartzpy.store.postgresql.admin.records import CheckpointRecord, HealthRun
from quartzpy.store.protocol import JobStore
from quartzpy.store.protocol.scheduling import StoredCalendar, TriggersOfJobs
from quartzpy.store.records import IncidentRecord, JudgedIncident, LastingIncident, Pauses
from quartzpy.texts import visible

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=5)
"""The time between two judgements of a cluster."""
CONFIRMED_EVERY = timedelta(minutes=1)
"""The time after which it is written that an incident lasts, unless it becomes worse or better before."""
LEAST_GAP = timedelta(seconds=30)
"""The shortest time without a judgement that is recorded."""
LISTED_EVERY = timedelta(minutes=1)
"""The time between two looks for triggers with a new expectation."""


class HealthCheck:
    """Judges what is wrong whenever it is this node's turn. Nodes that have the same incidents open record each once.

    A node that ends between its turn and its record leaves the judgement to the next turn. One that takes longer than a
    turn records nothing.
    """

    def __init__(self, scheduler: BaseScheduler) -> None:
        """Describe the judge of a node; the node calls it after its check-ins.

        Args:
            scheduler: the scheduler of the node, whose store is a database.
        """
        self._scheduler = scheduler
        self._steady = scheduler._clock.monotonic
        self._pinger: outgoing.Pinger | None = None
        self._look_at = self._steady()
        self._lasting: tuple[LastingIncident, ...] = ()
        self._said: frozenset[str] = frozenset()

    @property
    def _store(self) -> JobStore:
        # The calls of jobs may use up the connections for calls, and the node must not wait for them.
        return of_steps(self._scheduler._store)

    @property
    def _admin(self) -> Admin:
        return admin(self._store)

    def __call__(self) -> tuple[LastingIncident, ...]:
        """Judge, if it is this node's turn. Return the first of what lasts by the last judgement, whoever made it.

        Raises:
            QuartzpyError: the store cannot be reached, or refuses it; nothing was recorded.
        """
        if self._steady() >= self._look_at:
            turn = self._admin.take_slot(EVERY, LISTED_EVERY)
            self._look_at = self._steady() + turn.next_in.total_seconds()
            self._lasting = turn.lasting
            if turn.turn is not None:
                self.judge(turn)
        return self._lasting

    def judge(self, turn: HealthRun) -> None:
        """Record what is wrong: what begins, what lasts and what is over, with the notifications about it."""
        failure = self._check_expectations(turn) if turn.expects else None
        store = self._store
        # The reading uses the store itself, because a node judges to the end of its drain.
        diagnosis = ClusterDiagnosis(ReadContext(self._scheduler, Redaction(), page=BatchedReads(lambda: store)))
        # If two have one identity, the worse one stands for both.
        incidents = {incident.identity: incident for incident in reversed(diagnosis.incidents())}
        recorded = {record.identity: record for record in diagnosis.recorded()}
        now, gap = diagnosis.now, self._gap(turn, diagnosis.now)
        planned = self._plan(incidents, recorded, now, gap)
        over = [record for identity, record in recorded.items() if identity not in incidents]
        assert turn.turn is not None
        record = partial(
            self._admin.record_incidents,
            turn.turn,
            opened=[_judged(incident) for identity, incident in incidents.items() if identity not in recorded],
            confirmed=_confirmed(incidents, recorded, now),
            closed=[record.incident_id for record in over],
            gap=gap,
        )
        self._say(incidents, recorded)
        if planned:
            try:
                self._scheduler._changed(record(notify=partial(compose, self._scheduler.config.name, planned, now)))
            except Exception as error:
                # Notifications are triggers, and what keeps nodes from triggers may keep these from being stored. Who
                # was not notified is due to be at the next turn, and therefore what they were told of stays open.
                failure = failure or error
                record(closed=[record.incident_id for record in over if not record.notified])
        else:
            record()
        self._deliver_in_spite_of(diagnosis.pauses())
        self._beat(turn, diagnosis.has_working_node)
        if failure is not None:
            # The node counts it; the incidents of the cluster must not depend on expectations and notifications.
            raise failure

    def _say(self, incidents: Mapping[str, Incident], recorded: Mapping[str, IncidentRecord]) -> None:
        """Log what begins and what is over, and keep what lasts for the health of this node."""
        self._lasting = tuple(
            LastingIncident(incident.kind, incident.severity, incident.what, incident.subject)
            for incident in by_severity(incidents.values())[:MAX_LASTING]
        )
        # What cannot be recorded is judged to begin again and again.
        begun = incidents.keys() - recorded.keys() - self._said
        self._said = frozenset(incidents)
        for incident in capped([incidents[identity] for identity in sorted(begun)]):
            logger.warning(
                "%s %s: %s", incident.severity, incident.kind, visible(" ".join([incident.what, *incident.why]))
            )
        over = [record for identity, record in recorded.items() if identity not in incidents]
        for record in over[:MAX_OF_A_KIND]:
            logger.info("over: %s: %s", record.kind, visible(record.what))

    def _plan(
        self,
        incidents: Mapping[str, Incident],
        recorded: Mapping[str, IncidentRecord],
        now: datetime,
        gap: tuple[JudgedIncident, datetime, datetime] | None,
    ) -> Sequence[Planned]:
        """Return the notifications that are due. Where nothing is wrong, or nobody is notified, it reads nothing."""
        channels = self._scheduler.config.channels
        if not channels and not any(record.notified for record in recorded.values()):
            return []
        subjects = [_lasting(incident, recorded.get(identity), now) for identity, incident in incidents.items()]
        subjects += [_over(record, now) for identity, record in recorded.items() if identity not in incidents]
        if gap is not None:
            over, since, until = gap
            subjects.append(NotifiedIncident(over, since, is_over=True, closed_at=until))
        calendars: dict[str, StoredCalendar | None] = {}

        def includes(name: str, at: datetime) -> bool:
            if name not in calendars:
                calendars[name] = self._store.calendars([name]).get(name)
            stored = calendars[name]
            # Where the calendar is not stored, people are rather notified too often than never.
            return stored is None or stored.calendar.is_included(at)

        return plan(channels, subjects, now, includes=includes)

    def _deliver_in_spite_of(self, pauses: Pauses) -> None:
        """Resume the notifications that only a pause of everything holds: what it holds is what people are told of."""
        channels = self._scheduler.config.channels
        if channels and pauses.everything and NOTIFICATIONS not in pauses.job_groups:
            keys = {job_key_of(name) for name in channels}
            self._scheduler._changed(self._store.resume(TriggersOfJobs(keys)))

    def _beat(self, turn: HealthRun, is_in_order: bool) -> None:
        """Call the monitor of the cluster, if that is due by now and was not due at the judgement before."""
        config = self._scheduler.config
        if config.heartbeat_url is None or turn.turn is None:
            return
        if not is_heartbeat_due(turn.turn - EVERY, EVERY + turn.late_by, config.heartbeat_interval):
            return
        if not is_in_order:
            return
        if self._pinger is None:
            self._pinger = outgoing.Pinger("quartzpy-heartbeat", logger)
        try:
            url = outgoing.read_place(config.heartbeat_url)
        except outgoing.OutgoingError as error:
            logger.warning("heartbeat_url: %s", error)
        else:
            self._pinger.put(ping(url, Moment.HEARTBEAT, config.name, what="the heartbeat"))

    def _check_expectations(self, turn: HealthRun) -> Exception | None:
        """Record what fires have not done that is expected of them, and tell listeners and observers of what is new.

        Return the error because of which that could not be judged.
        """
        assert turn.turn is not None
        try:
            breaches = [
                *check_expectations(self._store, _DatabaseLedger(self._store, turn.turn)),
                *check_joins(self._store, turn.turn),
            ]
        except StoreUnavailableError:
            raise
        except Exception as error:
            error.add_note("What is expected of jobs could not be judged.")
            return error
        if breaches:
            self._scheduler.observers.breached(breaches)
        for breach in breaches:
            logger.warning("%s %s", breach.what, " ".join(breach.why))
            self._scheduler.listeners.post(ExpectationBroken(breach))
        return None

    def _gap(self, turn: HealthRun, now: datetime) -> tuple[JudgedIncident, datetime, datetime] | None:
        """Return the time in which nobody judged, if it was long."""
        if turn.late_by < max(LEAST_GAP, 3 * self._scheduler.config.checkin_interval):
            return None
        since = now - turn.late_by
        return _judged(not_judged(since, now)), since, now


class _DatabaseLedger:
    """The checkpoints and breaches in the database, for one turn."""

    def __init__(self, store: JobStore, turn: datetime) -> None:
        self._admin, self._turn = admin(store), turn

    def due(self, limit: int) -> Sequence[DueCheck]:
        due = self._admin.due_expectations(limit, LISTED_EVERY)
        return [DueCheck(key, Checkpoint.from_json(checkpoint)) for key, checkpoint in due]

    def record(self, looked: CheckedTriggers) -> Sequence[BreachRecord]:
        judgements = looked.judgements
        checkpoints = {
            key: CheckpointRecord(judgement.due_at, judgement.checkpoint.as_json(), looked.generations.get(key))
            for key, judgement in judgements.items()
        }
        checkpoints |= {key: CheckpointRecord(due_at, None, None) for key, due_at in looked.failed.items()}
        return self._admin.record_expectations(
            self._turn,
            checkpoints=checkpoints,
            gone=looked.over,
            broken=[breach for judgement in judgements.values() for breach in judgement.broken],
            met={(key, kind): at for key, judgement in judgements.items() for kind, at in judgement.met.items()},
        )


def is_heartbeat_due(now: datetime, since_before: timedelta, interval: timedelta) -> bool:
    """Return whether a multiple of the interval lies between the judgement before and this one, whoever made them."""
    seconds, at = interval.total_seconds(), now.timestamp()
    return at // seconds != (at - since_before.total_seconds()) // seconds


def _lasting(incident: Incident, record: IncidentRecord | None, now: datetime) -> NotifiedIncident:
    return NotifiedIncident(
        _judged(incident),
        now if record is None else record.opened_at,
        None if record is None else record.incident_id,
        is_acknowledged=incident.acknowledgement is not None,
        notified=None if record is None else record.notified,
    )


def _over(record: IncidentRecord, now: datetime) -> NotifiedIncident:
    return NotifiedIncident(
        record,
        record.opened_at,
        record.incident_id,
        is_over=True,
        closed_at=max(now, record.opened_at),
        notified=record.notified,
    )


def _confirmed(
    incidents: Mapping[str, Incident], recorded: Mapping[str, IncidentRecord], now: datetime
) -> dict[int, JudgedIncident]:
    """Return the incidents that last and are to be written anew, which are few, so that a cluster writes little."""
    return {
        record.incident_id: _judged(incident)
        for identity, record in recorded.items()
        if (incident := incidents.get(identity)) is not None
        and (
            now - record.confirmed_at >= CONFIRMED_EVERY
            or (record.severity, record.cause) != (incident.severity, incident.cause)
        )
    }


def _judged(incident: Incident) -> JudgedIncident:
    return JudgedIncident(
        kind=incident.kind,
        subject=incident.subject,
        identity=incident.identity,
        severity=incident.severity,
        cause=incident.cause,
        what=incident.what,
        why=incident.why,
        trigger_key=incident.trigger,
        job_key=incident.job,
        since=incident.since,
    )
