"""Imports from the tables of django-celery-beat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.errors import QuartzpyError
from quartzpy.ext.celery.task_job import CeleryTask
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.migrate.class_map import ClassMap, LeftOut
from quartzpy.migrate.databases import MALFORMED, Row, Rows, boolean, checked_prefix, reading, required
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, NoteSeverity
from quartzpy.texts import quoted, reason
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleMisfire, SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress

GROUP = "celery-beat"
PREFIX = "django_celery_beat_"
_SCHEDULES = {
    "crontab_id": "crontabschedule",
    "interval_id": "intervalschedule",
    "clocked_id": "clockedschedule",
    "solar_id": "solarschedule",
}
_CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_INTERNAL = "celery."


def read_celery_beat(
    url: str, *, prefix: str = PREFIX, group: str = GROUP, decisions: ClassMap | None = None
) -> ImportPlan:
    """Return the plan of an import from django-celery-beat. Each periodic task becomes a job that sends the task.

    The jobs are of the type that `quartzpy.ext.celery.CeleryTask` makes, unless `decisions` map the name of the task to
    another: the function of that type gets the arguments of the task. `prefix` is that of the tables, and may begin
    with the name of a schema. A disabled task comes over paused. An interval goes on counting from its last run.

    Raises:
        SettingsError: the URL or the prefix is wrong, or the tables are missing.
        StoreUnavailableError: the database does not answer.
    """
    prefix = checked_prefix(prefix)
    with reading(url) as rows:
        tasks = list(rows(f"SELECT * FROM {prefix}periodictask ORDER BY name"))  # noqa: S608
        schedules = {column: _by_id(rows, f"{prefix}{table}") for column, table in _SCHEDULES.items()}
    notes: list[Note] = []
    jobs = []
    now = datetime.now(UTC)  # noqa: TID251 - the source has no other clock
    for row in tasks:
        subject = f"job {group}.{row['name']}"
        try:
            jobs.append(_imported(row, schedules, group, now, decisions or ClassMap()))
        except LeftOut as error:
            notes.append(Note(NoteSeverity.LEFT_OUT, subject, str(error)))
        except (QuartzpyError, ValueError) as error:
            notes.append(Note(NoteSeverity.UNDECIDED, subject, str(error)))
        except MALFORMED as error:
            text = f"its row is not of django-celery-beat: {type(error).__name__}: {reason(error)}"
            notes.append(Note(NoteSeverity.UNDECIDED, subject, text))
        else:
            options = sorted(_options(row))
            if str(row["task"]) in (decisions or ClassMap()).classes and options:
                text = f"a job that runs in the node has no {', '.join(options)}: they are of Celery's messages"
                notes.append(Note(NoteSeverity.DIFFERS, subject, text))
            if str(row["task"]).startswith(_INTERNAL):
                text = "Celery's own task; django-celery-beat adds it by itself"
                notes.append(Note(NoteSeverity.DIFFERS, subject, text))
    for name in sorted((decisions or ClassMap()).classes.keys() - {str(row["task"]) for row in tasks}):
        notes.append(Note(NoteSeverity.DIFFERS, f"--map {name}", "no periodic task has this Celery task"))
    return ImportPlan(source="django-celery-beat", owner=f"import:celery-beat:{prefix}"[:200], jobs=jobs, notes=notes)


def _by_id(rows: Rows, table: str) -> dict[Any, Row]:
    return {row["id"]: row for row in rows(f"SELECT * FROM {table}")}  # noqa: S608


def _imported(
    row: Row, schedules: Mapping[str, Mapping[Any, Row]], group: str, now: datetime, decisions: ClassMap
) -> ImportedJob:
    key = JobKey(required(row, "name"), group)
    last, runs = _instant(row["last_run_at"]), int(row["total_run_count"] or 0)
    one_off = boolean(row["one_off"])
    if one_off and runs:
        raise LeftOut("it was to run once, and has run")
    column = next((column for column in _SCHEDULES if row[column] is not None), None)
    if column is None:
        raise LeftOut("it has no schedule")
    schedule = schedules[column][row[column]]
    common: dict[str, Any] = {
        "name": key.name,
        "group": key.group,
        "job_key": key,
        "start_time": _instant(row["start_time"]),
        "end_time": _instant(row["expires"]),
    }
    enabled = boolean(row["enabled"])
    since = max(filter(None, (last if enabled else now, common["start_time"])), default=now)
    trigger, following = _KINDS[column](schedule, common, since, last)
    if following is None:
        raise LeftOut("its schedule has ended")
    if one_off and not (isinstance(trigger, SimpleTrigger) and trigger.repeat_count == 0):
        trigger = SimpleTrigger(**{**common, "start_time": following})
    progress = TriggerProgress(following, last, runs)
    return ImportedJob(
        _job(row, key, decisions),
        [ImportedTrigger(trigger, progress, None if enabled else "disabled in django-celery-beat")],
    )


def _crontab(
    schedule: Row, common: Mapping[str, Any], since: datetime, last: datetime | None
) -> tuple[Trigger, datetime | None]:
    line = " ".join("".join(str(schedule[field]).split()) or "*" for field in _CRONTAB_FIELDS)
    trigger = CronTrigger(
        line, dialect="crontab", day_or=False, time_zone=str(schedule.get("timezone") or "UTC"), **common
    )
    return trigger, trigger.anchored(since).next_after(since)


def _interval(
    schedule: Row, common: Mapping[str, Any], since: datetime, last: datetime | None
) -> tuple[Trigger, datetime | None]:
    every = timedelta(**{str(schedule["period"]): int(schedule["every"])})
    # Celery sends an overdue task once, and counts from then. The phase follows from the next fire time.
    trigger = SimpleTrigger(interval=every, misfire=SimpleMisfire.FIRE_NOW, **{**common, "start_time": None})
    return trigger, (since if last is None else last) + every


def _clocked(
    schedule: Row, common: Mapping[str, Any], since: datetime, last: datetime | None
) -> tuple[Trigger, datetime | None]:
    at = _instant(schedule["clocked_time"])
    return SimpleTrigger(**{**common, "start_time": at, "end_time": None}), at


def _solar(
    schedule: Row, common: Mapping[str, Any], since: datetime, last: datetime | None
) -> tuple[Trigger, datetime | None]:
    raise LeftOut(
        f"quartzpy does not know where the sun is; replace {schedule['event']} by a crontab, or by a job that computes"
        " the next event and schedules itself"
    )


_KINDS = {"crontab_id": _crontab, "interval_id": _interval, "clocked_id": _clocked, "solar_id": _solar}


def _options(row: Row) -> dict[str, Any]:
    options = {name: row[name] for name in ("queue", "exchange", "routing_key", "priority") if row[name] is not None}
    if row["expire_seconds"] is not None:
        options["expires"] = int(row["expire_seconds"])
    if headers := _json(row, "headers", {}):
        options["headers"] = headers
    return options


def _job(row: Row, key: JobKey, decisions: ClassMap) -> JobDetail:
    options = _options(row)
    task = str(row["task"])
    if task in decisions.classes:
        data = {ARGS: _json(row, "args", []), KWARGS: _json(row, "kwargs", {})}
        return JobDetail(
            decisions.job_type(task),
            key.name,
            key.group,
            data={name: value for name, value in data.items() if value},
            description=str(row["description"])[:1000] or None,
        )
    return CeleryTask(
        str(row["task"]),
        key.name,
        key.group,
        args=_json(row, "args", []),
        kwargs=_json(row, "kwargs", {}),
        job_options={"description": str(row["description"])[:1000] or None},
        **options,
    )


def _json(row: Row, column: str, default: Any) -> Any:
    text = row[column] or ""
    try:
        result = json.loads(text) if text else default
    except ValueError:
        raise ValueError(f"its {column} are no JSON: {quoted(text)}") from None
    if type(result) is not type(default):
        raise ValueError(f"its {column} are no {type(default).__name__}: {quoted(text)}")
    return result


def _instant(value: object) -> datetime | None:
    """Return the instant of a column, which is a text in UTC where the database has no instants."""
    if value is None:
        return None
    result = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return result.replace(tzinfo=UTC) if result.tzinfo is None else result.astimezone(UTC)
