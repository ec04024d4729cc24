"""Our side of the pages of docs/explanation/comparison.md runs, and no other system needs less."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.orm import Session

import quartzpy
from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from tests.docs.comparison import SYSTEMS, effort, source, tasks

TASKS = tasks()


def test_the_page_has_fifteen_tasks_and_each_has_our_code() -> None:
    assert len(TASKS) == 15
    assert all(SYSTEMS[0] in code and set(code) <= set(SYSTEMS) for code in TASKS.values())


@pytest.mark.parametrize("task", TASKS)
def test_no_other_system_needs_less(task: str) -> None:
    ours, *others = [effort(TASKS[task][system]) for system in SYSTEMS if system in TASKS[task]]
    assert all(ours.lines <= other.lines and ours.names <= other.names for other in others)


def test_efforts_are_counted_by_the_rule_of_the_page() -> None:
    assert effort('scheduler.add_job(report, "cron", hour=2)\n').names == 2
    assert effort("for each in scheduler.triggers():\n    print(each.key)\n").lines == 2
    assert effort("@A\nclass Report implements Job {\n}\n").lines == 2


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the page's code takes for granted: a function, an instant and a scheduler."""
    module = types.ModuleType("compared")
    monkeypatch.setitem(sys.modules, "compared", module)
    names = module.__dict__
    exec("def report() -> None: ...\n", names)
    names.update({name: getattr(quartzpy, name) for name in quartzpy.__all__})
    names["scheduler"] = Scheduler("memory://")
    names["when"] = datetime.now(UTC) + timedelta(days=1)
    yield names
    names["scheduler"].shutdown()


class Stored(Job):
    """What the tasks about a stored job are about."""

    def execute(self, context: JobExecutionContext) -> None:
        raise ConnectionError


@pytest.mark.parametrize("task", [each for each in TASKS if "session" not in TASKS[each]["quartzpy"]])
def test_our_code_runs(task: str, names: dict[str, Any]) -> None:
    scheduler: Scheduler = names["scheduler"]
    code = source(task)
    if '"report"' in code or "for each" in code:
        trigger = SimpleTrigger("report", start_time=names["when"])
        scheduler.schedule_job(JobDetail(Stored, "report", durable=True), trigger)
    if "FAILED" in code:
        scheduler.start()
        scheduler.trigger_job(quartzpy.JobKey("report"))
        assert scheduler.wait_until_recorded(1, timedelta(seconds=10))
    exec(compile(code.replace("postgresql+psycopg://app@db/app", "memory://"), task, "exec"), names)


def test_our_code_schedules_in_a_transaction(names: dict[str, Any], postgres_dsn: str) -> None:
    names["scheduler"] = scheduler = Scheduler(postgres_dsn)
    engine = create_engine(postgres_dsn, poolclass=NullPool)
    [task] = [each for each in TASKS if "session" in TASKS[each]["quartzpy"]]
    with Session(engine) as names["session"]:
        exec(compile(TASKS[task]["quartzpy"], task, "exec"), names)
        names["session"].rollback()
        assert not list(scheduler.jobs())
        exec(compile(TASKS[task]["quartzpy"], task, "exec"), names)
        names["session"].commit()
        assert list(scheduler.jobs())


@pytest.mark.parametrize("task", [each for each in TASKS if "APScheduler 3" in TASKS[each]])
def test_the_code_for_apscheduler_3_runs(task: str, names: dict[str, Any]) -> None:
    from apscheduler.schedulers.background import BackgroundScheduler
    from apscheduler.triggers.cron import CronTrigger

    scheduler = BackgroundScheduler()
    scheduler.start(paused=True)
    scheduler.add_job(names["report"], "interval", hours=5, id="report")
    try:
        exec(
            compile(TASKS[task]["APScheduler 3"], task, "exec"),
            {**names, "scheduler": scheduler, "CronTrigger": CronTrigger},
        )
    finally:
        scheduler.shutdown(wait=False)


@pytest.mark.parametrize("task", [each for each in TASKS if "Celery beat" in TASKS[each]])
def test_the_code_for_celery_runs(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery import Celery, _state
    from celery.beat import Scheduler as Beat
    from celery.schedules import crontab

    code = TASKS[task]["Celery beat"]
    app = Celery("shop", broker="memory://", set_as_current=False)

    # A task would be registered with each application that is made later, as other tests do.
    monkeypatch.setattr(_state, "_on_app_finalizers", set())

    @app.task(name="shop.report")
    def report() -> None: ...

    names = {"app": app, "crontab": crontab, "report": report, "when": datetime.now(UTC) + timedelta(days=1)}
    if code.startswith("@"):
        code += "def other() -> None: ...\n"
    exec(compile(code, task, "exec"), names)
    if "beat_schedule" in code:
        beat = Beat(app, lazy=True)
        beat.setup_schedule()
        assert beat.schedule["report"].task == "shop.report"
        assert beat.schedule["report"].is_due().next > 0, "beat can tell when the task is due"
