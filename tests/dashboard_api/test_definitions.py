"""Definitions over the JSON API: round trips, conditions, faults with their places, grants, and files."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel

from quartzpy import Job, JobExecutionContext, WeeklyCalendar, disallow_concurrent_execution, job
from quartzpy.dashboard.api import definitions, openapi
from quartzpy.definitions import declarations
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail, job_types
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Actor, Grant, Role
from quartzpy.placement import Capabilities
from quartzpy.states import TriggerState
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import START, Harness, at, every, key, once
from tests.dashboard_api.conftest import Api
from tests.dashboard_api.test_api import problem, validate
from tests.protocol.options import is_long

DOCUMENT = openapi.document()


@disallow_concurrent_execution
class Close(Job, type_name="api.close"):
    """Takes any data."""

    def execute(self, context: JobExecutionContext) -> None: ...


@job(type_name="api.report")
def report(region: str, lines: int = 10) -> None: ...


class Order(BaseModel):
    number: int
    positions: list[int] = []


class Ship(Job, type_name="api.ship", data_type=Order):
    def execute(self, context: JobExecutionContext) -> None: ...


@dataclass
class Letter:
    to: str
    text: str = ""


class Mail(Job, type_name="api.mail", data_type=Letter):
    def execute(self, context: JobExecutionContext) -> None: ...


TYPES = ("api.close", "api.report", "api.ship", "api.mail")


@pytest.fixture(autouse=True)
def node(store: Harness) -> None:
    store.store.publish(store.node("a"), Capabilities(frozenset(TYPES)))


def path_of(kind: str, name: str, group: str = "DEFAULT") -> str:
    parts = [name] if kind == "calendar" else [group, name]
    return f"{kind}s/{'/'.join(quote(part, safe='') for part in parts)}"


def put(api: Api, kind: str, name: str, document: Any, *, group: str = "DEFAULT", **options: Any) -> Any:
    headers = options.pop("headers", {})
    return api.client.put(path_of(kind, name, group), json=document, params=options, headers=headers)


def get(api: Api, kind: str, name: str, group: str = "DEFAULT") -> Any:
    response = api.client.get(path_of(kind, name, group))
    assert response.status_code == 200, response.text
    schema = DOCUMENT["paths"][f"/{kind}s/" + ("{name}" if kind == "calendar" else "{group}/{name}")]
    validate(response.json(), schema["get"]["responses"]["200"]["content"]["application/json"]["schema"])
    return response


def stored(api: Api, kind: str, name: str, document: Any, status: int = 201, **options: Any) -> dict[str, Any]:
    response = put(api, kind, name, document, **options)
    assert response.status_code == status, response.text
    schema = DOCUMENT["paths"][f"/{kind}s/" + ("{name}" if kind == "calendar" else "{group}/{name}")]["put"]
    validate(response.json(), schema["responses"][str(status)]["content"]["application/json"]["schema"])
    answer: dict[str, Any] = response.json()
    return answer


def faults(response: Any) -> dict[str, str]:
    """Return the faults of a refused document by their places."""
    return {fault["pointer"]: fault["detail"] for fault in problem(response, 422)["faults"]}


def rows(api: Api) -> list[tuple[str, str, str]]:
    return [(row.action, row.subject, str(row.state)) for row in api.operations.audit_log()]


REPORT = {"type": "api.report", "data": {"region": "eu"}}


def test_a_program_in_any_language_makes_changes_and_removes_a_schedule(api: Api, store: Harness) -> None:
    made = stored(api, "job", "sales", {**REPORT, "timeout": "30m"}, group="billing", reason="the new shop")
    assert (made["outcome"], made["text"]) == ("created", "Job billing.sales was created.")
    trigger = {"schedule": "0 2 * * MON-FRI", "time_zone": "Europe/Berlin"}
    assert stored(api, "trigger", "sales", trigger, group="billing")["definition"] == {
        "name": "sales",
        "group": "billing",
        "job": {"name": "sales", "group": "billing"},
        "kind": "cron",
        "expression": "0 2 * * MON-FRI",
        "time_zone": "Europe/Berlin",
    }
    same = stored(api, "trigger", "sales", trigger, 200, group="billing")
    assert (same["outcome"], same["differences"]) == ("unchanged", [])
    assert "nothing was changed" in same["text"]
    changed = stored(api, "trigger", "sales", {**trigger, "priority": 7}, 200, group="billing")
    assert changed["differences"] == [{"name": "priority", "before": 5, "after": 7}]
    assert api.client.delete(path_of("trigger", "sales", "billing")).status_code == 204
    assert api.client.get(path_of("trigger", "sales", "billing")).status_code == 404
    assert api.client.delete(path_of("job", "sales", "billing"), params={"reason": "closed"}).status_code == 204
    assert problem(api.client.delete(path_of("job", "sales", "billing")), 404)
    assert rows(api) == [
        ("delete", "job billing.sales", "FAILED"),
        ("delete", "job billing.sales", "SUCCEEDED"),
        ("delete", "trigger billing.sales", "SUCCEEDED"),
        ("define", "trigger billing.sales", "SUCCEEDED"),
        ("define", "trigger billing.sales", "SUCCEEDED"),
        ("define", "job billing.sales", "SUCCEEDED"),
    ]
    assert [row.reason for row in api.operations.audit_log(subject="job billing.sales")] == [
        "",
        "closed",
        "the new shop",
    ]


def test_a_dry_run_says_what_would_be_changed_and_changes_nothing(api: Api, store: Harness) -> None:
    before = store.everything()
    answer = stored(api, "job", "sales", REPORT, 200, dry_run="true")
    assert (answer["outcome"], answer["dry_run"]) == ("created", True)
    assert faults(put(api, "job", "sales", {**REPORT, "timeout": "soon"}, dry_run="true")).keys() == {"/timeout"}
    assert store.everything() == before
    stored(api, "job", "sales", REPORT)
    gone = api.client.delete(path_of("job", "sales"), params={"dry_run": "true"})
    assert (gone.status_code, gone.json()["outcome"]) == (200, "deleted")
    assert get(api, "job", "sales").status_code == 200
    assert len(rows(api)) == 1


TRIGGERS: list[Trigger] = [
    every(90, "t", times=7, description="a text", priority=9, misfire_threshold=timedelta(minutes=3)),
    SimpleTrigger("t", interval=timedelta(seconds=1.5), misfire="fire_now", end_time=at(9e6)),
    once("t", at(5_000), data={"region": "us", "at": at(7), "price": Decimal("1.50"), "odd": {"$x": 1}}),
    CronTrigger("0 0 9 ? * MON-FRI", "t", time_zone="Europe/Berlin", dst="quartz", start_time=at(60)),
    CronTrigger.from_crontab("*/5 * 1 * MON", "t"),
    CronTrigger("0 0 9 * * ?", "t", misfire="fire_all", catch_up_max=3, catch_up_within=timedelta(hours=2)),
    CalendarIntervalTrigger("t", interval=2, unit="month", time_zone="Asia/Tokyo", preserve_hour_of_day=True),
    DailyTimeIntervalTrigger(
        "t", interval=30, unit="minute", start_time_of_day=time(8, 30), days_of_week={2, 4}, time_zone="Europe/Paris"
    ),
    RecurrenceTrigger("t", rule="FREQ=MONTHLY;BYDAY=-1FR", time_zone="Europe/Berlin"),
    FixedDelayTrigger("5m", "t"),
    AnyOf("t", triggers=[CronTrigger("0 0 9 * * ?"), CronTrigger("0 0 18 * * ?")], description="both"),
    Jitter("t", trigger=CronTrigger("0 0 9 * * ?"), up_to="5m"),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.kind)
def test_what_is_read_is_what_can_be_stored_for_every_kind_of_trigger(
    api: Api, store: Harness, trigger: Trigger
) -> None:
    store.schedule(JobDetail("api.close", "j", durable=True, disallow_concurrent=True), trigger)
    before = get(api, "trigger", "t")
    same = stored(api, "trigger", "t", before.json(), 200)
    assert (same["outcome"], same["tag"]) == ("unchanged", before.headers["etag"].strip('"'))
    api.client.delete(path_of("trigger", "t"))
    assert stored(api, "trigger", "t", before.json())["definition"] == before.json()
    assert get(api, "trigger", "t").headers["etag"] == before.headers["etag"]
    record = store.store.triggers([key("t")])[key("t")]
    assert record.trigger == trigger.bound_to(JobKey("j")).anchored(START)
    assert record.trigger.data == trigger.data


JOBS: list[dict[str, Any]] = [
    {},
    {"durable": False},
    {"description": "text", "display_name": "Näme", "documentation_url": "https://wiki.example.com/x"},
    {"retry": RetryPolicy(attempts=5, delay="90s", on=("builtins.OSError",)), "timeout": timedelta(hours=1, minutes=1)},
    {"max_concurrent": 4, "overlap_policy": "skip", "concurrency_key": "region"},
    {"rate_limit": "10/minute", "concurrency_key": "region", "disallow_concurrent": False},
    {"rate_limit": "7/90s", "disallow_concurrent": False, "capture_logs": "INFO", "pause_after_failures": 3},
    {"executor": "heavy", "execution_group": "g", "requires": ["gpu", "eu"], "requests_recovery": True},
    {"data": {"a": None, "at": START, "n": 1.0, "list": [1, {"b": (1, 2)}], "$odd": 1, "tag": {"$enum": ["x", 1]}}},
    {"continuations": [Continuation(JobKey("next", "g"), ["FAILED"], data={"at": START}), "other"]},
    {"persist_data": True, "data": {"count": 3}},
]


@pytest.mark.parametrize("values", JOBS, ids=lambda values: "-".join(values) or "plain")
@pytest.mark.parametrize("job_type", ["api.close", "unpublished"])
def test_what_is_read_is_what_can_be_stored_for_jobs(
    api: Api, store: Harness, values: dict[str, Any], job_type: str
) -> None:
    # One type is imported in this process, and of the other a node has published no more than the name.
    store.store.publish(store.node("b"), Capabilities(frozenset({"unpublished"})))
    detail = JobDetail(job_type, "j", **values)
    store.schedule(detail, once("t", at(60)))
    before = get(api, "job", "j")
    assert stored(api, "job", "j", before.json(), 200)["outcome"] == "unchanged"
    if detail.durable is False:
        stored(api, "job", "k", {**before.json(), "name": "k", "durable": True})
        return
    api.client.delete(path_of("job", "j"))
    stored(api, "job", "j", before.json())
    assert get(api, "job", "j").headers["etag"] == before.headers["etag"]


def test_calendars_are_definitions_too(api: Api, store: Harness) -> None:
    weekend = {"kind": "weekly", "excluded_days": [1, 7], "time_zone": "Europe/Berlin"}
    assert stored(api, "calendar", "weekend", weekend)["outcome"] == "created"
    assert get(api, "calendar", "weekend").json() == weekend
    assert stored(api, "calendar", "weekend", weekend, 200)["outcome"] == "unchanged"
    changed = stored(api, "calendar", "weekend", {**weekend, "excluded_days": [1]}, 200)
    assert changed["differences"] == [{"name": "excluded_days", "before": [7], "after": []}]
    stored(api, "job", "j", REPORT)
    stored(api, "trigger", "j", {"every": "1h", "calendar": "weekend"})
    assert "in use" in problem(api.client.delete(path_of("calendar", "weekend")), 409)["detail"]
    api.client.delete(path_of("trigger", "j"))
    assert api.client.delete(path_of("calendar", "weekend")).status_code == 204
    assert faults(put(api, "calendar", "x", {"kind": "weekly", "class": "os:system"})).keys() == {""}


# --- what changes meanwhile


def test_a_change_can_be_made_to_depend_on_what_is_stored(api: Api, store: Harness) -> None:
    absent = {"If-None-Match": "*"}
    stored(api, "job", "j", REPORT, headers=absent)
    refused = put(api, "job", "j", {**REPORT, "timeout": "1m"}, headers=absent)
    shown = problem(refused, 412)
    assert shown["current"]["type"] == "api.report"
    old = refused.headers["etag"]
    assert get(api, "job", "j").headers["etag"] == old
    stored(api, "job", "j", {**REPORT, "timeout": "1m"}, 200, headers={"If-Match": old})
    assert problem(put(api, "job", "j", {**REPORT, "timeout": "2m"}, headers={"If-Match": old}), 412)
    assert problem(api.client.delete(path_of("job", "j"), headers={"If-Match": old}), 412)
    assert problem(put(api, "job", "k", REPORT, headers={"If-Match": "*"}), 412)["current"] is None
    now = get(api, "job", "j").headers["etag"]
    unread = api.client.get(path_of("job", "j"), headers={"If-None-Match": now})
    assert (unread.status_code, unread.content, unread.headers["etag"]) == (304, b"", now)
    assert problem(api.client.get(path_of("job", "j"), headers={"If-Match": old}), 412)
    assert api.client.delete(path_of("job", "j"), headers={"If-Match": now}).status_code == 204


def test_a_change_whose_answer_was_lost_can_be_repeated(api: Api, store: Harness) -> None:
    stored(api, "job", "j", REPORT)
    old = {"If-Match": get(api, "job", "j").headers["etag"]}
    wanted = {**REPORT, "timeout": "1m"}
    stored(api, "job", "j", wanted, 200, headers=old)
    repeated = stored(api, "job", "j", wanted, 200, headers=old)
    assert repeated["outcome"] == "unchanged"


def test_of_two_changes_at_once_the_second_sees_the_first(api: Api, store: Harness) -> None:
    stored(api, "job", "j", REPORT)
    tag = {"If-Match": get(api, "job", "j").headers["etag"]}
    statuses: list[int] = []

    def change(number: int) -> None:
        statuses.append(put(api, "job", "j", {**REPORT, "description": str(number)}, headers=tag).status_code)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, *[412] * 5]


def test_a_trigger_keeps_its_turn_its_pause_and_its_error_while_other_values_change(api: Api, store: Harness) -> None:
    stored(api, "job", "j", REPORT)
    stored(api, "trigger", "j", {"every": "1h"})
    node = store.node("b")
    fired = store.fire_due(node, types=["api.report"])
    assert fired
    before = store.progress("j")
    read = get(api, "trigger", "j").json()
    assert stored(api, "trigger", "j", read, 200)["outcome"] == "unchanged"
    stored(api, "trigger", "j", {**read, "priority": 9}, 200)
    stored(api, "trigger", "j", {"every": "1h", "description": "new"}, 200)
    assert store.progress("j") == before
    assert [row.trigger_key for row in store.running()] == [key("j")]
    stored(api, "job", "j", {**REPORT, "description": "while it runs"}, 200)
    store.complete(node, *fired)
    api.operations.actions.pause(TriggerKey("j"), reason="the warehouse moves")
    stored(api, "trigger", "j", {"every": "2h"}, 200)
    assert store.state("j") == "PAUSED"
    assert api.operations.trigger(TriggerKey("j")).trigger.pause_reason == "the warehouse moves"
    store.set_state(key("j"), TriggerState.ERROR)
    stored(api, "trigger", "j", {"every": "2h", "priority": 1}, 200)
    assert store.state("j") == "ERROR"


def test_the_data_that_a_job_persists_is_its_own(api: Api, store: Harness) -> None:
    counting = {"type": "api.close", "persist_data": True, "data": {"count": 0}}
    stored(api, "job", "j", counting)
    assert "data" not in get(api, "job", "j").json()
    store.store.modify_job(JobKey("j"), lambda detail: detail.with_values({"data": {"count": 5}}), keeps_data=False)
    assert stored(api, "job", "j", counting, 200)["outcome"] == "unchanged"
    stored(api, "job", "j", {**counting, "description": "counts"}, 200)
    assert store.store.jobs([JobKey("j")])[JobKey("j")].data == {"count": 5}


# --- faults


def test_all_faults_are_reported_at_once_with_their_places(api: Api, store: Harness) -> None:
    before = store.everything()
    wrong = faults(
        put(
            api,
            "job",
            "j",
            {
                "type": "api.repot",
                "timeout": "soon",
                "colour": "red",
                "max_concurrent": 0,
                "retry": {"attempts": 1, "delay": -5, "delayy": "1m"},
                "rate_limit": {"limit": "many"},
                "continuations": [{"job": "", "outcomes": ["NEVER"]}, 7],
                "data": {"at": {"$datetime": "never"}},
                "name": "other",
            },
        )
    )
    assert wrong.keys() == {
        "/type",
        "/timeout",
        "/colour",
        "/max_concurrent",
        "/retry/attempts",
        "/retry/delay",
        "/retry/delayy",
        "/rate_limit/limit",
        "/continuations/0/job",
        "/continuations/0/outcomes",
        "/continuations/1",
        "/data",
        "/name",
    }
    assert "did you mean api.report?" in wrong["/type"]
    assert "did you mean delay?" in wrong["/retry/delayy"]
    stored(api, "job", "j", REPORT)
    refused = put(
        api,
        "trigger",
        "j",
        {"expression": "0 0 25 * * ?", "time_zone": "Mars/Base", "priority": "high", "start_time": "x"},
    )
    assert faults(refused).keys() == {"/expression", "/time_zone", "/priority", "/start_time"}
    cron = next(fault for fault in refused.json()["faults"] if fault["pointer"] == "/expression")
    assert (cron["error"], cron["field"], cron["position"]) == ("InvalidCronError", "hours", 4)
    assert store.everything() != before
    assert [state for _, _, state in rows(api)] == ["FAILED", "SUCCEEDED", "FAILED"]


@pytest.mark.parametrize(
    ("document", "places"),
    [
        ([], {""}),
        ({}, {""}),
        ({"kind": "lunar"}, {"/kind"}),
        ({"kind": "calendar_interval"}, {""}),
        ({"schedule": "sometimes"}, {"/schedule"}),
        ({"schedule": "every 5m", "interval": "1h"}, {"/interval"}),
        ({"schedule": "every 5m", "kind": "cron"}, {"/kind"}),
        ({"every": "5m", "kind": "cron"}, {"/kind"}),
        ({"every": "0.5ms"}, {"/every"}),
        ({"every": "1h", "job": {"name": "nobody"}}, {"/job"}),
        ({"every": "1h", "job": "j"}, {"/job"}),
        ({"every": "1h", "data": {"linse": 1}}, {"/data"}),
        ({"every": "1h", "data": []}, {"/data"}),
        ({"every": "1h", "data": {"QRTZ_TRACE_PARENT": "x"}}, {"/data/QRTZ_TRACE_PARENT"}),
        ({"every": "1h", "calendar": "weekend"}, {"/calendar"}),
        ({"every": "1h", "stored_data": "{}"}, {"/stored_data"}),
        ({"every": "1h", "rescheduled_from": [1, 2]}, {"/rescheduled_from"}),
        ({"expression": "0 0 0 1 1 ? 2001"}, {""}),
        ({"kind": "fixed_delay", "delay": "1m"}, {"/kind"}),
        ({"kind": "any_of", "schedule": {"triggers": [{"kind": "cron"}]}}, {"/schedule"}),
        ({"kind": "any_of", "schedule": 7}, {"/schedule"}),
    ],
)
def test_a_trigger_with_a_fault_is_refused_and_nothing_changes(
    api: Api, store: Harness, document: Any, places: set[str]
) -> None:
    stored(api, "job", "j", REPORT)
    before = store.everything()
    assert faults(put(api, "trigger", "j", document)).keys() == places
    assert store.everything() == before


def test_data_is_checked_against_what_the_type_takes(api: Api, store: Harness) -> None:
    assert "lines" in faults(put(api, "job", "j", {"type": "api.report", "data": {"linse": 1}}))["/data"]
    assert faults(put(api, "job", "m", {"type": "api.mail", "data": {"too": "x"}})).keys() == {"/data"}
    stored(api, "job", "s", {"type": "api.ship"})
    wrong = faults(put(api, "trigger", "s", {"every": "1h", "data": {"number": "x", "positions": [1, "y"]}}))
    assert wrong.keys() == {"/data/number", "/data/positions/1"}
    stored(api, "trigger", "s", {"every": "1h", "data": {"number": 7, "positions": [1]}})
    assert faults(put(api, "trigger", "x", {"every": "1h", "job": {"name": "s"}})).keys() == {""}


def test_data_is_checked_by_what_nodes_have_published_of_types_that_are_not_imported_here(
    api: Api, store: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TYPES:
        monkeypatch.delitem(job_types._types, name)
    assert "region" in faults(put(api, "job", "j", {"type": "api.report", "data": {"regoin": 1}}))["/data"]
    stored(api, "job", "j", {"type": "api.report"})
    assert "missing: region" in faults(put(api, "trigger", "j", {"every": "1h"}))[""]
    stored(api, "trigger", "j", {"every": "1h", "data": {"kwargs": {"region": "eu"}}})
    assert stored(api, "job", "c", {"type": "api.close"})["definition"]["max_concurrent"] == 1
    shown = {entry["name"]: entry for entry in api.client.get("job-types").json()}
    assert shown["api.report"] == {
        "name": "api.report",
        "nodes": ["a"],
        "entries": ["region", "lines"],
        "required": ["region"],
        "takes_others": False,
        "disallows_concurrent": False,
        "persists_data": False,
    }
    assert (shown["api.ship"]["entries"], shown["api.ship"]["required"]) == (["number", "positions"], ["number"])
    assert shown["api.close"]["disallows_concurrent"]
    assert shown["api.close"]["entries"] is None
    assert "job types" not in store.store.list_nodes().metadata["a"], "pages do not read them"


def test_types_of_which_only_the_name_is_published_need_what_decorators_say(api: Api, store: Harness) -> None:
    store.store.publish(store.node("b"), Capabilities(frozenset({"bare"})))
    refused = put(api, "job", "j", {"type": "bare"})
    details = [fault["detail"] for fault in problem(refused, 422)["faults"]]
    assert [detail.split(" ")[0] for detail in details] == ["disallow_concurrent", "persist_data"]
    stored(api, "job", "j", {"type": "bare", "disallow_concurrent": True, "persist_data": False})


def test_types_of_nodes_that_are_dead_are_unknown(api: Api, store: Harness) -> None:
    store.clock.advance(timedelta(days=1))
    assert "no running node has published" in faults(put(api, "job", "j", REPORT))["/type"]


# --- secrets


def test_secrets_are_hidden_and_what_is_read_can_be_sent_back(api: Api, store: Harness) -> None:
    secret = {"url": "https://a", "api_token": "s3cr3t", "inner": [{"password": "p4ss"}]}
    stored(api, "job", "j", {"type": "api.close", "data": secret})
    read = get(api, "job", "j").json()
    assert read["data"] == {"url": "https://a", "api_token": "[redacted]", "inner": [{"password": "[redacted]"}]}
    assert stored(api, "job", "j", read, 200)["outcome"] == "unchanged"
    changed = stored(api, "job", "j", {**read, "data": {**read["data"], "url": "https://b"}}, 200)
    assert "s3cr3t" not in json.dumps(changed)
    assert store.store.jobs([JobKey("j")])[JobKey("j")].data == {**secret, "url": "https://b"}
    elsewhere = {**read["data"], "inner": [{"password": "[redacted]"}] * 2}
    assert faults(put(api, "job", "j", {**read, "data": elsewhere})).keys() == {
        "/data/inner/0/password",
        "/data/inner/1/password",
    }
    moved = faults(put(api, "job", "j", {**read, "type": "api.report"}))
    assert "/data/api_token" in moved, "another type does not get the secrets"
    assert "s3cr3t" not in json.dumps([row.after for row in api.operations.audit_log()])


# --- who may define what


def test_operators_may_not_define_and_a_grant_permits_some(api: Api, store: Harness) -> None:
    api.actor = Actor("bob", Role.OPERATOR)
    assert "only an admin may do this" in problem(put(api, "job", "j", REPORT), 403)["detail"]
    assert problem(put(api, "job", "j", REPORT, dry_run="true"), 403)
    assert problem(apply_file(api, {"job": []}), 403)
    api.actor = Actor("shop", Role.VIEWER, Grant(["shop-*"], ["api.report", "api.ship"]))
    stored(api, "job", "j", REPORT, group="shop-eu")
    stored(api, "trigger", "j", {"every": "1h"}, group="shop-eu")
    assert "may define jobs and triggers of the groups shop-*" in problem(put(api, "job", "j", REPORT), 403)["detail"]
    assert api.client.get(path_of("job", "j", "shop-eu")).status_code == 200
    assert api.client.delete(path_of("job", "j", "shop-eu")).status_code == 204
    assert [row for row in rows(api) if row[2] == "REFUSED"] == [
        ("define", "job DEFAULT.j", "REFUSED"),
        ("apply", "owner app", "REFUSED"),
        ("define", "job DEFAULT.j", "REFUSED"),
    ]


def test_a_grant_cannot_be_used_to_reach_what_it_does_not_cover(api: Api, store: Harness) -> None:
    """Each way from one's own groups to a job of another group, or of another type, is refused."""
    store.schedule(
        JobDetail("api.report", "payroll", "hr", data={"region": "eu"}, durable=True), every(60, "hr", group="hr")
    )
    store.schedule(JobDetail("api.close", "closing", "shop", durable=True, disallow_concurrent=True))
    store.schedule(JobDetail("api.close", "own", "shop", durable=True), every(60, "hers", group="ops"))
    stored(api, "job", "mine", REPORT, group="shop")
    stored(api, "trigger", "foreign", {"every": "1h", "job": {"name": "payroll", "group": "hr"}}, group="shop")
    store.store.own("app", [JobKey("payroll", "hr")], [TriggerKey("hr", "hr")])
    store.put_calendar("weekend", WeeklyCalendar())
    before = store.everything()
    api.actor = Actor("shop", Role.OPERATOR, Grant(["shop"], ["api.report"]))
    hour = {"every": "1h"}
    tries = {
        "a job of another group": lambda: put(api, "job", "x", REPORT, group="hr"),
        "a job of another type": lambda: put(api, "job", "x", {"type": "api.close"}, group="shop"),
        "changing a job of another type": lambda: put(api, "job", "closing", REPORT, group="shop"),
        "deleting a job of another type": lambda: api.client.delete(path_of("job", "closing", "shop")),
        "a trigger of another group": lambda: put(
            api, "trigger", "x", {**hour, "job": {"name": "mine", "group": "shop"}}, group="hr"
        ),
        "starting a job of another group": lambda: put(
            api, "trigger", "x", {**hour, "job": {"name": "payroll", "group": "hr"}}, group="shop"
        ),
        "starting a job of another type": lambda: put(
            api, "trigger", "x", {**hour, "job": {"name": "closing", "group": "shop"}}, group="shop"
        ),
        "taking a trigger from another job": lambda: put(
            api, "trigger", "foreign", {**hour, "job": {"name": "mine", "group": "shop"}}, group="shop"
        ),
        "deleting a trigger of another job": lambda: api.client.delete(path_of("trigger", "foreign", "shop")),
        "starting a job of another group after one's own": lambda: put(
            api, "job", "mine", {**REPORT, "continuations": [{"job": "payroll", "group": "hr"}]}, group="shop"
        ),
        "starting a job of another type after one's own": lambda: put(
            api, "job", "mine", {**REPORT, "continuations": [{"job": "closing", "group": "shop"}]}, group="shop"
        ),
        "asking which jobs exist": lambda: put(
            api, "trigger", "x", {**hour, "job": {"name": "nobody", "group": "hr"}}, group="shop"
        ),
        "a calendar": lambda: put(api, "calendar", "weekend", {"kind": "weekly", "excluded_days": [2]}),
        "deleting a calendar": lambda: api.client.delete(path_of("calendar", "weekend")),
        "a calendar of a file": lambda: apply_file(
            api, {"calendar": {"weekend": {"kind": "weekly", "excluded_days": [2]}}}
        ),
        "a maintenance window of a file": lambda: apply_file(
            api, {"window": {"weekly": {"cron": "@weekly", "duration": "1h"}}}
        ),
        "pruning what another program declared": lambda: apply_file(api, {"job": []}, prune="true"),
        "a version that stops another program": lambda: apply_file(api, {"job": []}, version="999"),
        "a job of another group in a file": lambda: apply_file(
            api, {"job": [{**REPORT, "name": "x", "durable": True}]}
        ),
        "a trigger of another group in a file": lambda: apply_file(
            api, {"job": [{**REPORT, "name": "x", "group": "shop", "trigger": {**hour, "group": "hr", "name": "x"}}]}
        ),
        "a trigger of another job in a file": lambda: apply_file(
            api, {"job": [{**REPORT, "name": "x", "group": "shop", "trigger": {**hour, "name": "foreign"}}]}
        ),
        "a continuation in a file": lambda: apply_file(
            api,
            {
                "job": [
                    {
                        **REPORT,
                        "name": "x",
                        "group": "shop",
                        "durable": True,
                        "continuations": [{"job": "payroll", "group": "hr"}],
                    }
                ]
            },
        ),
    }
    for name, attempt in tries.items():
        response = attempt()
        assert response.status_code == 403, (name, response.text)
        assert store.everything() == before, name
    refused = [state for action, _, state in rows(api) if state == "REFUSED"]
    assert len(refused) == len(tries)


