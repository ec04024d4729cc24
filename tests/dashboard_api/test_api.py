"""The JSON API: resources answer by their schemas, errors are problem details, actions need a role and a proof."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest
from jsonschema.validators import Draft202012Validator
from starlette.testclient import TestClient

from quartzpy import WeeklyCalendar
from quartzpy.dashboard.api import bodies, openapi
from quartzpy.dashboard.api.reads import READS, Read
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Actor, Role
from quartzpy.operations.telling.health_check import EVERY, LISTED_EVERY
from quartzpy.placement import Capabilities
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.records import JudgedIncident
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import MINUTE, Harness, at, every, job, key, once, serial
from tests.dashboard_api.conftest import Api
from tests.docs.generate import reference

DOCUMENT = openapi.document()
HOSTILE = "<script>'\"%2F /../?#&\u202fא"


def validate(instance: Any, schema: dict[str, Any]) -> None:
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.validate(instance, whole, Draft202012Validator, format_checker=Draft202012Validator.FORMAT_CHECKER)


def schema_of(path: str, verb: str = "get") -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path][verb]["responses"]["200"]["content"]["application/json"]["schema"]
    return found


def problem(response: Any, status: int) -> dict[str, Any]:
    """Return the problem details of a response, which has to have this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    validate(response.json(), {"$ref": "#/components/schemas/Problem"})
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    return found


@pytest.fixture
def world(store: Harness) -> int:
    """A store with a row of everything; return the fire id of an execution."""
    node = store.node("a")
    store.store.publish(node, Capabilities(frozenset({"report"}), workers={"default": 2}, groups={"_": 2}))
    store.put_calendar("weekdays", WeeklyCalendar())
    store.schedule(job("failing", data={"token": "hidden", "n": 1}), every(60, "failing", times=5))
    fired = store.fire_one(node)
    store.complete(node, fired, outcome=Outcome.FAILED, error="Traceback\nOSError: no disk")
    store.schedule(job("limited", rate_limit="6/minute"), once("rated"))
    store.schedule(serial("serial"), once("runs"), once("waits"))
    for _ in range(2):
        store.fire_due(node)
    store.schedule(job(HOSTILE, HOSTILE), once(HOSTILE, at(600), group=HOSTILE, description=HOSTILE))
    store.schedule(
        job("daily"), CronTrigger("0 0 9 ? * MON-FRI", "daily", time_zone="Europe/Berlin", calendar="weekdays")
    )
    store.schedule(job("late"), every(20, "late", start=at(30), misfire="smart"))
    store.clock.advance(3 * MINUTE)
    store.misfire(node)
    views = admin(store.store)
    views.record_action(ActionEntry("ann", "admin", "pause", "trigger DEFAULT.x"))
    views.take_slot(EVERY, LISTED_EVERY)
    turn = store.clock.now() + EVERY
    views.record_incidents(turn, opened=[an_incident("lasts"), an_incident("is-over")])
    lasting, over = sorted(views.open_incidents(2), key=lambda record: record.subject, reverse=True)
    views.acknowledge(lasting.incident_id, "ann", "it is known", turn)
    views.record_incidents(turn, closed=[over.incident_id])
    return fired.fire_id


def an_incident(name: str) -> JudgedIncident:
    return JudgedIncident(
        kind="trigger-error",
        subject=name,
        identity=name,
        severity=Severity.ERROR,
        cause="",
        what=f"Trigger DEFAULT.{name} is in ERROR.",
        why=("OSError: no disk",),
        trigger_key=key(name),
        since=at(0),
    )


ARGUMENTS = {
    "/job": {"name": "failing"},
    "/trigger": {"name": "daily"},
    "/why": {"name": "daily"},
    "/calendar": {"name": "weekdays", "year": "2026"},
    "/search": {"text": "a"},
}


def _ids(api: Api, read: Read, fire_id: int) -> dict[str, str]:
    """Return the parameters of a resource that has an id."""
    match read.path:
        case "/execution":
            return {"fire_id": str(fire_id)}
        case "/audit-entry":
            return {"action_id": str(api.operations.audit_log(limit=1)[0].action_id)}
        case "/incident":
            return {"incident_id": str(api.operations.open_incidents()[0].incident_id)}
    return {}


@pytest.mark.parametrize("read", READS, ids=lambda read: read.path)
def test_each_resource_answers_by_its_schema(api: Api, world: int, read: Read) -> None:
    given = ARGUMENTS.get(read.path, {}) | _ids(api, read, world)
    response = api.client.get(read.path.lstrip("/"), params=given)
    assert response.status_code == 200, response.text
    assert response.json() != {"items": [], "next_cursor": None, "examined": None}
    validate(response.json(), schema_of(read.path))


