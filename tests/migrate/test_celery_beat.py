"""Imports from tables that the real django-celery-beat made."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy import CronTrigger, SimpleTrigger, TriggerKey
from quartzpy.cli.imports import _decisions
from quartzpy.errors import QuartzpyError
from quartzpy.ext.celery import CeleryTask
from quartzpy.migrate import ClassMap, ImportPlan, apply
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


def test_tasks_are_mapped_to_functions(source: str) -> None:
    decisions = ClassMap({"shop.report": "shop.jobs:report"})
    plan = read_celery_beat(source, decisions=decisions)
    jobs = {one.job.name: one.job for one in plan.jobs}
    assert jobs["nightly"].job_type == "shop.jobs:report"
    assert jobs["nightly"].data == {"args": ["eu"], "kwargs": {"pages": 3}}
    assert any("queue" in note.text and "nightly" in note.subject for note in plan.notes)
    mistyped = read_celery_beat(source, decisions=ClassMap({"shop.reprot": "shop.jobs:report"}))
    assert "--map shop.reprot" in {note.subject for note in mistyped.notes}
    assert "--map shop.report" not in {note.subject for note in plan.notes}
    left_out = read_celery_beat(source, decisions=ClassMap({"shop.report": None}))
    assert "nightly" not in {one.job.name for one in left_out.jobs}


def test_pairs_and_files_of_the_option_map(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text('[classes]\n"a" = "m:a"\n"b" = "m:b"\n')
    decisions = _decisions((str(path), "b=m:other", "c=false"))
    assert decisions.classes == {"a": "m:a", "b": "m:other", "c": None}
    for wrong in ("nothing", "=m:a", "a="):
        with pytest.raises(QuartzpyError, match="--map"):
            _decisions((wrong,))


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


@pytest.mark.parametrize("source", ["sqlite"], indirect=True)
def test_hostile_rows_are_reported_and_do_not_end_the_import(source: str, tmp_path: Path) -> None:
    shutil.copy(source.removeprefix("sqlite:///"), tmp_path / "db.sqlite")
    with closing(sqlite3.connect(tmp_path / "db.sqlite")) as connection:
        [template] = connection.execute(
            "SELECT id FROM django_celery_beat_periodictask WHERE interval_id IS NOT NULL LIMIT 1"
        ).fetchone()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(django_celery_beat_periodictask)")]
        hostile = {
            "dangling": {"interval_id": 9_999},
            "odd period": {"interval_id": 1_001},
            "for ever": {"interval_id": 1_002},
            "a\nb": {},
            "x" * 201: {},
            "args": {"args": "["},
            "kwargs": {"kwargs": "null"},
            "last": {"last_run_at": "yesterday"},
            "runs": {"total_run_count": "many"},
        }
        connection.execute("INSERT INTO django_celery_beat_intervalschedule VALUES (1001, 2, 'fortnights')")
        connection.execute(f"INSERT INTO django_celery_beat_intervalschedule VALUES (1002, {2**62}, 'days')")
        for number, (name, values) in enumerate(hostile.items(), 1_000):
            given = {"id": number, "name": name, **values}
            picked = ", ".join("?" if column in given else column for column in columns)
            connection.execute(
                f"INSERT INTO django_celery_beat_periodictask SELECT {picked}"
                " FROM django_celery_beat_periodictask WHERE id = ?",
                [*(given[column] for column in columns if column in given), template],
            )
        connection.commit()
    plan = read_celery_beat(f"sqlite:///{tmp_path / 'db.sqlite'}")
    notes = {note.subject.removeprefix("job celery-beat."): note.text for note in plan.notes}
    expected = {
        "dangling": "its row is not of django-celery-beat: KeyError: 9999",
        "odd period": "its row is not of django-celery-beat: TypeError",
        "for ever": "its row is not of django-celery-beat: OverflowError",
        "a\nb": "control character U+000A",
        "x" * 201: "201 characters, at most 200",
        "args": "its args are no JSON: '['",
        "kwargs": "its kwargs are no dict: 'null'",
        "last": "yesterday",
        "runs": "many",
    }
    assert {one: notes.get(one) for one in expected if expected[one] not in notes.get(one, "")} == {}
    assert len(plan.jobs) == len(read_celery_beat(source).jobs)


def test_the_command(source: str, postgres_dsn: str) -> None:
    command = ("import", "celery-beat", "--from", source, "--dsn", postgres_dsn, "--name", "imported")
    refused = quartzpy(*command, "--apply")
    assert refused.returncode == 2
    assert "1 object needs a decision (job celery-beat.broken is the first)" in refused.stderr
    assert quartzpy(*command, "--apply", "--skip-undecided", "--paused").stdout.endswith("Stored.\n")
    shown = quartzpy("triggers", "--dsn", postgres_dsn, "--name", "imported").stdout
    assert shown.count("PAUSED") == 8
