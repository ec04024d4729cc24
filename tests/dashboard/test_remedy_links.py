"""The remedies of incidents on the overview: each is a link to a form that does what it says."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard.links import Links
from quartzpy.keys import TriggerKey
from quartzpy.operations import Operations
from quartzpy.operations.incidents.incident import Remedy
from quartzpy.triggers.simple import SimpleTrigger
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.scene import HOSTILE, Report
from tests.database import execute

KEYS = [TriggerKey(name, "held") for name in HOSTILE]


def test_several_triggers_are_resumed_by_the_remedy(
    open_page: Callable[..., TestClient], scheduler: Scheduler, postgres_dsn: str
) -> None:
    client = open_page(auth=THIS_USER, read_only=False)
    earlier = datetime.now(UTC) - timedelta(seconds=30)
    triggers = [
        SimpleTrigger(key.name, key.group, start_time=earlier, interval="1h", repeat_count=None) for key in KEYS
    ]
    scheduler.schedule_job(Report, triggers[:5], name="held")
    scheduler.schedule_job(Report, triggers[5:], name="also-held")
    Operations(scheduler).actions.pause(KEYS, reason="as one")
    # A pause that has just been made is meant.
    execute(postgres_dsn, "UPDATE qrtz_triggers SET paused_at = paused_at - interval '2 hours' RETURNING trigger_name")
    found = re.search(r'href="([^"]+)"[^>]*>Resume these (\d+)<', client.get("/").text)
    assert found is not None
    url = html.unescape(found[1])
    form = client.get(url)
    assert form.status_code == 200
    assert f"Resume {found[2]} triggers" in form.text
    token = re.search(r'name="csrf_token" value="([^"]+)"', form.text)
    assert token is not None
    answer = client.post(url, data={"csrf_token": token[1], "confirmed": "yes"}, follow_redirects=False)
    assert answer.status_code == 303
    assert {scheduler.trigger_record(key).state for key in KEYS} == {"WAITING"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("remedy", "fields"),
    [
        (Remedy("cancel", {"selection": 7}, "cancel"), [("fire_id", "7")]),
        (
            Remedy("run_again", {"selection": [7, 8]}, "again"),
            [("of", "executions"), ("selected", "7"), ("selected", "8")],
        ),
        (
            Remedy("reset", {"selection": TriggerKey("a&b", "c")}, "reset"),
            [("kind", "trigger"), ("group", "c"), ("name", "a&b")],
        ),
        (Remedy("resume_node", {"node": "n 1"}, "resume"), [("node", "n 1")]),
    ],
    ids=lambda one: one.action if isinstance(one, Remedy) else "",
)
def test_each_form_of_arguments_becomes_fields_that_the_action_reads(
    remedy: Remedy, fields: list[tuple[str, str]]
) -> None:
    url = urlsplit(Links("/jobs-page").action(remedy.action, **remedy.arguments))
    assert url.path == f"/jobs-page/actions/{remedy.action}"
    assert parse_qsl(url.query) == fields