@pytest.mark.parametrize("read", READS, ids=lambda read: read.path)
def test_each_parameter_of_a_resource_is_accepted(api: Api, world: int, read: Read) -> None:
    samples = {
        "since": "2026-03-02T12:00:00Z",
        "until": "2026-03-02 13:00:00+00:00",
        "start": "2026-03-02T11:00:00Z",
        "end": "2026-03-02T14:00:00Z",
        "job": "failing",
        "trigger": "DEFAULT.failing",
        "group": "DEF*",
        "contains": "a",
        "job_type": "report",
        "node": "a",
        "name": "failing",
        **_ids(api, read, world),
        "limit": "7",
        "kind": "simple",
        "calendar": "weekdays",
        "actor": "ann",
        "subject": "trigger x",
        "text": "a",
        "year": "2026",
        "after": None,
    }
    given = []
    for one in read.parameters:
        value = samples.get(one.name) or one.schema.get("enum", [None])[0]
        if read.path in ARGUMENTS and one.name in ARGUMENTS[read.path]:
            value = ARGUMENTS[read.path][one.name]
        if one.name == "group" and read.path in ("/job", "/trigger", "/why"):
            value = "DEFAULT"
        if one.schema.get("type") == "boolean":
            value = "true"
        if value is not None:
            given.append((one.name, str(value)))
    response = api.client.get(f"{read.path.lstrip('/')}?{urlencode(given)}")
    assert response.status_code == 200, response.text
    validate(response.json(), schema_of(read.path))


def test_lists_are_read_page_by_page(api: Api, world: int) -> None:
    names: list[str] = []
    after: str | None = None
    for _ in range(20):
        page = api.client.get("triggers", params={"limit": 2, **({"after": after} if after else {})}).json()
        names += [one["key"]["name"] for one in page["items"]]
        after = page["next_cursor"]
        if after is None:
            break
    assert names == [one.key.name for one in api.operations.triggers(limit=100)]


def test_a_page_that_stops_its_search_says_how_far_it_came(
    api: Api, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.jobs.EXAMINED", 2)
    page = api.client.get("jobs", params={"contains": "nothing-of-this"}).json()
    assert (page["items"], page["examined"]) == ([], 2)
    assert page["next_cursor"] is not None
    validate(page, schema_of("/jobs"))
    assert api.client.get("jobs").json()["examined"] is None


def test_hostile_names_are_found_by_their_parameters(api: Api, world: int) -> None:
    found = api.client.get("trigger", params={"name": HOSTILE, "group": HOSTILE}).json()
    assert found["trigger"]["key"] == {"group": HOSTILE, "name": HOSTILE}
    assert found["trigger"]["description"] == HOSTILE


def test_secrets_are_hidden(api: Api, world: int) -> None:
    assert api.client.get("job", params={"name": "failing"}).json()["data"] == {"token": "[redacted]", "n": 1}


def test_repeated_states_select_any_of_them(api: Api, world: int) -> None:
    found = api.client.get("triggers?state=BLOCKED&state=PAUSED").json()["items"]
    assert {one["state"] for one in found} == {"BLOCKED"}


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("jobs?limit=0", 400, "limit: must be a whole number from 1 to 1,000"),
        ("jobs?limit=1001", 400, "limit: must be a whole number from 1 to 1,000"),
        ("jobs?limit=x", 400, "limit: must be a whole number"),
        ("jobs?limit=1&limit=2", 400, "limit: must be given once"),
        ("jobs?color=red", 400, "color: is not a parameter of this resource"),
        ("jobs?after=nonsense", 400, "after: must be the next_cursor"),
        ("job", 400, "name: is missing"),
        ("job?name=none", 404, "job DEFAULT.none is not stored"),
        ("trigger?name=none", 404, "trigger DEFAULT.none is not stored"),
        ("execution?fire_id=999999", 404, "execution 999999 is not known"),
        ("execution?fire_id=-1", 400, "fire_id: must be"),
        ("calendar?name=none", 404, "there is no calendar 'none'"),
        ("timeline?start=yesterday", 400, "start: must be an instant"),
        ("timeline?start=2026-03-02T12:00:00", 400, "start: needs a time zone"),
        ("triggers?state=HUNGRY", 400, "state: must be among"),
        ("system?examine=maybe", 400, "examine: must be true or false"),
        ("nothing", 404, "there is nothing at this address"),
    ],
)
def test_errors_are_problem_details(api: Api, world: int, path: str, status: int, detail: str) -> None:
    assert detail in problem(api.client.get(path), status)["detail"]


