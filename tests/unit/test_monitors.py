"""The calls of outside monitors: which job has which, what they are told, and how our schedules look to them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from quartzpy import CronTrigger, SimpleTrigger, Trigger
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import CommandFailedError, SettingsError
from quartzpy.keys import JobKey
from quartzpy.monitors import MAX_SLUG, Moment, monitor_config, monitor_of, ping, run_id, slug
from quartzpy.outgoing import Ping

HC = "https://hc-ping.com/key/{job}?create=1"
CRONITOR = "https://cronitor.link/p/key/{job}"
SENTRY = "https://o1.ingest.sentry.io/api/42/cron/{job}/public/"
RUN = run_id("g.t@2026-11-26T00:00:00.000+00:00")


def called(url: str, moment: Moment, **values: Any) -> Ping:
    return ping(url, moment, "nightly", what="a test", run=RUN, **values)


@pytest.mark.parametrize(
    ("moment", "values", "path", "body"),
    [
        (Moment.START, {}, "/key/nightly/start", None),
        (Moment.SUCCESS, {}, "/key/nightly", None),
        (Moment.FAILURE, {"error": ValueError("no\nmore")}, "/key/nightly/fail", b"ValueError: no"),
        (Moment.FAILURE, {"outcome": "cancelled"}, "/key/nightly/fail", b"cancelled"),
        (
            Moment.FAILURE,
            {"error": CommandFailedError("it failed", 3)},
            "/key/nightly/3",
            b"CommandFailedError: it failed",
        ),
        (
            Moment.FAILURE,
            {"error": CommandFailedError("killed", -9)},
            "/key/nightly/fail",
            b"CommandFailedError: killed",
        ),
        (Moment.HEARTBEAT, {}, "/key/nightly", None),
    ],
)
def test_healthchecks(moment: Moment, values: dict[str, Any], path: str, body: bytes | None) -> None:
    call = called(HC, moment, **values)
    parts = urlsplit(call.url)
    assert (parts.path, parse_qs(parts.query)) == (path, {"create": ["1"], "rid": [RUN]})
    assert (call.method, call.body) == ("GET" if body is None else "POST", body)


@pytest.mark.parametrize(
    ("moment", "values", "query"),
    [
        (Moment.START, {}, {"state": ["run"]}),
        (Moment.SUCCESS, {}, {"state": ["complete"]}),
        (Moment.FAILURE, {"error": ValueError("a & b")}, {"state": ["fail"], "message": ["ValueError: a & b"]}),
        (
            Moment.FAILURE,
            {"error": CommandFailedError("x", 3)},
            {"state": ["fail"], "message": ["CommandFailedError: x"], "status_code": ["3"]},
        ),
    ],
)
def test_cronitor(moment: Moment, values: dict[str, Any], query: dict[str, list[str]]) -> None:
    call = called(CRONITOR, moment, **values)
    parts = urlsplit(call.url)
    assert (call.method, call.body, parts.path) == ("GET", None, "/p/key/nightly")
    assert parse_qs(parts.query) == {**query, "series": [RUN]}


@pytest.mark.parametrize(
    ("moment", "status"),
    [(Moment.START, "in_progress"), (Moment.SUCCESS, "ok"), (Moment.FAILURE, "error"), (Moment.HEARTBEAT, "ok")],
)
def test_sentry(moment: Moment, status: str) -> None:
    schedule = {"schedule": {"type": "crontab", "value": "0 2 * * *"}}
    call = called(SENTRY, moment, duration=timedelta(seconds=1.5), schedule=schedule)
    assert (call.method, urlsplit(call.url).path) == ("POST", "/api/42/cron/nightly/public/")
    assert call.headers == {"content-type": "application/json"}
    assert json.loads(call.body or b"") == {
        "status": status,
        "check_in_id": RUN.replace("-", ""),
        "duration": 1.5,
        "monitor_config": schedule,
    }


def test_the_form_may_be_said_for_a_server_of_ones_own() -> None:
    assert called("cronitor+http://monitor.internal/{job}", Moment.START).url.startswith(
        "http://monitor.internal/nightly?state=run"
    )


def test_a_url_does_not_show_in_a_log() -> None:
    assert "key" not in repr(called(HC, Moment.START))


@pytest.mark.parametrize(
    ("job", "place"),
    [
        (JobKey("noisy"), None),
        (JobKey("nightly", "billing"), "env:BILLING"),
        (JobKey("nightly"), "env:REST"),
        (JobKey("tick", "system"), None),
    ],
)
def test_the_first_pattern_that_matches_counts(job: JobKey, place: str | None) -> None:
    monitors = {"noisy": "none", "billing.*": "env:BILLING", "system.*": "none", "*": "env:REST"}
    assert monitor_of(SchedulerConfig(monitors=monitors).monitors, job) == place
    assert monitor_of({"reports.*": "env:R"}, job) is None


def test_a_monitor_is_a_url_or_its_place() -> None:
    with pytest.raises(SettingsError, match=r"monitors: '\*' must be a URL"):
        SchedulerConfig(monitors={"*": "hc-ping.com/key"})
    with pytest.raises(SettingsError, match="heartbeat_interval must be at least"):
        SchedulerConfig(heartbeat_interval="1s")


@pytest.mark.parametrize(
    ("job", "name"),
    [
        (JobKey("nightly_report"), "nightly_report"),
        (JobKey("Nightly"), "nightly"),
        (JobKey("nightly", "billing"), "billing-nightly"),
    ],
)
def test_the_name_of_a_monitor(job: JobKey, name: str) -> None:
    assert slug(job) == name


def test_names_that_cannot_be_names_of_monitors_are_told_apart() -> None:
    hostile = [JobKey(name) for name in ("a/../b", "a b", "a.b", "a?x=1&y", "é", "..", "x" * 200, "x" * 199)]
    names = [slug(job) for job in hostile]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= MAX_SLUG
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    ("trigger", "line"),
    [
        (CronTrigger("0 0 2 ? * MON-FRI"), "0 2 * * MON-FRI"),
        (CronTrigger("0 0/15 * * * ?"), "0-59/15 * * * *"),
        (CronTrigger("0 30 2 ? * 2-6"), "30 2 * * 1-5"),
        (CronTrigger("0 30 2 ? * 1,7 *"), "30 2 * * 0,6"),
        (CronTrigger("0 0 2 1 JAN,JUL ?"), "0 2 1 JAN,JUL *"),
        (CronTrigger("30 2 * * 1-5"), "30 2 * * 1-5"),
        (CronTrigger("@daily"), "@daily"),
        (CronTrigger("30 0 2 ? * MON-FRI"), None),
        (CronTrigger("0 0 2 L * ?"), None),
        (CronTrigger("0 0 2 ? * 6#3"), None),
        (CronTrigger("0 0 2 15W * ?"), None),
        (CronTrigger("0 H 2 * * ?", "named"), None),
        (CronTrigger("0 0 2 ? * MON 2030"), None),
        (CronTrigger("0 0 2 ? * MON", calendar="holidays"), None),
        (CronTrigger("0 0 2 ? * MON", end_time=datetime(2030, 1, 1, tzinfo=UTC)), None),
        (CronTrigger("0 0 2 ? * MON", time_zone="+02:00"), None),
    ],
)
def test_a_cron_expression_is_told_where_it_means_the_same(trigger: Trigger, line: str | None) -> None:
    config = monitor_config(trigger, None)
    assert (None if config is None else config["schedule"]["value"]) == line
    if config is not None:
        assert config["timezone"] == "UTC"


def test_an_interval_is_told_in_minutes() -> None:
    config = monitor_config(SimpleTrigger("t", interval="2h"), timedelta(seconds=90))
    assert config == {"schedule": {"type": "interval", "value": 120, "unit": "minute"}, "max_runtime": 2}
    assert monitor_config(SimpleTrigger("t", interval="90s"), None) is None
    assert monitor_config(SimpleTrigger("t", interval="1h", repeat_count=3), None) is None
    assert monitor_config(SimpleTrigger("t"), None) is None
