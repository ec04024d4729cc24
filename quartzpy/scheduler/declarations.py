"""Jobs, triggers, calendars and maintenance windows that are declared in TOML or YAML.

An unknown key is reported with the nearest known one.

    [[job]]
    type = "app.jobs:NightlyReport"
    name = "nightly-report"
    data = { region = "eu" }
    timeout = "30m"
    retry = { attempts = 3, delay = "1m" }

      [[job.trigger]]
      kind = "cron"
      expression = "0 0 2 ? * MON-FRI"
      time_zone = "Europe/Berlin"

The same in YAML:

    job:
      - type: app.jobs:NightlyReport
        name: nightly-report
        data: {region: eu}
        trigger: 0 0 2 ? * MON-FRI

The keys are the parameters of `JobDetail`, `RetryPolicy` and the trigger classes. A trigger may be just a cron text, an
interval ("every 10s") or an instant, as in `trigger = "0 0 2 * * ?"`; a table with `every = "10s"` is an interval. One
trigger and one job need no list. A trigger without a name takes the job's name and group. Durations are texts such as
"5s". The trigger within a trigger is written in the same forms:

    trigger = { kind = "rolled", calendar = "target", roll = "preceding", trigger = "0 0 18 L * ?" }

    [calendar.holidays]
    kind = "holiday"
    time_zone = "Europe/Berlin"
    excluded_dates = [2026-12-25, 2026-12-26]
    base = { kind = "weekly", excluded_days = [1, 7] }

    [window.database]
    cron = "0 2 * * SUN"
    duration = "4h"
    time_zone = "Europe/Berlin"
    job_group = "billing"

The other keys of a calendar are the rules of its kind, as the stores keep them. `base` is a calendar in the same form,
and a calendar of the user's own class has `class = "module:Class"` instead of a kind. `exporting` writes both.
"""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
import typing
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any

from quartzpy.calendars.calendar import CALENDAR_KINDS, MAX_CHAINED, BaseCalendar
from quartzpy.calendars.days import HolidayCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.calendars.years import years_in
from quartzpy.cron_expressions.crontab import is_crontab
from quartzpy.errors import InvalidJobError, InvalidTriggerError, InvalidValueError, QuartzpyError, SettingsError
from quartzpy.expect import Expect
from quartzpy.instants import as_instant
from quartzpy.job_data import decode
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.job import Job, JobDetail, JobTypes, job_types
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP, JobKey, check_name
from quartzpy.main_module import import_path
from quartzpy.scheduler.coercion import as_trigger, bind, interval_of
from quartzpy.scheduler.sync import Declarations
from quartzpy.scheduler.yaml_text import parsed_yaml
from quartzpy.text_files import alike_in_line, read_text_file
from quartzpy.texts import did_you_mean, quoted, reason, stored_object
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.registry import stored_schedule, trigger_kind
from quartzpy.triggers.simple import at, every
from quartzpy.triggers.trigger import Trigger

_YAML = (".yaml", ".yml")
_EVERY = "every"
_PART, _PARTS = "trigger", "triggers"
"""The fields of a trigger that are triggers themselves."""
SCHEDULE_WORDS = {_EVERY, "cron", "crontab", "interval", "schedule", "at", "expression", "triggers"}
"""What users write in the table of a job where the schedule belongs into its trigger."""
STORED_DATA, SCHEDULE = "stored_data", "schedule"
JOB_WORDS = {field.name for field in fields(JobDetail)} - {"job"} | {"type", "trigger", ARGS, KWARGS, STORED_DATA}
CONTINUATION_WORDS = {"job", "group", "outcomes", "data", STORED_DATA}
JOIN_WORDS = {field.name for field in fields(Join)}
JOIN_JOB_WORDS = {"job", "group"}
RETRY_WORDS = {field.name for field in fields(RetryPolicy)}
RATE_LIMIT_WORDS = {field.name for field in fields(RateLimit)}
EXPECT_WORDS = {field.name for field in fields(Expect)}
_JOINED = "joined"
CLASS, STORED_RULES = "class", "stored_rules"
_COMMON = ("kind", "time_zone", "description", "base")
_OWN_MODULES = "quartzpy.calendars."


class _Language:
    """The words in which the errors about a file show what to write."""

    table: str
    no_jobs: str
    jobs: str
    triggers: str
    calendars: str
    schedule: str


