"""Plugins, and the jobs that files declare."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from datetime import time as clock_time
from pathlib import Path
from typing import Any

import pytest

from quartzpy import (
    CronTrigger,
    DailyTimeIntervalTrigger,
    JobDetail,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    Trigger,
    TriggerKey,
    at,
    every,
)
from quartzpy.definitions.files import definitions, load_definitions
from quartzpy.errors import PluginStartError, SettingsError, StoreUnavailableError
from quartzpy.plugins import DeclaredJobs, ExecutionLog, InterruptLongRunners
from quartzpy.states import Outcome
from tests.facade import jobs
from tests.waiting import wait_until

SOON = timedelta(seconds=30)

TOML = """
[[job]]
type = "tests.facade.jobs:Recorded"
name = "report"
group = "billing"
data = { region = "eu" }
timeout = "30m"
max_concurrent = 3
retry = { attempts = 5, delay = "1m", on = ["ValueError"] }

  [[job.trigger]]
  expression = "0 0 2 ? * MON-FRI"
  time_zone = "Europe/Berlin"

  [[job.trigger]]
  kind = "simple"
  name = "often"
  interval = "90s"
  start_time = 2030-01-01T00:00:00Z
  misfire_threshold = "5s"
  misfire = "fire_all"
  catch_up_max = 10
  catch_up_within = "2h"

[[job]]
type = "tests.facade.functions:plain"
name = "function"
args = [7]
kwargs = { text = "declared" }

  [[job.trigger]]
  kind = "daily_time_interval"
  interval = 30
  unit = "minute"
  start_time_of_day = 08:00:00
  days_of_week = [2, 3]
"""
YAML = """
job:
  - type: tests.facade.jobs:Recorded
    name: report
    data: {region: eu}
    trigger:
      - {expression: "0 0 2 ? * MON-FRI", time_zone: Europe/Berlin}
      - {kind: simple, name: often, interval: 90s, start_time: 2030-01-01T00:00:00Z}
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_toml_file_declares_jobs(tmp_path: Path) -> None:
    (report, triggers), (function, daily) = load_definitions(write(tmp_path / "jobs.toml", TOML)).jobs
    assert report == JobDetail(
        jobs.Recorded,
        "report",
        "billing",
        data={"region": "eu"},
        timeout=timedelta(minutes=30),
        max_concurrent=3,
        retry=RetryPolicy(attempts=5, delay=timedelta(minutes=1), on=["ValueError"]),
    )
    assert {trigger.job_key for trigger in triggers} == {report.key}
    assert [replace(trigger, job_key=None) for trigger in triggers] == [
        CronTrigger("0 0 2 ? * MON-FRI", "report", "billing", time_zone="Europe/Berlin"),
        SimpleTrigger(
            "often",
            "billing",
            interval=timedelta(seconds=90),
            start_time=datetime(2030, 1, 1, tzinfo=UTC),
            misfire_threshold=timedelta(seconds=5),
            misfire="fire_all",
            catch_up_max=10,
            catch_up_within=timedelta(hours=2),
        ),
    ]
    assert function.data == {"args": [7], "kwargs": {"text": "declared"}}
    assert [replace(trigger, job_key=None) for trigger in daily] == [
        DailyTimeIntervalTrigger(
            "function",
            interval=30,
            unit="minute",  # type: ignore[arg-type]
            start_time_of_day=clock_time(8),
            days_of_week=[2, 3],  # type: ignore[arg-type]
        )
    ]


def test_a_yaml_file_declares_jobs(tmp_path: Path) -> None:
    [(report, triggers)] = load_definitions(write(tmp_path / "jobs.yaml", YAML)).jobs
    assert report == JobDetail(jobs.Recorded, "report", data={"region": "eu"})
    assert [trigger.name for trigger in triggers] == ["report", "often"]
    assert triggers[1].start_time == datetime(2030, 1, 1, tzinfo=UTC)


RECORDED = {"type": "tests.facade.jobs:Recorded", "name": "x"}
TEN_SECONDS = timedelta(seconds=10)


