"""JSON schemas of read models, from their type hints: the shape of what `operations.render.to_json` returns."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from quartzpy.keys import Key
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
            return {"anyOf": [self.of(one) for one in inner]}
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
            return {"type": "string", "enum": [str(one) for one in hint]}
        if isinstance(hint, type) and is_dataclass(hint):
            return self._model(hint)
        raise TypeError(f"no schema for {hint!r}")

    def _model(self, model: type) -> dict[str, Any]:
        name = model.__name__
        if name not in self.components:
            # A model that contains itself finds its name here.
            self.components[name] = {}
            hints = get_type_hints(model)
            shape = _object({one.name: self.of(hints[one.name]) for one in fields(model)})
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
