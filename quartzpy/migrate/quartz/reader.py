"""Reads the tables of a Quartz 2.x scheduler into a plan."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from quartzpy import job_data
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.times import DailyCalendar
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey, check_name
from quartzpy.migrate import java
from quartzpy.migrate.class_map import ClassMap, LeftOut, Undecided
from quartzpy.migrate.databases import MALFORMED, Row, Rows, boolean, checked_prefix, reading, required, unreadable
from quartzpy.migrate.java import UnreadableError
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, NoteSeverity
from quartzpy.migrate.quartz.calendars import read_calendar
from quartzpy.migrate.quartz.triggers import CALENDAR_INTERVAL, CRON, DAILY, SIMPLE, misfire_of, read_trigger
from quartzpy.texts import quoted, reason, visible
from quartzpy.triggers.trigger import DEFAULT_PRIORITY, TriggerProgress

_Key = TypeVar("_Key", JobKey, TriggerKey)
ALL_GROUPS_PAUSED = "_$_ALL_GROUPS_PAUSED_$_"
_KINDS = {"cron_triggers": (CRON,), "simple_triggers": (SIMPLE,), "simprop_triggers": (CALENDAR_INTERVAL, DAILY)}
_PAUSED = ("PAUSED", "PAUSED_BLOCKED")
# Quartz declares a node dead that is silent for its interval and this much more.
_GRACE_MS = 7_500
# The largest number of milliseconds that a date has here; some programs store a larger one for "never".
_LAST_MS = 253_402_300_799_999


def scheduler_names(rows: Rows, prefix: str) -> list[str]:
    """Return the names of the Quartz schedulers in a database."""
    name_rows = rows(
        f"SELECT SCHED_NAME FROM {prefix}JOB_DETAILS UNION SELECT SCHED_NAME FROM {prefix}TRIGGERS ORDER BY 1"  # noqa: S608
    )
    return [str(row["sched_name"]) for row in name_rows]


def read_quartz(
    url: str,
    *,
    prefix: str = "QRTZ_",
    scheduler: str | None = None,
    decisions: ClassMap | None = None,
    java_zone: str | None = None,
) -> ImportPlan:
    """Return the plan of an import from the tables of a Quartz 2.x scheduler.

    `url` is a JDBC URL or one of SQLAlchemy; the tables are only read. `prefix` may begin with the name of a schema.
    `scheduler` may be left out where the database has only one. `java_zone` is the default time zone of the Java
    programs: Quartz does not store the zone of daily time interval triggers and of some calendars. Cron and daily time
    interval triggers get `dst="quartz"`, so that they fire at the same instants as in Quartz.

    Raises:
        SettingsError: the URL or the prefix is wrong, the tables are not Quartz's, or have no such scheduler.
        StoreUnavailableError: the database does not answer.
    """
    prefix = checked_prefix(prefix)
    with reading(url) as rows:
        names = scheduler_names(rows, prefix)
        name = scheduler if scheduler is not None else _only(names, prefix)
        if name not in names:
            raise SettingsError(f"--sched-name: {quoted(name)} is not in the tables; they have {', '.join(names)}")
        return _QuartzReader(rows, prefix, name, decisions or ClassMap(), java_zone).plan()


def _only(names: list[str], prefix: str) -> str:
    if len(names) != 1:
        contents = f"several schedulers: {', '.join(names)}" if names else f"no jobs (tables {prefix}...)"
        raise SettingsError(f"--sched-name: the database has {contents}")
    return names[0]


class _QuartzReader:
    def __init__(self, rows: Rows, prefix: str, name: str, decisions: ClassMap, java_zone: str | None) -> None:
        self._rows = rows
        self._prefix = prefix
        self._name = name
        self._decisions = decisions
        self._java_zone = java_zone
        self._notes: list[Note] = []

    def _table(self, name: str) -> Iterator[Row]:
        return self._rows(f"SELECT * FROM {self._prefix}{name.upper()} WHERE SCHED_NAME = :name", name=self._name)  # noqa: S608

    def plan(self) -> ImportPlan:
        jobs = self._jobs()
        about_jobs, self._notes = self._notes, []
        calendars = self._calendars()
        triggers = self._triggers(calendars, jobs)
        self._notes += about_jobs
        imported = list(self._with_triggers(jobs, triggers))
        groups = self._paused_groups()
        if ALL_GROUPS_PAUSED in groups:
            text = "all groups are paused in Quartz: its triggers come over paused, but triggers stored later are not"
            self._note(NoteSeverity.DIFFERS, "pauses", text)
        self._note_executions()
        return ImportPlan(
            source=f"Quartz scheduler {self._name}",
            owner=f"import:quartz:{self._name}"[:200],
            jobs=imported,
            calendars=calendars,
            paused_groups=frozenset(groups - {ALL_GROUPS_PAUSED}),
            notes=self._notes,
            running=self._running(),
        )

    def _note(self, severity: NoteSeverity, subject: str, text: str) -> None:
        self._notes.append(Note(severity, subject, text))

    def _note_failure(self, subject: str, error: Exception) -> None:
        severity = NoteSeverity.LEFT_OUT if isinstance(error, LeftOut) else NoteSeverity.UNDECIDED
        is_malformed = isinstance(error, MALFORMED) and not isinstance(error, QuartzpyError)
        text = f"it is not what Quartz writes: {type(error).__name__}: {reason(error)}" if is_malformed else str(error)
        self._note(severity, subject, text)

    def _with_keys(self, kind: str, rows: Iterable[Row], key_of: Callable[[Row], _Key]) -> Iterator[tuple[_Key, Row]]:
        """Yield the rows whose keys can be keys here: Quartz also takes names with control characters."""
        for row in rows:
            try:
                key = key_of(row)
            except (QuartzpyError, ValueError) as error:
                shown = ".".join(visible(str(row[f"{kind}_{part}"])) for part in ("group", "name"))
                self._note(NoteSeverity.LEFT_OUT, f"{kind} {shown}", str(error))
            else:
                yield key, row

    def _paused_groups(self) -> set[str]:
        groups = set()
        for row in self._table("paused_trigger_grps"):
            try:
                groups.add(check_name(required(row, "trigger_group"), "trigger group"))
            except (QuartzpyError, ValueError) as error:
                self._note(NoteSeverity.LEFT_OUT, "a paused group", str(error))
        return groups

    # --- calendars

    def _calendars(self) -> dict[str, BaseCalendar]:
        calendars = {}
        for row in sorted(self._table("calendars"), key=lambda row: str(row["calendar_name"])):
            name = str(row["calendar_name"])
            try:
                check_name(required(row, "calendar_name"), "calendar name")
                calendars[name] = read_calendar(bytes(row["calendar"]), self._java_zone)
                if any(isinstance(layer, DailyCalendar) and not layer.invert for layer in calendars[name].chain()):
                    # Quartz's DailyCalendar compares with the edges of the day by "less than".
                    self._note(
                        NoteSeverity.DIFFERS,
                        f"calendar {name}",
                        "Quartz's DailyCalendar also excludes the first and the last millisecond of each day; here only"
                        " its range is excluded, so that a trigger may also fire at midnight",
                    )
            except (UnreadableError, Undecided, QuartzpyError, *MALFORMED) as error:
                _raise_settings(error)
                self._note_failure(f"calendar {visible(name)}", error)
        return calendars

    # --- triggers

    def _triggers(
        self, calendars: dict[str, BaseCalendar], jobs: Mapping[JobKey, JobDetail | None]
    ) -> dict[JobKey, list[ImportedTrigger]]:
        details = {
            (kind, str(row["trigger_group"]), str(row["trigger_name"])): row
            for table, kinds in _KINDS.items()
            for row in self._table(table)
            for kind in kinds
        }
        # One object for equal keys: there may be a million triggers.
        keys = {key: key for key in jobs}
        triggers_of_jobs: dict[JobKey, list[ImportedTrigger]] = defaultdict(list)
        for key, row in self._with_keys("trigger", self._table("triggers"), _trigger_key):
            try:
                job_key = _job_key(row)
                if job_key not in keys:
                    raise LeftOut(f"its job {job_key} does not come over")
                detail = details.pop((str(row["trigger_type"]), key.group, key.name), None)
                imported = self._trigger(key, keys[job_key], row, detail, calendars)
            except (UnreadableError, Undecided, LeftOut, QuartzpyError, *MALFORMED) as error:
                _raise_settings(error)
                self._note_failure(f"trigger {key}", error)
            else:
                triggers_of_jobs[job_key].append(imported)
        for triggers in triggers_of_jobs.values():
            triggers.sort(key=lambda imported: imported.trigger.key)
        self._notes.sort(key=lambda note: note.subject)
        return triggers_of_jobs

    def _trigger(
        self, key: TriggerKey, job_key: JobKey, row: Row, details: Row | None, calendars: dict[str, BaseCalendar]
    ) -> ImportedTrigger:
        state = str(row["trigger_state"])
        following = _instant(row["next_fire_time"])
        if state in ("COMPLETE", "DELETED") or following is None:
            raise LeftOut("its schedule has ended")
        calendar = row["calendar_name"]
        if calendar is not None and str(calendar) not in calendars:
            raise Undecided(f"its calendar {calendar} does not come over")
        trigger, times = read_trigger(
            row,
            details,
            self._java_zone,
            name=key.name,
            group=key.group,
            job_key=job_key,
            description=row["description"],
            start_time=_instant(row["start_time"]),
            end_time=None if _is_never(row["end_time"]) else _instant(row["end_time"]),
            priority=DEFAULT_PRIORITY if row["priority"] is None else int(row["priority"]),
            calendar=calendar,
            misfire=misfire_of(row),
            data=self._data("trigger", key, row["job_data"]) or None,
        )
        paused = "paused in Quartz" if state in _PAUSED else None
        if state == "ERROR":
            paused = "in ERROR in Quartz"
            self._note(NoteSeverity.DIFFERS, f"trigger {key}", "it is in ERROR in Quartz; it comes over paused")
        return ImportedTrigger(trigger, TriggerProgress(following, _instant(row["prev_fire_time"]), times), paused)

    # --- jobs

    def _jobs(self) -> dict[JobKey, JobDetail | None]:
        """Return the jobs by key; None for those that do not come over themselves."""
        jobs: dict[JobKey, JobDetail | None] = {}
        for key, row in self._with_keys("job", self._table("job_details"), _job_key):
            if not jobs and "job_class_name" not in row:
                raise SettingsError(
                    f"--prefix: {self._prefix}JOB_DETAILS is not a table of Quartz 2.x, but of quartzpy; if Quartz's"
                    ' tables are in another schema, name it: --prefix "other.QRTZ_"'
                )
            jobs[key] = None
            try:
                jobs[key] = self._job(key, row)
            except (UnreadableError, Undecided, LeftOut, QuartzpyError, *MALFORMED) as error:
                _raise_settings(error)
                self._note_failure(f"job {key}", error)
        return jobs

    def _with_triggers(
        self, jobs: Mapping[JobKey, JobDetail | None], triggers: Mapping[JobKey, list[ImportedTrigger]]
    ) -> Iterator[ImportedJob]:
        for key in sorted(jobs):
            job, own = jobs[key], triggers.get(key, [])
            if job is not None and not job.durable and not own:
                self._note_failure(f"job {key}", LeftOut("it is not durable, and none of its triggers comes over"))
            elif job is not None:
                yield ImportedJob(job, own)

    def _job(self, key: JobKey, row: Row) -> JobDetail:
        return JobDetail(
            self._decisions.job_type(_class_of(row)),
            key.name,
            key.group,
            description=row["description"],
            data=self._data("job", key, row["job_data"]) or None,
            durable=boolean(row["is_durable"]),
            requests_recovery=boolean(row["requests_recovery"]),
            disallow_concurrent=boolean(row["is_nonconcurrent"]),
            persist_data=boolean(row["is_update_data"]),
        )

    def _data(self, kind: str, key: JobKey | TriggerKey, stored: Any) -> dict[str, Any]:
        """Return the data of a row, with the user's decisions about entries that cannot be read."""
        data = b"" if stored is None else bytes(stored)
        if not data:
            return {}
        if not data.startswith(java.SERIALIZED):
            return dict(java.read_properties(data))
        entries = java.fields_of(java.read_object(data)).get("map")
        if not isinstance(entries, Mapping):
            raise UnreadableError("its data is no JobDataMap")
        values, open_questions = {}, []
        for name, value in entries.items():
            try:
                entry = {str(name): java.as_python(value)}
                job_data.encode(entry)
                values.update(entry)
            except (UnreadableError, QuartzpyError, *MALFORMED) as error:
                decision = self._decisions.decision(kind, key, str(name))
                if decision is None:
                    open_questions.append(f"{quoted(str(name))}: {unreadable(error)}")
                elif "value" in decision:
                    values[str(name)] = decision["value"]
        if open_questions:
            raise Undecided(
                f"its data has entries that cannot be read; decide about them by [[data]] in --map:"
                f" {'; '.join(open_questions)}"
            )
        return values

    # --- what runs

    def _note_executions(self) -> None:
        for row in self._table("fired_triggers"):
            if row["state"] == "EXECUTING":
                again = "; Quartz would run it again if its node died" if boolean(row["requests_recovery"]) else ""
                self._note(
                    NoteSeverity.DIFFERS,
                    f"job {row['job_group']}.{row['job_name']}",
                    f"it is running on the Quartz node {row['instance_name']}; the execution does not come over{again}",
                )

    def _running(self) -> str | None:
        now = time.time_ns() // 1_000_000
        for row in self._table("scheduler_state"):
            if row["last_checkin_time"] is None:
                continue
            silent = now - int(row["last_checkin_time"])
            if silent < int(row["checkin_interval"] or 0) + _GRACE_MS:
                return f"its node {row['instance_name']} checked in {max(0, silent) / 1000:.0f} s ago"
        return None


def _raise_settings(error: Exception) -> None:
    """Raise an error that concerns the whole import, such as a missing library, again."""
    if isinstance(error, SettingsError):
        raise error


def _job_key(row: Row) -> JobKey:
    return JobKey(required(row, "job_name"), sys.intern(required(row, "job_group")))


def _trigger_key(row: Row) -> TriggerKey:
    return TriggerKey(required(row, "trigger_name"), sys.intern(required(row, "trigger_group")))


def _class_of(row: Row) -> str:
    if row["job_class_name"] is None:
        raise LeftOut("its class is NULL")
    return str(row["job_class_name"])


def _is_never(milliseconds: object) -> bool:
    return milliseconds is not None and int(str(milliseconds)) > _LAST_MS


def _instant(milliseconds: object) -> datetime | None:
    """Return the instant of a column, in which 0 and -1 mean that there is none."""
    number = 0 if milliseconds is None else int(str(milliseconds))
    return java.instant(number).astimezone(UTC) if number > 0 else None
