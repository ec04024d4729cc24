"""Who is notified of which incidents, and when: decided by values alone, at each judgement.

A channel is notified that an incident began, that it became worse, again while it lasts, and that it is over. What a
channel was notified of stands in the row of the incident, so that it does not matter which node judges next. Incidents
of one kind about which a channel is notified in one judgement are one message.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from quartzpy.config.notifying import NOTIFIERS, Channel, Route, channel_label
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import MANUAL_TRIGGERS, NOTIFICATIONS, JobKey, unique_name
from quartzpy.operations.incidents.words import short_span
from quartzpy.store.postgresql.admin.records import NewNotification
from quartzpy.store.records import JudgedIncident, Notified
from quartzpy.texts import visible
from quartzpy.triggers.simple import SimpleTrigger

MAX_LISTED = 20
"""The number of incidents that a message lists; of the others it says how many they are."""
MAX_REASONS = 3
MAX_CHARACTERS = 500
"""The length of each sentence in a message."""
MAX_IDS = 5
"""The number of notifications of a channel that an incident remembers."""
NOTIFICATION_TYPE = "quartzpy.Notification"
ENTRY = "notification"
"""The entry of a trigger's data with the id of the notification."""
RETRY = RetryPolicy(attempts=20, delay="5s", factor=2.0, max_delay="10m", jitter=0.2)
"""The attempts to send one: for some two hours."""
TIMEOUT = timedelta(seconds=60)
PRIORITY = 10


