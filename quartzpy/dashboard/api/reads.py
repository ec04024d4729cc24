"""The resources that can be read, each a method of `Operations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quartzpy.dashboard.api import parameters as p
from quartzpy.dashboard.api.parameters import Parameter
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations


@dataclass(frozen=True, slots=True)
class Read:
    """A resource that is read with GET."""

    path: str
    method: str
    """The method of `Operations`; its return type is the schema of the response."""
    summary: str
    parameters: tuple[Parameter, ...] = ()
    call: Callable[[Operations, Mapping[str, Any]], Any] | None = None
    """Calls the method; None passes the parameters by their names."""

    def answer(self, operations: Operations, values: Mapping[str, Any]) -> Any:
        if self.call is not None:
            return self.call(operations, values)
        return getattr(operations, self.method)(**values)


def _job_key(values: Mapping[str, Any]) -> JobKey:
    return JobKey(values["name"], values.get("group", "DEFAULT"))


def _trigger_key(values: Mapping[str, Any]) -> TriggerKey:
    return TriggerKey(values["name"], values.get("group", "DEFAULT"))


_KEY = (p.NAME, p.GROUP_OF_KEY)
FIRE_ID = Parameter("fire_id", "The id of the execution.", {"type": "integer", "minimum": 0}, required=True)
CALENDAR_NAME = Parameter("name", "The name of the calendar.", {"type": "string", "minLength": 1}, required=True)
ENTRY = "/audit-entry"
ACTION_ID = Parameter(
    "action_id", "The id of the action.", {"type": "integer", "minimum": 1}, p.LIMIT.read, required=True
)
COUNT = Parameter(
    "limit",
    "The largest number of fires.",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    p.LIMIT.read,
)

READS: tuple[Read, ...] = (
    Read("/overview", "overview", "What runs, what is late and why, what failed, what comes next, and what is wrong."),
    Read("/jobs", "jobs", "The jobs.", (*p.PAGE, p.GROUP, p.CONTAINS, p.JOB_TYPE, p.MODE)),
    Read("/job", "job", "One job.", _KEY, lambda ops, values: ops.job(_job_key(values))),
    Read(
        "/triggers",
        "triggers",
        "The triggers.",
        (
            *p.PAGE,
            p.OF_JOB,
            p.GROUP,
            p.CONTAINS,
            p.STATE,
            p.CALENDAR,
            p.JOB_TYPE,
            p.KIND,
            p.SINCE,
            p.UNTIL,
            p.ORDER,
        ),
    ),
    Read("/trigger", "trigger", "One trigger.", _KEY, lambda ops, values: ops.trigger(_trigger_key(values))),
    Read(
        "/why",
        "why",
        "Why a trigger has not fired, or when it will.",
        _KEY,
        lambda ops, values: ops.why(_trigger_key(values)),
    ),
    Read(
        "/executions",
        "executions",
        "The executions, the latest first.",
        (
            *p.PAGE,
            p.OUTCOME,
            p.OF_JOB,
            p.OF_TRIGGER,
            p.GROUP,
            p.JOB_TYPE,
            p.NODE,
            p.SINCE,
            p.UNTIL,
            p.EXHAUSTED,
        ),
    ),
    Read(
        "/execution",
        "execution",
        "One execution.",
        (FIRE_ID,),
        lambda ops, values: ops.execution(values["fire_id"]),
    ),
    Read(
        "/misfires",
        "misfires",
        "The misfires, the latest first.",
        (*p.PAGE, p.OF_TRIGGER, p.OF_JOB, p.ACTION, p.NODE, p.SINCE, p.UNTIL),
    ),
    Read("/running", "running", "The claims and the running executions."),
    Read("/upcoming", "upcoming", "The fires that are to come, by default those of the next hour.", (COUNT, p.UNTIL)),
    Read("/timeline", "timeline", "What ran, what runs and what is planned.", (p.START, p.END, p.LANES)),
    Read("/cluster", "cluster", "The nodes."),
    Read("/calendars", "calendars", "The calendars."),
    Read("/calendar", "calendar", "The days of a year that a calendar excludes.", (CALENDAR_NAME, p.YEAR)),
    Read("/groups", "groups", "The groups with their pauses."),
    Read("/limits", "limits", "The limits with their headroom."),
    Read("/locks", "locks", "The locks on the tables."),
    Read(
        "/audit-log",
        "audit_log",
        "What operators did, the latest first.",
        (*p.PAGE, p.ACTOR, p.AUDITED, p.SUBJECT, p.ACTION_STATE, p.SINCE, p.UNTIL),
    ),
    Read(
        ENTRY,
        "audit_entry",
        "One action of an operator, also while it is going on: its state, and the number of its changes so far.",
        (ACTION_ID,),
    ),
    Read("/system", "system", "The store, its tables and locks.", (p.EXAMINE,)),
    Read("/search", "search", "What has a text in its name.", (p.TEXT, p.FEW, p.AFTER)),
)