def test_a_wrong_verb_is_a_problem(api: Api) -> None:
    assert problem(api.client.post("jobs"), 405)["title"] == "Method Not Allowed"


def test_a_failure_of_the_code_is_a_problem_without_a_traceback(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("kaput")

    monkeypatch.setattr(type(api.operations), "overview", broken)
    found = problem(api.client.get("overview"), 500)
    assert found["detail"].startswith("RuntimeError: kaput.")


def test_nobody_reads_nothing(api: Api) -> None:
    api.actor = None
    assert problem(api.client.get("jobs"), 401)
    assert problem(act(api.client, "pause", {"selection": {"everything": True}}), 401)


# --- actions


def act(client: TestClient, action: str, body: Any) -> Any:
    return client.post(f"actions/{action.replace('_', '-')}", json=body)


def done(api: Api, action: str, body: dict[str, Any]) -> dict[str, Any]:
    validate(
        body,
        DOCUMENT["paths"][f"/actions/{action.replace('_', '-')}"]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ],
    )
    response = act(api.client, action, body)
    assert response.status_code == 200, response.text
    validate(response.json(), schema_of(f"/actions/{action.replace('_', '-')}", "post"))
    found: dict[str, Any] = response.json()
    return found


def test_each_action_is_done_as_the_operations_do_it(api: Api, store: Harness, world: int) -> None:
    daily = {"name": "daily"}
    tried = set()

    def do(action: str, **body: Any) -> dict[str, Any]:
        tried.add(action)
        return done(api, action, body)

    assert do("pause", selection={"trigger": daily}, reason="maintenance")["keys"] == [
        {"group": "DEFAULT", "name": "daily"}
    ]
    assert store.state("daily") == "PAUSED"
    do("resume", selection={"triggers": [daily]}, missed="skip")
    assert store.state("daily") == "WAITING"
    do("set_window", window="nightly", cron="0 2 * * SUN", duration="4h", zone="Europe/Berlin", job_group="billing")
    assert [view.what for view in api.operations.windows()] == ["job group billing"]
    do("delete_window", window="nightly")
    assert api.operations.windows() == []
    do("pause", selection={"trigger": daily}, end="2h")
    assert api.operations.trigger(TriggerKey("daily")).trigger.paused_until is not None
    do("resume", selection={"trigger": daily})
    before = store.progress("daily").next_fire_time
    do("skip_next", selection={"trigger": daily})
    after = store.progress("daily").next_fire_time
    assert before is not None
    assert after is not None
    assert after > before
    triggered = do("trigger", job={"name": "daily"}, data={"n": 2})
    assert triggered["action"] == "trigger"
    assert do("run_again", selection={"execution": world})["count"] == 1
    running = next(row for row in store.running() if row.job_key == JobKey("serial"))
    assert do("cancel", selection={"execution": running.fire_id})["count"] == 1
    assert next(row for row in store.running() if row.fire_id == running.fire_id).cancel_requested
    store.set_state(key("daily"), TriggerState.ERROR)
    do("reset", selection={"triggers": {"state": "ERROR"}})
    assert store.state("daily") == "WAITING"
    do("reschedule", trigger=daily, text="0 0 10 ? * MON-FRI")
    assert "10:00" in api.operations.trigger(TriggerKey("daily")).trigger.words
    preview = do("preview_schedule", text="0 0 25 * * ?")
    assert preview["error"] is not None
    times = do("backfill_times", trigger=daily, start="2026-02-23T00:00:00Z", end="2026-02-28T00:00:00Z")
    assert len(times) == 5  # type: ignore[arg-type]
    assert do("backfill", trigger=daily, start="2026-02-23T00:00:00Z", end="2026-02-25T00:00:00Z", reason="lost days")[
        "count"
    ]
    do("disable", selection={"job": daily})
    do("enable", selection={"jobs": {"mode": "DISABLED"}})
    assert do("count", selection={"triggers": {"group": "DEFAULT", "job": daily}}) == 1  # type: ignore[comparison-overlap]
    for action in ("standby", "drain", "resume_node"):
        do(action, node="a")
    [lasting] = api.operations.open_incidents()
    do("unacknowledge", incident=lasting.incident_id)
    do("acknowledge", incident=lasting.incident_id, reason="it is known")
    noted = api.operations.open_incidents()[0].acknowledgement
    assert noted is not None
    assert (noted.by, noted.reason) == ("ann", "it is known")
    ics = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20400102\nEND:VEVENT\nEND:VCALENDAR\n"
    difference = do("preview_calendar", calendar="closings", years="2040", ics=ics)
    assert (difference["is_new"], difference["days_added"]) == (True, ["2040-01-02"])
    assert "closings" not in api.operations.scheduler.calendar_names(), "a preview stores nothing"
    do("refresh_calendar", calendar="closings", years="2040", ics=ics, weekends=True)
    assert not do("preview_calendar", calendar="closings", years="2040", ics=ics)["days_added"]
    do("set_limit", limit="erp", value="5, 10/minute", reason="the contract")
    assert [limit["name"] for limit in api.client.get("limits").json()["shared"]] == ["erp"]
    assert str(store.store.limits()["erp"].limit) == "5, 10 per minute"
    do("delete_limit", limit="erp")
    do("delete", selection={"jobs": [{"name": "daily"}]})
    assert store.state("daily") == "gone"
    assert tried == set(bodies.methods())
    log = api.client.get("audit-log", params={"actor": "ann", "subject": "trigger DEFAULT.daily"}).json()["items"]
    assert ("pause", "maintenance") in [(one["action"], one["reason"]) for one in log]


