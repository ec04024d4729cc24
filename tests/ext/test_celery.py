"""Tasks that a job sends, and `celery beat` as a cluster, with the real Celery and a broker of files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar

from quartzpy import CronTrigger, Scheduler, SimpleTrigger, every
from quartzpy.errors import InvalidJobError, InvalidTriggerError, SettingsError
from quartzpy.ext import celery as ext
from quartzpy.ext.celery import CeleryTask, task_id_of, task_job, use_app
from quartzpy.ext.celery.beat import definitions_of
from quartzpy.ext.celery.schedules import crontab_line, trigger_of
from quartzpy.testing import SchedulerHarness
from tests.database import connect_to, execute
from tests.ext.celery_app import Message, messages
from tests.waiting import LIMIT, wait_until

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 10, 20, tzinfo=UTC)
MICROSECONDS = timedelta(microseconds=123_456)


@pytest.fixture(autouse=True)
def _no_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_job, "_apps", {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "broker"
    found.mkdir()
    return found


def app_with(folder: Path, name: str = "shop") -> Celery:
    options = {"data_folder_in": str(folder), "data_folder_out": str(folder), "control_folder": str(folder / "control")}
    app = Celery(name, set_as_current=False)
    app.conf.update(broker_url="filesystem://", broker_transport_options=options)
    return app


def test_a_fire_sends_the_task_once_with_its_options(folder: Path) -> None:
    use_app(app_with(folder))
    harness = SchedulerHarness(START, name="cluster")
    job = CeleryTask(
        "shop.report", "report", args=["eu", 7], kwargs={"full": True}, queue="slow", headers={"who": "me"}, expires=60
    )
    harness.schedule_job(job, CronTrigger("0 0 2 * * ?", "at-two"))
    [execution] = harness.advance(timedelta(hours=3))
    [message] = messages(folder)
    assert execution.result == message.task_id == task_id_of("cluster", "DEFAULT.at-two@2026-10-20T02:00:00.000+00:00")
    assert message[:4] == ("shop.report", execution.result, ["eu", 7], {"full": True})
    assert message.queue == "slow"
    assert message.headers["who"] == "me"
    assert message.headers["quartzpy_execution_key"] == "DEFAULT.at-two@2026-10-20T02:00:00.000+00:00"
    assert message.headers["quartzpy_scheduled_time"] == "2026-10-20T02:00:00.000+00:00"
    assert message.headers["expires"] is not None


def test_the_instant_in_the_headers_is_that_of_the_key_also_in_a_recovery(folder: Path) -> None:
    use_app(app_with(folder))
    harness = SchedulerHarness(START, name="cluster")
    harness.schedule_job(CeleryTask("shop.report", "report"), SimpleTrigger("once", start_time=START + MICROSECONDS))
    harness.advance(timedelta(seconds=1))
    [message] = messages(folder)
    # The data of a recovery holds milliseconds, as that of Quartz does, so its key and its headers can hold no more.
    assert message.headers["quartzpy_scheduled_time"] == (START + MICROSECONDS).isoformat(timespec="milliseconds")
    assert message.headers["quartzpy_execution_key"].endswith(f"@{message.headers['quartzpy_scheduled_time']}")


def test_all_attempts_of_a_fire_have_one_task_id_and_other_fires_have_others(folder: Path) -> None:
    class Unreachable(Celery):  # type: ignore[misc]
        """The broker takes the message, and the answer is lost."""

        failures = 2

        def send_task(self, *arguments: Any, **options: Any) -> Any:
            sent = super().send_task(*arguments, **options)
            if self.failures:
                self.failures -= 1
                raise ConnectionError("lost")
            return sent

    app = Unreachable("shop", set_as_current=False)
    app.conf.update(app_with(folder).conf.changes)
    use_app(app)
    harness = SchedulerHarness(START)
    harness.schedule_job(CeleryTask("shop.report", "report"), every("1h"))
    harness.advance(timedelta(hours=1, minutes=1))
    sent = Counter(message.task_id for message in messages(folder))
    assert sorted(sent.values()) == [1, 3]


def test_a_recovered_execution_sends_the_same_id(folder: Path) -> None:
    """The identity is that of the lost execution: a recovery has its key and its instant in its data."""
    use_app(app_with(folder))
    harness = SchedulerHarness(START, name="cluster")
    harness.schedule_job(CeleryTask("shop.report", "report"), CronTrigger("0 0 2 * * ?", "at-two"))
    [first] = harness.advance(timedelta(hours=3))
    harness.run_again(first.fire_id)
    harness.run_pending()
    assert Counter(message.task_id for message in messages(folder)) == {first.result: 2}


def test_the_app_of_a_task_is_chosen_by_name(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    use_app(app_with(folder, "shop"))
    use_app(app_with(other, "mail"))
    harness = SchedulerHarness(START)
    harness.schedule_job(CeleryTask("mail.send", "send", app="mail"), "0 0 2 * * ?")
    harness.schedule_job(CeleryTask("shop.report", "report", job_options={"retry": None}), "0 0 2 * * ?")
    outcomes = {execution.job_key.name: execution.error for execution in harness.advance(timedelta(hours=3))}
    assert [message.task for message in messages(other)] == ["mail.send"]
    assert messages(folder) == []
    assert outcomes["send"] is None
    assert "name the app by CeleryTask(..., app=...); this process knows 'mail', 'shop'" in str(outcomes["report"])


def test_without_an_app_the_error_says_what_to_call() -> None:
    with pytest.raises(SettingsError, match=r"call quartzpy\.ext\.celery\.use_app\(app\)"):
        task_job._app(None)
    with pytest.raises(InvalidJobError, match=r"no option 'qeue'; did you mean queue\?"):
        CeleryTask("shop.report", qeue="slow")


def test_programs_that_only_declare_need_neither_celery_nor_other_extras() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['celery', 'kombu', 'javaobj', 'apscheduler', 'django']))\n"
        "import quartzpy.migrate\n"
        "from quartzpy.ext.celery import CeleryTask\n"
        "print(CeleryTask('shop.report', queue='slow').data)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "{'task': 'shop.report', 'options': {'queue': 'slow'}}\n", done.stderr


def test_the_schedules_of_celery() -> None:
    def read(given: object) -> object:
        return trigger_of(given, "entry", "group", time_zone="Europe/Berlin")

    assert read(crontab("*/15", "9-17", "mon-fri")) == CronTrigger(
        "*/15 9-17 * * mon-fri", "entry", "group", dialect="crontab", time_zone="Europe/Berlin", day_or=False
    )
    assert crontab_line(crontab(hour=[8, 20], minute=0, day_of_month={1, 15})) == "0 8,20 1,15 * *"
    interval = SimpleTrigger("entry", "group", interval=timedelta(seconds=30), misfire="fire_now")
    assert read(30.0) == read(timedelta(seconds=30)) == read(schedule(30)) == interval
    # To make one the usual way, Celery needs a library of astronomy.
    sunset = solar.__new__(solar)
    sunset.event = "sunset"
    with pytest.raises(InvalidTriggerError, match="entry: quartzpy does not know where the sun is"):
        read(sunset)
    with pytest.raises(InvalidTriggerError, match="a crontab, a schedule, a timedelta or a number of seconds"):
        read("often")
    late = trigger_of(crontab(), "entry", "group", time_zone="UTC", starting_deadline=timedelta(seconds=90))
    assert (late.misfire, late.misfire_threshold) == ("do_nothing", timedelta(seconds=90))


@pytest.mark.parametrize(
    "given",
    [
        crontab("*/15", "8-20/3", "mon-fri", "1-20", "*/2"),
        crontab("0", "0", "sunday", "8-14"),
        crontab("7,37", "22-2", day_of_week={0, 6}),
        crontab("0", "*/5", day_of_month="*/10", month_of_year="jan,jul"),
    ],
    ids=str,
)
def test_a_crontab_fires_when_celery_says(given: crontab) -> None:
    trigger = trigger_of(given, "entry", "group", time_zone="UTC")
    since, minute = datetime(2026, 1, 1, tzinfo=UTC), timedelta(minutes=1)
    expected = [
        at
        for at in (since + n * minute for n in range(60 * 24 * 240))
        if at.minute in given.minute
        and at.hour in given.hour
        and at.day in given.day_of_month
        and at.month in given.month_of_year
        and at.isoweekday() % 7 in given.day_of_week
    ]
    assert len(expected) > 4
    assert trigger.upcoming(len(expected), since) == expected


def test_definitions_of_an_app(folder: Path) -> None:
    app = app_with(folder)
    app.conf.result_backend = "cache+memory://"
    app.conf.beat_schedule = {"a": {"task": "shop.a", "schedule": 5, "options": {"queue": "q"}}}
    app.add_periodic_task(10, app.signature("shop.b"), name="b")
    app.finalize()
    found = {job.name: job.data for job, _ in definitions_of(app)}
    assert found["a"] == {"task": "shop.a", "options": {"queue": "q"}, "app": "shop"}
    assert found["b"] is not None
    assert found["b"]["task"] == "shop.b"
    app.conf.beat_schedule = {"a": {"task": "shop.a", "schedule": 5, "shedule": 6}}
    with pytest.raises(InvalidJobError, match="entry a: unknown key 'shedule'"):
        definitions_of(app)


# --- beats as processes


class Beats:
    """Processes of `celery beat` on one database."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._environment = {**os.environ, "QUARTZPY_URL": dsn, "TEST_CELERY_FOLDER": str(folder)}
        self._folder = folder
        self._log = folder.parent / "beats.log"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", "tests.ext.celery_app", "beat"]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*command, "-S", "quartzpy.ext.celery:Scheduler", "--pidfile=", "-l", "INFO"],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def output(self) -> str:
        return self._log.read_text()

    def ticks(self) -> list[Message]:
        return [message for message in messages(self._folder) if message.task == "shop.tick"]

    def wait_for_ticks(self, count: int) -> None:
        wait_until(lambda: len(self.ticks()) >= count, f"{count} ticks", seen=self.output)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def beats(postgres_dsn: str, folder: Path) -> Iterator[Beats]:
    started = Beats(postgres_dsn, folder)
    yield started
    started.stop()


