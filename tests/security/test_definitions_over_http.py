"""Hostile requests to the API that defines jobs: each is refused with a status of its own, and changes nothing.

Role climbing by a grant is in `tests/dashboard_api/test_definitions.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any, ClassVar

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.dashboard import create_app, token_auth
from quartzpy.dashboard.api.definitions import MAX_YAML_BYTES
from quartzpy.definitions.forms import JOB_WORDS
from quartzpy.definitions.reader import trigger_words
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.operations import Actor, Grant, Role
from quartzpy.placement import Capabilities
from quartzpy.triggers.trigger import Trigger, trigger_kinds
from tests.security.test_web_requests import Sender

ADMIN, VIEWER, SHOP = "the admin's token", "the viewer's token", "the shop's token"
TOKENS = {
    ADMIN: Actor("ann", Role.ADMIN),
    VIEWER: Actor("bob", Role.VIEWER),
    SHOP: Actor("shop", Role.VIEWER, Grant(["shop"])),
}
JSON = "application/json"
YAML = "application/yaml"
BUILT: list[object] = []


class Noted(Job, type_name="hostile.noted"):
    def execute(self, context: JobExecutionContext) -> None: ...


def words_of_kind(kind: type[Trigger]) -> set[str]:
    return set(trigger_words(kind, is_stored=False))


class Trap:
    """A class that looks like a dataclass of a program; building it leaves a trace."""

    def __init__(self, **values: Any) -> None:
        BUILT.append(values)

    __dataclass_fields__: ClassVar[dict[str, Any]] = {}


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    made = Scheduler(postgres_dsn)
    store = made._usable_store()
    node = store.register(
        "n", host="h", pid=1, checkin_interval=made.config.checkin_interval, window=timedelta(hours=1)
    )
    store.publish(node, Capabilities(frozenset({"hostile.noted"})))
    made.add_job(JobDetail(Noted, "there", "shop", durable=True, data={"api_token": "s3cr3t", "url": "https://a"}))
    yield made
    made.shutdown()


@pytest.fixture
def client(scheduler: Scheduler) -> Iterator[TestClient]:
    app = create_app(scheduler, auth=token_auth(TOKENS), read_only=False)
    with TestClient(app, base_url="http://testserver/api/v1/", raise_server_exceptions=False) as made:
        yield made


def send(
    client: TestClient,
    method: str,
    path: str,
    body: Any = b"",
    content_type: str = JSON,
    token: str = ADMIN,
    **more: str,
) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type, **more}
    return client.request(method, path, content=content, headers=headers)


JOB = {"type": "hostile.noted"}
WHOLE = json.dumps(JOB).encode()
NESTED = b'{"type": "hostile.noted", "data": ' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"}"
LAUGHS = b"a: &a [x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (b, b, *[b - 1] * 8) for b in range(98, 106)
)
FILE = "apply?owner=x"

TRIES: dict[str, tuple[str, str, Any, dict[str, str], int, str]] = {
    # --- who
    "a viewer stores": ("PUT", "jobs/shop/x", JOB, {"token": VIEWER}, 403, "only an admin"),
    "a viewer deletes": ("DELETE", "jobs/shop/there", b"", {"token": VIEWER}, 403, "only an admin"),
    "a viewer applies": ("POST", FILE, {"job": []}, {"token": VIEWER}, 403, "only an admin"),
    "a viewer tries without effect": ("PUT", "jobs/shop/x?dry_run=true", JOB, {"token": VIEWER}, 403, "only an admin"),
    "a grant for another group": ("PUT", "jobs/ops/x", JOB, {"token": SHOP}, 403, "only an admin"),
    "a group that only begins alike": ("PUT", "jobs/shop2/x", JOB, {"token": SHOP}, 403, "only an admin"),
    "a group with other letters": ("PUT", "jobs/SHOP/x", JOB, {"token": SHOP}, 403, "only an admin"),
    "a wrong token": ("PUT", "jobs/shop/x", JOB, {"token": "no such token"}, 401, ""),
    # --- paths
    "a path beside the group": ("PUT", "jobs/shop/../ops/x", JOB, {"token": SHOP}, 403, "only an admin"),
    "encoded dots": ("PUT", "jobs/shop/%2E%2E", JOB, {}, 400, "cannot stand in an address"),
    "an encoded slash in the group": ("PUT", "jobs/shop%2F..%2Fops/x", JOB, {"token": SHOP}, 403, "only an admin"),
    "three parts": ("PUT", "jobs/a/b/c", JOB, {}, 404, "written as %2F"),
    "one part": ("PUT", "jobs/a", JOB, {}, 404, "written as %2F"),
    "no part": ("PUT", "jobs/", JOB, {}, 404, ""),
    "an empty group": ("PUT", "jobs//x", JOB, {}, 400, "must not be empty"),
    "an empty name": ("PUT", "jobs/x/", JOB, {}, 400, "must not be empty"),
    "a NUL in a name": ("PUT", "jobs/shop/a%00b", JOB, {}, 400, "control character"),
    "a line end in a name": ("PUT", "jobs/shop/a%0D%0Ab", JOB, {}, 404, ""),
    "a name from right to left": ("PUT", "jobs/shop/a%E2%80%AEb", JOB, {}, 400, "control character"),
    "a name that is not UTF-8": ("PUT", "jobs/shop/a%FFb", JOB, {}, 400, "not UTF-8"),
    "an overlong slash": ("PUT", "jobs/shop/a%C0%AFb", JOB, {}, 400, "not UTF-8"),
    "a long name": ("PUT", f"jobs/shop/{'x' * 201}", JOB, {}, 400, "at most 200"),
    "another name in the body": ("PUT", "jobs/shop/x", {**JOB, "name": "there"}, {}, 422, "as in the address"),
    "another group in the body": ("PUT", "jobs/shop/x", {**JOB, "group": "ops"}, {"token": SHOP}, 422, "as in the"),
    "an unknown parameter": ("PUT", "jobs/shop/x?dry-run=true", JOB, {}, 400, "not a parameter"),
    "a parameter twice": ("PUT", "jobs/shop/x?dry_run=true&dry_run=false", JOB, {}, 400, "given once"),
    "another method": ("PATCH", "jobs/shop/x", JOB, {}, 405, ""),
    "a method by a header": ("GET", "jobs/shop/none", b"", {"X-HTTP-Method-Override": "PUT"}, 404, "not stored"),
    "a trigger of the scheduler's own": (
        "PUT",
        "triggers/MANUAL_TRIGGERS/x",
        {"every": "1h", "job": {"name": "there", "group": "shop"}},
        {},
        422,
        "made by the scheduler",
    ),
    # --- bodies
    "no body": ("PUT", "jobs/shop/x", b"", {}, 400, "must be JSON"),
    "half a body": ("PUT", "jobs/shop/x", WHOLE[:-1], {}, 400, "must be JSON"),
    "two bodies": ("PUT", "jobs/shop/x", WHOLE + WHOLE, {}, 400, "must be JSON"),
    "a list": ("PUT", "jobs/shop/x", [JOB], {}, 422, "must be an object"),
    "a key twice": (
        "PUT",
        "jobs/shop/x",
        b'{"type": "hostile.noted", "data": {"a": 1, "a": 2}}',
        {},
        400,
        "given twice",
    ),
    "a key twice by an escape": ("PUT", "jobs/shop/x", b'{"type": "x", "typ\\u0065": "y"}', {}, 400, "given twice"),
    "deep nesting": ("PUT", "jobs/shop/x", NESTED, {}, 400, "nested deeper"),
    "very deep nesting": ("PUT", "jobs/shop/x", b"[" * 500_000, {}, 400, "must be JSON"),
    "a huge number": (
        "PUT",
        "jobs/shop/x",
        b'{"type": "hostile.noted", "timeout": 1' + b"0" * 5_000 + b"}",
        {},
        400,
        "JSON",
    ),
    "a huge exponent": ("PUT", "jobs/shop/x", b'{"type": "hostile.noted", "timeout": 1e999}', {}, 422, "timeout"),
    "a huge span": ("PUT", "jobs/shop/x", {**JOB, "timeout": "9" * 200 + "d"}, {}, 422, "timeout"),
    "a huge exponent in data": (
        "PUT",
        "jobs/shop/x",
        b'{"type": "hostile.noted", "data": {"n": 1e999}}',
        {},
        422,
        "data",
    ),
    "no number": ("PUT", "jobs/shop/x", b'{"type": "hostile.noted", "timeout": NaN}', {}, 400, "NaN"),
    "half a character": (
        "PUT",
        "jobs/shop/x",
        b'{"type": "hostile.noted", "description": "\\ud800"}',
        {},
        422,
        "Unicode",
    ),
    "half a character as a key": (
        "PUT",
        "jobs/shop/x",
        b'{"type": "hostile.noted", "\\udfff": 1}',
        {},
        422,
        "not known",
    ),
    "a NUL in data": ("PUT", "jobs/shop/x", {**JOB, "data": {"a": "\0"}}, {}, 422, "NUL"),
    "too much data": ("PUT", "jobs/shop/x", {**JOB, "data": {"a": "x" * 70_000}}, {}, 422, "max_job_data_bytes"),
    "another encoding": ("PUT", "jobs/shop/x", WHOLE.decode().encode("utf-16"), {}, 400, "UTF-8"),
    "a type of a module": ("PUT", "jobs/shop/x", {"type": "os:system"}, {}, 422, "no running node"),
    "a type that is no text": ("PUT", "jobs/shop/x", {"type": {"$enum": ["os:x", "Y"]}}, {}, 422, "no running node"),
    "a value of a class": (
        "PUT",
        "jobs/shop/x",
        {**JOB, "data": {"a": [{"$dataclass": [f"{__name__}:Trap", {"x": 1}]}]}},
        {},
        422,
        "classes cannot be sent",
    ),
    "a model in a mapping": (
        "PUT",
        "jobs/shop/x",
        {**JOB, "data": {"a": {"$object": {"$b": {"$model": [f"{__name__}:Trap", {}]}}}}},
        {},
        422,
        "classes cannot be sent",
    ),
    "a class in a continuation": (
        "PUT",
        "jobs/shop/x",
        {**JOB, "continuations": [{"job": "y", "data": {"a": {"$enum": [f"{__name__}:Trap", "X"]}}}]},
        {},
        422,
        "classes cannot be sent",
    ),
    "entries of the scheduler": (
        "PUT",
        "jobs/shop/x",
        {**JOB, "data": {"QRTZ_FAILED_JOB_ORIG_TRIGGER_NAME": "x"}},
        {},
        422,
        "scheduler itself writes",
    ),
    "a secret for another type": (
        "PUT",
        "jobs/shop/x",
        {**JOB, "data": {"api_token": "[redacted]"}},
        {},
        422,
        "none is stored",
    ),
    # --- media types
    "a form": ("PUT", "jobs/shop/x", WHOLE, {"content_type": "application/x-www-form-urlencoded"}, 415, "Content-Type"),
    "plain text": ("PUT", "jobs/shop/x", WHOLE, {"content_type": "text/plain"}, 415, "Content-Type"),
    "YAML for one job": ("PUT", "jobs/shop/x", b"type: hostile.noted", {"content_type": YAML}, 415, "Content-Type"),
    "another charset": ("PUT", "jobs/shop/x", WHOLE, {"content_type": "application/json; charset=utf-7"}, 415, "UTF-8"),
    "a type beside the type": ("PUT", "jobs/shop/x", WHOLE, {"content_type": "application/json, text/plain"}, 415, ""),
    "a compressed body": ("PUT", "jobs/shop/x", WHOLE, {"Content-Encoding": "gzip"}, 415, "compressed"),
    # --- conditions
    "a weak tag": ("PUT", "jobs/shop/there", JOB, {"If-Match": 'W/"*"'}, 400, "entity tags"),
    "a tag that is a star": ("PUT", "jobs/shop/there", JOB, {"If-Match": '"*"'}, 400, "entity tags"),
    "a tag without quotes": ("PUT", "jobs/shop/there", JOB, {"If-Match": "abc"}, 400, "entity tags"),
    "a star in a list": ("PUT", "jobs/shop/there", JOB, {"If-Match": '"a", *'}, 400, "entity tags"),
    "a thousand tags": ("PUT", "jobs/shop/there", JOB, {"If-Match": ", ".join(['"a"'] * 1_000)}, 400, "entity tags"),
    "an empty list of tags": ("PUT", "jobs/shop/there", JOB, {"If-Match": ""}, 400, "entity tags"),
    "an empty tag": ("PUT", "jobs/shop/there", JOB, {"If-Match": '""'}, 412, "not expected"),
    "both conditions": ("PUT", "jobs/shop/there", JOB, {"If-Match": "*", "If-None-Match": "*"}, 412, "not expected"),
    "a condition on nothing": ("PUT", "jobs/shop/x", JOB, {"If-Match": "*"}, 412, "not stored"),
    # --- files
    "aliases in YAML": ("POST", FILE, b"job:\n- &a {type: x, name: y}\n- *a\n", {"content_type": YAML}, 400, "aliases"),
    "a billion laughs": ("POST", FILE, LAUGHS, {"content_type": YAML}, 400, "aliases"),
    "a merge in YAML": ("POST", FILE, b"a: &a {x: 1}\njob: {<<: *a}\n", {"content_type": YAML}, 400, "aliases"),
    "a tag in YAML": ("POST", FILE, b"job: !!python/object/apply:os.system [x]\n", {"content_type": YAML}, 400, "YAML"),
    "a name in YAML": ("POST", FILE, b"job: !!python/name:os.system ''\n", {"content_type": YAML}, 400, "YAML"),
    "two documents in YAML": ("POST", FILE, b"job: []\n---\njob: []\n", {"content_type": YAML}, 400, "YAML"),
    "a key twice in YAML": ("POST", FILE, b"job: []\njob: []\n", {"content_type": YAML}, 400, "given twice"),
    "deep nesting in YAML": ("POST", FILE, b"job: " + b"[" * 5_000, {"content_type": YAML}, 400, "nested deeper"),
    "keys of YAML that are no texts": ("POST", FILE, b"? [1, 2]\n: 3\n", {"content_type": YAML}, 400, "YAML"),
    "numbers as keys": ("POST", FILE, b"1: 2\njob: []\n", {"content_type": YAML}, 422, "not known"),
    "YAML that is too long": ("POST", FILE, b"#" * (MAX_YAML_BYTES + 1), {"content_type": YAML}, 400, "send JSON"),
    "a module of a file": ("POST", FILE, {"job": [{"type": "antigravity:x", "name": "y"}]}, {}, 422, "no running node"),
    "a class of a calendar": (
        "POST",
        FILE,
        {"calendar": {"c": {"class": "os:system"}}},
        {},
        422,
        "no class of the kind",
    ),
    "a class in stored data": (
        "POST",
        FILE,
        {
            "job": [
                {
                    **JOB,
                    "name": "y",
                    "durable": True,
                    "stored_data": f'{{"a": {{"$model": ["{__name__}:Trap", {{}}]}}}}',
                }
            ]
        },
        {},
        422,
        "classes cannot be sent",
    ),
    "no owner": ("POST", "apply", {"job": []}, {}, 400, "owner: is missing"),
    "an owner that is no name": ("POST", "apply?owner=a%00", {"job": []}, {}, 400, "control character"),
    "an empty file": ("POST", FILE, {}, {}, 422, "declares no job"),
}


@pytest.fixture
def everything(scheduler: Scheduler) -> Any:
    def read() -> Any:
        return (
            [(record.key, record.job.data) for record in scheduler.jobs()],
            [record.key for record in scheduler.triggers()],
            scheduler.calendar_names(),
        )

    return read


def test_each_hostile_request_is_refused_and_changes_nothing(client: TestClient, everything: Any) -> None:
    before = everything()
    wrong: dict[str, Any] = {}
    for name, (method, path, body, more, status, detail) in TRIES.items():
        began = time.process_time()
        response = send(client, method, path, body, **more)
        seconds = time.process_time() - began
        problem = response.json() if response.headers["content-type"] == "application/problem+json" else {}
        said = json.dumps(problem, ensure_ascii=False)
        if response.status_code != status or detail not in said or seconds > 2 or "s3cr3t" in said:
            wrong[name] = (response.status_code, seconds, response.text[:300])
    assert wrong == {}
    assert everything() == before
    assert BUILT == [], "a class was built from what was sent"


def test_a_definition_that_is_read_shows_no_secret_and_its_tag_does_not_depend_on_it(
    client: TestClient, scheduler: Scheduler
) -> None:
    """The tag is of what is shown: else whoever reads it could try out secrets until a digest is the same."""
    read = send(client, "GET", "jobs/shop/there", token=VIEWER)
    assert "s3cr3t" not in read.text
    scheduler.modify_job(JobKey("there", "shop"), data={"api_token": "another", "url": "https://a"})
    assert send(client, "GET", "jobs/shop/there", token=VIEWER).headers["etag"] == read.headers["etag"]


def test_a_session_needs_the_token_against_forgery(client: TestClient, everything: Any) -> None:
    login = "http://testserver/login"
    client.get(login)
    token = client.cookies["quartzpy_csrf"]
    client.post(login, data={"token": ADMIN, "csrf_token": token}, follow_redirects=False)
    before = everything()
    for method, path in (("PUT", "jobs/shop/x"), ("DELETE", "jobs/shop/there"), ("POST", FILE)):
        for headers in ({}, {"X-CSRF-Token": "x" * 43}, {"X-CSRF-Token": token, "Origin": "https://evil.example"}):
            refused = client.request(method, path, content=WHOLE, headers={"Content-Type": JSON, **headers})
            assert refused.status_code == 403, (method, headers)
    assert everything() == before
    done = client.put("jobs/shop/x", json=JOB, headers={"X-CSRF-Token": token})
    assert done.status_code == 201


def test_a_read_only_application_stores_nothing(scheduler: Scheduler, everything: Any) -> None:
    before = everything()
    app = create_app(scheduler, auth=token_auth(TOKENS))
    with TestClient(app, base_url="http://testserver/api/v1/") as client:
        for token in (ADMIN, SHOP):
            assert send(client, "PUT", "jobs/shop/x", JOB, token=token).status_code == 403
            assert send(client, "DELETE", "jobs/shop/there", token=token).status_code == 403
            assert send(client, "POST", FILE, {"job": []}, token=token).status_code == 403
    assert everything() == before


@pytest.mark.parametrize("path", ["/api/v1/jobs/a/b", "/api/v1/apply"])
def test_a_body_is_counted_while_it_is_read(scheduler: Scheduler, path: str) -> None:
    headers = (b"content-type", b"application/json"), (b"authorization", f"Bearer {ADMIN}".encode())
    sender = Sender(path, *headers, method="PUT" if "jobs" in path else "POST")
    assert sender.send_to(create_app(scheduler, auth=token_auth(TOKENS), read_only=False)) == 413


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 10**400, 2**63, "", "x", "1h", "0 2 * * *", "every 5m", "hostile.noted", "\ud800"),
    *("2026-13-45", "2026-12-24T18:00:00Z", "FREQ=DAILY", "cron", "simple", "jitter", "x" * 300, [], {}, [[]], [None]),
    *(
        {"a": {"$datetime": "x"}},
        {"$object": {}},
        {"name": "there", "group": "shop"},
        {"attempts": "x"},
        {"limit": None},
    ),
    *([{"job": "x", "outcomes": 5}], {"kind": "weekly", "excluded_days": ["x"]}, {"args": 5}, {"kwargs": []}),
)
WORDS = {
    "jobs/shop/x": ("type", *sorted(JOB_WORDS)),
    "triggers/shop/there": (
        "kind",
        "every",
        "job",
        *sorted(set().union(*map(words_of_kind, trigger_kinds().values()))),
    ),
    "calendars/c": ("kind", "base", "time_zone", "excluded_days", "excluded_dates", "start", "end", "expression"),
    FILE: ("job", "calendar"),
}


@pytest.mark.parametrize("seed", range(4))
def test_documents_with_random_values_are_answered_with_a_problem_or_stored(client: TestClient, seed: int) -> None:
    random = Random(seed)
    for number in range(40):
        path = random.choice(list(WORDS))
        words = random.sample(WORDS[path], min(len(WORDS[path]), random.randint(1, 6)))
        document: Any = {word: random.choice(VALUES) for word in words}
        if path == FILE and random.random() < 0.8:
            job = {word: random.choice(VALUES) for word in random.sample(WORDS["jobs/shop/x"], 4)}
            trigger = {word: random.choice(VALUES) for word in random.sample(WORDS["triggers/shop/there"], 3)}
            document = {"job": [{**JOB, "name": "y", **job, "trigger": [trigger]}]}
        response = send(client, "POST" if path == FILE else "PUT", path, document)
        assert response.status_code in (200, 201, 400, 404, 409, 422), (seed, number, document, response.text)
