"""Imports from a job store that the real APScheduler 3 wrote."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

import quartzpy
from quartzpy import JobKey, TriggerKey, job
from quartzpy.errors import SettingsError
from quartzpy.migrate import ImportPlan, NoteSeverity, apply
from quartzpy.migrate.apscheduler import read_apscheduler
from quartzpy.migrate.class_map import ClassMap
from quartzpy.migrate.pickles import Made, UnreadablePickleError, as_python, read_pickle
from quartzpy.testing import SchedulerHarness
from tests.cli.test_commands import quartzpy as run

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime.now(UTC).replace(microsecond=0)
START = NOW + timedelta(days=1)


@job
def report(region: str = "eu", *, pages: int = 1) -> str:
    return f"{region}{pages}"


class Region:
    """An argument that is no plain data."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.sqlite'}"


@pytest.fixture
def peer(store: str) -> Iterator[BackgroundScheduler]:
    scheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(store)}, timezone=ZONE)
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown()


def add(peer: BackgroundScheduler, trigger: BaseTrigger, key: str = "report", **options: Any) -> Any:
    return peer.add_job("tests.migrate.test_apscheduler:report", trigger, id=key, **options)


def only(plan: ImportPlan) -> Any:
    [found] = plan.jobs
    return found


CRONS: list[dict[str, Any]] = [
    {"second": "*/10", "minute": "5,35"},
    {"hour": "9-17/2", "day_of_week": "mon-fri"},
    {"day": "last", "hour": 3},
    {"day": "2nd fri, last sun", "hour": 4, "minute": 30},
    {"month": "jan-mar,12", "day": "1-15/7", "hour": 0},
    {"day": "*/10", "day_of_week": "0,6", "hour": 12},
    {"day_of_week": "*/2", "hour": 1},
    {"year": f"{NOW.year + 1}-{NOW.year + 2}", "month": 2, "day": "29,28", "hour": 6},
    {"year": "*/2", "day_of_week": "tue", "hour": 6},
]
TRIGGERS: list[BaseTrigger] = [
    *(CronTrigger(timezone=UTC, start_date=START, **fields) for fields in CRONS),
    CronTrigger(hour=2, minute=30, timezone=ZONE, end_date=START + timedelta(days=9)),
    IntervalTrigger(seconds=90, timezone=UTC),
    IntervalTrigger(hours=1, start_date=START, end_date=START + timedelta(hours=3), timezone=UTC),
    DateTrigger(START),
    CalendarIntervalTrigger(months=1, hour=3, start_date=date(NOW.year, NOW.month, 5), timezone=ZONE),
    CalendarIntervalTrigger(days=3, hour=3, end_date=date(NOW.year + 1, 1, 4), timezone=ZONE),
    OrTrigger([CronTrigger(hour=5, timezone=UTC), CronTrigger(hour=6, day_of_week="sat", timezone=UTC)]),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_the_same_instants_as_apscheduler(peer: BackgroundScheduler, store: str, trigger: BaseTrigger) -> None:
    kept = add(peer, trigger)
    expected = [kept.next_run_time]
    while len(expected) < 30:
        following = trigger.get_next_fire_time(expected[-1], expected[-1] + timedelta(microseconds=1))
        if following is None:
            break
        expected.append(following)
    [imported] = only(read_apscheduler(store)).triggers
    found = [
        imported.progress.next_fire_time,
        *imported.trigger.anchored(NOW).following(imported.progress, None, len(expected) - 1),
    ]
    assert found == expected


def test_triggers_that_fire_together(peer: BackgroundScheduler, store: str) -> None:
    """APScheduler itself finds no second fire time of this one, and searches for ever."""
    parts = [CronTrigger(hour="5,6", timezone=UTC), CronTrigger(hour="6,7", day_of_week="sat", timezone=UTC)]
    add(peer, AndTrigger(parts))
    [imported] = only(read_apscheduler(store)).triggers
    first = imported.progress.next_fire_time
    assert (first.isoweekday(), first.hour) == (6, 6)
    assert imported.trigger.anchored(NOW).following(imported.progress, None, 2) == [
        first + timedelta(weeks=1),
        first + timedelta(weeks=2),
    ]


def test_options_of_jobs(peer: BackgroundScheduler, store: str) -> None:
    add(peer, DateTrigger(START), args=["us"], kwargs={"pages": 3}, name="Report", max_instances=2)
    found = only(read_apscheduler(store)).job
    assert found.key == JobKey("report", "apscheduler")
    assert found.job_type == "tests.migrate.test_apscheduler:report"
    assert found.data == {"args": ["us"], "kwargs": {"pages": 3}}
    assert (found.display_name, found.max_concurrent, found.overlap_policy) == ("Report", 2, "skip")


@pytest.mark.parametrize(
    ("options", "misfire", "threshold"),
    [
        ({"misfire_grace_time": 30}, "do_nothing", timedelta(seconds=30)),
        ({"misfire_grace_time": None, "coalesce": True}, "fire_once_now", None),
        ({"misfire_grace_time": None, "coalesce": False}, "ignore", None),
    ],
)
def test_late_runs(
    peer: BackgroundScheduler, store: str, options: dict[str, Any], misfire: str, threshold: timedelta | None
) -> None:
    add(peer, CronTrigger(hour=5), **options)
    [imported] = only(read_apscheduler(store)).triggers
    assert (imported.trigger.misfire, imported.trigger.misfire_threshold) == (misfire, threshold)


def test_a_paused_job_comes_over_paused_with_jitter_noted(peer: BackgroundScheduler, store: str) -> None:
    add(peer, CronTrigger(hour=5, jitter=60, timezone=UTC)).pause()
    plan = read_apscheduler(store)
    [imported] = only(plan).triggers
    assert imported.paused == "paused in APScheduler"
    assert isinstance(imported.trigger, quartzpy.Jitter)
    assert imported.trigger.up_to == timedelta(seconds=60)
    assert [(note.severity, note.subject) for note in plan.notes] == [
        (NoteSeverity.DIFFERS, "job apscheduler.report"),
    ]
    harness = SchedulerHarness(NOW)
    apply(plan, harness._store)
    assert harness.trigger_state(TriggerKey("report", "apscheduler")) == "PAUSED"


def test_an_imported_job_runs_with_its_arguments(peer: BackgroundScheduler, store: str) -> None:
    add(peer, DateTrigger(START), args=["us"], kwargs={"pages": 3})
    harness = SchedulerHarness(NOW)
    apply(read_apscheduler(store), harness._store)
    [execution] = harness.advance(timedelta(days=2))
    assert (execution.result, execution.scheduled_fire_time) == ("us3", START)


def test_a_second_import_takes_over_where_apscheduler_is_now(peer: BackgroundScheduler, store: str) -> None:
    kept = add(peer, IntervalTrigger(hours=1, start_date=START, timezone=UTC))
    add(peer, DateTrigger(START), "gone")
    harness = SchedulerHarness(NOW)
    apply(read_apscheduler(store), harness._store, held=True)
    kept.modify(next_run_time=START + timedelta(hours=5))
    peer.remove_job("gone")
    outcome = apply(read_apscheduler(store), harness._store)
    assert outcome.advanced == outcome.resumed == {TriggerKey("report", "apscheduler")}
    assert outcome.removed == {TriggerKey("gone", "apscheduler")}
    assert [one.scheduled_fire_time for one in harness.advance(START + timedelta(hours=5) - NOW)] == [
        START + timedelta(hours=5)
    ]


@pytest.mark.parametrize(
    ("trigger", "options", "severity", "text"),
    [
        (CronTrigger(week=5), {}, NoteSeverity.LEFT_OUT, "it restricts the week of the year"),
        (CronTrigger(day="2nd fri, 13"), {}, NoteSeverity.LEFT_OUT, 'it mixes days such as "2nd fri"'),
        (
            DateTrigger(START),
            {"args": [Region()]},
            NoteSeverity.UNDECIDED,
            "it is an object of tests.migrate.test_apsch",
        ),
    ],
)
def test_what_cannot_come_over(
    peer: BackgroundScheduler, store: str, trigger: BaseTrigger, options: Any, severity: NoteSeverity, text: str
) -> None:
    add(peer, trigger, **options)
    plan = read_apscheduler(store)
    [note] = plan.notes
    assert (note.severity, note.subject, plan.jobs) == (severity, "job apscheduler.report", [])
    assert text in note.text


def test_hostile_rows_are_reported_and_do_not_end_the_import(
    peer: BackgroundScheduler, store: str, tmp_path: Path
) -> None:
    add(peer, DateTrigger(START), "good")
    [state] = [job.__getstate__() for job in peer.get_jobs()]
    cycle: list[Any] = []
    cycle.append(cycle)
    rows = {
        "cycle": {**state, "id": "cycle", "args": cycle},
        "no id": {**state, "id": None, "name": None},
        "control": {**state, "id": "a\nb"},
        "long": {**state, "id": "x" * 201},
        "limit": {**state, "id": "limit", "max_instances": None},
        "grace": {**state, "id": "grace", "misfire_grace_time": 1e300},
        "entry": {name: value for name, value in state.items() if name != "func"},
        "list": [state],
    }
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as connection:
        for name, row in rows.items():
            connection.execute("INSERT INTO apscheduler_jobs VALUES (?, 1.0, ?)", [name, pickle.dumps(row)])
        for name, data in (("junk", b"\x80"), ("deep", b"]" * 100_000 + b"a" * 99_999 + b".")):
            connection.execute("INSERT INTO apscheduler_jobs VALUES (?, 1.0, ?)", [name, data])
        connection.commit()
    plan = read_apscheduler(store)
    assert [one.job.name for one in plan.jobs] == ["good"]
    assert {note.subject for note in plan.notes} == {f"job apscheduler.{name}" for name in (*rows, "junk", "deep")}
    assert all(note.severity is NoteSeverity.UNDECIDED for note in plan.notes)
    texts = {note.subject: note.text for note in plan.notes}
    assert "its args cannot be read" in texts["job apscheduler.cycle"]
    assert "OverflowError" in texts["job apscheduler.grace"]
    assert "its row is not of APScheduler 3: KeyError: 'func'" in texts["job apscheduler.entry"]


def test_arguments_that_cannot_be_read_are_given_by_the_map(peer: BackgroundScheduler, store: str) -> None:
    add(peer, DateTrigger(START), args=[Region()])
    decisions = ClassMap(
        {"tests.migrate.test_apscheduler:report": "app:report"},
        {("job", "apscheduler.report", "args"): {"value": ["eu"]}},
    )
    found = only(read_apscheduler(store, decisions=decisions)).job
    assert (found.job_type, found.data["args"]) == ("app:report", ["eu"])


class _Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, ("raise SystemExit('it was executed')",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_is_read_and_nothing_of_it_runs(protocol: int) -> None:
    found = read_pickle(pickle.dumps({"id": _Bomb()}, protocol))
    assert isinstance(found["id"], Made)
    assert found["id"].callee in ("builtins.exec", "__builtin__.exec")
    with pytest.raises(UnreadablePickleError, match="it is an object of"):
        as_python(found)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_read_as_pickle_reads_it(protocol: int) -> None:
    given = {
        "text": "Grüße 😀",
        "numbers": [0, -1, 255, 70_000, 1 << 70, 1.5],
        "bytes": b"\x00\xff",
        "flags": [True, False, None],
        "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "there": datetime(2026, 1, 2, 3, 4, tzinfo=ZONE),
        "offset": datetime(2026, 1, 2, tzinfo=quartzpy.instants.fixed_offset("+02:00")),
        "day": date(2026, 1, 2),
        "span": timedelta(days=1, seconds=2, microseconds=3),
        "same": [[1], [2]],
    }
    if protocol < 3:
        del given["bytes"]
    assert as_python(read_pickle(pickle.dumps(given, protocol))) == given


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x80\x05", b"\x80\x05]\x94(K\x01", b"c__main__\nX\n)R}b."])
def test_a_damaged_pickle_is_reported(damage: bytes) -> None:
    try:
        value = read_pickle(damage)
    except UnreadablePickleError:
        return
    with pytest.raises(UnreadablePickleError):
        as_python(value)


