"""The resources that can be read, each a method of `Operations`, and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.operations import Operations
from quartzpy.scheduler.typed_text import FUTURE, likely_key, read_group, read_instant
from quartzpy.states import ActionState, ExecutionState, JobMode, MisfireAction, PublicState, TriggerState
from quartzpy.store.queries import TriggerOrder
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


def _future(name: str, text: str, operations: Operations) -> datetime:
    return read_instant(text, name, operations.now, None, direction=FUTURE)


def _group(name: str, text: str, operations: Operations) -> GroupMatcher:
    return read_group(text, name)


def _job(name: str, text: str, operations: Operations) -> JobKey:
    return likely_key(operations.scheduler, text, JobKey)


def _trigger(name: str, text: str, operations: Operations) -> TriggerKey:
    return likely_key(operations.scheduler, text, TriggerKey)


def one_of(words: type[StrEnum]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(word) for word in words]}


_TEXT = {"type": "string", "minLength": 1}
_INSTANT = {"type": "string", "description": "An instant as in RFC 3339, or a length of time such as 2h."}
_STATES = list(dict.fromkeys([*map(str, TriggerState), *(str(state) for state in PublicState if state != "NONE")]))

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
GROUP = Parameter(
    "group", "A group, or with `*` in front, at the end or both a part of the groups' names.", _TEXT, _group
)
ONE_GROUP = Parameter("group", "Only the jobs of this group.", _TEXT)
CONTAINS = Parameter("contains", "A part of the name; upper and lower case differ.", _TEXT)
JOB_TYPE = Parameter("job_type", "The registered type of the job.", _TEXT)
MODE = Parameter("mode", "The mode of the job.", one_of(JobMode))
STATE = Parameter("state", "A state; may be repeated.", {"type": "string", "enum": _STATES}, many=True)
OF_JOB = Parameter("job", "The key of the job: GROUP.NAME, or NAME in the group DEFAULT.", _TEXT, _job)
OF_TRIGGER = Parameter(
    "trigger",
    "The key of the trigger: GROUP.NAME, or NAME in the group DEFAULT.",
    _TEXT,
    _trigger,
)
CALENDAR = Parameter("calendar", "The name of the calendar that triggers use.", _TEXT)
KIND = Parameter("kind", "The kind of the triggers: simple, cron, ...", _TEXT)
SINCE = Parameter("since", "The earliest instant, or a length of time ago.", _INSTANT, _past)
UNTIL = Parameter("until", "The instants are before this one, or before this length of time ago.", _INSTANT, _past)
NEXT_SINCE = Parameter("since", "The earliest instant, or a length of time from now.", _INSTANT, _future)
NEXT_UNTIL = Parameter(
    "until", "The instants are before this one, or before this length of time from now.", _INSTANT, _future
)
BY_SCHEDULE = Parameter(
    "by_schedule", "Only triggers that repeat by a schedule.", {"type": "boolean", "default": False}, boolean
)
ORDER = Parameter("order_by", "The order.", {**one_of(TriggerOrder), "default": "key"})
OUTCOME = Parameter(
    "state", "A state; may be repeated. Without it, the history is selected.", one_of(ExecutionState), many=True
)
NODE = Parameter("node", "The instance id of the node.", _TEXT)
EXHAUSTED = Parameter(
    "exhausted", "Only executions that failed and are not retried.", {"type": "boolean", "default": False}, boolean
)
ERROR = Parameter("error", "A part of the error; upper and lower case differ.", _TEXT)
ACTION = Parameter("action", "The result of the misfire instruction.", one_of(MisfireAction))
ACTOR = Parameter("actor", "The name of the actor.", _TEXT)
AUDITED = Parameter("action", "The name of the action.", _TEXT)
SUBJECT = Parameter("subject", "The whole subject, as an entry shows it.", _TEXT)
ACTION_STATE = Parameter("state", "The state of the action.", one_of(ActionState))
START = Parameter("start", "The beginning; by default one hour ago.", _INSTANT, _past)
END = Parameter("end", "The end; by default two hours after the beginning.", _INSTANT, _past)
LANES = Parameter(
    "lanes", "The subjects of the lanes.", {"type": "string", "enum": ["node", "job", "group"], "default": "node"}
)
INCIDENT_KIND = Parameter("kind", "The kind of the incidents: dead-node, trigger-error, ...", _TEXT)
INCIDENT_TEXT = Parameter(
    "contains", "A part of the subject or of the sentence; the case of ASCII letters is ignored.", _TEXT
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
    """The method of `Operations`; its return type is the schema of the response."""
    summary: str
    parameters: tuple[Parameter, ...] = ()
    key: type[JobKey] | type[TriggerKey] | None = None
    """The type of the key that the parameters name, which the method takes; None passes them by their names."""

    def answer(self, operations: Operations, values: Mapping[str, Any]) -> Any:
        method = getattr(operations, self.method)
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
COUNT = Parameter(
    "limit",
    "The largest number of fires.",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    LIMIT.read,
)

READS: tuple[Read, ...] = (
    Read("/overview", "overview", "What runs, what is late and why, what failed, what comes next, and what is wrong."),
    Read("/incidents", "incidents", "What is wrong now or soon will be, why, and what mends it."),
    Read("/open-incidents", "open_incidents", "The incidents that nodes have recorded and that are not over."),
    Read(
        "/past-incidents",
        "past_incidents",
        "The incidents that are over, by their ends, the latest first.",
        (*PAGE, INCIDENT_KIND, INCIDENT_TEXT, SINCE, UNTIL),
    ),
    Read("/incident", "incident", "One incident that is recorded, whether it lasts or is over.", (INCIDENT_ID,)),
    Read("/jobs", "jobs", "The jobs.", (*PAGE, GROUP, CONTAINS, JOB_TYPE, MODE)),
    Read("/job", "job", "One job.", _KEY, JobKey),
    Read(
        "/triggers",
        "triggers",
        "The triggers.",
        (
            *PAGE,
            OF_JOB,
            GROUP,
            CONTAINS,
            STATE,
            CALENDAR,
            JOB_TYPE,
            KIND,
            NEXT_SINCE,
            NEXT_UNTIL,
            BY_SCHEDULE,
            ORDER,
        ),
    ),
    Read("/trigger", "trigger", "One trigger.", _KEY, TriggerKey),
    Read("/why", "why", "Why a trigger has not fired, or when it will.", _KEY, TriggerKey),
    Read(
        "/executions",
        "executions",
        "The executions, the latest first.",
        (*PAGE, OUTCOME, OF_JOB, OF_TRIGGER, GROUP, JOB_TYPE, NODE, SINCE, UNTIL, EXHAUSTED, ERROR),
    ),
    Read("/execution", "execution", "One execution.", (FIRE_ID,)),
    Read(
        "/misfires",
        "misfires",
        "The misfires, the latest first.",
        (*PAGE, OF_TRIGGER, OF_JOB, ACTION, NODE, SINCE, UNTIL),
    ),
    Read("/counts", "counts", "The numbers of jobs, of triggers by state and of executions."),
    Read("/late", "late", "The triggers that are due and that no node has fired, without the reasons."),
    Read("/running", "running", "The running executions."),
    Read(
        "/upcoming", "upcoming", "The fires that are to come, by default those of the next hour.", (COUNT, NEXT_UNTIL)
    ),
    Read("/timeline", "timeline", "What ran, what runs and what is planned.", (START, END, LANES, ONE_GROUP)),
    Read("/cluster", "cluster", "The nodes."),
    Read("/calendars", "calendars", "The calendars."),
    Read("/calendar", "calendar", "The days of a year that a calendar excludes.", (CALENDAR_NAME, YEAR)),
    Read("/job-types", "job_types", "The job types that running nodes have published."),
    Read("/groups", "groups", "The groups with their pauses."),
    Read("/windows", "windows", "The maintenance windows, each with its present or next time."),
    Read("/limits", "limits", "The limits with their headroom."),
    Read("/locks", "locks", "The locks on the tables."),
    Read(
        "/audit-log",
        "audit_log",
        "What operators did, the latest first.",
        (*PAGE, ACTOR, AUDITED, SUBJECT, ACTION_STATE, SINCE, UNTIL),
    ),
    Read(
        ENTRY,
        "audit_entry",
        "One action of an operator, also while it is going on: its state, and the number of its changes so far.",
        (ACTION_ID,),
    ),
    Read("/system", "system", "The store, its tables and locks.", (EXAMINE,)),
    Read("/search", "search", "What has a text in its name.", (TEXT, FEW, AFTER)),
)