@pytest.fixture
def nodes(postgres_dsn: str) -> Iterator[Callable[[], int]]:
    """Counts the nodes of the shop."""
    with connect_to(postgres_dsn) as connection:

        def count() -> int:
            row = connection.execute("SELECT count(*) FROM qrtz_scheduler_state WHERE sched_name = 'shop'").fetchone()
            assert row is not None
            return int(row[0])

        yield count


def instants_of(sent: list[Message]) -> list[datetime]:
    return sorted(datetime.fromisoformat(message.headers["quartzpy_scheduled_time"]) for message in sent)


def gaps_of(beats: Beats) -> set[timedelta]:
    return {after - before for before, after in pairwise(sorted(set(instants_of(beats.ticks()))))}


@pytest.mark.cluster
def test_two_beats_send_each_instant_once_also_while_one_is_killed(
    beats: Beats, nodes: Callable[[], int], postgres_dsn: str
) -> None:
    first, second = beats.start(), beats.start()
    wait_until(lambda: nodes() == 2, "two nodes", seen=beats.output)
    beats.wait_for_ticks(len(beats.ticks()) + 3)
    first.kill()
    # Its lease is over at once, and that of no node which gets little time.
    execute(postgres_dsn, f"UPDATE qrtz_scheduler_state SET failure_window = '0' WHERE pid = {first.pid}")
    wait_until(lambda: nodes() == 1, "the first to be found dead", seen=beats.output)
    beats.wait_for_ticks(len(beats.ticks()) + 2)
    wait_until(lambda: gaps_of(beats) == {timedelta(seconds=1)}, "what the first had claimed", seen=beats.output)
    second.send_signal(signal.SIGTERM)
    assert second.wait(LIMIT) == 0, beats.output()
    assert nodes() <= 1, "the beat that was stopped has not left the cluster"
    sent = beats.ticks()
    instants = instants_of(sent)
    ids = {message.headers["quartzpy_scheduled_time"]: message.task_id for message in sent}
    assert len(ids) == len(set(ids.values()))
    repeated = [instant for instant, times in Counter(instants).items() if times > 1]
    # Only what was being sent at the moment of the kill may be sent again, with the same id.
    assert len(repeated) <= 1
    assert len({(message.headers["quartzpy_scheduled_time"], message.task_id) for message in sent}) == len(ids)
    assert gaps_of(beats) == {timedelta(seconds=1)}, f"an instant was lost: {instants}"
    assert {tuple(message.args) for message in sent} == {("eu",)}
    assert {message.queue for message in sent} == {"ticks"}


