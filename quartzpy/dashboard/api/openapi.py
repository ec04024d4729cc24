"""The OpenAPI description of the API, generated from its resources, the actions and the read models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from quartzpy.dashboard.api import bodies
from quartzpy.dashboard.api.accepted import AcceptedAction
from quartzpy.dashboard.api.problems import PROBLEM_SCHEMA, PROBLEM_TYPE
from quartzpy.dashboard.api.reads import READS, Read
from quartzpy.dashboard.api.schemas import Schemas
from quartzpy.operations import Actions, Operations
from quartzpy.operations.actions.table import ACTIONS

VERSION = "1"
"""The version of the API, which is part of its path. Members may be added to responses within a version."""


def document() -> dict[str, Any]:
    """Return the description of the API as JSON values."""
    schemas = Schemas()
    paths: dict[str, Any] = {read.path: {"get": _read(read, schemas)} for read in READS}
    paths |= {f"/actions/{action.replace('_', '-')}": {"post": _action(action, schemas)} for action in bodies.METHODS}
    components = {**schemas.components, **bodies.SCHEMAS, "Problem": PROBLEM_SCHEMA}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "quartzpy",
            "version": VERSION,
            "description": (
                "Reads and operates a scheduler. Instants are ISO 8601 in UTC, and spans are seconds. Lists are read"
                " page by page: the `next_cursor` of a page is the parameter `after` of the next one; null marks the"
                " last page. A page that searches a large table stops after the number of records in `examined`, with"
                " few items or none; its `next_cursor` continues the search. A request that changes something needs"
                " either an Authorization header with a bearer token, or the header X-CSRF-Token."
            ),
        },
        "servers": [{"url": "/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"basic": []}, {}],
    }


def _read(read: Read, schemas: Schemas) -> dict[str, Any]:
    return {
        "operationId": f"read_{read.method}",
        "summary": read.summary,
        "parameters": [
            {
                "name": one.name,
                "in": "query",
                "required": one.required,
                "description": one.description,
                "schema": {"type": "array", "items": dict(one.schema)} if one.many else dict(one.schema),
            }
            for one in read.parameters
        ],
        "responses": _responses(schemas.of(returned(Operations, read.method))),
    }


def _action(action: str, schemas: Schemas) -> dict[str, Any]:
    role = ACTIONS[action].role if action in ACTIONS else None
    body = bodies.schema_of(action)
    responses = _responses(schemas.of(returned(Actions, action)))
    if role is not None and "selection" in body["properties"]:
        responses["202"] = _accepted(schemas.of(AcceptedAction))
    summary = (getattr(Actions, action).__doc__ or "").split("\n")[0].removesuffix(".")
    return {
        "operationId": action,
        "summary": f"{summary}.",
        "description": f"Needs the role {role}." if role is not None else "Changes nothing.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": responses,
    }


def _responses(schema: Mapping[str, Any]) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": dict(schema)}}},
        "default": {"description": "The reason why there is none.", "content": {PROBLEM_TYPE: problem}},
    }


def _accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "description": "The action on many subjects is still going on.",
        "headers": {
            "Location": {
                "description": "The address of the action's entry in the audit log, which shows its progress.",
                "schema": {"type": "string"},
            }
        },
        "content": {"application/json": {"schema": dict(schema)}},
    }


def returned(of: type, method: str) -> Any:
    """Return the type that a method of a class returns."""
    return get_type_hints(getattr(of, method))["return"]