def test_a_request_without_proof_changes_nothing(api: Api, store: Harness, world: int) -> None:
    api.proves = False
    found = problem(act(api.client, "pause", {"selection": {"trigger": {"name": "daily"}}}), 403)
    assert found["detail"] == "the token is missing"
    assert store.state("daily") == "WAITING"
    assert api.client.get("jobs").status_code == 200


def test_a_viewer_may_not_act(api: Api, store: Harness, world: int) -> None:
    api.actor = Actor("bob", Role.VIEWER)
    found = problem(act(api.client, "pause", {"selection": {"trigger": {"name": "daily"}}}), 403)
    assert found["type"] == "urn:quartzpy:ForbiddenError"
    assert store.state("daily") == "WAITING"


@pytest.mark.parametrize(
    ("action", "body", "detail"),
    [
        ("pause", [], "body: must be a JSON object"),
        ("pause", {}, "selection: is missing; pause needs selection"),
        ("pause", {"selection": {"trigger": {"name": "daily"}}, "colour": 1}, "colour: is not an argument of pause"),
        ("pause", {"selection": {}}, "selection: must be an object with one member"),
        ("pause", {"selection": {"triggers": 5}}, "triggers: must be an object with filters, or a list"),
        ("pause", {"selection": {"trigger": {"nom": "x"}}}, "trigger: must be an object"),
        ("pause", {"selection": {"trigger": {"name": 5}}}, "trigger name: must be str"),
        ("pause", {"selection": {"everything": False}}, "selection: must be one of"),
        ("pause", {"selection": {"triggers": {"colour": "red"}}}, "have no filter colour"),
        ("cancel", {"selection": {"execution": True}}, "execution: must be the fire id"),
        ("cancel", {"selection": {"execution": "7"}}, "execution: must be the fire id"),
        ("backfill", {"trigger": {"name": "daily"}, "start": 1, "end": 2}, "start: must be an instant"),
        ("resume", {"selection": {"trigger": {"name": "daily"}}, "missed": "never"}, "missed: must be one of"),
        ("pause", {"selection": {"trigger": {"name": "daily"}}, "reason": 5}, "reason: must be"),
        ("skip_next", {"selection": {"trigger": {"name": "daily"}}, "count": "many"}, "count: a number"),
        ("standby", {"node": 5}, "node: must be the instance id"),
    ],
)
def test_wrong_bodies_are_refused_and_change_nothing(
    api: Api, store: Harness, world: int, action: str, body: Any, detail: str
) -> None:
    before = store.everything()
    assert detail in problem(act(api.client, action, body), 400)["detail"]
    assert store.everything() == before


def test_a_body_that_is_no_json_or_too_long_is_refused(api: Api) -> None:
    assert "body: must be JSON" in problem(api.client.post("actions/pause", content=b"{"), 400)["detail"]
    long = b" " * (bodies.MAX_BYTES + 1)
    assert "body: must have at most" in problem(api.client.post("actions/pause", content=long), 400)["detail"]


def test_a_wrong_cron_expression_says_where(api: Api, world: int) -> None:
    body = {"trigger": {"name": "daily"}, "text": "0 0 25 ? * MON-FRI"}
    found = problem(act(api.client, "reschedule", body), 400)
    assert (found["field"], found["position"]) == ("hours", 4)


# --- the description


def test_the_description_is_served_and_the_reference_has_it(api: Api) -> None:
    assert api.client.get("openapi.json").json() == json.loads(reference()["reference/openapi.json"])


def test_every_reference_of_the_description_leads_somewhere_and_every_schema_is_one() -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(one) for one in value.values()))
        return set().union(*(references(one) for one in value)) if isinstance(value, list) else set()

    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) <= known
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    ids = [one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
