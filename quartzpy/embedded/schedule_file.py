"""A schedule in a YAML or TOML file: commands, URLs and functions, each with its schedule.

The file belongs to the person who edits it on the machine, so it is what the node allows, too: the programs that its
commands name, the hosts of its URLs, and its secrets.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from quartzpy.definitions.faults import Faults, Place
from quartzpy.definitions.files import declared_in, parsed_document, wrong_file
from quartzpy.definitions.reader import kind_and_values
from quartzpy.embedded.machine_zone import zone_of_machine
from quartzpy.errors import InvalidValueError, QuartzpyError, SettingsError
from quartzpy.expect import EACH_FAILURE
from quartzpy.instants import zone as zone_of
from quartzpy.jobs.command import SHELL, Command
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.function_job import JobFunction, job
from quartzpy.jobs.http import HttpRequest
from quartzpy.jobs.http_hosts import target_of
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.keys import DEFAULT_GROUP, JobKey
from quartzpy.object_references import object_at
from quartzpy.scheduler.coercion import interval_of
from quartzpy.scheduler.sync import Declarations
from quartzpy.text_files import read_text_file
from quartzpy.texts import did_you_mean, quoted, reason
from quartzpy.triggers.recurring import RecurringTrigger
from quartzpy.triggers.simple import SimpleTrigger

_KINDS = ("command", "url", "request", "function")
_AT_START = {"notify": "notify_channels", "monitors": "monitors", "heartbeat_url": "heartbeat_url"}
"""The keys that are settings by other names: whom the node tells. It reads them once."""
_NAMED = {"calendars": "calendar", "windows": "window"}
"""The keys of what declared files call by other names."""
_NOTIFY_FAILURES = "notify_failures"
"""The key, of a file or a job, that asks for a message about each failure that no retry follows."""
_OF_FILE = (
    *("jobs", _NOTIFY_FAILURES, *_NAMED, "time_zone", "directory", "environment", "networks", "secrets"),
    *_AT_START,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_TRIGGER = ("time_zone", "misfire", "calendar")
_OF_JOB = ({field.name for field in fields(JobDetail)} | {ARGS, KWARGS}) - {"job", "name", "data"}


@dataclass(frozen=True)
class ScheduleFile:
    """What a file says: the jobs, and the settings that allow what they do."""

    declarations: Declarations
    settings: dict[str, Any]
    time_zone: str
    at_start: dict[str, Any] = field(default_factory=dict)
    """Further settings, which do not change while the node runs: whom it tells what is wrong."""
    variables: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """The variables of commands, by the keys of their jobs, which may be secrets."""
    text: str = field(default="", repr=False)
    """The file itself."""

    @property
    def allowed(self) -> dict[str, Any]:
        """All settings that may change while the node runs."""
        return {**self.settings, "command_variables": self.variables}


def read_schedule(path: Path, *, of: Path | None = None) -> ScheduleFile:
    """Return what a file says. The modules of its functions are imported, from its directory as well.

    `of` is the file that this one is a copy of: paths are relative to the directory of that one.

    Raises:
        SettingsError: the file cannot be read, or something in it is wrong; the message names it.
    """
    text = read_text_file(path)
    document = parsed_document(path, text)
    if not isinstance(document, Mapping):
        raise SettingsError(f"{path}: begin with jobs:, and below it the name of a job, with command: and schedule:")
    for name in document:
        if name not in _OF_FILE:
            raise SettingsError(f"{path}: {quoted(name)} is not known; {did_you_mean(str(name), _OF_FILE, 'keys')}")
    jobs = document.get("jobs")
    if not isinstance(jobs, Mapping):
        raise SettingsError(f"{path}: jobs is a mapping of names to jobs; write jobs: {{}} if there is to be none")
    zone = document.get("time_zone") or zone_of_machine().name
    networks, secrets = document.get("networks", []), document.get("secrets", {})
    if not isinstance(networks, list):
        raise SettingsError(f"{path}: networks is a list, such as [10.0.0.0/8]")
    allowed = _Allowed(hosts={str(network) for network in networks})
    surroundings = _Surroundings(
        zone,
        (of or path).absolute().parent,
        _directory(document.get("directory", ""), of or path),
        _variables(document.get("environment", {}), str(path)),
        _tells_failures(document.get(_NOTIFY_FAILURES, False), str(path)),
    )
    entries: dict[str, dict[str, Any]] = {}
    wrong: list[tuple[Place, list[str], object]] = []
    for name, declared in jobs.items():
        try:
            if not isinstance(declared, Mapping):
                raise SettingsError("a mapping with command:, url: or function:, and schedule: is needed")
            entries[str(name)] = _entry(str(name), dict(declared), surroundings, allowed)
        except SettingsError as error:
            wrong.append((("jobs", name), [f"job {name}"], error))
        except (QuartzpyError, TypeError) as error:
            wrong.append((("jobs", name), [f"job {name}"], reason(error)))
    faults = Faults()
    others = {word: _named(document, key, zone, path) for key, word in _NAMED.items()}
    declarations = declared_in({"job": list(entries.values()), **others}, str(path), faults)
    wrong += [(*_place_and_labels(place, list(entries)), fault) for place, fault in faults.placed]
    if wrong or declarations is None:
        raise wrong_file(str(path), text, wrong) from faults.cause
    return ScheduleFile(
        declarations,
        {
            "commands": tuple(sorted(allowed.commands)),
            "http_hosts": tuple(sorted(allowed.hosts)),
            "http_secrets": secrets,
        },
        str(zone),
        {setting: document[name] for name, setting in _AT_START.items() if name in document},
        allowed.variables,
        text,
    )


def _place_and_labels(place: Place, names: Sequence[str]) -> tuple[Place, list[str]]:
    """Return a place in the document of declared jobs as the place in the file, and the words for it."""
    match place:
        case ("job", int(number), "trigger", *_):
            return ("jobs", names[number], "schedule"), [f"job {names[number]}", "schedule"]
        case ("job", int(number), *rest):
            return ("jobs", names[number], *rest), [f"job {names[number]}", *map(str, rest[:-1])]
        case (kind, name, *rest):
            return (f"{kind}s", name, *rest), [f"{kind} {quoted(name)}"]
    return (), []


def _named(document: Mapping[str, Any], key: str, zone: Any, path: Path) -> dict[str, Any]:
    """Return the calendars or the windows of a file in the form of declared ones, in the time zone of the file."""
    named = document.get(key, {})
    if not isinstance(named, Mapping):
        raise SettingsError(f"{path}: {key} is a mapping: below it each begins with its name")
    return {
        name: {"time_zone": zone, **{word: _local(value, zone) for word, value in declared.items()}}
        if isinstance(declared, Mapping)
        else declared
        for name, declared in named.items()
    }


def _local(value: Any, zone: Any) -> Any:
    """Return an instant without an offset as one in the time zone of the file, and any other value as it is."""
    instant = value
    if isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value.strip())
        except ValueError:
            return value
    if not isinstance(instant, datetime) or instant.tzinfo is not None:
        return value
    return instant.replace(tzinfo=zone_of(zone))


@dataclass(frozen=True)
class _Surroundings:
    """What a file says for all of its jobs."""

    time_zone: Any
    of_file: Path
    """The directory of the file, where the modules of its functions are."""
    directory: Path
    environment: dict[str, str]
    notify_failures: bool


def _directory(value: object, path: Path) -> Path:
    if not isinstance(value, str):
        raise SettingsError(f"{path}: directory is a text, such as /home/ada (got {quoted(value)})")
    return path.absolute().parent / value


def _variables(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{where}: environment is a mapping of variables, such as {{LANG: C.UTF-8}}")
    for name, content in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise SettingsError(f"{where}: environment: {quoted(name)} is not the name of a variable")
        if isinstance(content, bool) or not isinstance(content, str | int):
            # Not the value: it may be a password.
            kind = type(content).__name__
            raise SettingsError(
                f"{where}: environment: {name} must be a text (got a value of the type {kind}); write quotes"
            )
        if "\0" in str(content):
            raise SettingsError(f"{where}: environment: {name} contains NUL, which no program can receive")
    return {name: str(content) for name, content in value.items()}


def _with_variables(values: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a command that runs with these variables: by SHELL, as cron does, and found in PATH.

    The variables themselves are settings of the node. A job has none, because whoever sees a job would see them.
    """
    shell = variables.get("SHELL", SHELL)
    if values.get("shell") is None:
        words = Command(**values).words
        if "PATH" not in variables or "/" in words[0]:
            return dict(values)
        line = f"exec {shlex.join(words)}"
    elif shell == SHELL:
        return dict(values)
    else:
        line = f"exec {shlex.join([shell, '-c', values['shell']])}"
    return {**{name: value for name, value in values.items() if name != "argv"}, "shell": line}