class NotificationEvent(StrEnum):
    """What a notification says about its incidents."""

    BEGAN = "began"
    WORSE = "worse"
    LASTS = "lasts"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class NotifiedIncident:
    """An incident, as far as it decides about notifications."""

    incident: JudgedIncident
    opened_at: datetime
    incident_id: int | None = None
    """The number under which it is recorded; None if it is only just being recorded."""
    is_acknowledged: bool = False
    is_over: bool = False
    closed_at: datetime | None = None
    notified: Mapping[str, Notified] | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of its job; where that is not known, of its trigger."""
        key = self.incident.job_key or self.incident.trigger_key
        return () if key is None else (key.group,)

    def is_about(self, channel: str) -> bool:
        """Return whether it is about the job that sends to a channel."""
        return self.incident.job_key == job_key_of(channel)


@dataclass(frozen=True, slots=True)
class Planned:
    """A notification to one channel about incidents of one kind."""

    notification_id: str
    channel: str
    event: NotificationEvent
    subjects: tuple[NotifiedIncident, ...]


def job_key_of(channel: str) -> JobKey:
    """Return the key of the job that sends the notifications of a channel."""
    return JobKey(channel, NOTIFICATIONS)


def plan(
    channels: Mapping[str, Channel],
    subjects: Sequence[NotifiedIncident],
    now: datetime,
    *,
    includes: Callable[[str, datetime], bool] = lambda calendar, at: True,
    new_id: Callable[[], str] = unique_name,
) -> list[Planned]:
    """Return the notifications that are due.

    Args:
        channels: the channels of this node.
        subjects: the incidents that last, and those that were judged to be over just now.
        now: the time.
        includes: returns whether a stored calendar includes an instant.
        new_id: returns the id of a notification.
    """
    planned: dict[tuple[str, NotificationEvent, str], list[NotifiedIncident]] = defaultdict(list)
    for name, channel in channels.items():
        latest: dict[str, datetime] = {}
        for subject in subjects:
            row = (subject.notified or {}).get(name)
            if row is not None:
                latest[subject.incident.kind] = max(row.at, latest.get(subject.incident.kind, row.at))
        for subject in subjects:
            event = _due(name, channel, subject, now, includes)
            kind = subject.incident.kind
            if event is NotificationEvent.BEGAN and kind in latest and now - latest[kind] < channel.gather:
                continue
            if event is not None:
                planned[name, event, kind].append(subject)
    for subject in subjects:
        # Whoever was notified of the beginning is notified of the end, whatever the routes are by then.
        for name in (subject.notified or {}) if subject.is_over else {}:
            planned[name, NotificationEvent.OVER, subject.incident.kind].append(subject)
    return [Planned(new_id(), name, event, tuple(of_kind)) for (name, event, _), of_kind in planned.items()]


def _due(
    name: str, channel: Channel, subject: NotifiedIncident, now: datetime, includes: Callable[[str, datetime], bool]
) -> NotificationEvent | None:
    """Return what a channel is to be notified of about an incident; None if of nothing, or that it is over."""
    before = (subject.notified or {}).get(name)
    if subject.is_acknowledged or (subject.is_over and (before is not None or subject.incident_id is not None)):
        return None
    # A channel that fails is an incident for the other channels.
    if subject.is_about(name) or not any(_takes(route, subject, now, includes) for route in channel.all_routes()):
        return None
    if subject.is_over:
        return NotificationEvent.OVER
    if before is None:
        return NotificationEvent.BEGAN
    if subject.incident.severity.rank < before.severity.rank:
        return NotificationEvent.WORSE
    if channel.remind_after is not None and now - before.at >= channel.remind_after:
        return NotificationEvent.LASTS
    return None


def _takes(route: Route, subject: NotifiedIncident, now: datetime, includes: Callable[[str, datetime], bool]) -> bool:
    incident = subject.incident
    return (
        route.takes(str(incident.severity), incident.kind, subject.groups)
        and (subject.is_over or now - subject.opened_at >= route.after)
        and route.is_open(now)
        and (route.calendar is None or includes(route.calendar, now))
    )


def compose(
    scheduler: str, planned: Sequence[Planned], now: datetime, ids: Mapping[str, int]
) -> tuple[list[NewNotification], dict[int, dict[str, Notified]]]:
    """Return the notifications to be stored, and what is noted with each incident, by its id.

    Args:
        scheduler: the name of the scheduler.
        planned: the notifications.
        now: the time of the judgement.
        ids: the ids of the incidents that were just recorded, by their identities. One that is in the plan without an
            id was recorded by another node at the same time, which the next judgement notices.
    """
    notifications: list[NewNotification] = []
    noted: dict[int, dict[str, Notified]] = {}
    for entry in planned:
        subjects = [
            replace(subject, incident_id=subject.incident_id or ids[subject.incident.identity])
            for subject in entry.subjects
            if subject.incident_id is not None or subject.incident.identity in ids
        ]
        if not subjects:
            continue
        notifications.append(_notification(scheduler, entry, subjects, now))
        for subject in subjects:
            assert subject.incident_id is not None
            row = noted.setdefault(subject.incident_id, dict(subject.notified or {}))
            before = row[entry.channel].ids if entry.channel in row else ()
            row[entry.channel] = Notified(now, subject.incident.severity, (*before, entry.notification_id)[-MAX_IDS:])
    return notifications, noted


def _notification(
    scheduler: str, entry: Planned, subjects: Sequence[NotifiedIncident], now: datetime
) -> NewNotification:
    return NewNotification(
        entry.notification_id,
        entry.channel,
        str(entry.event),
        json.dumps(message(scheduler, entry.notification_id, entry.event, subjects, now), ensure_ascii=False),
        job_of(entry.channel),
        SimpleTrigger(
            f"notify_{entry.notification_id}",
            MANUAL_TRIGGERS,
            job_key=job_key_of(entry.channel),
            data={ENTRY: entry.notification_id},
            start_time=now,
            interval=timedelta(0),
            repeat_count=0,
            priority=PRIORITY,
        ),
    )


def job_of(channel: str) -> JobDetail:
    """Return the job that sends the notifications of a channel, on the nodes that have it."""
    key = job_key_of(channel)
    return JobDetail(
        NOTIFICATION_TYPE,
        key.name,
        key.group,
        description="Sends notifications about incidents to the channel of its name.",
        durable=True,
        requests_recovery=True,
        retry=RETRY,
        timeout=TIMEOUT,
        executor=NOTIFIERS,
        requires=(channel_label(channel),),
    )


# --- what a message says


def message(
    scheduler: str, notification_id: str, event: NotificationEvent, subjects: Sequence[NotifiedIncident], now: datetime
) -> dict[str, Any]:
    """Return the message about incidents of one kind, as webhooks receive it."""
    ranked = sorted(subjects, key=lambda subject: subject.incident.severity.rank)
    worst, number = ranked[0].incident, len(ranked)
    listed, more = ranked[:MAX_LISTED], max(0, number - MAX_LISTED)
    if number == 1:
        head, lines = f"{_word(event, ranked[0], now)}{_bounded(worst.what)}", _reasons(worst)
    else:
        kind = worst.kind.replace("-", " ")
        head = f"{number:,} incidents {_VERBS[event]}: {kind}"
        lines = [f"- {_bounded(subject.incident.what)}" for subject in listed]
        lines += [f"and {more:,} more"] if more else []
    return {
        "type": f"incidents.{event}",
        "id": notification_id,
        "timestamp": now.isoformat(),
        "scheduler": scheduler,
        "severity": str(worst.severity),
        "kind": worst.kind,
        "title": f"[{visible(scheduler)}] {head}",
        "text": "\n".join(lines),
        "number": number,
        "incidents": [_listed(subject) for subject in listed],
        "more": more,
    }


_VERBS = {
    NotificationEvent.BEGAN: "began",
    NotificationEvent.WORSE: "became worse",
    NotificationEvent.LASTS: "still last",
    NotificationEvent.OVER: "are over",
}


def _word(event: NotificationEvent, subject: NotifiedIncident, now: datetime) -> str:
    incident = subject.incident
    began = min(subject.opened_at, incident.since or subject.opened_at)
    match event:
        case NotificationEvent.OVER:
            return f"Over after {short_span((subject.closed_at or now) - began)}: "
        case NotificationEvent.LASTS:
            return f"Still, after {short_span(now - began)}: "
        case NotificationEvent.WORSE:
            return f"Worse, now {incident.severity}: "
    return f"{str(incident.severity).capitalize()}: "


def _reasons(incident: JudgedIncident) -> list[str]:
    return [_bounded(sentence) for sentence in incident.why[:MAX_REASONS]]


def _bounded(text: str) -> str:
    """Return a sentence on one line, without control characters, and not too long for a message."""
    line = visible(text)
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 3]}..."


def _listed(subject: NotifiedIncident) -> dict[str, Any]:
    incident = subject.incident
    began = min(subject.opened_at, incident.since or subject.opened_at)
    return {
        "incident_id": subject.incident_id,
        "severity": str(incident.severity),
        "kind": incident.kind,
        "subject": _bounded(incident.subject),
        "what": _bounded(incident.what),
        "why": _reasons(incident),
        "cause": _bounded(incident.cause),
        "job": None if incident.job_key is None else str(incident.job_key),
        "trigger": None if incident.trigger_key is None else str(incident.trigger_key),
        "began_at": began.isoformat(),
        "closed_at": None if subject.closed_at is None else subject.closed_at.isoformat(),
    }