class _Toml(_Language):
    table = "a table"
    no_jobs = "job = []"
    jobs = "a list of tables ([[job]])"
    triggers = 'a list of tables ([[job.trigger]]), or a text such as trigger = "every 10s"'
    calendars = "a table of tables ([calendar.NAME])"
    schedule = 'a trigger: trigger = "every 10s", or trigger = "0 2 * * *"'


class _Yaml(_Language):
    table = "a mapping"
    no_jobs = "job: []"
    jobs = "a list: below job:, each job begins with - type: module:name, and name: is a key of it"
    triggers = "a text such as trigger: every 10s, a mapping such as trigger: {kind: cron, expression: ...}, or a list"
    calendars = "a mapping of mappings: below calendar:, each begins with its name"
    schedule = 'a trigger: trigger: every 10s, or trigger: "0 2 * * *"'


def load_definitions(path: str | Path, *, types: JobTypes = job_types) -> Declarations:
    """Return what a file declares; `.yaml` and `.yml` need the extra `yaml`, others are TOML.

    The modules of the job types and of the users' classes of calendars are imported, so write access to this file gives
    control over the executed code.

    Raises:
        SettingsError: The file cannot be read, or has an unknown key or a wrong value. The message names
            the job or the calendar and the key.
    """
    return definitions(read_document(Path(path)), str(path), types=types)


def read_document(path: Path) -> object:
    """Return the values in a file: YAML if its name ends so, and otherwise TOML.

    Raises:
        SettingsError: the file cannot be read.
    """
    return parsed_document(path, read_text_file(path))


def parsed_document(where: Path, text: str) -> object:
    """Return the values in the text of a file, as `read_document`."""
    if where.suffix.lower() in _YAML:
        return parsed_yaml(text, str(where))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{where}: not TOML: nested too deep") from None
    except ValueError as error:
        # int() also raises ValueError, for a number of too many digits.
        raise SettingsError(f"{where}: not TOML: {reason(error)}{alike_in_line(text, error)}") from error


def definitions(document: object, where: str, *, types: JobTypes = job_types) -> Declarations:
    """Return what a parsed document declares. Errors as for `load_definitions`."""
    language = _Yaml if where.lower().endswith(_YAML) else _Toml
    whole = _table(document, where, {"job", "calendar", "window"}, language)
    if not whole:
        # An empty file is more often an accident than an intent to have no jobs.
        raise SettingsError(f"{where}: declares no job; if that is intended, write {language.no_jobs}")
    jobs, calendars = whole.get("job", []), whole.get("calendar", {})
    jobs = [jobs] if isinstance(jobs, Mapping) and not jobs.keys().isdisjoint(JOB_WORDS) else jobs
    if not isinstance(jobs, list):
        raise SettingsError(f"{where}: job is {language.jobs}")
    jobs = with_own_groups(jobs)
    if not isinstance(calendars, Mapping):
        raise SettingsError(f"{where}: calendar is {language.calendars}")
    windows = whole.get("window", {})
    if not isinstance(windows, Mapping):
        raise SettingsError(f"{where}: window is {language.calendars.replace('calendar', 'window')}")
    return Declarations(
        [_job(entry, f"{where}: job {number}", types, language) for number, entry in enumerate(jobs, start=1)],
        {
            check_name(name, f"{where}: calendar name"): read_calendar(entry, f"{where}: calendar {quoted(name)}")
            for name, entry in calendars.items()
        },
        [_window(name, entry, f"{where}: window {quoted(name)}", language) for name, entry in windows.items()],
    )


def with_own_groups(jobs: list[Any]) -> list[Any]:
    """Return the tables of jobs in which a name of `after` and `continuations` is that of a job of the own group.

    A name without a group is that of the declared job in the group of the job that has it, if there is one, and
    otherwise of the group DEFAULT.
    """
    tables = [job for job in jobs if isinstance(job, Mapping)]
    declared = {(str(job.get("group", DEFAULT_GROUP)), str(job.get("name"))) for job in tables}

    def resolved(entry: Any, group: str) -> Any:
        if isinstance(entry, str) and (group, entry) in declared:
            return {"job": entry, "group": group}
        if isinstance(entry, Mapping) and "group" not in entry and (group, entry.get("job")) in declared:
            return {**entry, "group": group}
        return entry

    def resolved_in(entries: Any, group: str) -> Any:
        return [resolved(entry, group) for entry in entries] if isinstance(entries, list) else entries

    def of_job(job: Any) -> Any:
        if not isinstance(job, Mapping) or job.get("group", DEFAULT_GROUP) == DEFAULT_GROUP:
            return job
        group, values = str(job["group"]), dict(job)
        if "continuations" in values:
            values["continuations"] = resolved_in(values["continuations"], group)
        after = values.get("after")
        if isinstance(after, Mapping) and "jobs" in after:
            values["after"] = {**after, "jobs": resolved_in(after["jobs"], group)}
        elif isinstance(after, str):
            values["after"] = resolved_in([after], group)
        elif after is not None:
            values["after"] = resolved_in(after, group)
        return values

    return [of_job(job) for job in jobs]