def declared(where: str, **job: Any) -> list[Trigger]:
    """The triggers of a job that a file declares, which are bound to it."""
    [(detail, triggers)] = definitions({"job": [{**RECORDED, **job}]}, where).jobs
    return [replace(trigger, name=None, job_key=None) for trigger in triggers if trigger.job_key == detail.key]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("every 10s", every("10s")),
        ("10s", every("10s")),
        ("every hour", every("1h")),
        ({"every": "10s", "priority": 3}, every("10s", priority=3)),
        ({"interval": "10s"}, every("10s")),
        ({"kind": "cron", "expression": "0 0 2 * * ?"}, CronTrigger("0 0 2 * * ?")),
        ({"expression": "0 2 * * *"}, CronTrigger.from_crontab("0 2 * * *")),
        ("0 2 * * *", CronTrigger.from_crontab("0 2 * * *")),
        ("2090-12-24T18:00+01:00", at(datetime(2090, 12, 24, 17, tzinfo=UTC))),
        (datetime(2090, 12, 24, 17, tzinfo=UTC), at(datetime(2090, 12, 24, 17, tzinfo=UTC))),
    ],
)
def test_a_schedule_is_a_text_or_one_table(written: Any, expected: Trigger) -> None:
    for where in ("jobs.yaml", "jobs.toml"):
        assert declared(where, trigger=written) == declared(where, trigger=[written]) == [expected]


def test_one_job_needs_no_list() -> None:
    [(detail, [trigger])] = definitions({"job": {**RECORDED, "trigger": "every 10s"}}, "jobs.yaml").jobs
    assert (detail.name, trigger) == ("x", every("10s", name="x", job_key=detail.key))


