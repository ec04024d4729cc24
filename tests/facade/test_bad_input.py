"""Bad input gets an error of ours that says what is wrong and what would be right, and leaves nothing half done."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import quartzpy
from quartzpy import (
    CronTrigger,
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    Scheduler,
    SimpleTrigger,
    WeeklyCalendar,
    errors,
)
from tests.facade import jobs

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def local_class() -> type[Job]:
    class Local(Job):
        def execute(self, context: JobExecutionContext) -> None: ...

    return Local


def detail(**how: Any) -> JobDetail:
    return JobDetail(jobs.Recorded, "job", **how)


def schedule(client: Scheduler, trigger: Any, job: Any = None) -> None:
    client.schedule_job(job or detail(), trigger)


CASES: dict[str, tuple[Callable[[Scheduler], Any], type[Exception], str]] = {
    "a job that is given twice": (
        lambda c: c.schedule_jobs([(detail(description=one), [SimpleTrigger(one, start_time=LATER)]) for one in "ab"]),
        errors.InvalidJobError,
        r"job DEFAULT\.job is given twice; give it once, with all its triggers",
    ),
    "a trigger that is given twice": (
        lambda c: schedule(c, [SimpleTrigger("t", start_time=LATER), SimpleTrigger("t", start_time=LATER)]),
        errors.InvalidTriggerError,
        r"trigger DEFAULT\.t is given twice",
    ),
    "a cron field out of range": (
        lambda c: schedule(c, CronTrigger("0 60 * * * ?", "t")),
        errors.InvalidCronError,
        r"minutes?.*60.*0.*59",
    ),
    "a cron word that is none": (
        lambda c: schedule(c, CronTrigger("0 0 0 ? * MOO", "t")),
        errors.InvalidCronError,
        r"day.of.week.*MOO",
    ),
    "a crontab line given to the Quartz dialect": (
        lambda c: schedule(c, CronTrigger("*/5 * * * *", "t", dialect="quartz")),
        errors.InvalidCronError,
        r"6 or 7 fields \(got 5\).*from_crontab",
    ),
    "a wrong crontab line": (
        lambda c: schedule(c, CronTrigger.from_crontab("61 * * * *", "t")),
        errors.InvalidCronError,
        r"61",
    ),
    "a trigger that will never fire": (
        lambda c: schedule(c, CronTrigger("0 0 0 30 2 ?", "t")),
        errors.TriggerNeverFiresError,
        r"DEFAULT\.t.*never",
    ),
    "a trigger whose end is before its first fire": (
        lambda c: schedule(c, CronTrigger("0 0 0 1 6 ?", "t", start_time=LATER, end_time=LATER + timedelta(days=1))),
        errors.TriggerNeverFiresError,
        r"DEFAULT\.t.*never",
    ),
    "an end before the start": (
        lambda c: schedule(c, SimpleTrigger("t", start_time=LATER, end_time=LATER - timedelta(days=1))),
        errors.InvalidTriggerError,
        r"end_time",
    ),
    "a naive datetime": (
        lambda c: schedule(c, SimpleTrigger("t", start_time=datetime(2090, 1, 1))),
        errors.InvalidTriggerError,
        r"start_time.*time zone",
    ),
    "an execution state that is none": (
        lambda c: c.executions(state=["FAILED", "LOST"]),
        errors.InvalidValueError,
        r"state: must be among SCHEDULED.*TERMINATED \(got.*LOST",
    ),
    "executions since a naive datetime": (
        lambda c: c.executions(since=datetime(2090, 1, 1)),
        errors.InvalidValueError,
        r"since: needs a time zone",
    ),
    "executions until something else": (
        lambda c: c.executions(until="today"),  # type: ignore[arg-type]
        errors.InvalidValueError,
        r"until: must be a datetime \(got str\)",
    ),
    "an unknown zone": (
        lambda c: schedule(c, CronTrigger("0 0 0 * * ?", "t", time_zone="Europe/Atlantis")),
        errors.UnknownTimeZoneError,
        r"Europe/Atlantis",
    ),
    "an unknown misfire instruction": (
        lambda c: schedule(c, SimpleTrigger("t", misfire="fire_twice")),
        errors.InvalidTriggerError,
        r"misfire: simple triggers accept smart.*fire_twice",
    ),
    "a lambda as a job": (
        lambda c: JobDetail(lambda context: None, "job"),  # type: ignore[arg-type]
        errors.InvalidJobTypeError,
        r"subclass of Job is needed \(got <function",
    ),
    "a local class as a job": (
        lambda c: JobDetail(local_class(), "job"),
        errors.InvalidJobTypeError,
        r"Local.*inside a function.*type_name",
    ),
    "an abstract class as a job": (lambda c: JobDetail(Job, "job"), errors.InvalidJobTypeError, r"execute"),
    "data that is not JSON": (
        lambda c: schedule(c, SimpleTrigger("t"), detail(data={"ok": 1, "inner": {"bad": object()}})),
        errors.InvalidJobDataError,
        r"data\['inner'\]\['bad'\].*object",
    ),
    "a trigger's data that is not JSON": (
        lambda c: schedule(c, SimpleTrigger("t", data={"bad": {1, 2}})),
        errors.InvalidJobDataError,
        r"data\['bad'\].*set",
    ),
    "data that is too large": (
        lambda c: schedule(c, SimpleTrigger("t"), detail(data={"big": "x" * 100_000})),
        errors.InvalidJobDataError,
        r"65,?536",
    ),
    "an empty name": (
        lambda c: JobDetail(jobs.Recorded, ""),
        errors.InvalidKeyError,
        r"job name: must not be empty",
    ),
    "an empty trigger name": (lambda c: SimpleTrigger(""), errors.InvalidKeyError, r"trigger name: must not be empty"),
    "an over-long name": (
        lambda c: SimpleTrigger("x" * 201),
        errors.InvalidKeyError,
        r"trigger name: 201 characters, at most 200",
    ),
    "an over-long group": (
        lambda c: JobDetail(jobs.Recorded, "j", "g" * 201),
        errors.InvalidKeyError,
        r"job group: 201 characters",
    ),
    "a key that is stored": (
        lambda c: schedule(c, SimpleTrigger("t"), JobDetail(jobs.Recorded, "stored", description="other")),
        errors.ObjectAlreadyExistsError,
        r"job DEFAULT\.stored exists already and is different: .*pass replace=True",
    ),
    "a trigger key that is stored": (
        lambda c: schedule(
            c, SimpleTrigger("stored", start_time=datetime(2026, 1, 1, tzinfo=UTC), interval=timedelta(hours=5))
        ),
        errors.ObjectAlreadyExistsError,
        r"trigger DEFAULT\.stored exists already and is different: .*start_time is \S+\+00:00, not"
        r" 2026-01-01T00:00:00\+00:00; interval is \S+, not 5:00:00; .*pass replace=True",
    ),
    "the same key twice in one call": (
        lambda c: schedule(c, [SimpleTrigger("t"), SimpleTrigger("t")]),
        errors.InvalidTriggerError,
        r"twice",
    ),
    "a missing job": (
        lambda c: c.schedule(SimpleTrigger("t", job_key=JobKey("b", "a"))),
        errors.JobNotFoundError,
        r"no job a\.b is stored",
    ),
    "a trigger without a job": (
        lambda c: c.schedule(SimpleTrigger("t")),
        errors.InvalidTriggerError,
        r"job_key is missing",
    ),
    "a trigger of another job": (
        lambda c: schedule(c, SimpleTrigger("t", job_key=JobKey("b", "a"))),
        errors.InvalidTriggerError,
        r"names job a\.b, not DEFAULT\.job",
    ),
    "no trigger at all": (lambda c: schedule(c, []), errors.InvalidJobError, r"has no trigger and is not durable"),
    "a missing calendar": (
        lambda c: schedule(c, SimpleTrigger("t", calendar="holidays")),
        errors.CalendarNotFoundError,
        r"calendar 'holidays' is not stored",
    ),
    "a job without a trigger that is not durable": (
        lambda c: c.add_job(detail()),
        errors.InvalidJobError,
        r"not durable; pass durable=True",
    ),
    "a misfire threshold that overflows": (
        lambda c: schedule(c, SimpleTrigger("t", misfire_threshold=timedelta(days=3_000_000))),
        errors.InvalidTriggerError,
        r"misfire_threshold: must be above zero and at most 36525 days.*3000000",
    ),
    "an interval that overflows": (
        lambda c: schedule(c, SimpleTrigger("t", interval=timedelta.max, repeat_count=1)),
        errors.InvalidTriggerError,
        r"interval: must be zero or more and at most 36525 days",
    ),
    "more fires than there can be": (
        lambda c: schedule(c, SimpleTrigger("t", interval=timedelta(days=1), repeat_count=10**30)),
        errors.InvalidTriggerError,
        r"repeat_count: must be from 0 to 2147483647",
    ),
    "a start out of range": (
        lambda c: schedule(
            c, SimpleTrigger("t", start_time=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))))
        ),
        errors.InvalidTriggerError,
        r"start_time: must be within the years 1 to 9999",
    ),
    "a timeout that overflows": (
        lambda c: detail(timeout=timedelta.max),
        errors.InvalidJobError,
        r"timeout: must be above zero and at most 36525 days",
    ),
    "a delay that overflows": (
        lambda c: c.trigger_job(JobKey("stored", "DEFAULT"), delay=timedelta.max),
        errors.InvalidValueError,
        r"delay: must be zero or more and at most 36525 days",
    ),
    "NUL in a description": (
        lambda c: schedule(c, SimpleTrigger("t", description="a\0b")),
        errors.InvalidTriggerError,
        r"description: the NUL character at position 1",
    ),
    "a lone surrogate in a description": (
        lambda c: detail(description="\ud800"),
        errors.InvalidJobError,
        r"description: not valid Unicode text \(lone surrogate at position 0\)",
    ),
    "NUL in a calendar's description": (
        lambda c: c.add_calendar("c", WeeklyCalendar(description="\0")),
        errors.InvalidCalendarError,
        r"description: the NUL character",
    ),
    "a huge whole number in data": (
        lambda c: detail(data={"n": 10**5000}),
        errors.InvalidJobDataError,
        r"data\['n'\]: a whole number of more than 4,300 digits",
    ),
    "an empty group to match": (lambda c: c.pause_trigger_group(""), errors.InvalidMatcherError, r"empty"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_its_reason_and_changes_nothing(client: Scheduler, case: str) -> None:
    act, error, message = CASES[case]
    client.schedule_job(JobDetail(jobs.Recorded, "stored"), SimpleTrigger("stored", start_time=LATER))
    before = list(client.jobs()), list(client.triggers()), client.paused_trigger_groups()
    with pytest.raises(error) as caught:
        act(client)
    assert isinstance(caught.value, errors.QuartzpyError)
    assert re.search(message, str(caught.value), re.S | re.I), str(caught.value)
    assert (list(client.jobs()), list(client.triggers()), client.paused_trigger_groups()) == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", r"postgresql\+psycopg://"),
        (None, r"postgresql\+psycopg://"),
        ("postgres//nothing", r"postgresql\+psycopg://user:password@host:5432/database is expected"),
        ("mysql://root:secret@host/db", r"postgresql\+psycopg:// is expected \(got mysql://root:\*\*\*@host/db\)"),
        ("postgresql://u:p@host:port/db", r"expected"),
    ],
)
def test_a_wrong_database_url_is_refused_when_the_scheduler_is_made(url: Any, message: str) -> None:
    with pytest.raises(errors.SettingsError, match=message) as caught:
        Scheduler(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"worker": 3}, "worker is not a setting; did you mean workers?"),
        ({"workers": -1}, "workers=-1 must be from 0 to 5000"),
        ({"workers": "ten"}, "workers must be an integer (got 'ten')"),
        ({"idle_wait": [5]}, "idle_wait: must be a length of time"),
        ({"idle_wait": "5 ticks"}, "or '7d' (got '5 ticks')"),
        ({"checkin_interval": "10s"}, "failure_window 0:00:20 must be at least checkin_interval x 3 + lock_timeout"),
        ({"schema": "Drop table;"}, "schema: must consist of at most 63 letters"),
        ({"statement_timeout": timedelta(days=365)}, "statement_timeout=365 days, 0:00:00 must be at most 24 days"),
        ({"name": ""}, "name: must not be empty"),
        ({"job_modules": "myapp"}, "job_modules must be a tuple of module names"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_rule(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        Scheduler("memory://", **settings)
    assert message in str(caught.value)


def test_every_error_of_ours_has_one_base() -> None:
    for name in dir(errors):
        found = getattr(errors, name)
        if isinstance(found, type) and issubclass(found, BaseException) and name != "JobExecutionError":
            assert issubclass(found, quartzpy.QuartzpyError), name
            assert found.__doc__