WINDOW_WORDS = frozenset(field.name for field in fields(MaintenanceWindow)) - {"name"}


def _window(name: object, declared: object, where: str, language: type[_Language]) -> MaintenanceWindow:
    try:
        return read_window(check_name(name, "window"), _table(declared, where, WINDOW_WORDS, language))
    except SettingsError:
        raise
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{where}: {error}") from error


def read_window(name: str, table: Mapping[str, Any]) -> MaintenanceWindow:
    """Return the maintenance window of a table, whose instants may be texts. Errors as the class raises them."""
    values = dict(table)
    for end in ("start", "end"):
        if isinstance(values.get(end), str):
            try:
                values[end] = datetime.fromisoformat(values[end].strip())
            except ValueError:
                raise InvalidValueError(
                    f"{end}: must be written as 2026-12-24T18:00+01:00 (got {quoted(values[end])})"
                ) from None
    return MaintenanceWindow(name, **values)


def _job(declared: object, where: str, types: JobTypes, language: type[_Language]) -> tuple[JobDetail, list[Trigger]]:
    if isinstance(declared, Mapping):
        for word in declared:
            if word in SCHEDULE_WORDS:
                raise SettingsError(f"{where}: {quoted(word)} is not known; a schedule is {language.schedule}")
    table = _table(declared, where, JOB_WORDS, language)
    for word in ("type", "name"):
        if not isinstance(table.get(word), str):
            raise SettingsError(f"{where}: {word} is missing, or is not a text")
    where = f"{where} ({table['name']})"
    triggers = table.pop("trigger", [])
    triggers = [triggers] if isinstance(triggers, str | Mapping | datetime) else triggers
    if not isinstance(triggers, list):
        raise SettingsError(f"{where}: trigger is {language.triggers} (got {quoted(triggers)})")
    name = table.pop("type")
    try:
        type_name = name if _loaded(name, types) else _type_name_of_class(name)
        if type_name is None:
            raise InvalidJobError(
                f"type {quoted(name)} is not registered by any imported module; write module:class, or import the"
                " module that defines it (--import of quartzpy plan and apply)"
            )
        job = JobDetail(types.find(type_name), **_job_values(table, where))
        unbound = [
            read_trigger(entry, job.group, f"{where}: trigger {number}")
            for number, entry in enumerate(triggers, start=1)
        ]
        return job, bind(unbound, job.key)
    except SettingsError:
        raise
    except (QuartzpyError, ImportError, TypeError) as error:
        raise SettingsError(f"{where}: {error}") from error


def _loaded(name: str, types: JobTypes) -> bool:
    """Import the module of a job type; return True if the type is registered then."""
    try:
        return types.load(name, (name.partition(":")[0],))
    except ImportError:
        raise
    except Exception as error:
        # The import runs user code, which may raise anything.
        raise InvalidJobError(f"type {quoted(name)}: its module cannot be imported: {reason(error)}") from error


def _type_name_of_class(path: str) -> str | None:
    """Return the `type_name` of the class at "module:class", whose module was imported; None if there is none."""
    module, _, name = path.partition(":")
    cls: Any = sys.modules.get(module)
    for part in name.split("."):
        cls = getattr(cls, part, None)
    return cls.type_name if isinstance(cls, type) and issubclass(cls, Job) and cls is not Job else None


def _job_values(table: dict[str, Any], where: str) -> dict[str, Any]:
    values = dict(table)
    if ARGS in values or KWARGS in values:
        function = {ARGS: values.pop(ARGS, []), KWARGS: values.pop(KWARGS, {})}
        values["data"] = {**function, **values.get("data", {})}
    _decode_data(values, where)
    if isinstance(values.get("continuations"), list):
        values["continuations"] = [_continuation(entry, where) for entry in values["continuations"]]
    if "after" in values:
        values["after"] = _after(values["after"], f"{where}: after")
    if "retry" in values:
        retry = _table(values["retry"], f"{where}: retry", RETRY_WORDS)
        values["retry"] = RetryPolicy(**retry)
    if isinstance(values.get("rate_limit"), Mapping):
        values["rate_limit"] = RateLimit(**_table(values["rate_limit"], f"{where}: rate_limit", RATE_LIMIT_WORDS))
    return values


