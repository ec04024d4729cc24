"""The resources that can be read, each a method of `Operations`, and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations
from quartzpy.operations.fleet import Fleet
from quartzpy.operations.lists.fleet import FLEET_LISTS
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.operations.lists.table import LISTS
from quartzpy.scheduler.typed_text import read_filter, read_instant
from quartzpy.store.filters import Filter
from quartzpy.texts import quoted

MAX_LIMIT = 1_000
"""The largest page of the API."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a read."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read: Callable[[str, str, Operations], Any] = lambda name, text, operations: text
    """Converts the text of the parameter, given with its name for the message of an error."""
    many: bool = False
    """True if the parameter may be repeated."""
    required: bool = False


def _whole(name: str, text: str, operations: Operations) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 19:
        return int(text)
    raise InvalidValueError(f"{name}: must be a whole number (got {quoted(text)})")


def boolean(name: str, text: str, operations: Operations) -> bool:
    """Return whether a parameter is true. Raises InvalidValueError if it is neither true nor false."""
    if text in ("true", "false"):
        return text == "true"
    raise InvalidValueError(f"{name}: must be true or false (got {quoted(text)})")


def _past(name: str, text: str, operations: Operations) -> datetime:
    return read_instant(text, name, operations.now, None)


def of_filter(declared: Filter) -> Parameter:
    """Return the parameter of a filter."""

    def read(name: str, text: str, operations: Operations) -> Any:
        return read_filter(declared, text, operations.scheduler, operations.now, None, name=name)

    schema: dict[str, Any] = _TEXT
    if declared.choices:
        schema = {"type": "string", "enum": list(declared.choices)}
        if declared.is_order:
            schema["default"] = declared.default
    elif declared.kind is datetime:
        schema = _INSTANT
    elif declared.kind is bool:
        schema, read = {"type": "boolean", "default": False}, boolean
    return Parameter(declared.name, declared.help, schema, read, many=declared.read_words is not None)


_TEXT = {"type": "string", "minLength": 1}
_INSTANT = {"type": "string", "description": "An instant as in RFC 3339, or a length of time such as 2h."}