def _tells_failures(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{where}: {_NOTIFY_FAILURES} must be true or false (got {quoted(value)})")
    return value


@dataclass(frozen=True)
class _Allowed:
    """What the node has to allow and to know for the jobs of a file."""

    commands: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    """The variables of commands, by the keys of their jobs."""


def _entry(name: str, declared: dict[str, Any], around: _Surroundings, allowed: _Allowed) -> dict[str, Any]:
    """Return a job in the form of declared jobs, and add what it needs to what is allowed."""
    kinds = [kind for kind in _KINDS if kind in declared]
    if len(kinds) != 1:
        raise SettingsError(f"exactly one of {', '.join(_KINDS)} is needed (got {', '.join(kinds) or 'none'})")
    [kind] = kinds
    what = declared.pop(kind)
    if "schedule" not in declared:
        raise SettingsError('schedule is missing, such as schedule: "0 2 * * *" or schedule: every 10m')
    trigger = _trigger(
        declared.pop("schedule"), around.time_zone, {key: declared.pop(key) for key in _OF_TRIGGER if key in declared}
    )
    variables = around.environment
    if kind == "command":
        variables = variables | _variables(declared.pop("environment", {}), "command")
    if _tells_failures(declared.pop(_NOTIFY_FAILURES, around.notify_failures), name):
        expect = declared.get("expect") or {}
        if isinstance(expect, Mapping) and "success" not in expect:
            declared["expect"] = {**expect, **EACH_FAILURE}
    for key in declared:
        if key not in _OF_JOB:
            names = sorted({*_OF_JOB, _NOTIFY_FAILURES, *_OF_TRIGGER, *_KINDS, "schedule", "environment"})
            raise SettingsError(f"{quoted(key)} is not known; {did_you_mean(str(key), names, 'keys')}")
    entry = {**declared, "name": name, "trigger": trigger}
    if kind == "function":
        return entry | {"type": _function(what, around.of_file)}
    if kind == "command":
        values = {"shell": what} if isinstance(what, str) else what if isinstance(what, Mapping) else {"argv": what}
        values = {"directory": str(around.directory), **values}
        if variables:
            values = _with_variables(values, variables)
            allowed.variables[str(JobKey(name, declared.get("group", DEFAULT_GROUP)))] = variables
        command = Command(**values)
        allowed.commands.add(SHELL if command.shell is not None else command.argv[0])
        if command.shell is None and "/" in command.argv[0] and not command.argv[0].startswith("/"):
            raise SettingsError(f"command: {quoted(command.argv[0])} must be an absolute path, or a name in PATH")
        return entry | {"type": "quartzpy.CommandJob", "data": values}
    values = {"url": what} if kind == "url" else what
    if not isinstance(values, Mapping):
        raise SettingsError("request: a mapping with url: is needed")
    request = HttpRequest(**values)
    urls = [request.url.partition("{")[0]]
    urls += [auth["token_url"] for auth in (request.auth or {}).values() if "token_url" in auth]
    for url in urls:
        target = target_of(url)
        shown = f"[{target.host}]" if ":" in target.host else target.host
        allowed.hosts.add(f"{target.scheme}://{shown}:{target.port}")
    return entry | {"type": "quartzpy.HttpJob", "data": dict(values)}


def _trigger(schedule: object, zone: Any, options: dict[str, Any]) -> object:
    """Return a trigger in the form of declared jobs: what has a time zone takes that of the file."""
    if isinstance(schedule, list):
        return [_trigger(each, zone, options) for each in schedule]
    if isinstance(schedule, Mapping):
        return _trigger_of_mapping(schedule, zone, options)
    if isinstance(schedule, datetime) or (isinstance(schedule, str) and schedule[:1].isdigit() and "T" in schedule):
        others = {name: value for name, value in options.items() if name != "time_zone"}
        instant = _local(schedule, options.get("time_zone", zone))
        return {"kind": "simple", "start_time": instant, **others} if others else instant
    if not isinstance(schedule, str):
        return schedule
    if (interval := interval_of(schedule)) is not None:
        # The zone of a cron line that became an interval says nothing any more.
        options = {name: value for name, value in options.items() if name != "time_zone"}
        options = {**options, **_misfire_of_interval(options)}
        return {"every": interval, **options} if options else schedule
    return {"expression": schedule, "time_zone": zone, **options}


def _misfire_of_interval(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what the instruction of a cron line means for an interval, which has others."""
    missed = {str(instruction): missed for missed, instruction in RecurringTrigger.instructions.items()}
    instruction = missed.get(str(options.get("misfire")))
    return {} if instruction is None else {"misfire": str(SimpleTrigger.instructions[instruction])}


def _trigger_of_mapping(schedule: Mapping[str, Any], zone: Any, options: dict[str, Any]) -> dict[str, Any]:
    if twice := sorted(schedule.keys() & options.keys()):
        raise SettingsError(f"{twice[0]} is given in the schedule and beside it; give one of them")
    values = {**schedule, **options}
    for part in ("trigger", "triggers"):
        if part in values:
            values[part] = _trigger(values[part], zone, {})
    kind, _ = kind_and_values(values)
    # None is that of a part.
    if any(own.name == "time_zone" and own.default is not None for own in fields(kind)):
        values.setdefault("time_zone", zone)
    return values


def _function(path: object, directory: Path) -> str:
    """Return the job type of a function at "module:function", which becomes a job if it is none yet."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    value = object_at(path, "function", "reports:nightly")
    if isinstance(value, type) and issubclass(value, Job):
        return value.type_name
    if inspect.isfunction(value):
        value = job(value)
    if not isinstance(value, JobFunction):
        raise InvalidValueError(f"function {path}: is neither a function nor a job")
    return value.job_class.type_name