def _decode_data(values: dict[str, Any], where: str) -> None:
    """Replace the stored text of job data by the data."""
    if STORED_DATA in values:
        if "data" in values:
            raise SettingsError(f"{where}: data and {STORED_DATA} are the same; give one of them")
        values["data"] = decode(values.pop(STORED_DATA))


def _continuation(declared: object, where: str) -> Continuation | str:
    if isinstance(declared, str):
        return declared
    values = _table(declared, f"{where}: continuations", CONTINUATION_WORDS)
    _decode_data(values, f"{where}: continuations")
    return Continuation(JobKey(values.pop("job", ""), values.pop("group", DEFAULT_GROUP)), **values)


def _after(declared: object, where: str) -> Join:
    if isinstance(declared, Mapping):
        return read_join(_table(declared, where, JOIN_WORDS), where)
    return read_join({"jobs": declared}, where)


def read_join(values: Mapping[str, Any], where: str = "after") -> Join:
    """Return the join of a table: each of its jobs is the name of one, or a table with `job` and `group`.

    Raises:
        SettingsError: a key is unknown. Others as `Join` raises them.
    """
    jobs = values.get("jobs", ())
    if isinstance(jobs, list):
        jobs = [_joined_job(job, where) for job in jobs]
    return Join(**{**values, "jobs": jobs})


def _joined_job(declared: object, where: str) -> JobKey | str:
    if not isinstance(declared, Mapping):
        return declared  # type: ignore[return-value]
    values = _table(declared, f"{where}: jobs", JOIN_JOB_WORDS)
    return JobKey(values.get("job", ""), values.get("group", DEFAULT_GROUP))


def read_trigger(declared: object, group: str, where: str = "trigger") -> Trigger:
    """Return the trigger of a table, a cron text, an interval ("every 10s") or an instant.

    Without a group of its own, the trigger of a table belongs to `group`.

    Raises:
        SettingsError: a key is unknown. Others as the class of the trigger raises them.
    """
    if isinstance(declared, str):
        span = interval_of(declared)
        return _instant_of(declared) or (as_trigger(declared) if span is None else every(span))
    if isinstance(declared, datetime):
        return at(as_instant(declared, where))
    if not isinstance(declared, Mapping):
        raise SettingsError(f"{where}: a text or a table is needed (got {quoted(declared)})")
    kind, values = kind_and_values(declared, where)
    stored = values.pop(SCHEDULE, None)
    values = _table(values, where, trigger_words(kind, is_stored=stored is not None))
    _decode_data(values, where)
    if stored is not None:
        stored = stored_object(str(stored), f"{where}: {SCHEDULE}", SettingsError)
    return trigger_of(kind, stored, {"group": group, **values}, where=where)


def kind_and_values(declared: Mapping[str, Any], where: str) -> tuple[type[Trigger], dict[str, Any]]:
    """Return the class of the trigger of a table, and the values without the words that choose it.

    Raises:
        SettingsError: words contradict each other. UnsupportedKindError: there is no such kind.
    """
    values = dict(declared)
    if _EVERY in values:
        if "interval" in values or "kind" in values:
            raise SettingsError(f"{where}: {_EVERY} is the interval of a trigger of the kind simple; give no other")
        values |= {"kind": "simple", "interval": values.pop(_EVERY)}
    elif "interval" in values and "unit" not in values:
        values.setdefault("kind", "simple")
    if "cron" in values:
        # Windows have this word; a trigger may have it, too.
        if "expression" in values:
            raise SettingsError(f"{where}: cron and expression are the same; give one of them")
        values["expression"] = values.pop("cron")
    return trigger_kind(str(values.pop("kind", "cron"))), values


@cache
def trigger_words(kind: type[Trigger], *, is_stored: bool) -> frozenset[str]:
    """Return the words of the table of a trigger; `is_stored` if its schedule is given as it is stored."""
    own = {value_field.name for value_field in fields(kind)} - {"job_key", "rescheduled_from"}
    common = {value_field.name for value_field in fields(Trigger)} | {"name", "group"}
    return frozenset((own & common if is_stored else own) | {SCHEDULE, STORED_DATA})


