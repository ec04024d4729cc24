"""What people type who know another scheduler: it works, or the error has the line to write here."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any

import pytest

import quartzpy
from quartzpy import (
    AsyncScheduler,
    CronTrigger,
    JobDetail,
    JobExecutionContext,
    JobKey,
    Query,
    ScheduledJob,
    Scheduler,
    at,
    cron,
    errors,
    every,
    job,
    name_hints,
)
from quartzpy.jobs.function_job import JobFunction
from quartzpy.testing import SchedulerHarness
from tests.facade import functions

untyped: Any = quartzpy
untyped_cron: Any = cron
untyped_cron_trigger: Any = CronTrigger


def plain() -> None:
    pass


@job
def tick() -> None:
    pass


def takes(a: int, b: int = 0) -> None:
    pass


def looks(context: JobExecutionContext) -> None:
    context.set_progress(0.5)  # type: ignore[attr-defined]


def generates() -> Iterator[int]:
    yield 1


async def generates_async() -> AsyncIterator[int]:
    yield 1


@pytest.fixture
def scheduler() -> Any:
    # Not typed: what is called here is wrong on purpose.
    return Scheduler("memory://", name="other-names")


@pytest.mark.parametrize(
    ("attempt", "error", "hint"),
    [
        (lambda s: s.add_job(plain, "interval", seconds=10), TypeError, r"use schedule_job; .*every\(minutes=10\)"),
        (lambda s: s.add_job(plain, trigger="cron", hour=2), TypeError, r"schedule_job\(report, every\(seconds=10\)\)"),
        (lambda s: s.add_job(plain), errors.InvalidJobError, "schedule_job takes classes and functions"),
        (
            lambda s: s.schedule_job(plain, every("10s"), title="A"),
            errors.InvalidJobError,
            'display_name="Nightly report"',
        ),
        (lambda s: s.task, AttributeError, r'@scheduler\.scheduled_job\("0 0 2 \* \* \?"\)'),
        (lambda s: s.schedule_job("nightly", every("10s")), errors.InvalidJobError, "name='nightly'"),
        (lambda s: s.schedule_job(every("10s"), plain), errors.InvalidTriggerError, "the job comes first"),
        (lambda s: s.schedule_job(plain(), every("10s")), errors.InvalidJobError, "without calling it"),
        (lambda s: s.schedule_job(plain, "interval"), errors.InvalidTriggerError, r"every\(seconds=10\)"),
        (lambda s: s.schedule_job(plain, "cron", hour=2), errors.InvalidTriggerError, r"cron\.daily_at\(2, 30\)"),
        (lambda s: s.schedule_job(plain, "date"), errors.InvalidTriggerError, r"at\(datetime"),
        (lambda s: s.schedule_job(plain, "every 10 seconds"), errors.InvalidTriggerError, r"every\('10 seconds'\)"),
        (lambda s: s.schedule_job(plain, "soon"), errors.InvalidTriggerError, r"it has 1; .*every\('10s'\)"),
        (lambda s: s.schedule_job(plain, 10), errors.InvalidTriggerError, r"every\(10\)"),
        (lambda s: s.schedule_job(plain, datetime(2026, 12, 1)), errors.InvalidTriggerError, r"T00:00:00\+00:00 has"),
        (lambda s: s.schedule_job(plain, every(5), id="r"), errors.InvalidJobError, 'name="nightly"'),
        (lambda s: s.schedule_job(plain, every(5), replace_existing=True), errors.InvalidJobError, "replace=True"),
        (lambda s: s.schedule_job(tick, every(5), max_instances=1), errors.InvalidJobError, "max_concurrent=1"),
        (
            lambda s: s.schedule_job(plain, "0 2 * * *", timezone="CET"),
            errors.InvalidJobError,
            r"CronTrigger\(.*time_zone=",
        ),
        (lambda s: s.schedule_job(plain, every(5), calendar="h"), errors.InvalidJobError, r'calendar="holidays"'),
        (lambda s: s.schedule_job(plain, every(5), retries=3), errors.InvalidJobError, r"RetryPolicy\(attempts=5\)"),
        (lambda s: s.schedule_job(plain, every(5), retry=3), errors.InvalidJobError, r"RetryPolicy\(attempts=5\)"),
        (lambda s: s.schedule_job(plain, every(5), executer="x"), errors.InvalidJobError, "did you mean executor"),
        (
            lambda s: s.schedule_job(plain, every(5), nonsense=1),
            errors.InvalidJobError,
            "the options are .*max_concurrent",
        ),
        (lambda s: s.schedule_job(plain, "02:30"), errors.InvalidTriggerError, r"cron\.daily_at\(2, 30\)"),
        (lambda s: s.schedule_job(plain, time(2, 30)), errors.InvalidTriggerError, r"cron\.daily_at\(2, 30\)"),
        (lambda s: s.schedule_job(plain, every(5), name=""), errors.InvalidKeyError, "job name"),
        (lambda s: s.schedule_job(partial(takes, 1), every(5)), errors.InvalidJobTypeError, r"args=\[\.\.\.\]"),
        (lambda s: s.schedule_job(takes, every(5), args="ab"), errors.InvalidJobDataError, r"args=\['eu'\] \(got 'ab'"),
        (lambda s: s.schedule_job(takes, every(5), args=1), errors.InvalidJobDataError, r"args=\['eu'\] \(got 1"),
        (lambda s: s.schedule_job(takes, every(5), args={"a": 1}), errors.InvalidJobDataError, r"args=\['eu'\]"),
        (
            lambda s: s.schedule_job(takes, every(5), kwargs=[1]),
            errors.InvalidJobDataError,
            r"kwargs=\{'region': 'eu'\}",
        ),
        (lambda s: s.schedule_job(generates, every(5)), errors.InvalidJobTypeError, "generates is a generator"),
        (lambda s: s.schedule_job(generates_async, every(5)), errors.InvalidJobTypeError, "is a generator"),
        (
            lambda s: s.schedule_job(tick.detail(), every(5), replace=True),
            errors.InvalidJobError,
            r"tick has no name.*tick\.detail\('nightly'",
        ),
        (lambda s: s.sync([(tick.detail(), every(5))], owner="a"), errors.InvalidJobError, "^sync: .*tick has no name"),
        (lambda s: s.schedule_jobs([(tick.detail(), [every(5)])], replace=True), errors.InvalidJobError, "has no name"),
        (lambda _: untyped.job(max_instances=1), TypeError, "max_concurrent=1"),
        (lambda _: untyped.job(name="nightly"), TypeError, r"schedule_job\(.*name="),
        (lambda _: untyped.job(timout="5s"), TypeError, "did you mean timeout"),
        (lambda _: untyped.job(retry=3), errors.InvalidJobError, r"RetryPolicy\(attempts=5\)"),
        (lambda _: untyped.job(timeout="soon"), errors.InvalidJobError, "length of time"),
        (lambda _: untyped_cron_trigger("0 2 * * *", timezone="CET"), TypeError, r"did you mean time_zone\?"),
        (lambda _: untyped_cron_trigger("0 2 * * *", tz="CET"), TypeError, r"did you mean time_zone\?"),
        (lambda _: untyped_cron_trigger("0 2 * * *", misfire_instruction="x"), TypeError, r"did you mean misfire\?"),
        (lambda _: untyped_cron_trigger("0 2 * * *", jitter=5), TypeError, r"Jitter\(trigger="),
        (lambda _: untyped.every("5s", start="now"), TypeError, r"did you mean start_time\?"),
        (lambda _: untyped.every("5s", timezone="CET"), TypeError, r"cron\.daily_at\(2, 30, time_zone="),
        (lambda _: untyped.every("1d", at="02:00"), TypeError, r"cron\.daily_at\(2, 30\)"),
        (lambda _: untyped.every(months=1), TypeError, r'CalendarIntervalTrigger\(interval=1, unit="month"\)'),
        (lambda _: untyped.every(minute=5), TypeError, r"every\(minutes=5\)"),
        (lambda _: untyped.SimpleTrigger(interval="5s", count=3), TypeError, "repeat_count=9 fires ten times"),
        (lambda _: untyped.Jitter("j", trigger=every("5s"), upto="1s"), TypeError, r"did you mean up_to\?"),
        (lambda _: untyped.RetryPolicy(max_attempts=3), TypeError, r"did you mean attempts\?"),
        (lambda _: untyped.RetryPolicy(backoff=2), TypeError, r"did you mean factor\?"),
        (lambda _: untyped.HolidayCalendar(dates=[]), TypeError, r"did you mean excluded_dates\?"),
        (lambda _: untyped.JobDetail(tick.job_class, "x", max_instances=1), TypeError, "max_concurrent=1"),
        (lambda _: at("02:30"), errors.InvalidTriggerError, r"cron\.daily_at\(2, 30\); at\(\) needs a date too"),
        (lambda _: untyped.Scheduler(url="memory://"), errors.SettingsError, r"first argument: Scheduler\("),
        (
            lambda _: untyped.Scheduler("memory://", timezone="CET"),
            errors.SettingsError,
            "each trigger has its time zone",
        ),
        (lambda s: s.history(), AttributeError, r"scheduler\.executions\(\)"),
        (lambda s: s.rerun(7), AttributeError, r"scheduler\.run_again\(fire_id\)"),
        (lambda s: s.start(block=True), TypeError, r"scheduler\.run\(\) starts the node and blocks"),
        (lambda s: s.pause_schedule("x"), AttributeError, r'pause\(TriggerKey\("nightly"\)\)'),
        (
            lambda s: s.delete_job("a", "b"),
            TypeError,
            r"^delete_job\(\) takes .* one key; hint: .*\(JobKey\('a', 'b'\)\)",
        ),
        (lambda s: s.trigger_job("a", "b", {}), TypeError, r"hint: trigger_job\(JobKey\('a', 'b'\)\)"),
        (lambda s: s.unschedule_job("a", "b"), TypeError, r"hint: unschedule_job\(TriggerKey\('a', 'b'\)\)"),
        (
            lambda s: s.reschedule_job("a", "b", every(5)),
            TypeError,
            r"hint: reschedule_job\(TriggerKey\('a', 'b'\), \.\.",
        ),
        (lambda s: s.cancel_job("a", group="b"), TypeError, r"has no argument 'group'; hint: .*JobKey\('a', 'b'\)\)"),
        (lambda s: s.pause_job(job_id="a"), TypeError, r"has no argument 'job_id'; hint: pause_job\('a'\)"),
        (lambda s: s.get_jobs(), AttributeError, r"scheduler\.jobs\(\)"),
        (lambda s: s.remove_job("x"), AttributeError, r"delete_job"),
        (lambda _: Scheduler(), errors.SettingsError, "from_config.*QUARTZPY_URL"),
        (
            lambda s: s.reschedule_job("x", trigger="cron", minute="*/5"),
            TypeError,
            r'^reschedule_job\(\) has no argument \'minute\'; hint: reschedule_job\("nightly", "0 0/5 \* \* \* \?"\)',
        ),
        (lambda s: s.reschedule_job("x", seconds=5), TypeError, r"every\(minutes=10\)"),
        (lambda s: s.reschedule_job("x", "interval"), errors.InvalidTriggerError, r"every\(seconds=10\)"),
        (lambda s: s.reschedule_job("x", every(5), jobstore="default"), TypeError, "one store"),
        (lambda s: s.reschedule_job("x", every(5), timezone="CET"), TypeError, r"CronTrigger\(.*time_zone="),
        (
            lambda s: asyncio.run(AsyncScheduler(s).reschedule_job("x", trigger="cron", minute="*/5")),  # type: ignore[call-arg]
            TypeError,
            "hint: resched",
        ),
        (lambda _: Scheduler("sqlite:///jobs.db"), errors.SettingsError, r"memory://.*EmbeddedPostgres\('data'\)"),
        (lambda _: AsyncScheduler("postgresql+asyncpg://a@b/c"), errors.SettingsError, r"write postgresql\+psycopg://"),
        (lambda _: Scheduler("postgresql+psycopg2://a@b/c"), errors.SettingsError, r"write postgresql\+psycopg://"),
        (lambda _: Scheduler("mysql+pymysql://a@b/c"), errors.SettingsError, "stored in PostgreSQL only"),
        (lambda s: s.schedule_job(plain, "0 0 2 * * *"), errors.InvalidCronError, r"'0 0 2 \* \* \?'$"),
        (lambda s: s.schedule_job(plain, "0 0 2 * * * 2030"), errors.InvalidCronError, r"'0 0 2 \* \* \? 2030'$"),
        (lambda _: untyped_cron("0 0 2 * * ?"), TypeError, r'CronTrigger\("0 30 2 \* \* \?"\)'),
        (lambda _: untyped_cron.daily(2), AttributeError, r"cron\.daily_at\(2, 30\)"),
        (lambda _: untyped_cron_trigger(hour=2), TypeError, r"cron\.daily_at\(2, 30\)"),
        (lambda _: at("2026-12-01"), errors.InvalidTriggerError, r"needs a time zone, as 2026-12-01T00:00:00\+00:00"),
        (lambda _: JobDetail(plain, "x"), errors.InvalidJobTypeError, r'job\(plain\)\.detail\("name"\)'),  # type: ignore[arg-type]
        (lambda _: tick.delay(), AttributeError, r"schedule_job\(tick, at\(\)"),  # type: ignore[attr-defined]
    ],
)
def test_a_name_of_another_library_is_refused_with_the_line_to_write(
    scheduler: Any, attempt: Callable[[Any], object], error: type[Exception], hint: str
) -> None:
    with pytest.raises(error, match=hint):
        attempt(scheduler)
    assert scheduler.jobs().count() == 0
    assert not scheduler.is_started


def test_handles_hint_too(scheduler: Any) -> None:
    handle: Any = scheduler.schedule_job(tick, every("1h"))
    with pytest.raises(AttributeError, match=r"handle\.delete\(\)"):
        handle.remove()
    with pytest.raises(errors.InvalidJobError, match="max_concurrent=1"):
        handle.modify(max_instances=1)


def test_queries_and_contexts_hint_too(scheduler: Any) -> None:
    with pytest.raises(AttributeError, match=r"query\[:5\]"):
        scheduler.executions().limit(5)
    with pytest.raises(AttributeError, match=r'scheduler\.executions\(state="FAILED"\)'):
        scheduler.jobs().filter(name="x")
    harness = SchedulerHarness()
    harness.schedule_job(looks, at(harness.now))
    [done] = harness.run_pending()
    assert "hint: context.progress(0.5)" in (done.error or "")


def test_the_clock_of_a_harness_refuses_a_text() -> None:
    with pytest.raises(errors.InvalidValueError, match=r"instant: must be a datetime \(got str\)"):
        SchedulerHarness().advance_to("2026-10-21T00:00:00Z")  # type: ignore[arg-type]


def test_the_async_scheduler_hints_too() -> None:
    scheduler: Any = AsyncScheduler("memory://", name="other-names")
    with pytest.raises(AttributeError, match=r"'AsyncScheduler' object .* scheduler\.jobs\(\)"):
        scheduler.get_jobs()


def test_every_method_that_takes_a_key_refuses_its_parts(scheduler: Any) -> None:
    methods = [
        name
        for name, method in inspect.getmembers(Scheduler, inspect.isfunction)
        if not name.startswith("_") and re.match(r"\(self, key: '(Job|Trigger)", str(inspect.signature(method)))
    ]
    assert len(methods) > 20
    for name in methods:
        with pytest.raises(TypeError, match=rf"hint: {name}\((Job|Trigger)Key\('a', 'b'\)"):
            getattr(scheduler, name)("a", "b", None)
        with pytest.raises(TypeError, match=rf"hint: {name}\("):
            asyncio.run(getattr(AsyncScheduler(scheduler), name)("a", "b", None))
    assert inspect.iscoroutinefunction(AsyncScheduler.delete_job)


def test_other_missing_attributes_have_pythons_error(scheduler: Any) -> None:
    with pytest.raises(AttributeError) as failed:
        _ = scheduler.schedul_job
    # Of these Python makes its own "Did you mean".
    assert (failed.value.name, failed.value.obj) == ("schedul_job", scheduler)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = untyped_cron.nothing
    assert not hasattr(scheduler, "remove_job")
    assert "remove_job" not in dir(scheduler)


def test_a_property_that_fails_with_an_attribute_error_keeps_it() -> None:
    class Broken(name_hints.NameHints):
        @property
        def value(self) -> int:
            return int(None.missing)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'missing'"):
        _ = Broken().value


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (Scheduler, name_hints.SCHEDULER_NAMES),
        (AsyncScheduler, name_hints.SCHEDULER_NAMES),
        (ScheduledJob, name_hints.HANDLE_NAMES),
        (JobFunction, name_hints.FUNCTION_NAMES),
        (cron, name_hints.BUILDER_NAMES),
        (Query, name_hints.QUERY_NAMES),
        (JobExecutionContext, name_hints.CONTEXT_NAMES),
    ],
)
def test_no_hint_is_for_a_name_that_exists(owner: object, names: dict[str, str]) -> None:
    assert [name for name in names if name in dir(owner)] == []


@pytest.mark.parametrize("hint", sorted(set(name_hints.SCHEDULER_NAMES.values())))
def test_hints_name_methods_that_exist(hint: str) -> None:
    for word in hint.replace("@", " ").replace("(", " ").replace(";", " ").split():
        if word.startswith("scheduler."):
            name = word.removeprefix("scheduler.").split(".")[0].rstrip(",.")
            found = getattr(Scheduler("memory://"), name)
            assert callable(found) or f"scheduler.{name}(" not in hint, f"{name} is not a method"


def test_a_job_function_shows_its_name() -> None:
    assert repr(functions.plain) == f"<@job {functions.plain.job_class.type_name}>"
    assert pickle.loads(pickle.dumps(CronTrigger("0 0 2 * * ?"))) == CronTrigger("0 0 2 * * ?")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 seconds", 10),
        ("10 sec", 10),
        ("1 hour 30 minutes", 5400),
        ("5 min", 300),
        ("2 days", 172800),
        ("1m30s", 90),
    ],
)
def test_spans_in_words(text: str, seconds: int) -> None:
    assert every(text).interval == timedelta(seconds=seconds)


def test_no_key_of_another_name_is_offered(scheduler: Any) -> None:
    scheduler.schedule_job(plain, at(datetime(2100, 1, 1, tzinfo=UTC)), name="td")
    with pytest.raises(errors.JobNotFoundError) as failed:
        scheduler.pause_job(JobKey("x"))
    assert "did you mean" not in str(failed.value)
