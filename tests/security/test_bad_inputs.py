"""Bad input, row by row: each gets an error of ours that names the subject and what is wrong, and nothing is stored.

The rows are numbered in one list for the whole project; those that concern the engine's start, faults of the database,
executions and listeners have their tests beside these parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy import (
    AnyOf,
    CronTrigger,
    GroupMatcher,
    Job,
    JobDetail,
    JobKey,
    KeyMatcher,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    errors,
)
from quartzpy.calendars.days import EVERY_DAY, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_names import PREFIX
from quartzpy.config.sources import load_settings
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.definitions.files import load_definitions
from quartzpy.jobs.job import JobTypes
from tests.facade import jobs

LATER = datetime(2090, 1, 1, tzinfo=UTC)
E = errors
Act = Callable[[Scheduler], Any]
Row = tuple[Act, type[Exception], str]


def detail(job: Any = jobs.Recorded, **how: Any) -> JobDetail:
    return JobDetail(job, "job", **how)


def schedule(client: Scheduler, *triggers: Any, **how: Any) -> None:
    client.schedule_job(detail(**how), triggers)


def on_start(**values: Any) -> Act:
    return lambda client: schedule(client, SimpleTrigger("t", **{"start_time": LATER, **values}))


def cron(text: Any, **values: Any) -> Act:
    return lambda client: schedule(client, CronTrigger(text, "t", **values))


def named(name: Any) -> Act:
    return lambda client: client.schedule_job(JobDetail(jobs.Recorded, name), SimpleTrigger("t", start_time=LATER))


def with_data(value: Any) -> Act:
    return lambda client: schedule(client, SimpleTrigger("t", start_time=LATER), data={"x": value})


def setting(**values: Any) -> Act:
    return lambda client: SchedulerConfig.of(values)


def in_data(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


class NoExecute(Job):
    pass


class NoContext(Job):
    def execute(self) -> None: ...  # type: ignore[override]


class Twice(Job, type_name="security-twice"):
    def execute(self, context: Any) -> None: ...


def register_twice(client: Scheduler) -> None:
    types = JobTypes()
    types.register(Twice, "x")
    types.register(jobs.Recorded, "x")


def chained(length: int) -> WeeklyCalendar:
    found = WeeklyCalendar()
    for _ in range(length - 1):
        found = WeeklyCalendar(base=found)
    return found


def used_calendar(client: Scheduler) -> None:
    client.add_calendar("weekends", WeeklyCalendar())
    client.schedule_job(JobDetail(jobs.Recorded, "uses"), CronTrigger("0 0 0 * * ?", "uses", calendar="weekends"))
    try:
        client.delete_calendar("weekends")
    finally:
        client.delete_job(JobKey("uses", "DEFAULT"))
        client.delete_calendar("weekends")


def all_excluded(client: Scheduler) -> None:
    client.add_calendar("nothing", WeeklyCalendar(EVERY_DAY))
    try:
        schedule(client, SimpleTrigger("t", calendar="nothing"))
    finally:
        client.delete_calendar("nothing")


def run_disabled(client: Scheduler) -> None:
    client.set_mode(JobKey("stored", "DEFAULT"), "DISABLED")
    try:
        client.trigger_job(JobKey("stored", "DEFAULT"))
    finally:
        client.set_mode(JobKey("stored", "DEFAULT"), "ENABLED")


STORED = JobKey("stored", "DEFAULT")
ABSENT = JobKey("daily", "reports")

ROWS: dict[str, Row] = {
    "01 an empty name": (named(""), E.InvalidKeyError, r"^job name: must not be empty$"),
    "02 a name of 201": (named("x" * 201), E.InvalidKeyError, r"^job name: 201 characters, at most 200$"),
    "03 a line feed": (named("a\nb"), E.InvalidKeyError, r"^job name: control character U\+000A at position 1$"),
    "03 a NUL": (named("a\0"), E.InvalidKeyError, r"^job name: control character U\+0000 at position 1$"),
    "03 a direction": (named("\u202ea"), E.InvalidKeyError, r"^job name: control character U\+202E at position 0$"),
    "03 an escape": (named("\x1b[2J"), E.InvalidKeyError, r"^job name: control character U\+001B at position 0$"),
    "04 a number": (named(5), E.InvalidKeyError, r"^job name: must be str \(got int\)$"),
    "04 None": (named(None), E.InvalidKeyError, r"^job name: must be str \(got NoneType\)$"),
    "04 bytes": (named(b"x"), E.InvalidKeyError, r"^job name: must be str \(got bytes\)$"),
    "04 bytes for a key": (
        lambda c: c.pause_job(b"nightly"),  # type: ignore[arg-type]
        E.InvalidKeyError,
        r"^key: the name of a job or its key is needed, as \"nightly\" or JobKey\(.*\) \(got b'nightly'\)$",
    ),
    "04 a job's key for a trigger's": (
        lambda c: c.pause_trigger(STORED),  # type: ignore[arg-type]
        E.InvalidKeyError,
        r"^key: the name of a trigger or its key is needed.*got JobKey",
    ),
    "05 a lone surrogate": (named("\ud800"), E.InvalidKeyError, r"^job name: not valid Unicode text"),
    "06 no cron": (cron(""), E.InvalidCronError, r"expected 6 or 7 fields \(got 0\)"),
    "06 two fields": (cron("* *"), E.InvalidCronError, r"expected 6 or 7 fields \(got 2\)"),
    "06 a number": (cron(5), E.InvalidCronError, r"must be str \(got int\)"),
    "07 second 60": (cron("60 * * * * ?"), E.InvalidCronError, r"seconds field '60': allowed 0-59"),
    "08 two ?": (cron("0 0 0 ? * ?"), E.InvalidCronError, r"day-of-month and day-of-week cannot both be '\?'"),
    "09 a step of 0": (cron("*/0 * * * * ?"), E.InvalidCronError, r"seconds field '\*/0': step must be 1 or more"),
    "09 a step that is none": (cron("0 5-1/x * * * ?"), E.InvalidCronError, r"minutes field '5-1/X': 'X' is not a"),
    "09 L-40": (cron("0 0 0 L-40 * ?"), E.InvalidCronError, r"day-of-month field 'L-40': at most L-30"),
    "09 MON#6": (cron("0 0 0 ? * MON#6"), E.InvalidCronError, r"day-of-week field 'MON#6': after '#' allowed 1-5"),
    "10 never": (cron("0 0 0 30 2 ?"), E.TriggerNeverFiresError, r"t will never fire.*; it was not stored$"),
    "11 no zone": (on_start(start_time=datetime(2025, 1, 1)), E.InvalidTriggerError, r"start_time: needs a time zone"),
    "12 an end before the start": (
        on_start(end_time=LATER - timedelta(1)),
        E.InvalidTriggerError,
        r"end_time 2089-12-31T00:00:00\+00:00 is before start_time 2090-01-01T00:00:00\+00:00",
    ),
    "13 no interval": (
        on_start(repeat_count=1),
        E.InvalidTriggerError,
        r"interval: must be at least 1 ms \(got 0:00:00\)",
    ),
    "13 a negative one": (
        on_start(interval=timedelta(-1), repeat_count=None),
        E.InvalidTriggerError,
        r"interval: must be zero or more",
    ),
    "13 a microsecond": (
        on_start(interval=timedelta.resolution, repeat_count=None),
        E.InvalidTriggerError,
        r"interval: must be at least 1 ms \(got 0:00:00.000001\)",
    ),
    "13 True": (on_start(interval=True), E.InvalidTriggerError, r"interval: must be a length of time.*got True"),
    "13 nan": (on_start(interval=math.nan), E.InvalidTriggerError, r"interval: must be a length of time.*got nan"),
    "14 -2": (
        on_start(repeat_count=-2),
        E.InvalidTriggerError,
        r"repeat_count: must be from 0 to 2147483647, or None.*got -2",
    ),
    "14 10**12": (on_start(repeat_count=10**12), E.InvalidTriggerError, r"repeat_count: must be from 0 to 2147483647"),
    "14 1.5": (
        on_start(repeat_count=1.5),
        E.InvalidTriggerError,
        r"repeat_count: must be from 0 to 2147483647, .*got 1.5",
    ),
    "15 2**31": (on_start(priority=2**31), E.InvalidTriggerError, r"priority: must be an integer of 32 bits"),
    "15 True": (on_start(priority=True), E.InvalidTriggerError, r"priority: must be an integer of 32 bits"),
    "16 Mars": (
        cron("0 0 0 * * ?", time_zone="Europe/Berlinn"),
        E.UnknownTimeZoneError,
        r"'Europe/Berlinn' is not known; did you mean 'Europe/Berlin'\?",
    ),
    "16 a path": (
        cron("0 0 0 * * ?", time_zone="../etc/passwd"),
        E.UnknownTimeZoneError,
        r"'../etc/passwd' is not known",
    ),
    "16 a number": (cron("0 0 0 * * ?", time_zone=5), E.UnknownTimeZoneError, r"must be a name.*got int"),
    "17 the last instant": (
        lambda c: schedule(c, CronTrigger("0 0 0 * * ?", "t", start_time=datetime.max.replace(tzinfo=UTC))),
        E.TriggerNeverFiresError,
        r"will never fire",
    ),
    "17 the first instant": (
        lambda c: schedule(
            c, AnyOf("t", start_time=datetime.min.replace(tzinfo=UTC), triggers=[CronTrigger("0 0 0 * * ? 1970")] * 2,
                     end_time=datetime.min.replace(tzinfo=UTC))
        ),
        E.TriggerNeverFiresError,
        r"will never fire",
    ),
    "17 a delay beyond all years": (
        lambda c: c.trigger_job(STORED, delay=timedelta.max),
        E.InvalidValueError,
        r"delay: must be zero or more and at most 36525 days",
    ),
    "18 another kind's misfire": (
        cron("0 0 0 * * ?", misfire="fire_now"),
        E.InvalidTriggerError,
        r"misfire: cron triggers accept smart, ignore, fire_once_now, do_nothing, fire_all \(got 'fire_now'\)",
    ),
    "19 a lambda": (lambda c: detail(lambda context: None), E.InvalidJobTypeError, r"a subclass of Job is needed"),
    "19 an instance": (lambda c: detail(Twice()), E.InvalidJobTypeError, r"a subclass of Job is needed"),
    "19 a name that nobody has": (lambda c: JobTypes().find("x"), E.UnknownJobTypeError, r"'x' is not registered"),
    "20 a name twice": (register_twice, E.DuplicateJobTypeError, r"'x' is already tests\.security.*Twice"),
    "21 no execute": (lambda c: detail(NoExecute), E.InvalidJobTypeError, r"NoExecute: execute\(context\) is missing"),
    "21 no argument": (lambda c: detail(NoContext), E.InvalidJobTypeError, r"NoContext\.execute must take one"),
    "22 an object": (with_data(object()), E.InvalidJobDataError, r"data\['x'\]: object cannot be stored; use JSON"),
    "22 a set inside": (with_data([0, {1}]), E.InvalidJobDataError, r"data\['x'\]\[1\]: set cannot be stored"),
    "22 a lambda": (with_data(lambda: 1), E.InvalidJobDataError, r"data\['x'\]: function cannot be stored"),
    "22 NaN": (with_data(math.nan), E.InvalidJobDataError, r"data\['x'\]: nan is not a JSON number"),
    "22 infinity": (with_data(math.inf), E.InvalidJobDataError, r"data\['x'\]: inf is not a JSON number"),
    "23 a key that is no text": (with_data({5: 1}), E.InvalidJobDataError, r"data\['x'\]: keys must be str \(got 5\)"),
    "23 1,000 deep": (with_data(in_data(1_000)), E.InvalidJobDataError, r"nested deeper than 32"),
    "23 a circle": (with_data(circle()), E.InvalidJobDataError, r"nested deeper than 32, or refers to itself"),
    "24 too large": (
        with_data("x" * 70_000),
        E.InvalidJobDataError,
        r"data: 70009 bytes, at most 65536 \(setting max_job_data_bytes\)",
    ),
    "25 a NUL": (with_data("a\0"), E.InvalidJobDataError, r"data\['x'\]: the NUL character cannot be stored"),
    "25 a surrogate": (with_data("\ud800"), E.InvalidJobDataError, r"data: not valid Unicode text"),
    "26 a job that is stored": (
        lambda c: c.add_job(JobDetail(jobs.Recorded, "stored", durable=True)),
        E.ObjectAlreadyExistsError,
        r"job DEFAULT\.stored exists already and is different: durable is False, not True; pass replace=True",
    ),
    "27 a trigger of no job": (
        lambda c: c.schedule(SimpleTrigger("t", job_key=ABSENT, start_time=LATER)),
        E.JobNotFoundError,
        r"no job reports\.daily is stored",
    ),
    "27 no job to run": (lambda c: c.trigger_job(ABSENT), E.JobNotFoundError, r"job reports\.daily is not stored"),
    "28 not durable": (lambda c: c.add_job(detail()), E.InvalidJobError, r"DEFAULT\.job has no trigger and is not dur"),
    "29 no such calendar": (on_start(calendar="x"), E.CalendarNotFoundError, r"calendar 'x' is not stored"),
    "29 a calendar in use": (used_calendar, E.CalendarInUseError, r"weekends"),
    "29 a calendar without a gap": (all_excluded, E.TriggerNeverFiresError, r"that calendar 'nothing' includes"),
    "29 calendars without end": (
        lambda c: c.add_calendar("x", chained(33)),
        E.InvalidCalendarError,
        r"base: more than 32 calendars in one chain",
    ),
    "29 a calendar's expression": (
        lambda c: c.add_calendar("x", CronCalendar("* *")),
        E.InvalidCronError,
        r"expected 6 or 7 fields",
    ),
    "30 a job that is disabled": (run_disabled, E.IllegalStateChangeError, r"DEFAULT\.stored is disabled; enable it"),
    "31 a matcher of nothing": (
        lambda c: c.pause_trigger_group(None),  # type: ignore[arg-type]
        E.InvalidMatcherError,
        r"group: must be a name or a GroupMatcher \(got None\)",
    ),
    "31 a matcher of a number": (
        lambda c: GroupMatcher.contains(5),  # type: ignore[arg-type]
        E.InvalidMatcherError,
        r"the group must be str \(got 5\)",
    ),
    "31 a comparison that is none": (lambda c: KeyMatcher.name("like", "%"), E.InvalidMatcherError, r"got 'like'"),
    "32 a misspelt setting": (
        setting(misfire_treshold="1s"),
        E.SettingsError,
        r"misfire_treshold is not a setting; did you mean misfire_threshold\?",
    ),
    "33 5x": (setting(checkin_interval="5x"), E.SettingsError, r"checkin_interval: must be a length of time.*got '5x'"),
    "33 0": (setting(checkin_interval="0s"), E.SettingsError, r"checkin_interval: must be above zero"),
    "33 -1": (setting(checkin_interval=timedelta(-1)), E.SettingsError, r"must be above zero"),
    "33 11 years": (setting(idle_wait="4018d"), E.SettingsError, r"idle_wait: must be .* at most 3660 days .*4018d"),
    "34 a short window": (
        setting(failure_window="10s"),
        E.SettingsError,
        r"failure_window 0:00:10 must be at least checkin_interval x 3 \+ lock_timeout = 0:00:20",
    ),
    "34 a small pool": (setting(pool_size=2), E.SettingsError, r"pool_size=2 must be from 3"),
    "34 10,000 workers": (setting(workers=10_000), E.SettingsError, r"workers=10000 must be from 0 to 5000"),
    "35 a schema that is SQL": (setting(schema="x; drop"), E.SettingsError, r"^schema: .*'x; drop'"),
    "35 a long one": (setting(schema="x" * 64), E.SettingsError, r"^schema: "),
    "35 a quotation mark": (setting(schema='x"y'), E.SettingsError, r"^schema: "),
    "36 no URL": (lambda c: Scheduler(""), E.SettingsError, r"postgresql\+psycopg://"),
    "36 another engine": (
        lambda c: Scheduler("mysql://u:hidden@h/x"),
        E.SettingsError,
        r"^database URL: postgresql\+psycopg:// is expected \(got mysql://u:\*\*\*@h/x\); jobs are stored in P",
    ),
    "36 another driver": (lambda c: Scheduler("postgresql+asyncpg://u:hidden@h/x"), E.SettingsError, r"\*\*\*@h/x"),
    "42 start after shutdown": (
        lambda c: after_shutdown(),
        E.SchedulerStateError,
        r"shut down",
    ),
    "47 an execution that is no number": (lambda c: c.execution("9" * 5_000), E.InvalidValueError, r"fire_id"),
    "47 a limit that is none": (lambda c: c.jobs().page(-1), E.InvalidValueError, r"limit: must be a whole.*got -1"),
}  # fmt: skip


def after_shutdown() -> None:
    scheduler = Scheduler("memory://")
    scheduler.shutdown()
    scheduler.start()


@pytest.mark.parametrize("row", ROWS)
def test_row(client: Scheduler, row: str) -> None:
    act, error, message = ROWS[row]
    client.schedule_job(JobDetail(jobs.Recorded, "stored"), SimpleTrigger("stored", start_time=LATER))

    def rows() -> tuple[object, ...]:
        # Enabling a job again resumes its triggers.
        triggers = [replace(trigger, resumed_at=None) for trigger in client.triggers()]
        return list(client.jobs()), triggers, client.calendar_names(), client.paused_trigger_groups()

    before = rows()
    with pytest.raises(error) as caught:
        act(client)
    said = str(caught.value)
    assert isinstance(caught.value, errors.QuartzpyError)
    assert re.search(message, said), said
    assert "hidden" not in said + repr(caught.value.__cause__) + repr(caught.value.__context__)
    assert len(said) < 600
    assert rows() == before


def test_row_27_what_is_not_stored_is_not_deleted(client: Scheduler) -> None:
    with pytest.raises(E.JobNotFoundError):
        client.delete_job(ABSENT)
    with pytest.raises(E.TriggerNotFoundError):
        client.unschedule_job(TriggerKey("daily", "reports"))
    with pytest.raises(E.CalendarNotFoundError):
        client.delete_calendar("none")
    assert client.delete_job(ABSENT, missing_ok=True) is False
    assert client.unschedule_job(TriggerKey("daily", "reports"), missing_ok=True) is False
    assert client.delete_calendar("none", missing_ok=True) is False


def _file(text: str | bytes, name: str = "quartzpy.toml") -> Callable[[Path], Any]:
    def read(directory: Path) -> Any:
        path = directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_settings(path, {})

    return read


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda directory: load_settings(directory / "none.toml", {}), r"none\.toml: the file does not exist"),
    "a directory": (lambda directory: load_settings(directory, {}), r"cannot be read: Is a directory"),
    "not UTF-8": (_file(b"[quartzpy]\nname = '\xff'"), r"not UTF-8.*byte 19"),
    "not TOML": (_file("[quartzpy]\nname =\nworkers = 1\n"), r"quartzpy\.toml is not valid TOML: .*line 2"),
    "a key twice": (_file("[quartzpy]\nworkers = 1\nworkers = 2\n\n"), r"is not valid TOML: .*line 3"),
    "nested without end": (
        _file("[quartzpy]\nlabels = " + "[" * 20_000),
        r"is not valid TOML: it is nested too deeply",
    ),
    "a number without end": (_file("[quartzpy]\nworkers = " + "9" * 5_000), r"is not valid TOML"),
    "a wrong type": (
        _file("[quartzpy]\nworkers = '3'"),
        r"quartzpy\.toml: workers must be an integer \(got '3'\)",
    ),
    "a misspelt word": (_file("[quartzpy]\nworker = 3"), r"worker is not a setting; did you mean workers\?"),
    "a password under a misspelt word": (_file("[quartzpy]\nurll = 'postgresql://u:hidden@h/x'"), r"urll is not a set"),
    "a variable": (lambda _: load_settings(None, {f"{PREFIX}WORKERS": "many"}), r"_WORKERS must be an integer.*'many'"),
    "a misspelt variable": (lambda _: load_settings(None, {f"{PREFIX}WORKER": "1"}), r"did you mean \w+_WORKERS\?"),
}


@pytest.mark.parametrize("case", FILES)
def test_row_48_a_file_or_variable_that_cannot_be_read_is_named(tmp_path: Path, case: str) -> None:
    read, message = FILES[case]
    with pytest.raises(errors.SettingsError) as caught:
        read(tmp_path)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("60 * * * *", "minutes field '60': allowed 0-59"),
        ("* * * *", "crontab: expected 5 fields"),
        ("* * * * * * *", "crontab: expected 5 fields"),
        ("@never", "crontab: '@never': allowed @every_second"),
        ("*/0 * * * *", "minutes field '*/0': step must be 1 or more"),
        ("5-1-2 * * * *", "minutes field '5-1-2': cannot be read from '-2' on"),
        ("0 0 30 2 *", "day-of-month field '30': no day of any of these months matches"),
    ],
)
def test_row_09_wrong_crontabs_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(errors.InvalidCronError) as caught:
        CrontabExpression(text)
    assert str(caught.value).startswith(message)


def test_row_09_the_caret_is_under_the_error() -> None:
    with pytest.raises(errors.InvalidCronError) as caught:
        CronExpression("0 0 25 * * ?")
    expression, caret, _ = caught.value.pointed_out().split("\n")
    assert expression[caret.index("^") :].startswith("25")


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
JOB = "job:\n- type: tests.facade.jobs:Recorded\n  name: j\n"
DECLARED = {
    "nested without end.yaml": ("job: " + "[" * 5_000, r"not YAML: nested deeper than 64"),
    "nested in blocks.yaml": ("\n".join(" " * n + "a:" for n in range(200)), r"not YAML: nested deeper than 64"),
    "a day that is none.yaml": (JOB + "  data: {day: 2026-13-45}\n", r"not YAML: month must be in 1..12"),
    "a number without end.yaml": (JOB + f"  data: {{n: {'9' * 5_000}}}\n", r"not YAML: Exceeds the limit"),
    "a word twice.yaml": (JOB + "  name: k\n", r"not YAML: 'name' is given twice in one table, in line 2"),
    "aliases that grow.yaml": (JOB + "  data: {x: &l [l], y: &m [*l, *l]}\n" + BOMB, r"'a0' is not known"),
    "data that grows.yaml": (
        JOB + "  data:\n" + "".join(f"    {line}\n" for line in BOMB.splitlines()),
        r"job 1 \(j\): data\['a\d+'\].*more than 1048576 bytes, which no setting allows",
    ),
    "an object.yaml": ("job: !!python/object/apply:os.getcwd []", r"not YAML: could not determine a constructor"),
    "nested without end.toml": ("job = " + "[" * 20_000, r"not TOML: nested too deep"),
    "a number without end.toml": ("job = " + "9" * 5_000, r"not TOML: Exceeds the limit"),
    "a span without end.toml": (
        f'[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "j"\ntimeout = "{"9" * 400}d"\n',
        r"job 1 \(j\): timeout: must be a length of time",
    ),
    "an instant beyond UTC.toml": (
        '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "j"\n[[job.trigger]]\nkind = "simple"\n'
        "start_time = 9999-12-31T23:59:59-12:00\n",
        r"job 1 \(j\): trigger 1: start_time: must be within the years 1 to 9999 in UTC",
    ),
}


@pytest.mark.parametrize("name", DECLARED)
def test_row_48_a_file_of_jobs_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    text, message = DECLARED[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(errors.SettingsError) as caught:
        load_definitions(path)
    assert str(path) in str(caught.value)
    assert re.search(message, str(caught.value), re.S), str(caught.value)
    assert all(len(line) < 1_000 for line in str(caught.value).splitlines())
