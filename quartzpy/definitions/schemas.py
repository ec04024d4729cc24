"""The JSON schemas of the documents of definitions, from the classes whose values they have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from datetime import datetime, time, timedelta
from enum import Enum
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from quartzpy.calendars.calendar import CALENDAR_KINDS
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.definitions.declarations import MAX_DEFINED
from quartzpy.definitions.forms import SCHEDULE, STORED_DATA
from quartzpy.definitions.plain import plain_value, text_of_time
from quartzpy.definitions.reader import RECORDS, trigger_words, words_of
from quartzpy.instants import accepted_members
from quartzpy.jobs.continuation import FOLLOWED, Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import ON
from quartzpy.keys import JobKey
from quartzpy.states import Missed
from quartzpy.triggers.trigger import Trigger, trigger_kinds

_KEY = {"$ref": "#/components/schemas/Key"}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_SPAN = "A length of time: a number of seconds, or a text such as 90s, 1h30m or 7d."
_DATA: dict[str, Any] = {
    "type": ["object", "null"],
    "description": (
        "Job data, as it is stored: JSON, in which an object with one key that begins with $ stands for a value that"
        ' JSON lacks, such as {"$datetime": "2026-12-24T18:00:00+00:00"}, {"$decimal": "1.50"} or {"$bytes": "aGk="}.'
        " [redacted] in the place of a secret keeps the stored value."
    ),
}
_PLAIN: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    timedelta: "string",
    datetime: "string",
    time: "string",
    type(None): "null",
}
_DEFAULTS_OF_API = {"durable": True}
_CHOICES: Mapping[str, Collection[str]] = {"outcomes": FOLLOWED, "missed": tuple(Missed)}
"""The words of values that are annotated as any text."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of the documents by their names."""
    return {
        "JobDocument": _job(),
        "TriggerDocument": {
            "description": "A trigger. `schedule` may be a text in the place of the words of a kind.",
            "anyOf": [*({"$ref": f"#/components/schemas/{_title(kind)}"} for kind in trigger_kinds()), _OF_TEXT],
        },
        **{_title(kind): _trigger(cls) for kind, cls in trigger_kinds().items()},
        "BatchDocument": _BATCH,
        "CalendarDocument": _CALENDAR,
        "FileDocument": _file(),
    }


def _title(kind: str) -> str:
    return f"{''.join(word.capitalize() for word in kind.split('_'))}TriggerDocument"


_COMMON: dict[str, Any] = {
    "name": {**_NAME, "description": "The name in the address; it may be left out."},
    "group": {**_NAME, "description": "The group in the address; it may be left out."},
}


def _job() -> dict[str, Any]:
    hints = get_type_hints(JobDetail)
    own = {
        field.name: _of(hints[field.name])
        for field in fields(JobDetail)
        if field.name not in ("job", "name", "group", "data")
    }
    for name, default in _DEFAULTS_OF_API.items():
        own[name] = {**own[name], "default": default}
    job_type = {**_NAME, "description": "A job type that a running node has published; see /job-types."}
    return {
        "description": "A job. What is left out has its default, whatever is stored.",
        "type": "object",
        "properties": {"type": job_type, **_COMMON, **own, "data": _DATA},
        "required": ["type"],
        "additionalProperties": False,
    }


_JOB_OF_TRIGGER = {**_KEY, "description": "The job; by default that of the same group and name."}


def _trigger(cls: type[Trigger]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    words = trigger_words(cls, is_stored=False) - {SCHEDULE, STORED_DATA, "name", "group", "data"}
    parts = {word for word in words if _has_triggers(hints[word])}
    own = {word: _of(hints[word]) for word in sorted(words - parts)}
    own["misfire"] = {"enum": [str(instruction) for instruction in cls.misfire_type]}
    schedule = {"type": "object", "description": "The schedule as it is stored, in the place of the words of the kind."}
    more: dict[str, Any] = {}
    if cls.kind == "cron":
        own["kind"] = {"const": "cron"}
        more = {"anyOf": [{"required": ["expression"]}, {"required": ["kind", SCHEDULE]}]}
    elif cls.kind == "simple":
        own["kind"] = {"const": "simple"}
        own["every"] = {"type": ["string", "number"], "description": f"The interval. {_SPAN}"}
        more = {"anyOf": [{"required": ["kind"]}, {"required": ["every"]}, {"required": ["interval"]}]}
    else:
        own["kind"] = {"const": cls.kind}
        more = {"required": ["kind"]}
    properties = {**_COMMON, "job": _JOB_OF_TRIGGER, **own, SCHEDULE: schedule, "data": _DATA}
    return {
        "description": (cls.__doc__ or "").split("\n")[0],
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **more,
    }


_OF_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {
        SCHEDULE: {
            "type": "string",
            "description": "A cron expression, an interval such as every 15m, or an instant, as `reschedule` takes it.",
        }
    },
    "required": [SCHEDULE],
}
_CALENDAR: dict[str, Any] = {
    "description": "A calendar: the rules of its kind, as the command `quartzpy export` writes them.",
    "type": "object",
    "properties": {
        "kind": {"type": "string", "examples": sorted(CALENDAR_KINDS)},
        "time_zone": {"type": "string"},
        "description": {"type": ["string", "null"]},
        "base": {"anyOf": [{"$ref": "#/components/schemas/CalendarDocument"}, {"type": "null"}]},
    },
    "required": ["kind"],
}
_BATCH: dict[str, Any] = {
    "description": "The triggers of a batch, each of which fires once.",
    "type": "object",
    "properties": {
        "on": {
            "enum": list(ON),
            "default": "end",
            "description": "Whether the job runs in any case, if all have succeeded, or if one has not.",
        },
        "triggers": {
            "type": "array",
            "items": {
                "description": "A TriggerDocument with its key. Without a schedule it fires at once.",
                "type": "object",
                "properties": {
                    "name": {**_NAME, "description": "By default that of the batch, with a number."},
                    "group": {**_NAME, "default": "DEFAULT"},
                    "job": _KEY,
                    "start_time": {"type": "string", "description": "The instant of the fire, with an offset."},
                    "data": _DATA,
                },
                "required": ["job"],
            },
            "minItems": 1,
            "maxItems": MAX_DEFINED,
        },
    },
    "required": ["triggers"],
    "additionalProperties": False,
}


