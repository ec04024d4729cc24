"""The OpenAPI description of the API, from its resources, the actions and the types of the read models."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from quartzpy.dashboard.api import bodies
from quartzpy.dashboard.api.definitions import (
    APPLY,
    APPLY_PARAMETERS,
    BATCH_PARTS,
    BATCHES,
    CHANGE_PARAMETERS,
    JSON_TYPE,
    RESOURCES,
    YAML_TYPES,
    Resource,
)
from quartzpy.dashboard.api.reads import FLEET_READS, READS, Parameter, Read
from quartzpy.dashboard.api.responses import PROBLEM_SCHEMA, PROBLEM_TYPE, AcceptedAction
from quartzpy.definitions.schemas import schemas as schemas_of_documents
from quartzpy.keys import Key
from quartzpy.operations import Actions
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.definition_records import AppliedFile, BatchResult, DefinitionResult
from quartzpy.scheduler.querying import Page

_PLAIN: Mapping[Any, dict[str, Any]] = {
    Any: {},
    object: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    timedelta: {"type": "number", "description": "Seconds."},
}
_EXAMINED = "The number of records after which this page stopped its search; null if it is full or the last one."
STORED_KEY: dict[str, Any] = {
    "type": "object",
    "properties": {"group": {"type": "string"}, "name": {"type": "string"}},
    "required": ["group", "name"],
    "additionalProperties": False,
}


class Schemas:
    """The schemas of types, and the components to which they refer."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, Any]] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of the JSON that stands for values of a type."""
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(member) for member in inner]}
        if origin is Page:
            return _object(
                {
                    "items": {"type": "array", "items": self.of(inner[0])},
                    "next_cursor": {"type": ["string", "null"]},
                    "examined": {"type": ["integer", "null"], "description": _EXAMINED},
                }
            )
        if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
            return {"type": "array", "items": self.of(inner[0])}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if isinstance(origin, type) and issubclass(origin, Sequence | Collection):
            return {"type": "array", "items": self.of(inner[0])}
        if isinstance(hint, type) and issubclass(hint, Key):
            self.components.setdefault("StoredKey", STORED_KEY)
            return _reference("StoredKey")
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"type": "string", "enum": [str(member) for member in hint]}
        if isinstance(hint, type) and is_dataclass(hint):
            return self._model(hint)
        raise TypeError(f"no schema for {hint!r}")

    def _model(self, model: type) -> dict[str, Any]:
        name = model.__name__
        if name not in self.components:
            # A model that contains itself finds its name here.
            self.components[name] = {}
            hints = get_type_hints(model)
            shape = _object({field.name: self.of(hints[field.name]) for field in fields(model)})
            self.components[name] = {"description": (model.__doc__ or "").split("\n")[0], **shape}
        return _reference(name)


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


VERSION = "1"
"""The version of the API, which is part of its path. Members may be added to responses within a version."""


def document() -> dict[str, Any]:
    """Return the description of the API as JSON values."""
    schemas = Schemas()
    paths: dict[str, Any] = {read.path: {"get": _read(read, schemas)} for read in (*READS, *FLEET_READS)}
    paths |= {f"/actions/{action.replace('_', '-')}": {"post": _action(action, schemas)} for action in bodies.methods()}
    paths |= {resource.path: _definition(resource, schemas) for resource in RESOURCES}
    batch = "/".join(f"{{{part}}}" for part in BATCH_PARTS)
    paths |= {f"/{BATCHES}/{batch}": {"put": _batch(schemas)}}
    paths |= {APPLY: {"post": _apply(schemas)}}
    components = {
        **schemas.components,
        **bodies.SCHEMAS,
        **schemas_of_documents(),
        "Problem": PROBLEM_SCHEMA,
    }
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


_ETAG = {"ETag": {"description": "The tag of the definition.", "schema": {"type": "string"}}}
_CONDITIONS = (
    ("If-Match", "Tags of the definition that has to be stored, or * for any. Else the status is 412."),
    ("If-None-Match", "Tags of definitions that must not be stored, or * for any. Else the status is 412, or 304."),
)
_DEFINER = "Needs the role admin, or a grant that covers it."


