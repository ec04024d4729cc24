"""Names of Quartz and of other libraries are answered where people type them: in imports, attributes and settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quartzpy
from quartzpy import (
    AsyncScheduler,
    CronTrigger,
    GroupMatcher,
    HolidayCalendar,
    Job,
    JobDataMap,
    JobDetail,
    JobKey,
    KeyMatcher,
    Scheduler,
    SchedulerConfig,
    SimpleTrigger,
    errors,
)
from quartzpy.config.sources import settings_from_environment, settings_from_toml
from quartzpy.foreign_names import misfire_instruction, snake_case
from quartzpy.triggers.recurring import RecurringMisfire
from quartzpy.triggers.simple import SimpleMisfire
from tools import quartz_names

untyped: Any = quartzpy


class Report(Job):
    def execute(self, context: Any) -> None:
        pass


def test_the_table_is_that_of_the_page() -> None:
    assert quartz_names.FILE.read_text().splitlines() == quartz_names.lines(), "run python -m tools.quartz_names"
    assert len(quartz_names.lines()) > 600


IMPORTS = {
    "JobBuilder": "JobDetail(X)",
    "TriggerBuilder": "SimpleTrigger(...)",
    "StatefulJob": "@disallow_concurrent_execution",
    "DisallowConcurrentExecution": "did you mean disallow_concurrent_execution?",
    "PersistJobDataAfterExecution": "did you mean persist_job_data_after_execution?",
    "JobExecutionException": "JobExecutionError",
    "SchedulerException": "QuartzpyError",
    "StdSchedulerFactory": "Scheduler.from_config()",
    "SchedulerFactory": "Scheduler.from_config()",
    "RAMJobStore": "memory://",
    "JobStoreTX": "postgresql+psycopg://",
    "CronScheduleBuilder": "CronTrigger",
    "SimpleScheduleBuilder": "SimpleTrigger",
    "CalendarIntervalScheduleBuilder": "CalendarIntervalTrigger",
    "DailyTimeIntervalScheduleBuilder": "DailyTimeIntervalTrigger",
    "DateBuilder": "quartzpy.dates",
    "InterruptableJob": "context.cancelled",
    "NativeJob": "CommandJob",
    "NthIncludedDayTrigger": "BusinessDayTrigger",
    "CronTriggerImpl": "did you mean CronTrigger?",
    "SimpleThreadPool": "workers",
    "TriggerUtils": "upcoming",
    "newJob": "JobDetail(X)",
    "new_trigger": "SimpleTrigger(...)",
    "BackgroundScheduler": "scheduler.start()",
    "BlockingScheduler": "scheduler.run()",
    "SQLAlchemyJobStore": "memory://",
    "shared_task": "@job",
    "crontab": "CrontabExpression",
}


@pytest.mark.parametrize("name", IMPORTS)
def test_an_import_of_another_librarys_name_has_the_answer(name: str) -> None:
    with pytest.raises(ImportError, match=re.escape(IMPORTS[name])):
        exec(f"from quartzpy import {name}", {})
    with pytest.raises(AttributeError, match=re.escape(IMPORTS[name])):
        getattr(untyped, name)
    assert not hasattr(quartzpy, name)
    assert name not in dir(quartzpy)


def test_each_class_of_quartz_is_answered_by_an_import() -> None:
    classes = {line.split("\t")[1] for line in quartz_names.lines()}
    unanswered = []
    for name in sorted(name for name in classes if name[0].isupper() and name.isidentifier() and not name.isupper()):
        try:
            exec(f"from quartzpy import {name}", {})
        except ImportError as error:
            if "; " not in str(error):
                unanswered.append(name)
    assert unanswered == []


def test_other_names_have_pythons_error() -> None:
    for name in ("Nope", "_Private", "nonsense"):
        with pytest.raises(ImportError, match="cannot import name") as failed:
            exec(f"from quartzpy import {name}", {})
        assert "; " not in str(failed.value)


def test_the_errors_are_answered_where_they_are() -> None:
    with pytest.raises(ImportError, match="JobExecutionError"):
        exec("from quartzpy.errors import JobExecutionException", {})


scheduler: Any = Scheduler("memory://", name="foreign")
detail: Any = JobDetail(Report, "report")
trigger: Any = CronTrigger("0 0 2 * * ?")
listeners: Any = scheduler.listeners


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        (lambda: scheduler.scheduleJob, "did you mean schedule_job?"),
        (lambda: scheduler.addCalendar, "did you mean add_calendar?"),
        (lambda: scheduler.resumeAll, "did you mean resume_all?"),
        (lambda: scheduler.getContext, "scheduler.context"),
        (lambda: scheduler.get_trigger_state, "`trigger_state(key)`"),
        (lambda: scheduler.getTriggerState, "`trigger_state(key)`"),
        (lambda: scheduler.resetTriggerFromErrorState, "`reset_trigger_from_error(key)`"),
        (lambda: scheduler.pauseJobs, 'pause(JobGroups("reports"))'),
        (lambda: scheduler.add_job_listener, "add_job_listener(listener, *matchers)"),
        (lambda: scheduler.getListenerManager, "scheduler.listeners"),
        (lambda: scheduler.isInStandbyMode, "is_in_standby"),
        (lambda: scheduler.setJobFactory, "job_factory=..."),
        (lambda: AsyncScheduler(scheduler).scheduleJob, "did you mean schedule_job?"),  # type: ignore[attr-defined]
        (lambda: listeners.addJobListener, "did you mean add_job_listener?"),
        (lambda: listeners.removeJobListener, "`remove(listener)`"),
        (lambda: detail.with_identity, "JobDetail(X, name, group)"),
        (lambda: detail.storeDurably, "durable=True"),
        (lambda: detail.getJobDataMap, "`data`"),
        (lambda: detail.is_durable, "`durable`"),
        (lambda: trigger.with_identity, "name and group of the job"),
        (lambda: trigger.withPriority, "priority="),
        (lambda: trigger.getNextFireTime, "next_fire_time"),
        (lambda: trigger.for_job, "job_key="),
        (lambda: HolidayCalendar().add_excluded_date, "HolidayCalendar({date("),  # type: ignore[attr-defined]
        (lambda: HolidayCalendar().isTimeIncluded, "is_included"),  # type: ignore[attr-defined]
        (lambda: JobDataMap({}).getString, 'data["key"]'),  # type: ignore[attr-defined]
        (lambda: JobKey("a").getName, "name"),  # type: ignore[attr-defined]
        (lambda: GroupMatcher.groupEquals, "GroupMatcher.equals(group)"),  # type: ignore[attr-defined]
        (lambda: GroupMatcher.startsWith, "did you mean starts_with?"),  # type: ignore[attr-defined]
        (lambda: KeyMatcher.keyEquals, "KeyMatcher.key(key)"),  # type: ignore[attr-defined]
    ],
)
def test_an_attribute_of_quartz_has_the_answer(attempt: Callable[[], Any], answer: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(answer)):
        attempt()


def test_each_method_of_the_scheduler_of_quartz_is_answered() -> None:
    names = [line.split("\t")[1] for line in quartz_names.lines() if line.startswith("Scheduler\t")]
    for name in (name for name in names if name.isidentifier() and not hasattr(type(scheduler), name)):
        for spelling in {name, snake_case(name)} - set(dir(type(scheduler))):
            if name[0].islower():
                with pytest.raises(AttributeError, match=r"hint: |did you mean "):
                    getattr(scheduler, spelling)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("instanceName", "write `name`"),
        ("instance_name", "write `name`"),
        ("instanceId", "did you mean instance_id?"),
        ("job_store", "memory://"),
        ("jobStore", "memory://"),
        ("threadCount", "`workers`"),
        ("thread_count", "`workers`"),
        ("is_clustered", "always"),
        ("isClustered", "always"),
        ("misfireThreshold", "did you mean misfire_threshold?"),
        ("clusterCheckinInterval", "checkin_interval"),
        ("dataSource", "the URL"),
        ("maxConnections", "pool_size"),
        ("tablePrefix", "did you mean table_prefix?"),
        ("idleWaitTime", "idle_wait"),
        ("max_workers", "workers=10"),
    ],
)
def test_a_property_of_quartz_given_as_a_setting_has_the_answer(name: str, answer: str) -> None:
    for attempt in (lambda: Scheduler("memory://", **{name: 1}), lambda: SchedulerConfig.of({name: 1})):
        with pytest.raises(errors.SettingsError, match=re.escape(answer)):
            attempt()


def test_a_properties_file_given_as_settings_is_translated(tmp_path: Path) -> None:
    path = tmp_path / "quartz.properties"
    path.write_text(
        "# comment\norg.quartz.scheduler.instanceName = MyScheduler\norg.quartz.threadPool.threadCount=5\n"
        "org.quartz.jobStore.isClustered = true\norg.quartz.jobStore.class = org.quartz.impl.jdbcjobstore.JobStoreTX\n"
    )
    with pytest.raises(errors.SettingsError) as failed:
        Scheduler.from_config(path)
    # These lines are TOML, too.
    numbers = tmp_path / "numbers.properties"
    numbers.write_text("org.quartz.threadPool.threadCount=5\n")
    with pytest.raises(errors.SettingsError, match=r"a properties file of Quartz.*`workers`"):
        Scheduler.from_config(numbers)
    for words in ("a properties file of Quartz", "instanceName write `name`", "`workers`", "always", "memory://"):
        assert words in str(failed.value)


@pytest.mark.parametrize(
    ("value", "of_cron", "of_simple"),
    [
        (1, "fire_once_now", "fire_now"),
        (2, "do_nothing", "reschedule_now_with_existing_repeat_count"),
        (0, "smart", "smart"),
        (-1, "ignore", "ignore"),
        (5, None, "reschedule_next_with_existing_count"),
        ("MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "fire_once_now", "fire_now"),
        ("CronTrigger.MISFIRE_INSTRUCTION_DO_NOTHING", "do_nothing", "reschedule_next_with_remaining_count"),
        ("fire_and_proceed", "fire_once_now", "fire_now"),
        ("fireAndProceed", "fire_once_now", "fire_now"),
        ("withMisfireHandlingInstructionIgnoreMisfires", "ignore", "ignore"),
        ("MISFIRE_INSTRUCTION_RESCHEDULE_NEXT_WITH_EXISTING_COUNT", None, "reschedule_next_with_existing_count"),
        ("DO-NOTHING", "do_nothing", "reschedule_next_with_remaining_count"),
        ("coalesce", "fire_once_now", "fire_now"),
        (True, None, None),
        ("nonsense", None, None),
    ],
)
def test_a_misfire_instruction_of_quartz_has_the_answer(
    value: object, of_cron: str | None, of_simple: str | None
) -> None:
    assert misfire_instruction(value, RecurringMisfire) == of_cron
    assert misfire_instruction(value, SimpleMisfire) == of_simple
    for instruction, make in (
        (of_cron, lambda: CronTrigger("0 0 2 * * ?", misfire=value)),  # type: ignore[arg-type]
        (of_simple, lambda: SimpleTrigger(interval="1h", misfire=value)),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.InvalidTriggerError) as failed:
            make()
        assert (f'did you mean misfire="{instruction}"?' in str(failed.value)) == (instruction is not None)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("from quartzpy.triggers import CronTrigger", "hint: from quartzpy import CronTrigger"),
        ("from quartzpy.jobs import JobDetail", "hint: from quartzpy import JobDetail"),
        ("from quartzpy.calendars import HolidayCalendar", "hint: from quartzpy import HolidayCalendar"),
        ("from quartzpy import crontrigger", "did you mean CronTrigger?"),
        ("from quartzpy import jobdetail", "did you mean JobDetail?"),
        ("from quartzpy import job_key", "did you mean JobKey?"),
        ("from quartzpy import simpleTrigger", "did you mean SimpleTrigger?"),
    ],
)
def test_public_names_are_found_in_any_case_and_from_any_package(line: str, says: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(line, {})
    assert says in str(raised.value)


def test_the_modules_of_the_packages_are_imported_as_before() -> None:
    names: dict[str, Any] = {}
    exec(
        "from quartzpy.triggers import cron; from quartzpy.jobs import http; from quartzpy.calendars import days", names
    )
    assert {"cron", "http", "days"} <= names.keys()
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from quartzpy.triggers import nothing", {})


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("org.quartz.threadPool.threadCount", "workers"),
        ("quartz.threadPool.threadCount", "workers"),
        ("org.quartz.scheduler.instanceName", "name"),
        ("org.quartz.jobStore.misfireThreshold", "misfire_threshold"),
        ("org.quartz.jobStore.clusterCheckinInterval", "checkin_interval"),
        ("org.quartz.jobStore.tablePrefix", "table_prefix"),
    ],
)
def test_a_property_by_its_whole_name_is_answered_as_by_its_end(name: str, setting: str) -> None:
    with pytest.raises(errors.SettingsError, match=setting) as raised:
        SchedulerConfig.of({name: 4})
    assert "the settings are" not in str(raised.value)


@pytest.mark.parametrize("name", ["next_fire_time", "nextFireTime", "may_fire_again"])
def test_an_attribute_is_answered_as_its_accessor(name: str) -> None:
    trigger: Any = CronTrigger("0 0 2 * * ?")
    with pytest.raises(AttributeError, match="for Quartz's"):
        getattr(trigger, name)


def test_a_job_function_in_a_job_detail_is_told_the_line_to_write() -> None:
    @quartzpy.job(type_name="foreign-names-function")
    def report() -> None: ...

    made: Any = JobDetail
    with pytest.raises(errors.InvalidJobTypeError, match=r'report\.detail\("name"\)'):
        made(report, "r")


@pytest.mark.parametrize("name", ["instance_name", "instanceName", "thread_count", "threadCount", "max_workers"])
def test_settings_are_answered_alike_in_arguments_the_environment_and_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "quartzpy.toml"
    path.write_text(f"{name} = 4")
    with pytest.raises(errors.SettingsError) as of_argument:
        SchedulerConfig.of({name: 4})
    with pytest.raises(errors.SettingsError) as of_file:
        settings_from_toml(path)
    with pytest.raises(errors.SettingsError) as of_variable:
        settings_from_environment({f"QUARTZPY_{name.upper()}": "4"})
    _, _, hint = str(of_argument.value).partition("; ")
    assert hint.startswith("hint: ")
    assert hint in str(of_file.value)
    assert hint in str(of_variable.value)
