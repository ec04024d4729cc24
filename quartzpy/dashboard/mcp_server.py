"""The operations as tools of the Model Context Protocol, for assistants: the reads and actions of the JSON API.

It needs the extra `mcp`. Each tool derives from the resource of the API with its name, with the same parameters, words
of errors, roles and entries in the audit log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from quartzpy.dashboard.api import bodies
from quartzpy.dashboard.api.reads import READS, Read, values_of
from quartzpy.errors import InvalidValueError, QuartzpyError
from quartzpy.operations import Operations
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.render import to_json
from quartzpy.store.node_metadata import installed_release

_INSTRUCTIONS = (
    "These tools read and operate one quartzpy scheduler: jobs, triggers, executions, nodes. Begin with `overview` or"
    " `incidents`; `why` says why a trigger has not fired. Actions need a reason, and are recorded."
)
MAX_CHARACTERS = 200_000
"""The largest answer; a longer one asks for a smaller `limit`."""


def _name(read: Read) -> str:
    return read.path.strip("/").replace("-", "_")


_READS = {_name(read): read for read in READS}


def tools_of(operations: Operations) -> list[types.Tool]:
    """Return the tools for the actor of these operations: all reads, and the actions that its role permits."""
    reads = [
        types.Tool(
            name=name,
            description=read.summary,
            input_schema={
                "type": "object",
                "properties": {
                    each.name: {"description": each.description, **_schema(each)} for each in read.parameters
                },
                "required": [each.name for each in read.parameters if each.required],
                "additionalProperties": False,
            },
            annotations=types.ToolAnnotations(read_only_hint=True),
        )
        for name, read in _READS.items()
    ]
    if operations.read_only:
        return reads
    permitted = [action for action in ACTIONS.values() if operations.actor.role.includes(action.role)]
    return reads + [
        types.Tool(
            name=action.name,
            description=action.help or next(iter(action.subjects.values()), "") or action.question,
            input_schema=_inlined(bodies.schema_of(action.name)),
            annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
        )
        for action in permitted
    ]


def _schema(parameter: Any) -> Mapping[str, Any]:
    return {"type": "array", "items": parameter.schema} if parameter.many else parameter.schema


def _inlined(schema: Any) -> Any:
    """Return a schema without references to the schemas of the API."""
    if isinstance(schema, list):
        return [_inlined(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(bodies.SCHEMAS[schema["$ref"].rpartition("/")[2]])
    return {name: _inlined(value) for name, value in schema.items()}


def call(operations: Operations, name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the answer of a tool, as JSON has it.

    Raises:
        QuartzpyError: an argument is wrong, the role does not permit it, or the database cannot be used.
    """
    if name in _READS:
        read = _READS[name]
        pairs = [
            (each, _text(item))
            for each, value in arguments.items()
            for item in (value if isinstance(value, list) else [value])
            if item is not None
        ]
        return to_json(read.answer(operations, values_of(read.parameters, pairs, operations)))
    if name in ACTIONS:
        values = bodies.arguments_of(name, json.dumps(dict(arguments)).encode(), operations.now)
        return to_json(getattr(operations.actions, name)(**values))
    raise InvalidValueError(f"{name}: is not a tool")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def server_of(operations: Operations) -> Server[Any]:
    """Return the server of these operations."""

    async def list_tools(context: object, parameters: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools_of(operations))

    async def call_tool(context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            # Reads and actions block.
            answer = await to_thread.run_sync(call, operations, parameters.name, parameters.arguments or {})
        except QuartzpyError as error:
            return _result(str(error), is_error=True)
        text = json.dumps(answer, allow_nan=False)
        if len(text) > MAX_CHARACTERS:
            return _result(f"the answer has {len(text):,} characters; ask with a smaller limit", is_error=True)
        return _result(text)

    return Server(
        "quartzpy",
        version=installed_release(),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


async def serve_standard_streams(operations: Operations) -> None:
    """Serve the client at standard input and output until it ends."""
    server = server_of(operations)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