def trigger_of(
    kind: type[Trigger], stored: Mapping[str, Any] | None, values: Mapping[str, Any], *, where: str = "the trigger"
) -> Trigger:
    """Return the trigger of a class with these values, in the types of TOML, YAML or JSON.

    `stored` is its schedule as it is stored, in place of the values of its class. `where` names the table in errors
    about triggers within it. Other errors as the class raises them.
    """
    values = dict(values)
    if kind is CronTrigger and is_crontab(str(values.get("expression"))):
        values.setdefault("dialect", "crontab")
    hints = _hints(kind)
    for word, value in values.items():
        accepted = (hints[word], *typing.get_args(hints[word]))
        if datetime in accepted and isinstance(value, str):
            value = _read_text(datetime, value, word, "2026-12-24T18:00+01:00")
        if datetime in accepted and isinstance(value, datetime) and value.tzinfo is not None:
            values[word] = as_instant(value, word)
        elif datetime in accepted:
            values[word] = value
        elif time in accepted and isinstance(value, str):
            values[word] = _read_text(time, value, word, "08:30")
        elif word == _PART:
            values[word] = read_trigger(value, DEFAULT_GROUP, f"{where}: {_PART}")
        elif word == _PARTS and isinstance(value, list):
            values[word] = tuple(read_trigger(part, DEFAULT_GROUP, f"{where}: {_PARTS}") for part in value)
        elif isinstance(value, list):
            values[word] = tuple(value)
    return kind(**values) if stored is None else stored_schedule(kind.kind, stored, **values)


def _read_text(kind: type[Any], text: str, word: str, example: str) -> Any:
    try:
        return kind.fromisoformat(text.strip())
    except ValueError:
        raise InvalidTriggerError(f"{word}: must be written as {example} (got {quoted(text)})") from None


