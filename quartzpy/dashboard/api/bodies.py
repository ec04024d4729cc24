"""The bodies of actions: JSON objects whose members are the arguments of a method of `Operations.actions`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from quartzpy.dashboard.api.definitions import no_constant, without_repetition
from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.operations import Actions, Selection
from quartzpy.operations.actions.inputs import Input, Instant
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.selection import Subject
from quartzpy.scheduler.typed_text import FUTURE, OFFSET_FORMS, PAST, read_group, read_instant
from quartzpy.store.filters import Filter
from quartzpy.texts import quoted

MAX_SELECTED = 10_000
"""The largest number of keys of one request."""
MAX_BYTES = 2_000_000
"""The largest body."""
_FILTERED = {"jobs": Selection.jobs, "triggers": Selection.triggers, "executions": Selection.executions}
_FILTERS = {spec.name: {declared.name: declared for declared in spec.filters} for spec in (JOBS, TRIGGERS, EXECUTIONS)}
_GROUPS = {"trigger_group": Selection.trigger_group, "job_group": Selection.job_group}

_PREVIEWS = {
    "preview_schedule": "reschedule",
    "count": "delete",
    "backfill_times": "backfill",
    "preview_calendar": "refresh_calendar",
}
"""The methods of `Operations.actions` that change nothing, and the actions whose subjects and inputs they take."""


def methods() -> tuple[str, ...]:
    """Return the methods of `Operations.actions` that are called over HTTP."""
    return (*ACTIONS, *_PREVIEWS)


_KEY: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "group": {"type": "string", "default": "DEFAULT"}},
    "required": ["name"],
    "additionalProperties": False,
}
_FIRE_ID = {"type": "integer", "minimum": 0}
_SELECTION: dict[str, Any] = {
    "description": (
        "What the action applies to. `job`, `trigger` and `execution` are one; `jobs`, `triggers` and `executions` are"
        " several keys, or an object with the filters of the list of that name; `trigger_group` and `job_group` are"
        " groups with what is stored in them later; `everything` is true."
    ),
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "properties": {
        "job": _KEY,
        "trigger": _KEY,
        "execution": _FIRE_ID,
        "jobs": {"oneOf": [{"type": "array", "items": _KEY, "minItems": 1}, {"type": "object"}]},
        "triggers": {"oneOf": [{"type": "array", "items": _KEY, "minItems": 1}, {"type": "object"}]},
        "executions": {"oneOf": [{"type": "array", "items": _FIRE_ID, "minItems": 1}, {"type": "object"}]},
        "trigger_group": {"type": "string", "minLength": 1},
        "job_group": {"type": "string", "minLength": 1},
        "everything": {"const": True},
    },
    "additionalProperties": False,
}
_SUBJECTS: Mapping[str, Mapping[str, Any]] = {
    "selection": {"$ref": "#/components/schemas/Selection"},
    "job": {"$ref": "#/components/schemas/Key"},
    "trigger": {"$ref": "#/components/schemas/Key"},
    "node": {"type": "string", "minLength": 1},
    "incident": {"type": "integer", "minimum": 1},
    "limit": {"type": "string", "minLength": 1},
    "window": {"type": "string", "minLength": 1},
    "calendar": {"type": "string", "minLength": 1},
}
_REASON = {"type": "string", "description": "A sentence for the audit log."}
SCHEMAS = {"Key": _KEY, "Selection": _SELECTION}


def schema_of(method: str) -> dict[str, Any]:
    """Return the schema of the body of an action, or of another method of `Operations.actions`."""
    _, *parameters = inspect.signature(getattr(Actions, method)).parameters.values()
    schemas = {**_SUBJECTS, **{name: item.schema for name, item in _inputs_of(method).items()}, "reason": _REASON}
    return {
        "type": "object",
        "properties": {parameter.name: schemas[parameter.name] for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty],
        "additionalProperties": False,
    }


def _inputs_of(method: str) -> dict[str, Input]:
    return {item.name: item for item in ACTIONS[_PREVIEWS.get(method, method)].inputs}


def arguments_of(action: str, body: bytes, now: Callable[[], datetime]) -> dict[str, Any]:
    """Return the arguments of an action from the body of a request. Spans in place of instants count from `now`.

    Raises:
        InvalidValueError: the body is not a JSON object, or a member is unknown, missing or wrong.
    """
    if len(body) > MAX_BYTES:
        raise InvalidValueError(f"body: must have at most {MAX_BYTES:,} bytes (got {len(body):,})")
    try:
        members = json.loads(body or b"{}", object_pairs_hook=without_repetition, parse_constant=no_constant)
    except InvalidValueError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"body: must be JSON ({error})") from None
    if not isinstance(members, dict):
        raise InvalidValueError(f"body: must be a JSON object (got {quoted(members)})")
    schema = schema_of(action)
    for name in members:
        if name not in schema["properties"]:
            names = ", ".join(schema["properties"])
            raise InvalidValueError(f"{name}: is not an argument of {action}; the arguments are {names}")
    for name in schema["required"]:
        if name not in members:
            raise InvalidValueError(f"{name}: is missing; {action} needs {', '.join(schema['required'])}")
    instants = {name: item for name, item in _inputs_of(action).items() if isinstance(item, Instant)}
    values: dict[str, Any] = {}
    for name, value in members.items():
        if name == "selection":
            values[name] = _selection(name, value, now)
        elif name in instants:
            values[name] = _instant(name, value, now, instants[name].direction, instants[name].is_required)
        else:
            values[name] = _READERS.get(name, _as_it_is)(name, value)
    return values


def _as_it_is(name: str, value: Any) -> Any:
    # The action itself checks a value that JSON can express.
    return value


def _job(name: str, value: Any) -> JobKey:
    return JobKey(*_name_and_group(name, value))


def _trigger(name: str, value: Any) -> TriggerKey:
    return TriggerKey(*_name_and_group(name, value))


def _name_and_group(name: str, value: Any) -> tuple[str, str]:
    if not isinstance(value, dict) or "name" not in value or value.keys() - {"name", "group"}:
        raise InvalidValueError(f'{name}: must be an object {{"name": ..., "group": ...}} (got {quoted(value)})')
    return value["name"], value.get("group", "DEFAULT")


def _fire_id(name: str, value: Any) -> int:
    if type(value) is not int:
        raise InvalidValueError(f"{name}: must be the fire id of an execution, a whole number (got {quoted(value)})")
    return value


def _selection(name: str, value: Any, now: Callable[[], datetime]) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidValueError(
            f"{name}: must be an object with one member, which is one of {', '.join(_SELECTION['properties'])}"
            f" (got {quoted(value)})"
        )
    [(kind, subjects)] = value.items()
    if kind in _KEY_READERS:
        return _KEY_READERS[kind](kind, subjects)
    if kind in _FILTERED and isinstance(subjects, dict):
        return _FILTERED[kind](
            **{member: _filter(_FILTERS[kind].get(member), member, text, now) for member, text in subjects.items()}
        )
    if kind in _FILTERED:
        if not isinstance(subjects, list) or len(subjects) > MAX_SELECTED:
            raise InvalidValueError(
                f"{kind}: must be an object with filters, or a list of at most {MAX_SELECTED:,} keys"
                f" (got {quoted(subjects)})"
            )
        read = _KEY_READERS[kind.removesuffix("s")]
        return [read(kind, key) for key in subjects]
    if kind in _GROUPS:
        return _GROUPS[kind](_matcher(kind, subjects))
    if kind == Subject.EVERYTHING and subjects is True:
        return Selection.everything()
    raise InvalidValueError(f"{name}: must be one of {', '.join(_SELECTION['properties'])} (got {quoted(value)})")


def _filter(declared: Filter | None, name: str, value: Any, now: Callable[[], datetime]) -> Any:
    kind = None if declared is None else declared.kind
    if kind is JobKey:
        return _job(name, value)
    if kind is TriggerKey:
        return _trigger(name, value)
    if kind is GroupMatcher:
        return _matcher(name, value)
    if declared is not None and kind is datetime:
        return _instant(name, value, now, FUTURE if declared.is_ahead else PAST)
    # The selection refuses a filter that it does not have.
    return value


def _matcher(name: str, value: Any) -> GroupMatcher:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"{name}: must be a group, with * in front and at the end only (got {quoted(value)})")
    return read_group(value, name)


def _instant(
    name: str, value: Any, now: Callable[[], datetime], direction: int, is_required: bool = True
) -> datetime | None:
    if value is None and not is_required:
        return None
    if not isinstance(value, str):
        raise InvalidValueError(f"{name}: must be {OFFSET_FORMS} (got {quoted(value)})")
    return read_instant(value, name, now, None, direction=direction)


def _node(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"{name}: must be the instance id of a node (got {quoted(value)})")
    return value


def _optional_trigger(name: str, value: Any) -> TriggerKey | None:
    return None if value is None else _trigger(name, value)


_KEY_READERS: Mapping[str, Callable[[str, Any], Any]] = {"job": _job, "trigger": _trigger, "execution": _fire_id}
_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "job": _job,
    "trigger": _optional_trigger,
    "node": _node,
}