def add_of_script(peer: BackgroundScheduler) -> None:
    job = add(peer, IntervalTrigger(seconds=90, timezone=UTC))
    # As a program that was started as a script stores it.
    job.func_ref = "__main__:import_orders"
    peer._jobstores["default"].update_job(job)


def test_a_function_of_a_script_needs_the_name_of_its_module(peer: BackgroundScheduler, store: str) -> None:
    add_of_script(peer)
    plan = read_apscheduler(store)
    assert plan.jobs == []
    [note] = plan.undecided
    assert "__main__:import_orders is that of a script" in note.text
    assert "--main (old_program for old_program.py)" in note.text
    assert '"__main__:import_orders" = "old_program:import_orders"' in note.text
    assert only(read_apscheduler(store, main="old_program")).job.job_type == "old_program:import_orders"
    decisions = ClassMap({"__main__:import_orders": "shop.jobs:orders"})
    assert only(read_apscheduler(store, decisions=decisions)).job.job_type == "shop.jobs:orders"
    with pytest.raises(SettingsError, match=r"got 'app/old_program.py'\); did you mean old_program\?"):
        read_apscheduler(store, main="app/old_program.py")


def test_the_command_plans_without_tables_and_without_a_database(
    peer: BackgroundScheduler, store: str, fresh_database: Callable[[], str]
) -> None:
    add_of_script(peer)
    url = fresh_database()
    command = ("import", "apscheduler", "--from", store, "--main", "old_program")
    for options, why in (((), "no database is selected (--url)"), (("--url", url), "there are no quartzpy tables")):
        plan = run(*command, *options)
        assert plan.returncode == 0, plan.stderr
        assert "old_program:import_orders" in plan.stdout
        assert f"compared with an empty scheduler, because {why}" in plan.stderr
    stored = run(*command, "--url", url, "--name", "new", "--apply")
    assert stored.returncode != 0
    assert 'relation "qrtz_' in stored.stderr
    assert "run `quartzpy db upgrade`" in stored.stderr
    assert "LINE" not in stored.stderr


def test_the_command(peer: BackgroundScheduler, store: str, postgres_dsn: str) -> None:
    add(peer, IntervalTrigger(seconds=90, timezone=UTC))
    command = ("import", "apscheduler", "--from", store, "--dsn", postgres_dsn, "--name", "imported")
    plan = run(*command)
    assert plan.returncode == 0, plan.stderr
    assert "apscheduler.report  apscheduler.report  tests.migrate.test_apscheduler:report  every 1m30s" in plan.stdout
    assert run(*command, "--apply").stdout.endswith("Stored.\n")
    assert "apscheduler.report" in run("triggers", "--dsn", postgres_dsn, "--name", "imported").stdout
    missing = run(*command, "--table", "nowhere")
    assert missing.returncode == 2
    assert "no such table: nowhere" in missing.stderr