# A file may declare many thousands of triggers of one kind.
@cache
def _hints(kind: type[Trigger]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _instant_of(text: str) -> Trigger | None:
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at(as_instant(instant, "trigger"))


def _table(
    declared: object, where: str, words: Collection[str], language: type[_Language] | None = None
) -> dict[str, Any]:
    if not isinstance(declared, Mapping):
        needed = "a table" if language is None else language.table
        raise SettingsError(f"{where}: {needed} is needed (got {quoted(declared)})")
    for word in declared:
        if word not in words:
            hint = did_you_mean(str(word), sorted(words), "words")
            raise SettingsError(f"{where}: {quoted(word)} is not known; {hint}")
    return dict(declared)


def calendar_table(calendar: BaseCalendar) -> dict[str, Any]:
    """Return the table of a calendar. Values that TOML may not have are left as they are; see `with_stored_rules`.

    Raises:
        InvalidCalendarError: the calendar cannot be stored.
    """
    return _table_of(calendar_to_json(calendar))


def _table_of(written: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(written)
    cls = CALENDAR_KINDS[table["kind"]]
    if not cls.__module__.startswith(_OWN_MODULES):
        del table["kind"]
        table = {CLASS: import_path(cls), **table}
    if "base" in table:
        table["base"] = _table_of(table.pop("base"))
    return table


def rules_in(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules of a calendar's table: all values but those that calendars of every kind have."""
    return {name: value for name, value in table.items() if name not in (*_COMMON, CLASS)}


def with_stored_rules(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with its rules as one JSON text, for rules that TOML cannot express."""
    rules = rules_in(table)
    others = {name: value for name, value in table.items() if name not in rules}
    return {**others, STORED_RULES: json.dumps(rules)}


def read_calendar(declared: object, where: str) -> BaseCalendar:
    """Return the calendar of a table.

    Raises:
        SettingsError: a value is wrong or missing. The message begins with `where`, and names the value.
    """
    written = _json_of(declared, where, MAX_CHAINED)
    try:
        return calendar_from_json(written)
    except InvalidValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def _json_of(declared: object, where: str, may_chain: int) -> dict[str, Any]:
    if not isinstance(declared, Mapping):
        raise SettingsError(f"{where}: a table is needed (got {quoted(declared)})")
    if may_chain == 0:
        raise SettingsError(f"{where}: more than {MAX_CHAINED} calendars in one chain")
    values = dict(declared)
    if values.get("kind") == _JOINED:
        return _joined(values, where, may_chain)
    if is_made_of_others(values):
        values = _with_holidays(values, where)
    if STORED_RULES in values:
        rules = stored_object(str(values.pop(STORED_RULES)), f"{where}: {STORED_RULES}", SettingsError)
        if rules_in(values):
            raise SettingsError(f"{where}: {STORED_RULES} has all rules; remove {quoted(next(iter(rules_in(values))))}")
        values.update(rules)
    if CLASS in values and "kind" in values:
        raise SettingsError(f"{where}: give kind or {CLASS}, not both")
    is_own = CLASS in values
    if is_own:
        values["kind"] = _kind_of(values.pop(CLASS), where)
    elif "kind" not in values:
        raise SettingsError(f"{where}: kind is missing; the kinds are {', '.join(sorted(CALENDAR_KINDS))}")
    for name in rules_in(values):
        values[name] = _plain(values[name], f"{where}: {name}", is_own=is_own)
    if values.get("base") is not None:
        values["base"] = _json_of(values["base"], f"{where}: base", may_chain - 1)
    return values


def is_made_of_others(table: object) -> bool:
    """Return True if the table of a calendar says where its dates come from, and is not as calendars are stored."""
    return isinstance(table, Mapping) and (table.get("kind") == _JOINED or "country" in table or "exchange" in table)


def _joined(values: Mapping[str, Any], where: str, may_chain: int) -> dict[str, Any]:
    """Return the chain of several calendars, which excludes what any of them excludes."""
    _table(values, where, {"kind", "calendars", "description", "time_zone"})
    calendars = values.get("calendars")
    if not isinstance(calendars, list) or not calendars:
        raise SettingsError(f"{where}: calendars is a list of at least one calendar, each a table with its kind")
    made = []
    for number, each in enumerate(calendars, start=1):
        if isinstance(each, Mapping) and "time_zone" in values:
            each = {"time_zone": values["time_zone"], **each}
        made.append(calendar_from_json(_json_of(each, f"{where}: calendars {number}", may_chain)))
    first, *others = made
    whole = calendar_to_json(first.joined(*others))
    return {**whole, "description": values["description"]} if "description" in values else whole


def _with_holidays(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the table of a calendar with the holidays of a country or an exchange as dates."""
    words = {"country", "exchange", "years", "kind", "time_zone", "description", "base"}
    table = _table(values, where, words)
    if table.pop("kind", HolidayCalendar.kind) != HolidayCalendar.kind or ("country" in table and "exchange" in table):
        raise SettingsError(f"{where}: country or exchange makes a calendar of the kind {HolidayCalendar.kind}")
    if "years" not in table:
        raise SettingsError(f"{where}: years is missing, the years of the holidays, such as 2026-2028")
    years = years_in(str(table.pop("years")).strip("[]"))
    place = {"time_zone": table["time_zone"]} if "time_zone" in table else {}
    if "country" in table:
        code, _, part = str(table.pop("country")).partition("-")
        made = HolidayCalendar.country(code, subdiv=part or None, years=years, **place)
    else:
        made = HolidayCalendar.exchange(str(table.pop("exchange")), years=years, **place)
    return {**calendar_to_json(made), **table}


def _kind_of(path: object, where: str) -> str:
    """Import the user's own class of a calendar, and return its kind."""
    module, colon, name = str(path).partition(":")
    if not colon or not module or not name:
        raise SettingsError(f'{where}: {CLASS} is "module:Class" (got {quoted(path)})')
    try:
        cls: Any = importlib.import_module(module)
        for part in name.split("."):
            cls = getattr(cls, part)
    except Exception as error:
        # The import runs user code, which may raise anything.
        raise SettingsError(f"{where}: {CLASS} {quoted(path)} cannot be imported: {reason(error)}") from error
    if not isinstance(cls, type) or not issubclass(cls, BaseCalendar) or "kind" not in cls.__dict__:
        raise SettingsError(f"{where}: {CLASS} {quoted(path)} is not a calendar with a kind of its own")
    return cls.kind


def _plain(value: object, where: str, *, is_own: bool) -> Any:
    """Return a value as JSON has it. TOML and YAML also have dates and times, which the kinds keep as texts."""
    if isinstance(value, date | time):
        if is_own:
            # It is unknown which text the class reads.
            raise SettingsError(f"{where}: write {quoted(value)} as `quartzpy export` does")
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(item, where, is_own=is_own) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item, where, is_own=is_own) for name, item in value.items()}
    return value