def _definition(resource: Resource, schemas: Schemas) -> dict[str, Any]:
    """Return the operations on the definitions of one kind."""
    kind = resource.kind
    document = {"schema": _reference(f"{kind.capitalize()}Document")}
    result = {"application/json": {"schema": schemas.of(DefinitionResult)}}
    places = [_part(part) for part in resource.parts]
    places += [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in _CONDITIONS
    ]
    changes = [*places, *map(_parameter, CHANGE_PARAMETERS)]
    same = "A request without an effect is answered with the outcome `unchanged`, and writes nothing."
    return {
        "get": {
            "operationId": f"read_{kind}_definition",
            "summary": f"The definition of a {kind}, which `PUT` takes. Secrets in job data are hidden.",
            "parameters": places,
            "responses": {
                "200": {"description": "The definition.", "headers": _ETAG, "content": {"application/json": document}},
                "304": {"description": "The client has this definition already.", "headers": _ETAG},
                "default": _problem(),
            },
        },
        "put": {
            "operationId": f"put_{kind}",
            "summary": f"Stores a {kind} as the document says; what it leaves out has its default.",
            "description": f"{_DEFINER} {same}",
            "parameters": changes,
            "requestBody": {"required": True, "content": {"application/json": document}},
            "responses": {
                "200": {"description": "It was changed, or it was so already.", "headers": _ETAG, "content": result},
                "201": {"description": "It is new.", "headers": _ETAG, "content": result},
                "default": _problem(),
            },
        },
        "delete": {
            "operationId": f"delete_{kind}",
            "summary": f"Deletes a {kind}.",
            "description": _DEFINER,
            "parameters": changes,
            "responses": {
                "200": {"description": "Only with dry_run: what would be deleted.", "content": result},
                "204": {"description": "It is deleted."},
                "default": _problem(),
            },
        },
    }


def _part(part: str) -> dict[str, Any]:
    return {
        "name": part,
        "in": "path",
        "required": True,
        "description": f"The {part}, with / written as %2F.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    }


def _batch(schemas: Schemas) -> dict[str, Any]:
    result = {"application/json": {"schema": schemas.of(BatchResult)}}
    body = {"application/json": {"schema": _reference("BatchDocument")}}
    return {
        "operationId": "put_batch",
        "summary": "Stores the triggers of a batch, all or none; the job in the address runs once when all have ended.",
        "description": f"{_DEFINER} A batch that is stored already with as many triggers is not stored again.",
        "parameters": [*map(_part, BATCH_PARTS), *map(_parameter, CHANGE_PARAMETERS)],
        "requestBody": {"required": True, "content": body},
        "responses": {
            "200": {
                "description": "It was stored already, or only with dry_run: it would be stored.",
                "content": result,
            },
            "201": {"description": "It is new.", "content": result},
            "default": _problem(),
        },
    }


def _apply(schemas: Schemas) -> dict[str, Any]:
    file = {"schema": _reference("FileDocument")}
    return {
        "operationId": "apply",
        "summary": "Stores the jobs, triggers, calendars and maintenance windows of a declared file, all or none.",
        "description": f"{_DEFINER} Job types are those that running nodes have published.",
        "parameters": [_parameter(parameter) for parameter in APPLY_PARAMETERS],
        "requestBody": {"required": True, "content": {JSON_TYPE: file, YAML_TYPES[0]: file}},
        "responses": _responses(schemas.of(AppliedFile)),
    }


def _problem() -> dict[str, Any]:
    return {
        "description": "The reason why there is no answer.",
        "content": {PROBLEM_TYPE: {"schema": _reference("Problem")}},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    many = {"type": "array", "items": dict(parameter.schema)}
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.description,
        "schema": many if parameter.many else dict(parameter.schema),
    }


def _read(read: Read, schemas: Schemas) -> dict[str, Any]:
    return {
        "operationId": f"read_{read.path[1:].replace('-', '_')}",
        "summary": read.summary,
        "parameters": [_parameter(parameter) for parameter in read.parameters],
        "responses": _responses(schemas.of(returned(read.of, read.method))),
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
