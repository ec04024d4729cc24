"""Assistants read and operate a scheduler by the Model Context Protocol, in the role that they were given."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.dashboard.api.reads import READS
from quartzpy.dashboard.mcp_server import call, tools_of
from quartzpy.errors import InvalidValueError, QuartzpyError
from quartzpy.operations import Actor, Operations, Role
from tests.facade import jobs

LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(postgres_dsn, name="assisted")
    scheduler.schedule_job(JobDetail(jobs.Recorded, "report"), SimpleTrigger("report", start_time=LATER))
    yield scheduler
    scheduler.shutdown()


def acting(scheduler: Scheduler, role: Role) -> Operations:
    return Operations(scheduler, actor=Actor("ada (assistant)", role), read_only=role is Role.VIEWER)


def test_a_real_client_lists_tools_and_calls_them(scheduler: Scheduler, postgres_dsn: str) -> None:
    async def session() -> tuple[list[str], str, Any, Any]:
        options = ["--url", postgres_dsn, "--name", "assisted", "--role", "operator"]
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "quartzpy", "mcp", *options])
        async with stdio_client(parameters) as (received, sent), ClientSession(received, sent) as client:
            await client.initialize()
            names = [tool.name for tool in (await client.list_tools()).tools]
            why = await client.call_tool("why", {"name": "report"})
            paused = await client.call_tool("pause", {"selection": {"job": {"name": "report"}}, "reason": "a test"})
            wrong = await client.call_tool("why", {"nam": "report"})
            return names, text_of(why), paused, wrong

    names, why, paused, wrong = anyio.run(session)
    assert {"overview", "jobs", "why", "pause"} <= set(names)
    assert "delete" not in names
    assert "2090" in why
    assert not paused.is_error
    assert wrong.is_error
    assert "nam: is not a parameter" in text_of(wrong)
    [entry] = scheduler_audit(scheduler)
    assert (entry.action, entry.reason) == ("pause", "a test")
    assert entry.actor.endswith("(assistant)")


def text_of(result: Any) -> str:
    [content] = result.content
    assert isinstance(content.text, str)
    return content.text


def scheduler_audit(scheduler: Scheduler) -> list[Any]:
    return list(Operations(scheduler).audit_log())


def test_the_tools_are_those_of_the_role(scheduler: Scheduler) -> None:
    names = {role: {tool.name for tool in tools_of(acting(scheduler, role))} for role in Role}
    assert len(names[Role.VIEWER]) == len(READS)
    assert names[Role.VIEWER] < names[Role.OPERATOR] < names[Role.ADMIN]
    for tool in tools_of(acting(scheduler, Role.ADMIN)):
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert "$ref" not in json.dumps(tool.input_schema)
        assert tool.description, tool.name


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_tool_above_the_role_is_refused_also_if_it_is_called(scheduler: Scheduler, role: Role) -> None:
    with pytest.raises(QuartzpyError):
        call(acting(scheduler, role), "delete", {"selection": {"job": {"name": "report"}}, "reason": "x"})
    assert scheduler.check_exists(JobDetail(jobs.Recorded, "report").key)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("reboot", {}, "is not a tool"),
        ("__class__", {}, "is not a tool"),
        ("jobs", {"limit": "many"}, "limit: must be a whole number"),
        ("why", {}, "name: is missing"),
        ("pause", {"selection": {"planet": 1}, "reason": "x"}, "selection: must be one of"),
        ("pause", {"selection": {"job": "report"}, "reason": "x"}, "must be an object"),
    ],
)
def test_wrong_arguments_are_told(scheduler: Scheduler, name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        call(acting(scheduler, Role.ADMIN), name, arguments)


@pytest.mark.parametrize(
    "read", [read for read in READS if not any(parameter.required for parameter in read.parameters)]
)
def test_each_read_answers(scheduler: Scheduler, read: Any) -> None:
    name = read.path.strip("/").replace("-", "_")
    json.dumps(call(acting(scheduler, Role.VIEWER), name, {}), allow_nan=False)
