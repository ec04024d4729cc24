"""The messages between a node and its child processes: JSON, with typed values encoded like job data.

The child sends READY when it can run jobs. The node sends RUN with an execution, STOP to cancel it, and END to end the
child. The child answers each RUN with BEGUN and then DONE; in between it sends PROGRESS and LOG.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import runpy
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar, Calendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.errors import (
    JobCancelledError,
    JobExecutionError,
    JobSnoozedError,
    RemoteJobCancelledError,
    RemoteJobError,
    RemoteJobExecutionError,
    RemoteJobSnoozedError,
)
from quartzpy.job_data import decode, encode
from quartzpy.jobs.fired_trigger import FiredTrigger, FireFacts, LoadedFire
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.jobs.retry import dotted_name, type_names
from quartzpy.keys import MAIN, MAIN_IN_CHILD
from quartzpy.node.workers.error_handling import describe
from quartzpy.triggers.trigger import Trigger, trigger_kind

READY, RUN, BEGUN, PROGRESS, LOG, DONE, STOP, END = "ready", "run", "begun", "progress", "log", "done", "stop", "end"

MAX_MESSAGE = 16_777_216
"""The largest message, in bytes, that a node reads from a child: more is no message of this module."""
MAX_TEXT = 200_000
"""The most characters of a text that a child sends, of which a node keeps less."""
MAX_NAMES = 100

_COMMON = [field.name for field in fields(Trigger) if field.name != "data"]
_FLAGS = (
    "refire_immediately",
    "unschedule_firing_trigger",
    "unschedule_all_triggers",
    "delete_trigger",
    "set_trigger_error",
)


def pack(kind: str, **values: Any) -> bytes:
    return json.dumps([kind, values]).encode()


def run_message(call: str) -> bytes:
    """Return the message that lets a child run a call, which is JSON already."""
    return f'["{RUN}", {call}]'.encode()


def unpack(message: bytes) -> tuple[str, dict[str, Any]]:
    kind, values = json.loads(message)
    return kind, values


def _known(written: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name in names}


def bounded(text: str) -> str:
    """Return a text that a child may send: of a longer one, its beginning and its end."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters are left out here] {text[-half:]}"


# --- an execution


def fired_to_json(fired: FiredTrigger, job_class: type[Job], job_data: str | None = None) -> dict[str, Any]:
    """Return all that the child needs to run a fire.

    `job_data` replaces the stored data of the job, because a refire gets the data as the job left it. The message names
    the modules of the classes. The node has already imported them, so no stored name decides which code is imported.
    """
    trigger, calendar = fired.trigger, fired.calendar
    stored = {name: getattr(fired, name) for name in FireFacts._fields}
    if job_data is not None:
        stored["job_data"] = job_data
    return {
        "fire_id": fired.fire_id,
        "type_name": job_class.type_name,
        "modules": [cls.__module__ for cls in (job_class, type(trigger), *_calendar_classes(calendar))],
        "package_main": _package_main(),
        "stored": encode(stored),
        "trigger": {
            "kind": trigger.kind,
            "schedule": trigger.schedule(),
            "common": encode({name: getattr(trigger, name) for name in _COMMON}),
        },
        # The data of job and trigger is in `stored`.
        "job": encode({"detail": replace(fired.job_detail, job=fired.job_type, data=None)}),
        "calendar": None if calendar is None else calendar_to_json(calendar),
    }


def _calendar_classes(calendar: Calendar | None) -> list[type]:
    return [type(layer) for layer in calendar.chain()] if isinstance(calendar, BaseCalendar) else []


def import_modules(written: dict[str, Any]) -> None:
    """Import the modules of a message. multiprocessing has already run the main module, unless it is a package's."""
    for name in written["modules"]:
        if name != MAIN:
            importlib.import_module(name)
        elif written["package_main"] is not None and sys.modules[MAIN].__name__ != MAIN_IN_CHILD:
            main = ModuleType(MAIN_IN_CHILD)
            main.__dict__.update(runpy.run_module(written["package_main"], run_name=MAIN_IN_CHILD, alter_sys=True))
            sys.modules[MAIN] = sys.modules[MAIN_IN_CHILD] = main


