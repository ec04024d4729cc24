"""Who is notified of which incidents, when, and with which words: decided by values alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from quartzpy import Scheduler
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.notifying import Channel, Hours, Route, shown_place
from quartzpy.errors import SettingsError
from quartzpy.keys import NOTIFICATIONS, JobKey, TriggerKey
from quartzpy.operations.telling.health_check import is_heartbeat_due
from quartzpy.operations.telling.notifications import (
    MAX_IDS,
    MAX_LISTED,
    NotificationEvent,
    NotifiedIncident,
    Planned,
    compose,
    job_of,
    message,
    plan,
)
from quartzpy.store.health_findings import Severity
from quartzpy.store.records import JudgedIncident, Notified

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
"""A Thursday."""
MINUTE = timedelta(minutes=1)
OPS = {"ops": Channel(url="env:OPS")}


def incident(
    kind: str = "trigger-error", severity: Severity = Severity.ERROR, job: JobKey | None = None, **values: Any
) -> JudgedIncident:
    what = values.pop("what", f"Something about {kind} is wrong.")
    subject = values.pop("subject", str(job or kind))
    return JudgedIncident(
        kind=kind,
        subject=subject,
        identity=f"{kind} {subject}",
        severity=severity,
        cause=values.pop("cause", ""),
        what=what,
        why=values.pop("why", ()),
        job_key=job,
        **values,
    )


def lasting(of: JudgedIncident | None = None, age: timedelta = timedelta(), **values: Any) -> NotifiedIncident:
    return NotifiedIncident(of or incident(), NOW - age, **values)


def told_at(ago: timedelta, severity: Severity = Severity.ERROR, *ids: str) -> dict[str, Notified]:
    return {"ops": Notified(NOW - ago, severity, ids or ("n",))}


def events(planned: list[Planned]) -> list[tuple[str, str, int]]:
    return [(entry.channel, str(entry.event), len(entry.subjects)) for entry in planned]


JOB = JobKey("nightly", "billing")


@pytest.mark.parametrize(
    ("route", "of", "takes"),
    [
        ({}, incident(), True),
        ({}, incident(severity=Severity.WARNING), True),
        ({}, incident(severity=Severity.INFO), False),
        ({"severity": "error"}, incident(severity=Severity.WARNING), False),
        ({"severity": "info"}, incident(severity=Severity.INFO), True),
        ({"kinds": ["dead-node", "trigger-*"]}, incident(), True),
        ({"kinds": ["dead-node"]}, incident(), False),
        ({"kinds": "expectation-*"}, incident("expectation-late"), True),
        ({"groups": ["billing"]}, incident(job=JOB), True),
        ({"groups": ["bill*"]}, incident(job=JOB), True),
        ({"groups": ["reports"]}, incident(job=JOB), False),
        ({"groups": ["billing"]}, incident(trigger_key=TriggerKey("t", "billing")), True),
        ({"groups": ["*"]}, incident("dead-node"), False),
        ({"severity": "error", "groups": ["billing"]}, incident(job=JOB, severity=Severity.WARNING), False),
        ({"hours": "mon-fri 08:00-18:00"}, incident(), True),
        ({"hours": "mon-fri 10:00-18:00"}, incident(), False),
        ({"hours": "mon-fri 10:00-18:00 Europe/Berlin"}, incident(), True),
        ({"hours": "sat,sun 00:00-24:00"}, incident(), False),
        ({"after": "5m"}, incident(), False),
        ({"calendar": "open"}, incident(), True),
        ({"calendar": "shut"}, incident(), False),
    ],
)
def test_a_route_takes_what_meets_all_of_its_values(route: dict[str, Any], of: JudgedIncident, takes: bool) -> None:
    channels = {"ops": Channel(url="env:OPS", routes=[route])}
    planned = plan(channels, [lasting(of)], NOW, includes=lambda name, at: name == "open" and at == NOW)
    assert events(planned) == ([("ops", "began", 1)] if takes else [])


@pytest.mark.parametrize(
    ("subject", "event"),
    [
        (lasting(), "began"),
        (lasting(is_acknowledged=True), None),
        (lasting(incident_id=1, notified=told_at(59 * MINUTE)), None),
        (lasting(incident_id=1, notified=told_at(60 * MINUTE)), "lasts"),
        (lasting(incident_id=1, notified=told_at(60 * MINUTE), is_acknowledged=True), None),
        (lasting(incident_id=1, notified=told_at(MINUTE, Severity.WARNING)), "worse"),
        (lasting(incident(severity=Severity.WARNING), incident_id=1, notified=told_at(MINUTE)), None),
        (lasting(incident_id=1, notified=told_at(MINUTE), is_over=True), "over"),
        (lasting(incident_id=1, notified=told_at(MINUTE), is_over=True, is_acknowledged=True), "over"),
        # Nobody was notified of the beginning, so nobody is of the end.
        (lasting(incident_id=1, is_over=True), None),
        # It was over before anybody could judge it.
        (lasting(is_over=True), "over"),
        # The job of the channel itself.
        (lasting(incident("failures-in-a-row", job=JobKey("ops", NOTIFICATIONS))), None),
        (lasting(incident("failures-in-a-row", job=JobKey("other", NOTIFICATIONS))), "began"),
    ],
)
def test_a_channel_is_notified_of_the_beginning_of_what_lasts_and_of_the_end(
    subject: NotifiedIncident, event: str | None
) -> None:
    channels = {"ops": Channel(url="env:OPS", remind_after="1h")}
    assert events(plan(channels, [subject], NOW)) == ([] if event is None else [("ops", event, 1)])


def test_without_remind_after_nobody_is_reminded() -> None:
    assert plan(OPS, [lasting(incident_id=1, notified=told_at(timedelta(days=9)))], NOW) == []


def test_the_end_is_told_to_whoever_was_notified_also_by_a_node_without_channels() -> None:
    over = lasting(incident_id=1, notified=told_at(MINUTE), is_over=True)
    assert events(plan({}, [over, lasting()], NOW)) == [("ops", "over", 1)]


def test_what_begins_in_the_night_is_told_in_the_morning_if_it_lasts() -> None:
    channels = {"ops": Channel(url="env:OPS", routes=[Route(hours="mon-fri 08:00-18:00")])}
    night = NOW.replace(hour=3)
    subject = NotifiedIncident(incident(), night, incident_id=1)
    assert plan(channels, [subject], night) == []
    assert events(plan(channels, [subject], NOW.replace(hour=8))) == [("ops", "began", 1)]


def test_incidents_of_one_kind_are_one_message_for_each_channel() -> None:
    many = [lasting(incident(job=JobKey(f"j{number}"), cause=f"error {number % 2}")) for number in range(1_000)]
    channels = {**OPS, "team": Channel(url="env:TEAM")}
    planned = plan(channels, [*many, lasting(incident("dead-node"))], NOW)
    assert events(planned) == [
        ("ops", "began", 1_000),
        ("ops", "began", 1),
        ("team", "began", 1_000),
        ("team", "began", 1),
    ]


def test_what_begins_soon_after_a_message_of_its_kind_waits_for_the_next_one() -> None:
    before = lasting(incident(subject="first"), incident_id=1, notified=told_at(59 * timedelta(seconds=1)))
    later = [lasting(incident(subject=name)) for name in ("a", "b")]
    other = lasting(incident("dead-node"))
    assert events(plan(OPS, [before, *later, other], NOW)) == [("ops", "began", 1)]
    before = replace(before, notified=told_at(MINUTE))
    assert events(plan(OPS, [before, *later], NOW)) == [("ops", "began", 2)]


def test_the_incidents_of_a_message_are_noted_with_their_ids() -> None:
    ids = (f"n{number}" for number in count())
    recorded = lasting(
        incident(subject="old"), incident_id=7, notified={**told_at(2 * MINUTE, Severity.WARNING, *"123456")}
    )
    new, lost = lasting(incident(subject="new")), lasting(incident(subject="recorded by another node"))
    planned = plan(OPS, [recorded, new, lost], NOW, new_id=lambda: next(ids))
    notifications, noted = compose("main", planned, NOW, {new.incident.identity: 8})
    assert [row.notification_id for row in notifications] == ["n0", "n1"]
    assert [row.event for row in notifications] == ["worse", "began"]
    assert noted == {
        7: {"ops": Notified(NOW, Severity.ERROR, (*"3456", "n0"))},
        8: {"ops": Notified(NOW, Severity.ERROR, ("n1",))},
    }
    assert len(noted[7]["ops"].ids) == MAX_IDS
    assert json.loads(notifications[1].document)["number"] == 1
    assert {row.job for row in notifications} == {job_of("ops")}
    assert job_of("ops").requires == ("channel:ops",)
    # If none is left, there is no message.
    assert compose("main", plan(OPS, [lost], NOW), NOW, {}) == ([], {})


@pytest.mark.parametrize(
    ("event", "values", "title"),
    [
        (NotificationEvent.BEGAN, {}, "[main] Error: It broke."),
        (NotificationEvent.WORSE, {}, "[main] Worse, now error: It broke."),
        (NotificationEvent.LASTS, {"age": 2 * MINUTE}, "[main] Still, after 2m: It broke."),
        (
            NotificationEvent.OVER,
            {"age": 3 * MINUTE, "is_over": True, "closed_at": NOW},
            "[main] Over after 3m: It broke.",
        ),
    ],
)
def test_a_message_about_one_incident(event: NotificationEvent, values: Mapping[str, Any], title: str) -> None:
    subject = lasting(incident(job=JOB, what="It broke.", why=("Because.", "And so.")), incident_id=5, **values)
    said = message("main", "n1", event, [subject], NOW)
    assert (said["type"], said["id"], said["title"]) == (f"incidents.{event}", "n1", title)
    assert said["text"] == "Because.\nAnd so."
    assert (said["severity"], said["kind"], said["number"], said["more"]) == ("error", "trigger-error", 1, 0)
    [listed] = said["incidents"]
    assert (listed["incident_id"], listed["job"], listed["trigger"]) == (5, "billing.nightly", None)


def test_a_message_lists_some_and_says_how_many_more_there_are() -> None:
    subjects = [lasting(incident(subject=str(number), what=f"Trigger {number}.")) for number in range(57)]
    said = message("main", "n1", NotificationEvent.BEGAN, subjects, NOW)
    assert said["title"] == "[main] 57 incidents began: trigger error"
    assert said["text"].splitlines()[-2:] == ["- Trigger 19.", "and 37 more"]
    assert (len(said["incidents"]), said["number"], said["more"]) == (MAX_LISTED, 57, 37)


def test_no_text_breaks_out_of_its_line_and_none_is_without_bound() -> None:
    evil = "x\r\nBcc: everybody@example.com\x1b[2J\u202e" + "y" * 100_000
    subject = lasting(incident(what=evil, why=(evil,) * 9, cause=evil, subject=evil))
    one = message("main", "n1", NotificationEvent.BEGAN, [subject], NOW)
    many = message("main", "n1", NotificationEvent.BEGAN, [subject] * 500, NOW)
    for said in (one, many):
        assert "\n" not in said["title"]
        assert said["title"].isprintable()
        assert all(line.isprintable() for line in said["text"].split("\n"))
        assert len(json.dumps(said)) < 100_000


@pytest.mark.parametrize(
    ("text", "hits", "misses"),
    [
        ("08:00-18:00", ["2026-11-26 08:00", "2026-11-29 17:59"], ["2026-11-26 07:59", "2026-11-26 18:00"]),
        ("MON-FRI 8:00-18:00", ["2026-11-27 08:00"], ["2026-11-28 08:00"]),
        ("fri-mon 00:00-24:00", ["2026-11-27 00:00", "2026-11-30 23:59"], ["2026-11-26 12:00"]),
        ("sat,mon-tue 10:00-11:00", ["2026-11-28 10:00", "2026-12-01 10:30"], ["2026-12-02 10:30"]),
        ("fri 22:00-06:00", ["2026-11-27 22:00", "2026-11-28 05:59"], ["2026-11-27 05:00", "2026-11-28 22:00"]),
        ("thu 09:00-10:00 Asia/Tokyo", ["2026-11-26 00:30"], ["2026-11-26 09:30"]),
    ],
)
def test_hours(text: str, hits: list[str], misses: list[str]) -> None:
    hours = Hours.of(text)
    for at, included in [(at, True) for at in hits] + [(at, False) for at in misses]:
        assert hours.include(datetime.fromisoformat(f"{at}+00:00")) is included, at


def test_hours_follow_the_clock_of_their_zone() -> None:
    hours = Hours.of("08:00-09:00 Europe/Berlin")
    assert hours.include(datetime(2026, 7, 1, 6, 30, tzinfo=UTC))
    assert hours.include(datetime(2026, 12, 1, 7, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("channel", "error"),
    [
        ("slack", "must be a URL, or the place of one"),
        ({"url": "https://user:pa ss@x"}, "must be a URL"),
        ({}, "needs a url"),
        ({"url": "env:A", "sevirity": "error"}, "'sevirity' is unknown; the values are url"),
        ({"url": "env:A", "routes": [{"severity": "fatal"}]}, "severity must be one of error, warning, info"),
        ({"url": "env:A", "routes": [{"hours": "9-5"}]}, "hours must be written as"),
        ({"url": "env:A", "routes": [{"hours": "09:00-25:00"}]}, "hours must be written as"),
        ({"url": "env:A", "routes": [{"hours": "09:00-09:00"}]}, "begins when it ends"),
        ({"url": "env:A", "routes": [{"hours": "09:00-10:00 Europe/Berln"}]}, "Europe/Berlin"),
        ({"url": "env:A", "routes": []}, "routes must be a list of routes"),
        ({"url": "env:A", "remind_after": "5s"}, "at least one minute"),
        ({"url": "env:A", "secret": "hunter2"}, "secret must be"),
        ({"url": "slack://a/b/c", "secret": "env:S"}, "secret is for webhooks"),
    ],
)
def test_a_wrong_channel_is_refused_and_the_error_has_its_name(channel: Any, error: str) -> None:
    with pytest.raises(SettingsError, match="notify_channels: 'ops': ") as refused:
        Scheduler("memory://", notify_channels={"ops": channel})
    assert error in str(refused.value)
    for secret in ("hunter2", "pa ss"):
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("env:OPS_URL", "env:OPS_URL"),
        ("https://user:pw@hooks.example.com:8443/services/T0/B0/x?token=y", "https://hooks.example.com:8443/***"),
        ("slack://tokenA/tokenB/tokenC", "slack://***"),
        ("cronitor+https://cronitor.link/p/key/{job}", "cronitor+https://cronitor.link/***"),
    ],
)
def test_what_is_shown_of_a_place_is_no_secret(place: str, shown: str) -> None:
    assert shown_place(place) == shown
    config = SchedulerConfig(notify_channels={"a": place}, monitors={"*": place}, heartbeat_url=place)
    if place != shown:
        assert place.partition("://")[2] not in repr(config)


def test_a_node_with_channels_has_workers_of_their_own() -> None:
    assert SchedulerConfig().all_executors == {}
    assert list(SchedulerConfig(notify_channels={"a": "env:A"}).all_executors) == ["notifications"]


def test_whichever_nodes_judge_a_heartbeat_is_due_once_in_its_interval() -> None:
    every, beats = timedelta(seconds=5), 0
    for number in range(720):
        beats += is_heartbeat_due(NOW + number * every, every, timedelta(seconds=60))
    assert beats == 60
    assert is_heartbeat_due(NOW, timedelta(hours=2), timedelta(seconds=60))