@pytest.mark.cluster
def test_beat_refuses_to_start_without_a_database(beats: Beats) -> None:
    beats._environment.pop("QUARTZPY_URL")
    process = beats.start()
    assert process.wait(LIMIT) != 0
    assert "no database; set app.conf.quartzpy_url, or the environment variable QUARTZPY_URL" in beats.output()


def test_an_interval_counts_from_the_first_start_and_survives_the_next(postgres_dsn: str, folder: Path) -> None:
    app = app_with(folder)
    app.conf.beat_schedule = {"slow": {"task": "shop.slow", "schedule": timedelta(hours=1)}}
    app.conf.quartzpy_url = postgres_dsn

    def started() -> datetime:
        beat = ext.Scheduler(app)
        assert beat.tick() > 0
        beat.close()
        with pytest.raises(SystemExit):
            beat.tick()
        with Scheduler(postgres_dsn, name="shop") as client:
            [trigger] = [one for one in client.triggers() if one.key.name == "slow"]
        assert trigger.next_fire_time is not None
        return trigger.next_fire_time

    before = datetime.now(UTC)
    first = started()
    assert timedelta(minutes=59) < first - before < timedelta(minutes=61)
    assert messages(folder) == []
    assert started() == first
    app.conf.beat_schedule = {}
    with pytest.raises(ValueError, match="unpack"):
        started()
