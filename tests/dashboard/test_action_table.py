"""Every action of the table has its faces: a method, a command, a form and a JSON body, which take the same inputs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime

import click
import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.cli.main import cli
from quartzpy.dashboard.api import bodies, openapi
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Actions, Operations
from quartzpy.operations.actions.action import Action
from quartzpy.operations.actions.inputs import Flag
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Subject
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.test_actions import url_of
from tests.database import execute

LINKS = {
    Subject.JOB: {"key": JobKey("nightly", "billing")},
    Subject.TRIGGER: {"key": TriggerKey("at-two", "billing")},
    Subject.EXECUTION: {"fire_id": 1},
    Subject.NODE: {"node": "n"},
    Subject.INCIDENT: {"incident": 1},
    Subject.WINDOW: {"window": "w"},
    Subject.CALENDAR: {"calendar": "c"},
    Subject.LIMIT: {"limit": "l"},
    Subject.TRIGGER_GROUP: {"kind": "trigger_group", "group": "billing"},
    Subject.JOB_GROUP: {"kind": "job_group", "group": "billing"},
    Subject.EVERYTHING: {"kind": "everything"},
}
AN_INCIDENT = """
INSERT INTO qrtz_incidents (id, sched_name, kind, subject, identity, severity, cause, began_as, what, why, opened_at,
    confirmed_at)
VALUES (1, 'scene', 'dead-node', 'n', 'n', 'error', '', 'Node n is dead.', 'Node n is dead.', '[]', now(), now())
"""
each_action = pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name)


def commands_of(action: Action) -> list[click.Command]:
    first, _, verb = action.command.partition(" ")
    command = cli.commands[first]
    if verb:
        assert isinstance(command, click.Group)
        command = command.commands[verb]
    if not isinstance(command, click.Group):
        return [command]
    assert sorted(command.commands) == sorted(kind.replace(" ", "-") for kind in action.commanded)
    return list(command.commands.values())


@each_action
def test_the_method_has_exactly_the_subjects_the_inputs_and_a_reason(action: Action) -> None:
    _, *parameters = inspect.signature(getattr(Actions, action.name)).parameters.values()
    assert [item.name for item in parameters] == [action.parameter, *(item.name for item in action.inputs), "reason"]
    for parameter, item in zip(parameters[1:-1], action.inputs, strict=True):
        assert (parameter.default is inspect.Parameter.empty) is item.is_required
        assert item.is_required or parameter.default == item.default


@pytest.mark.parametrize(
    "action", [action for action in ACTIONS.values() if action.commanded], ids=lambda action: action.name
)
def test_each_of_its_commands_has_the_inputs_and_the_common_options(action: Action) -> None:
    commands = commands_of(action)
    assert len(commands) == (1 if Subject.EVERYTHING in action.commanded else len(action.commanded)) > 0
    for command in commands:
        names = {parameter.name for parameter in command.params}
        assert names >= {item.name for item in action.inputs} | {"reason", "dry_run", "confirmed", "json_output"}
        assert command.help
        assert all(item.help for item in command.params if isinstance(item, click.Option))


@each_action
def test_the_form_has_the_inputs_for_each_kind_of_subject(
    open_page: Callable[..., TestClient], postgres_dsn: str, action: Action
) -> None:
    client = open_page(auth=THIS_USER, read_only=False)
    if Subject.INCIDENT in action.subjects:
        execute(postgres_dsn, AN_INCIDENT)
    for kind in action.subjects:
        answer = client.get(url_of(action.name, **LINKS[kind]))
        assert answer.status_code == 200, answer.text[-500:]
        [form] = re.findall(r'<form class="panel action".*?</form>', answer.text, re.DOTALL)
        common = {"csrf_token", "confirmed", "next", "reason", "expected"}
        assert set(re.findall(r'\bname="([a-z_]+)"', form)) - common == {item.field for item in action.inputs}
        assert all(item.label in form for item in action.inputs)
        assert f">{action.button}</button>" in form


@each_action
def test_the_json_body_has_the_inputs_by_their_schemas(action: Action) -> None:
    body = bodies.schema_of(action.name)
    assert list(body["properties"]) == [action.parameter, *(item.name for item in action.inputs), "reason"]
    assert body["required"] == [action.parameter, *(item.name for item in action.inputs if item.is_required)]
    for item in action.inputs:
        assert body["properties"][item.name] == item.schema
    described = openapi.document()["paths"][f"/actions/{action.name.replace('_', '-')}"]["post"]
    assert described["requestBody"]["content"]["application/json"]["schema"] == body
    assert described["description"] == f"Needs the role {action.role}."


@each_action
def test_what_undoes_it_is_an_action_on_the_same_kinds_of_subjects(action: Action) -> None:
    if action.undone_by is not None:
        other = ACTIONS[action.undone_by]
        assert (other.subjects.keys(), other.is_single) == (action.subjects.keys(), action.is_single)


def test_every_public_method_that_acts_is_in_the_table() -> None:
    others = {"apply", "permits", "check_permitted", "reporting", "data_fields", "past_fires"}
    methods = {name for name, _ in inspect.getmembers(Actions, inspect.isfunction) if not name.startswith("_")}
    assert methods - others == set(bodies.methods())


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ("trigger", "reason"),
        ("pause", "reason"),
        ("skip_next", "reason"),
        ("acknowledge", "reason"),
        ("delete", "reason"),
        ("backfill", "start"),
        ("reschedule", "schedule"),
        ("set_limit", "value"),
        ("set_window", "cron"),
    ],
)
def test_the_form_begins_with_what_cannot_be_empty(action: str, field: str) -> None:
    assert ACTIONS[action].focus == field


def test_a_box_that_is_not_ticked_is_false() -> None:
    assert Flag("f", "help", "label").read("", "UTC", lambda: datetime.now(UTC)) is False


def test_the_entry_of_an_action_leads_to_the_form_that_undoes_it(
    open_page: Callable[..., TestClient], scheduler: Scheduler
) -> None:
    client, actions = open_page(auth=THIS_USER, read_only=False), Operations(scheduler).actions
    key = TriggerKey("at-two", "billing")
    result = actions.pause(key)
    entry = client.get(f"/audit/{result.action_id}").text
    [link] = re.findall(r'<dt>Undone by</dt><dd><a [^>]*href="([^"]+)"[^>]*>Resume</a>', entry)
    assert "Resume <bdi>trigger billing.at-two</bdi>" in client.get(link.replace("&amp;", "&")).text
    several = actions.disable([JobKey("nightly", "billing"), JobKey("nothing", "billing")])
    assert "<dt>Undone by</dt><dd>enable</dd>" in client.get(f"/audit/{several.action_id}").text
    viewer = open_page(read_only=True)
    assert "<dt>Undone by</dt><dd>resume</dd>" in viewer.get(f"/audit/{result.action_id}").text
