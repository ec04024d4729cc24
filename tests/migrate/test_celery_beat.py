"""Imports from tables that the real django-celery-beat made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy import CronTrigger, SimpleTrigger, TriggerKey
from quartzpy.ext.celery import CeleryTask
from quartzpy.migrate import ImportPlan, apply
from quartzpy.migrate.celery_beat import read_celery_beat
from quartzpy.testing import SchedulerHarness
from tests.cli.test_commands import quartzpy
from tests.database import Server
from tests.migrate.django_made import LAST, SOON

ROOT = Path(__file__).resolve().parents[2]
GROUP = "celery-beat"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def source(
    request: pytest.FixtureRequest, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('django') / 'db.sqlite'}"
        else:
            url = stack.enter_context(postgres_server.temporary("quartzpy_django"))
        command = [sys.executable, "-m", "tests.migrate.django_made", url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        yield url


def trigger_of(plan: ImportPlan, name: str) -> Any:
    return plan.triggers()[TriggerKey(name, GROUP)]


def test_periodic_tasks_become_jobs_that_send_them(source: str) -> None:
    plan = read_celery_beat(source)
    jobs = {one.job.name: one.job for one in plan.jobs}
    assert jobs["nightly"] == CeleryTask(
        "shop.report",
        "nightly",
        GROUP,
        args=["eu"],
        kwargs={"pages": 3},
        queue="slow",
        priority=7,
        expires=60,
        headers={"who": "me"},
        job_options={"description": "The report"},
    )
    assert {note.subject.removeprefix("job celery-beat."): (str(note.severity), note.text) for note in plan.notes} == {
        "sunset": (
            "left out",
            "quartzpy does not know where the sun is; replace sunset by a crontab, or by a job that computes the next"
            " event and schedules itself",
        ),
        "was once": ("left out", "it was to run once, and has run"),
        "broken": ("undecided", "its args are no JSON: '[1,'"),
    }


def test_schedules(source: str) -> None:
    plan = read_celery_beat(source)
    key = {"group": GROUP, "job_key": trigger_of(plan, "nightly").trigger.job_key}
    assert trigger_of(plan, "nightly").trigger == CronTrigger(
        "30 2 * * mon-fri", "nightly", dialect="crontab", time_zone="Europe/Berlin", day_or=False, **key
    )
    monthly = trigger_of(plan, "monthly")
    assert monthly.trigger.expression == "0 */6 1,15 * 1-5"
    # Both the day of the month and the day of the week have to match.
    assert monthly.progress.next_fire_time == datetime(2040, 2, 1, 0, tzinfo=UTC)
    often = trigger_of(plan, "often")
    assert isinstance(often.trigger, SimpleTrigger)
    assert often.trigger.interval == timedelta(seconds=90)
    assert (often.progress.previous_fire_time, often.progress.next_fire_time, often.progress.times_triggered) == (
        LAST,
        LAST + timedelta(seconds=90),
        17,
    )
    once = trigger_of(plan, "once")
    assert (once.trigger.repeat_count, once.progress.next_fire_time) == (0, SOON)
    nightly_once = trigger_of(plan, "once nightly")
    assert nightly_once.trigger.repeat_count == 0
    assert nightly_once.progress.next_fire_time == datetime(2040, 1, 2, 1, 30, tzinfo=UTC)
    assert trigger_of(plan, "until").trigger.end_time == SOON + timedelta(days=1)
    assert trigger_of(plan, "disabled").paused == "disabled in django-celery-beat"


def test_an_interval_goes_on_in_its_phase(source: str) -> None:
    harness = SchedulerHarness(LAST + timedelta(seconds=60))
    apply(read_celery_beat(source), harness._store, skip_undecided=True)
    fired = [one for one in harness.advance(timedelta(minutes=4)) if one.trigger_key.name == "often"]
    assert [one.scheduled_fire_time - LAST for one in fired] == [n * timedelta(seconds=90) for n in (1, 2, 3)]
    # An import again, of a source that has stood still, repeats nothing.
    apply(read_celery_beat(source), harness._store, skip_undecided=True)
    fired = [one for one in harness.advance(timedelta(minutes=1)) if one.trigger_key.name == "often"]
    assert [one.scheduled_fire_time - LAST for one in fired] == [4 * timedelta(seconds=90)]


def test_the_command(source: str, postgres_dsn: str) -> None:
    command = ("import", "celery-beat", "--from", source, "--dsn", postgres_dsn, "--name", "imported")
    refused = quartzpy(*command, "--apply")
    assert refused.returncode == 2
    assert "1 objects need a decision (job celery-beat.broken is the first)" in refused.stderr
    assert quartzpy(*command, "--apply", "--skip-undecided", "--paused").stdout.endswith("Stored.\n")
    shown = quartzpy("triggers", "--dsn", postgres_dsn, "--name", "imported").stdout
    assert shown.count("PAUSED") == 8
