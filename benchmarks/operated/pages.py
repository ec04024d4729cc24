"""The web page and the JSON API: each route through the ASGI application, with the filters that matter."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.routing import Route
from starlette.testclient import TestClient

from benchmarks.operated.measuring import times_of
from benchmarks.operated.rows import CALENDAR
from quartzpy import Scheduler
from quartzpy.dashboard.api.reads import READS
from quartzpy.dashboard.app import create_app
from quartzpy.dashboard.auth import allow_everyone
from quartzpy.dashboard.pages import PAGES
from quartzpy.operations import Role

_JOB = {"name": "job-7", "group": "group-7"}
_TRIGGER = {"name": "trigger-2345", "group": "group-45"}


def measure(scheduler: Scheduler, executions: int) -> dict[str, list[float]]:
    """Return the milliseconds of the responses of each page and each resource.

    Raises:
        RuntimeError: a page has no request here, or its response is an error.
    """
    app = create_app(scheduler, auth=allow_everyone(Role.ADMIN), read_only=False)
    with TestClient(app, headers={"accept": "text/html"}) as client:

        def times(url: str) -> list[float]:
            def read() -> None:
                response = client.get(url)
                if response.status_code != 200:
                    raise RuntimeError(f"GET {url}: {response.status_code}")

            return times_of(read)

        return {f"GET {url}": times(url) for url in [*all_pages(executions), *all_resources(executions)]}


def all_pages(executions: int) -> list[str]:
    """Return the requests of all pages, with the filters that matter."""
    asked: Mapping[str, list[dict[str, str]]] = {
        "/timeline": [{}, {"lanes": "job"}],
        "/jobs": [{}, {"contains": "999"}, {"contains": "nothing-of-this"}],
        "/job": [_JOB],
        "/triggers": [
            {},
            {"state": "ERROR"},
            {"state": "PAUSED"},
            {"group": "group-50"},
            {"calendar": CALENDAR},
            {"contains": "nothing-of-this"},
            {"order": "next_fire_time"},
        ],
        "/trigger": [_TRIGGER, {"name": "trigger-0", "group": "group-0"}],
        "/executions": [{}, {"state": "FAILED"}, {"node": "node-99"}],
        "/misfires": [{}, {"node": "node-99"}],
        "/calendar": [{"name": CALENDAR}],
        "/audit": [{}, {"action": "delete"}],
        "/search": [{"q": "trigger-4711"}, {"q": "nothing-of-this"}],
    }
    paths = [route.path for route in PAGES if isinstance(route, Route) and "GET" in (route.methods or ())]
    plain = [path for path in paths if "{" not in path]
    found = [_url(path, query) for path in plain for query in asked.get(path, [{}])]
    one = {"kind": "trigger", **_TRIGGER}
    many = {"of": "triggers", "scope": "all", "group": "group-50"}
    confirmed = [("pause", one), ("delete", one), ("reschedule", one), ("pause", many)]
    actions = [_url(f"/actions/{action}", query) for action, query in confirmed]
    return [*found, f"/executions/{executions // 2}", "/audit/1", *actions]


def all_resources(executions: int) -> list[str]:
    """Return a request of each resource of the JSON API."""
    asked: Mapping[str, dict[str, str]] = {
        "/job": _JOB,
        "/trigger": _TRIGGER,
        "/why": _TRIGGER,
        "/execution": {"fire_id": str(executions // 2)},
        "/incident": {"incident_id": "1"},
        "/calendar": {"name": CALENDAR},
        "/search": {"text": "trigger-4711"},
        "/audit-entry": {"action_id": "1"},
    }
    return [_url(f"/api/v1{read.path}", asked.get(read.path, {})) for read in READS]


def _url(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