def _file() -> dict[str, Any]:
    return {
        "description": "Jobs with their triggers, calendars and maintenance windows, in the form of a declared file.",
        "type": "object",
        "properties": {
            "job": {"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "object"}]},
            "calendar": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/CalendarDocument"}},
            "window": {"type": "object", "additionalProperties": _record(MaintenanceWindow)},
        },
        "minProperties": 1,
        "additionalProperties": False,
    }


def _has_triggers(hint: Any) -> bool:
    return any(part is Trigger or _has_triggers(part) for part in get_args(hint)) or hint is Trigger


@cache
def _of(hint: Any) -> dict[str, Any]:
    """Return the schema of the JSON from which the values of a type are made."""
    accepted = accepted_members(hint)
    # The name of a job stands for its key.
    members = [_member(member) for member in accepted if member is not str or JobKey not in accepted]
    names = {name for member in members for name in _names(member)}
    enums = [member["enum"] for member in members if "enum" in member]
    others = [member for member in members if "enum" not in member and not set(member) <= {"type", "description"}]
    if enums:
        values = sorted({value for enum in enums for value in enum})
        others += [{"type": name} for name in sorted(names - {"string", "null"})]
        of_words = {"enum": [*values, None] if "null" in names else values}
        return {"anyOf": [of_words, *others]} if others else of_words
    if others:
        plain = sorted({name for member in members if member not in others for name in _names(member)})
        others += [{"type": plain if len(plain) > 1 else plain[0]}] if plain else []
        return others[0] if len(others) == 1 else {"anyOf": others}
    described = {name: value for member in members for name, value in member.items() if name == "description"}
    return {"type": sorted(names) if len(names) > 1 else min(names), **described}


def _names(member: Mapping[str, Any]) -> list[str]:
    name = member.get("type", [])
    return [name] if isinstance(name, str) else list(name)


def _member(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": [str(value) for value in get_args(hint)]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        # A base class of enums has no members; the literals beside it name the words.
        return {"type": "string", "enum": [str(member) for member in hint]} if len(hint) else {"type": "string"}
    if hint is timedelta:
        return {"type": "string", "description": _SPAN}
    if hint is datetime:
        return {"type": "string", "description": "An instant with an offset, such as 2026-12-24T18:00:00+01:00."}
    if hint is time:
        return {"type": "string", "description": "A time of day, such as 08:30."}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint in RECORDS:
        return _record(hint)
    if hint is JobKey:
        return _NAME
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, Collection):
        return {"type": "array", "items": _items(get_args(hint)[0])}
    raise TypeError(f"no schema for {hint!r}")


def _items(hint: Any) -> dict[str, Any]:
    # Classes, such as those of errors that are retried, are given by their names.
    parts = dict.fromkeys(str if get_origin(part) is type else part for part in accepted_members(hint))
    if Continuation in parts:
        return {"anyOf": [_NAME, _record(Continuation)]}
    if JobKey in parts:
        return {"anyOf": [_NAME, _object({"job": _NAME, "group": _NAME}, ["job"])]}
    return _of(next(iter(parts))) if len(parts) == 1 else {"anyOf": [_of(part) for part in parts]}


def _object(properties: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), **needed, "additionalProperties": False}


def _record(cls: Any) -> dict[str, Any]:
    """Return the schema of a table from which `reader` makes a record."""
    hints = {**get_type_hints(cls), "group": str}
    properties = {word: _of(hints[word]) for word in sorted(words_of(cls) - {STORED_DATA})}
    for word, words in _CHOICES.items():
        if word in properties:
            of_word = {"type": "string", "enum": [str(choice) for choice in words]}
            properties[word] = {"type": "array", "items": of_word, "minItems": 1} if word == "outcomes" else of_word
    if "data" in properties:
        properties["data"] = _DATA
    for own in fields(cls):
        default = plain_value(own.default)
        if own.name in properties and default is not MISSING and default is not None and default != []:
            properties[own.name] = {**properties[own.name], "default": text_of_time(default)}
    needed = [own.name for own in fields(cls) if own.default is MISSING and own.name in properties]
    return _object(properties, needed)