LIMIT = Parameter(
    "limit",
    "The largest number of items.",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 100},
    _whole,
)
AFTER = Parameter("after", "The `next_cursor` of the page before.", _TEXT)
PAGE = (LIMIT, AFTER)
NAME = Parameter("name", "The name.", _TEXT, required=True)
GROUP_OF_KEY = Parameter("group", "The group.", {**_TEXT, "default": "DEFAULT"})
ONE_GROUP = Parameter("group", "Only the jobs of this group.", _TEXT)
START = Parameter("start", "The beginning; by default one hour ago.", _INSTANT, _past)
END = Parameter("end", "The end; by default two hours after the beginning.", _INSTANT, _past)
LANES = Parameter(
    "lanes", "The subjects of the lanes.", {"type": "string", "enum": ["node", "job", "group"], "default": "node"}
)
YEAR = Parameter(
    "year", "The year; by default this one.", {"type": "integer", "minimum": 1970, "maximum": 9998}, _whole
)
TEXT = Parameter("text", "A part of a name, or the id of an execution.", _TEXT, required=True)
FEW = Parameter(
    "limit",
    "The largest number of each kind.",
    {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
    _whole,
)
EXAMINE = Parameter(
    "examine",
    "Also return the findings of an examination, which reads whole tables.",
    {"type": "boolean", "default": False},
    boolean,
)


def values_of(
    parameters: Sequence[Parameter], pairs: Sequence[tuple[str, str]], operations: Operations
) -> dict[str, Any]:
    """Return the arguments that a query string gives.

    Raises:
        InvalidValueError: a parameter is unknown, missing, repeated or wrong.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for name, text in pairs:
        parameter = by_name.get(name)
        if parameter is None:
            listed = ", ".join(by_name) or "none"
            raise InvalidValueError(f"{name}: is not a parameter of this resource; the parameters are {listed}")
        if name in values and not parameter.many:
            raise InvalidValueError(f"{name}: must be given once")
        value = parameter.read(name, text, operations)
        if parameter is LIMIT and not 1 <= value <= MAX_LIMIT:
            raise InvalidValueError(f"limit: must be a whole number from 1 to {MAX_LIMIT:,} (got {quoted(text)})")
        if parameter.many:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    for parameter in parameters:
        if parameter.required and parameter.name not in values:
            raise InvalidValueError(f"{parameter.name}: is missing; {parameter.description}")
    return values


@dataclass(frozen=True, slots=True)
class Read:
    """A resource that is read with GET."""

    path: str
    method: str
    """The method of `of`; its return type is the schema of the response."""
    summary: str
    parameters: tuple[Parameter, ...] = ()
    key: type[JobKey] | type[TriggerKey] | None = None
    """The type of the key that the parameters name, which the method takes; None passes them by their names."""
    of: type[Operations] | type[Fleet] = Operations

    def answer(self, source: object, values: Mapping[str, Any]) -> Any:
        """Ask the operations, or what else has the method."""
        method = getattr(source, self.method)
        if self.key is None:
            return method(**values)
        return method(self.key(values["name"], values.get("group", "DEFAULT")))


_KEY = (NAME, GROUP_OF_KEY)
FIRE_ID = Parameter("fire_id", "The id of the execution.", {"type": "integer", "minimum": 0}, required=True)
CALENDAR_NAME = Parameter("name", "The name of the calendar.", {"type": "string", "minLength": 1}, required=True)
ENTRY = "/audit-entry"
ACTION_ID = Parameter(
    "action_id", "The id of the action.", {"type": "integer", "minimum": 1}, LIMIT.read, required=True
)
INCIDENT_ID = Parameter(
    "incident_id", "The number of the incident.", {"type": "integer", "minimum": 1}, LIMIT.read, required=True
)


def of_list(spec: ListSpec[Any]) -> Read:
    """Return the resource of a list."""
    bounds = PAGE if spec.is_paged else (LIMIT,) if spec.is_bounded else ()
    return Read(f"/{spec.method.replace('_', '-')}", spec.method, spec.help, (*bounds, *map(of_filter, spec.declared)))


READS: tuple[Read, ...] = (
    *map(of_list, LISTS.values()),
    Read("/overview", "overview", "What runs, what is late and why, what failed, what comes next, and what is wrong."),
    Read("/incidents", "incidents", "What is wrong now or soon will be, why, and what mends it."),
    Read("/open-incidents", "open_incidents", "The incidents that nodes have recorded and that are not over."),
    Read("/incident", "incident", "One incident that is recorded, whether it lasts or is over.", (INCIDENT_ID,)),
    Read("/job", "job", "One job.", _KEY, JobKey),
    Read("/trigger", "trigger", "One trigger.", _KEY, TriggerKey),
    Read("/why", "why", "Why a trigger has not fired, or when it will.", _KEY, TriggerKey),
    Read("/execution", "execution", "One execution.", (FIRE_ID,)),
    Read("/counts", "counts", "The numbers of jobs, of triggers by state and of executions."),
    Read("/timeline", "timeline", "What ran, what runs and what is planned.", (START, END, LANES, ONE_GROUP)),
    Read("/calendar", "calendar", "The days of a year that a calendar excludes.", (CALENDAR_NAME, YEAR)),
    Read("/job-types", "job_types", "The job types that running nodes have published."),
    Read(
        ENTRY,
        "audit_entry",
        "One action of an operator, also while it is going on: its state, and the number of its changes so far.",
        (ACTION_ID,),
    ),
    Read("/system", "system", "The store, its tables and locks.", (EXAMINE,)),
    Read("/search", "search", "What has a text in its name.", (TEXT, FEW, AFTER)),
)
FLEET_READS = tuple(
    Read(f"/{spec.name}", spec.method, f"{spec.help} Only where the page has such a file.", of=Fleet)
    for spec in FLEET_LISTS
)