# --- whole files


def apply_file(api: Api, document: Any, **options: Any) -> Any:
    if isinstance(document, str):
        body = {"content": document.encode(), "headers": {"Content-Type": "application/yaml"}}
    else:
        body = {"json": document, "headers": {}}
    return api.client.post("apply", params={"owner": "app", **options}, **body)  # type: ignore[arg-type]


FILE = """
job:
  - type: api.report
    name: sales
    group: billing
    kwargs: {region: eu}
    trigger:
      - {expression: 0 2 * * MON-FRI, time_zone: Europe/Berlin, calendar: holidays}
      - every 10m
  - {type: api.mail, name: mail, data: {to: ann}, durable: true}
calendar:
  holidays: {kind: holiday, time_zone: Europe/Berlin, excluded_dates: [2026-12-25]}
window:
  database: {cron: "@weekly", duration: 4h, job_group: billing}
  move: {start: 2090-12-05T18:00:00+01:00, end: 2090-12-06T06:00:00+01:00}
"""


def test_a_file_is_planned_and_applied_as_a_whole(api: Api, store: Harness) -> None:
    before = store.everything()
    planned = apply_file(api, FILE, dry_run="true")
    assert planned.status_code == 200, planned.text
    schema = DOCUMENT["paths"]["/apply"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    validate(planned.json(), schema)
    assert [(change["sign"], change["kind"], change["key"]["name"]) for change in planned.json()["changes"]] == [
        ("+", "calendar", "holidays"),
        ("+", "job", "sales"),
        ("+", "trigger", "sales"),
        ("+", "trigger", "sales-2"),
        ("+", "job", "mail"),
        ("+", "window", "database"),
        ("+", "window", "move"),
    ]
    assert {value["name"]: value["after"] for value in planned.json()["changes"][5]["differences"]} == {
        "cron": "@weekly",
        "duration": "4h",
        "job_group": "billing",
    }
    assert store.everything() == before
    applied = apply_file(api, FILE, reason="the release").json()
    assert applied == {**planned.json(), "dry_run": False}
    assert apply_file(api, FILE).json() == {"changes": [], "unchanged": 7, "outdated_by": None, "dry_run": False}
    assert {row.reason for row in api.operations.audit_log()} == {"the release"}
    assert len(rows(api)) == 7
    [changed] = apply_file(api, FILE.replace("4h", "3h"), dry_run="true").json()["changes"]
    assert (changed["sign"], changed["key"]) == ("~", {"name": "database"})
    assert changed["differences"] == [{"name": "duration", "before": "4:00:00", "after": "3:00:00"}]
    pruned = apply_file(api, {"job": []}, prune="true").json()
    assert {change["sign"] for change in pruned["changes"]} == {"-"}
    assert not list(api.operations.scheduler.jobs())
    assert not api.operations.windows()


def test_a_file_with_faults_is_refused_as_a_whole(api: Api, store: Harness) -> None:
    before = store.everything()
    wrong = {
        "job": [
            {"type": "api.report", "name": "a", "trigger": [{"expression": "x"}, "every 1h", 7]},
            {"type": "os:system", "trigger": "0 2 * * *", "cron": "1"},
            {"type": "api.report", "name": "c", "data": {"region": "eu"}, "timeout": 0},
            5,
        ],
        "calendar": {"c": {"kind": "weekly", "class": "os:system"}, "d": {"kind": "holiday", "excluded_dates": [1]}},
        "window": {
            "a": {"cron": "0 2", "duration": "1h"},
            "b": {"start": "soon", "end": "2090-01-01T00:00Z"},
            "c": {"cron": "@weekly"},
            "d": 5,
            "e": {"crn": "@weekly"},
        },
        "jobs": [],
    }
    assert faults(apply_file(api, wrong)).keys() == {
        "/jobs",
        "/job/0/trigger/0/expression",
        "/job/0/trigger/2",
        "/job/1/type",
        "/job/1/name",
        "/job/1/cron",
        "/job/2/timeout",
        "/job/3",
        "/calendar/c",
        "/calendar/d",
        "/window/a/cron",
        "/window/b/start",
        "/window/c",
        "/window/d",
        "/window/e",
        "/window/e/crn",
    }
    assert store.everything() == before
    late = {"job": [{**REPORT, "name": "x", "trigger": {"every": "1h", "calendar": "nowhere"}}]}
    assert "neither declared nor stored" in problem(apply_file(api, late), 404)["detail"]
    assert store.everything() == before


def test_a_file_of_ten_thousand_triggers_is_applied_and_a_larger_one_is_refused(
    api: Api, store: Harness, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert declarations.MAX_DEFINED == 10_000
    # A long run applies as many; other runs a tenth of them.
    most = 10_000 if is_long(pytestconfig) else 1_000
    monkeypatch.setattr(declarations, "MAX_DEFINED", most)

    def declared(number: int) -> dict[str, Any]:
        triggers = [{"every": "1h", "name": f"t{position}"} for position in range(number)]
        return {"job": [{**REPORT, "name": "many", "trigger": triggers}]}

    refused = faults(apply_file(api, declared(most)))
    assert f"one request takes at most {most:,}" in refused[""]
    planned = apply_file(api, declared(most - 1))
    assert planned.status_code == 200, planned.text
    assert len(planned.json()["changes"]) == most
    assert apply_file(api, declared(most - 1)).json()["unchanged"] == most


@pytest.mark.parametrize(
    "name",
    ["a b", "a/b", "a%2Fb", "ä", "日本", "a?b#c", "a+b", "a;b=c", "..a", "a..", "%", "'\"<>", "x" * 200, "~0/~1", "*"],
)
def test_names_with_odd_characters_are_addressed_by_their_encoding(api: Api, store: Harness, name: str) -> None:
    stored(api, "job", name, REPORT, group=name)
    assert store.store.jobs([JobKey(name, name)])
    read = get(api, "job", name, name)
    assert (read.json()["name"], read.json()["group"]) == (name, name)
    stored(api, "trigger", name, {"every": "1h"}, group=name)
    assert api.client.delete(path_of("job", name, name)).status_code == 204
    assert not store.store.jobs([JobKey(name, name)])


def test_a_calendar_with_a_slash_in_its_name_has_an_address(api: Api, store: Harness) -> None:
    stored(api, "calendar", "a/b", {"kind": "weekly", "excluded_days": [1], "time_zone": "UTC"})
    assert get(api, "calendar", "a/b").status_code == 200


def test_the_instants_of_a_document_are_texts(api: Api, store: Harness) -> None:
    stored(api, "job", "j", REPORT)
    answer = stored(api, "trigger", "j", {"schedule": "2026-12-24T18:00:00+01:00", "end_time": "2027-01-01T00:00:00Z"})
    assert answer["definition"]["start_time"] == "2026-12-24T17:00:00+00:00"
    record = store.store.triggers([key("j")])[key("j")]
    assert record.trigger.end_time == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_job_that_is_not_durable_needs_a_trigger(api: Api, store: Harness) -> None:
    fleeting = {**REPORT, "durable": False}
    assert faults(put(api, "job", "j", fleeting)).keys() == {"/durable"}
    stored(api, "job", "j", REPORT)
    stored(api, "trigger", "j", {"every": "1h"})
    stored(api, "job", "j", fleeting, 200)
    assert api.client.delete(path_of("trigger", "j")).status_code == 204
    assert not store.store.jobs([JobKey("j")]), "it went with its last trigger"


def test_the_limits_of_the_address_and_the_headers_are_those_of_the_description() -> None:
    for resource in definitions.RESOURCES:
        operations = DOCUMENT["paths"][resource.path]
        assert set(operations) == {"get", "put", "delete"}
        for operation in operations.values():
            names = {(parameter["name"], parameter["in"]) for parameter in operation["parameters"]}
            assert {(part, "path") for part in resource.parts} | {("If-Match", "header")} <= names


# --- batches


def put_batch(api: Api, document: Any, name: str = "march", *, group: str = "DEFAULT", **options: Any) -> Any:
    return api.client.put(f"batches/{group}/summary/{name}", json=document, params=options)


def test_a_batch_is_stored_once_and_its_end_runs_a_job(api: Api, store: Harness) -> None:
    for name in ("letter", "summary"):
        stored(api, "job", name, REPORT)
    letters = [{"job": {"name": "letter"}, "data": {"region": region}} for region in ("eu", "us")]
    document = {"on": "end", "triggers": [*letters, {"name": "own", "group": "g", "job": {"name": "letter"}}]}
    before = store.everything()
    planned = put_batch(api, document, dry_run="true")
    assert (planned.status_code, planned.json()["dry_run"], store.everything()) == (200, True, before)
    made = put_batch(api, document, reason="the month is over")
    assert made.status_code == 201, made.text
    schema = DOCUMENT["paths"]["/batches/{group}/{name}/{batch}"]["put"]
    validate(made.json(), schema["responses"]["201"]["content"]["application/json"]["schema"])
    validate(document, schema["requestBody"]["content"]["application/json"]["schema"])
    assert made.json()["text"] == "Batch march of job DEFAULT.summary was stored with 3 triggers."
    again = put_batch(api, document)
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    assert "exists already" in problem(put_batch(api, {"triggers": letters}), 409)["detail"]
    assert rows(api)[:3] == [
        ("define", "batch march of job DEFAULT.summary", "FAILED"),
        ("define", "batch march of job DEFAULT.summary", "SUCCEEDED"),
        ("define", "job DEFAULT.summary", "SUCCEEDED"),
    ]
    working = store.node("works")
    fired = store.fire_due(working, types=["api.report"])
    assert sorted(str(each.trigger_key) for each in fired) == ["DEFAULT.march-1", "DEFAULT.march-2", "g.own"]
    store.complete(working, *fired)
    assert [each.job_name for each in store.fire_due(working, types=["api.report"])] == ["summary"]


def test_a_batch_with_faults_is_refused_as_a_whole(api: Api, store: Harness) -> None:
    for name in ("letter", "summary"):
        stored(api, "job", name, REPORT)
    before = store.everything()
    letter = {"job": {"name": "letter"}}
    document = {"triggers": [letter, {**letter, "every": "1h"}, {}, {"job": {"name": "nobody"}}, 7], "on": "never"}
    assert faults(put_batch(api, document)) == {
        "/on": "must be one of success, failure, end (got 'never')",
        "/triggers/1": "a trigger of a batch must fire exactly once",
        "/triggers/2": "job is missing: the job that the trigger fires, as an object with name and group",
        "/triggers/4": "must be an object (got 7)",
    }
    document = {"triggers": [letter, {"job": {"name": "nobody"}}, {**letter, "calendar": "none"}]}
    assert faults(put_batch(api, document)).keys() == {"/triggers/1/job", "/triggers/2/calendar"}
    assert faults(put_batch(api, {"triggers": []})).keys() == {"/triggers"}
    assert problem(put_batch(api, {"triggers": [letter]}, group="other"), 404)
    assert store.everything() == before


def test_a_grant_has_to_cover_all_that_a_batch_starts(api: Api, store: Harness) -> None:
    for group in ("shop", "hr"):
        for name in ("letter", "summary"):
            stored(api, "job", name, REPORT, group=group)
    api.actor = Actor("bob", Role.OPERATOR)
    own = {"group": "shop", "job": {"name": "letter", "group": "shop"}}
    assert problem(put_batch(api, {"triggers": [own]}, group="shop"), 403)
    api.actor = Actor("shop", Role.VIEWER, Grant(["shop"], ["api.report"]))
    assert problem(put_batch(api, {"triggers": [own]}, group="hr"), 403)
    for other in ({**own, "group": "hr"}, {**own, "job": {"name": "letter", "group": "hr"}}):
        assert problem(put_batch(api, {"triggers": [own, other]}, group="shop"), 403)
    assert put_batch(api, {"triggers": [own]}, group="shop").status_code == 201