@pytest.mark.parametrize(
    ("document", "in_yaml", "in_toml"),
    [
        ({"job": "x"}, "job is a list: below job:, each job begins with - type:", r"list of tables \(\[\[job\]\]\)"),
        ({"job": {"nightly": RECORDED}}, "each job begins with - type: module:name, and name:", "list of tables"),
        ({"job": [{**RECORDED, "trigger": 10}]}, "trigger: every 10s", r'trigger = "every 10s" \(got 10\)'),
        ({"job": [{**RECORDED, "every": "10s"}]}, "'every' is not known.*trigger: every 10s", 'trigger = "every 10s"'),
        ({"job": [{**RECORDED, "cron": "0 2 * * *"}]}, "'cron' is not known.*trigger: every 10s", 'trigger = "0 2'),
        ({"job": [], "calendar": []}, "a mapping of mappings", r"\[calendar.NAME\]"),
        ({}, r"write job: \[\]", r"write job = \[\]"),
        ({"job": [{**RECORDED, "trigger": {"every": "10s", "kind": "cron"}}]}, "give no other", "give no other"),
    ],
)
def test_an_error_speaks_the_language_of_the_file(document: object, in_yaml: str, in_toml: str) -> None:
    for where, said in (("jobs.yml", in_yaml), ("jobs.toml", in_toml)):
        with pytest.raises(SettingsError, match=said):
            definitions(document, where)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[job", "not TOML"),
        ("", r"declares no job; if that is intended, write job = \[\]"),
        ("[job]", r"job is a list of tables"),
        ("jobs = 3", r"'jobs' is not known; did you mean job\?"),
        ('[[job]]\nname = "x"', r"job 1 \(x\): type is missing"),
        ('[[job]]\ntype = "x"', "job 1: name is missing"),
        ('[[job]]\ntype = "x"\nname = "x"\ndurabel = true', r"'durabel' is not known; did you mean durable\?"),
        ('[[job]]\ntype = "nowhere:X"\nname = "x"', r"job 1 \(x\): No module named 'nowhere'"),
        ('[[job]]\ntype = "tests.facade.jobs:Nobody"\nname = "x"', "is not registered by any imported module"),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\n'
            '[[job.trigger]]\nexpression = "0 * * * * ?"\nmisfire = "fire_all"',
            "misfire: fire_all needs catch_up_max, catch_up_within or both",
        ),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\n'
            '[[job.trigger]]\nexpression = "0 * * * * ?"\ncatch_up = 3',
            r"'catch_up' is not known; did you mean catch_up_max\?",
        ),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\ntimeout = "soon"',
            "timeout: must be a length of time",
        ),
        ('[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\nretry = { attempt = 3 }', "did you mean attempts"),
        ('[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\nretry = { attempts = 1 }', "from 2 to"),
        ('[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\ntrigger = 3', "trigger is a list of tables"),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\n[[job.trigger]]\nkind = "weekly"',
            r"trigger|kind: one of",
        ),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\n[[job.trigger]]\nexpresion = "x"',
            r"job 1 \(x\): trigger 1: 'expresion' is not known; did you mean expression\?",
        ),
        (
            '[[job]]\ntype = "tests.facade.jobs:Recorded"\nname = "x"\n[[job.trigger]]\nexpression = "0 0 25 * * ?"',
            "25",
        ),
    ],
)
def test_what_a_file_says_wrongly_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_definitions(write(tmp_path / "jobs.toml", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read"):
        load_definitions(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="not YAML"):
        load_definitions(write(tmp_path / "bad.yml", "a: [b"))


def test_declared_jobs_follow_their_file(make_scheduler: Callable[..., Scheduler], tmp_path: Path) -> None:
    path = write(tmp_path / "jobs.toml", TOML)
    scheduler = make_scheduler(plugins=[DeclaredJobs(path, reread_every="20ms")])
    assert list(scheduler.jobs()) == [], "not before it starts"
    scheduler.start()
    assert {key.name for key in scheduler.job_keys()} == {"report", "function"}
    before = scheduler.trigger_record(TriggerKey("often", "billing"))
    scheduler.schedule_job(JobDetail(jobs.Recorded, "by-hand", durable=True), SimpleTrigger("by-hand"))

    changed = TOML[: TOML.index('[[job]]\ntype = "tests.facade.functions')].replace("0 0 2 ?", "0 0 3 ?")
    write(path, changed)
    wait_until(lambda: {key.name for key in scheduler.job_keys()} == {"report", "by-hand"})
    record = scheduler.get_trigger(TriggerKey("report", "billing"))
    assert isinstance(record, CronTrigger)
    assert record.expression == "0 0 3 ? * MON-FRI"
    assert scheduler.trigger_record(TriggerKey("often", "billing")) == before

    write(path, "[[job")
    time.sleep(0.15)
    assert scheduler.check_exists(TriggerKey("often", "billing")), "what cannot be read changes nothing"


def test_a_file_that_is_wrong_is_refused_before_anything_is_connected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not TOML"):
        Scheduler("postgresql+psycopg://nobody@localhost:1/none", plugins=[DeclaredJobs(write(tmp_path / "a", "[["))])


def test_executions_are_logged(make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "quartzpy.executions"):
        scheduler = make_scheduler(plugins=[ExecutionLog()])
        scheduler.start()
        scheduler.schedule_job(JobDetail(jobs.Recorded, "well"), SimpleTrigger("a"))
        scheduler.schedule_job(JobDetail(jobs.Raising, "badly", data={"what": "Exception"}), SimpleTrigger("b"))
        assert scheduler.wait_until_recorded(2, SOON)
    said = [record.getMessage() for record in caplog.records if record.name == "quartzpy.executions"]
    assert any(line.startswith("DEFAULT.well starts: fire ") for line in said)
    assert any(line.startswith("DEFAULT.well is SUCCEEDED after 0:00:0") for line in said)
    assert any(line.endswith("ValueError('wrong')") and "DEFAULT.badly is FAILED" in line for line in said)


def test_long_runners_are_interrupted(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(plugins=[InterruptLongRunners("50ms")])
    scheduler.start()
    own = JobDetail(jobs.Waiting, "never", data={InterruptLongRunners.KEY: "never"})
    scheduler.schedule_job(own, SimpleTrigger("a"))
    wait_until(lambda: [row.job_key.name for row in scheduler.running()] == ["never"])
    scheduler.schedule_job(JobDetail(jobs.Waiting, "long"), SimpleTrigger("b"))
    assert scheduler.wait_until_recorded(1, SOON)
    assert [(one.job_key.name, one.outcome) for one in scheduler.executions()] == [("long", Outcome.CANCELLED)]
    assert [row.job_key.name for row in scheduler.running()] == ["never"]


class Recording:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def initialize(self, scheduler: Any) -> None:
        self.seen.append(f"initialize {scheduler.name}")

    def start(self) -> None:
        self.seen.append("start")
        raise RuntimeError("wrong")

    def shutdown(self) -> None:
        self.seen.append("shutdown")
        raise RuntimeError("wrong")


def test_triggers_in_a_file_may_be_cron_texts_without_names(
    make_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    text = """
[[job]]
type = "tests.facade.jobs:Recorded"
name = "report"
group = "billing"
trigger = ["0 0 2 * * ?", "@hourly"]

[[job]]
type = "tests.facade.jobs:Recorded"
name = "other"
trigger = "0 0 3 * * ?"
"""
    scheduler = make_scheduler(plugins=[DeclaredJobs(write(tmp_path / "jobs.toml", text), version=3)])
    scheduler.start()
    expected = {TriggerKey("report", "billing"), TriggerKey("report-2", "billing"), TriggerKey("other")}
    assert scheduler.trigger_keys() == expected
    older = DeclaredJobs(write(tmp_path / "older.toml", "job = []"), version=2)
    older.initialize(scheduler)
    assert older.sync().outdated_by == "3"
    assert scheduler.trigger_keys() == expected


def test_a_scheduler_whose_declared_jobs_cannot_be_stored_does_not_start(
    make_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    text = """
[[job]]
type = "tests.facade.jobs:Recorded"
name = "report"
[[job.trigger]]
expression = "0 0 2 * * ?"
calendar = "holidays"
"""
    scheduler = make_scheduler(plugins=[DeclaredJobs(write(tmp_path / "jobs.toml", text))])
    with pytest.raises(PluginStartError, match=r"jobs\.toml cannot be stored: .*'holidays' is neither declared"):
        scheduler.start()
    assert scheduler.is_shut_down


def test_a_plugin_lives_with_its_scheduler(make_scheduler: Callable[..., Scheduler]) -> None:
    plugin = Recording()
    scheduler = make_scheduler(plugins=[plugin])
    assert plugin.seen == ["initialize facade"]
    scheduler.start()
    scheduler.standby()
    scheduler.start()
    assert plugin.seen == ["initialize facade", "start"], "once; what it raises harms nothing"
    scheduler.shutdown()
    assert plugin.seen == ["initialize facade", "start", "shutdown"]


def test_a_plugin_is_found_by_its_entry_point() -> None:
    scheduler = Scheduler("memory://", plugins=["execution-log"])
    assert scheduler.listeners.all()
    with pytest.raises(SettingsError, match=r"no entry point 'nothing'.*execution-log"):
        Scheduler("memory://", plugins=["nothing"])
    with pytest.raises(SettingsError, match="initialize, start and shutdown"):
        Scheduler("memory://", plugins=[object()])  # type: ignore[list-item]


class Broken:
    """Raises what no plugin should, and takes its time."""

    def __init__(self, method: str, error: type[BaseException]) -> None:
        self._method = method
        self._error = error
        self.go_on = threading.Event()

    def _called(self, method: str) -> None:
        if method == self._method:
            self.go_on.wait(20)
            raise self._error

    def initialize(self, scheduler: Any) -> None: ...

    def start(self) -> None:
        self._called("start")

    def shutdown(self) -> None:
        self._called("shutdown")


@pytest.mark.parametrize("method", ["start", "shutdown"])
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, MemoryError])
def test_a_plugin_that_raises_anything_is_logged(
    make_scheduler: Callable[..., Scheduler],
    caplog: pytest.LogCaptureFixture,
    method: str,
    error: type[BaseException],
) -> None:
    plugin = Broken(method, error)
    plugin.go_on.set()
    scheduler = make_scheduler(plugins=[plugin])
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    assert scheduler.shutdown()
    assert f"plugin Broken: {method} raised an error" in caplog.text


def test_a_plugin_that_hangs_is_reported_and_its_node_keeps_working(
    make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.scheduler.plugin.SLOW_AFTER", 0.05)
    plugin = Broken("start", RuntimeError)
    scheduler = make_scheduler(plugins=[plugin])
    starting = threading.Thread(target=scheduler.start)
    starting.start()
    while not scheduler.is_started:
        plugin.go_on.wait(0.01)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    while "plugin Broken: start is still running" not in caplog.text:
        assert starting.is_alive()
        plugin.go_on.wait(0.01)
    plugin.go_on.set()
    starting.join(20)


def test_declared_jobs_are_watched_on_whatever_a_file_does(
    make_scheduler: Callable[..., Scheduler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text("job = []")
    plugin = DeclaredJobs(file, reread_every="10ms")
    scheduler = make_scheduler(plugins=[plugin])
    scheduler.start()
    read = threading.Semaphore(0)

    def fails() -> Any:
        read.release()
        raise next(errors)

    monkeypatch.setattr(plugin, "sync", fails)
    # The store is asked again; a file is not, until it changes.
    errors = iter([StoreUnavailableError("down"), RecursionError("too deep"), SystemExit(3)])
    file.write_text("job = [] #")
    assert read.acquire(timeout=60)
    assert read.acquire(timeout=60)
    file.write_text("job = [] ##")
    assert read.acquire(timeout=60)


def test_a_wait_of_ages_is_a_long_wait(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler()
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.WaitingForAges, "job"), SimpleTrigger("t"))
    assert scheduler.interrupt_execution(jobs.next_run().fire_id)
    assert scheduler.wait_until_recorded(1, SOON)
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.CANCELLED
    assert scheduler.shutdown(timeout=timedelta.max)