def _package_main() -> str | None:
    """Return the name of the main module if the program was started by `python -m package`."""
    spec = getattr(sys.modules[MAIN], "__spec__", None)
    return spec.name if spec is not None and spec.name.endswith(f".{MAIN}") else None


def fired_from_json(written: dict[str, Any]) -> FiredTrigger:
    """Return the fire that `fired_to_json` encoded."""
    # The node may be of a newer release, which tells more.
    stored = _known(decode(written["stored"]), FireFacts._fields)

    def load_trigger() -> Trigger:
        data = decode(stored["trigger_data"]) or None
        parts = written["trigger"]
        common = _known(decode(parts["common"]), _COMMON)
        return trigger_kind(parts["kind"]).from_schedule(parts["schedule"], **common, data=data)

    def load_job() -> JobDetail:
        detail: JobDetail = decode(written["job"])["detail"]
        return replace(detail, data=decode(stored["job_data"]) or None)

    def load_calendar() -> Calendar | None:
        return None if written["calendar"] is None else calendar_from_json(written["calendar"])

    facts = FireFacts(**stored)
    return LoadedFire.of(facts, load_trigger=load_trigger, load_job=load_job, load_calendar=load_calendar)


# --- the end of an execution


@dataclass
class Ending:
    """The end of an execution. `result` and `job_data` are encoded by `job_data.encode`; None: no result, no change."""

    noticed_stop: bool
    error: dict[str, Any] | None = None
    result: str | None = None
    result_problem: str | None = None
    """Why the result cannot be kept."""
    job_data: str | None = None
    is_spent: bool = False
    """True if the process must not be reused."""
    log: str | None = None
    """The captured log lines, of a worker that has sent none before."""
    is_committed: bool = False
    """True if a transaction of the job itself has committed this ending: it is a success, whatever came later."""


def ending_from_json(written: Mapping[str, Any]) -> Ending:
    """Return the ending of a worker, whose release may be another one."""
    return Ending(**_known(written, [field.name for field in fields(Ending)]))


def error_to_json(error: BaseException, *, is_cause: bool = False) -> dict[str, Any]:
    """Encode an error, and the cause of a `JobExecutionError`. Never raises."""
    try:
        message = str(error)
    except BaseException:
        message = "<unprintable>"
    written: dict[str, Any] = {
        "type": dotted_name(type(error))[:MAX_TEXT],
        "names": [name[:MAX_TEXT] for name in sorted(type_names(error))[:MAX_NAMES]],
        "message": bounded(message),
        # The traceback of the error includes that of its cause.
        "traceback": None if is_cause else bounded(describe(error)),
        "is_cancelled": isinstance(error, JobCancelledError),
        "is_task_cancelled": isinstance(error, asyncio.CancelledError),
    }
    if isinstance(error, JobSnoozedError):
        written["snoozed"] = encode({"delay": error.delay, "until": error.until})
    if isinstance(error, JobExecutionError):
        written["flags"] = {flag: bool(getattr(error, flag)) for flag in _FLAGS}
        if error.__cause__ is not None and not is_cause:
            written["cause"] = error_to_json(error.__cause__, is_cause=True)
    return written


def error_from_json(written: dict[str, Any]) -> BaseException:
    """Return the exception that the node raises for an error in the child.

    It has the message of the original, and its traceback as a note. A `JobExecutionError`, a `JobSnoozedError`, a
    `JobCancelledError` and an `asyncio.CancelledError` keep their types; any other error becomes a `RemoteJobError`.
    """
    error: BaseException
    names: dict[str, Any] = {"error_type": written["type"], "type_names": frozenset(written["names"])}
    message = written["message"]
    if written["is_task_cancelled"]:
        error = asyncio.CancelledError(message)
    elif written["is_cancelled"]:
        error = RemoteJobCancelledError(message, **names)
    elif "snoozed" in written:
        error = RemoteJobSnoozedError(message, **names, **decode(written["snoozed"]))
    elif "flags" in written:
        error = RemoteJobExecutionError(message, **names, **written["flags"])
        if "cause" in written:
            error.__cause__ = error_from_json(written["cause"])
    else:
        error = RemoteJobError(message, **names)
    if written["traceback"] is not None:
        error.add_note(f"In the worker process:\n{written['traceback']}")
    return error
