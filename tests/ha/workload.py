"""Load on a cluster: node processes, recurring triggers of several kinds, and a client that schedules one-shots."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quartzpy import CronTrigger, JobDetail, JobKey, QuartzpyError, Scheduler, SimpleTrigger, Trigger, TriggerKey
from quartzpy.errors import OutcomeUnknownError
from quartzpy.states import TriggerState
from quartzpy.store.postgresql import migrations
from tests.ha import app, record
from tests.ha.check import History, Series

ROOT = Path(__file__).resolve().parents[2]
NODES = ("one", "two", "three")
SETTINGS = {
    "name": "ha",
    "workers": 10,
    "checkin_interval": "2s",
    "failure_window": "20s",
    "lock_timeout": "2s",
    "statement_timeout": "5s",
    "connect_timeout": "2s",
    "idle_wait": "5s",
    "start_timeout": "60s",
}
ONE_SHOT_EVERY = 0.25
UP_TO_DATE = timedelta(seconds=2)
"""What is due for longer has fired, once a cluster has caught up."""
CAUGHT_UP_WITHIN = 120.0
MAX_LISTED = 1_000_000
_CONVICTION = re.compile(r"is dead: its last check-in was at")
_TRACEBACK = re.compile(r"^Traceback", re.MULTILINE)
ONCE = JobKey("once", "DEFAULT")
COUNTING = JobKey("counting", "DEFAULT")


class StayedLateError(TimeoutError):
    """A trigger did not catch up: something is stuck."""


def _now() -> datetime:
    return datetime.now(UTC)


class Workload:
    """Three nodes under load, until `finish` says what became of it."""

    def __init__(self, dsn: str, directory: Path, **settings: Any) -> None:
        self.directory = directory
        directory.mkdir(mode=0o755, exist_ok=True)
        self.record = directory / "record.jsonl"
        self._dsn = dsn
        self._settings = {**SETTINGS, **settings}
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._series: dict[str, Series] = {}
        self._client = Scheduler(dsn, **self._settings)
        self._stop = threading.Event()
        self._scheduling = threading.Thread(target=self._schedule_one_shots, name="one-shots", daemon=True)
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self.refused: set[str] = set()
        self.errors: dict[str, str] = {}
        """What the client was told, by the one-shot."""

    # --- life

    def start(self) -> None:
        migrations.upgrade(self._dsn)
        begin = _now().replace(microsecond=0) + timedelta(seconds=3)
        self._client.add_job(JobDetail(app.Once, ONCE.name, durable=True))
        self._client.schedule_jobs(
            [
                (
                    JobDetail(app.Quick, "quick"),
                    [
                        *(self._every(f"often-{ms}", begin, ms) for ms in (100, 150, 200, 250, 300, 400, 500)),
                        self._each_second("each-second", begin),
                    ],
                ),
                (JobDetail(app.Serial, "serial", data={"seconds": 0.05}), [self._every("serially", begin, 250)]),
                (
                    JobDetail(app.Counting, COUNTING.name, data={"count": 0}),
                    [self._every(f"counted-{ms}", begin, ms) for ms in (400, 500)],
                ),
                (
                    JobDetail(app.Lasting, "lasting", data={"seconds": 4.0}, requests_recovery=True),
                    [self._every("lastingly", begin, 3000)],
                ),
            ]
        )
        for name in NODES:
            self._nodes.append(self._start_node(name))
        self.wait_for(lambda: len(self._client.nodes().nodes) == len(NODES), 60, "the nodes to join")
        self._scheduling.start()
        self.wait_until_caught_up()

    def stop(self) -> None:
        """End everything, also after a failure."""
        self._stop.set()
        for process in self._nodes:
            process.kill()
            process.wait()
        if self._scheduling.ident is not None:
            self._scheduling.join(60)
        self._client.shutdown()

    def finish(self) -> History:
        """Let everything come to its end, and tell what happened."""
        self._stop.set()
        self._scheduling.join(60)
        stayed_late: list[str] = []
        try:
            self.wait_until_caught_up()
        except StayedLateError as error:
            stayed_late.append(str(error))
        due = _now() - UP_TO_DATE
        self._client.pause_all()
        left: list[str] = []
        deadline = time.monotonic() + CAUGHT_UP_WITHIN
        while left := self._left():
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        counting = self._client.get_job_detail(COUNTING)
        assert counting is not None
        executions = self._client.executions().page(MAX_LISTED)
        return History(
            series=self._series,
            due=due,
            lines=record.read(self.record),
            acknowledged=frozenset(self.acknowledged),
            unknown=frozenset(self.unknown),
            refused=frozenset(self.refused),
            succeeded=frozenset(
                one.fire_id for one in executions if one.state == "SUCCEEDED" and one.fire_id is not None
            ),
            serial=frozenset({"serial", "counting"}),
            counters={"counting": counting.data["count"]},
            left=stayed_late + left,
        )

    # --- what it is like

    def lines(self) -> list[record.Line]:
        return record.read(self.record)

    def lag(self) -> dict[str, timedelta]:
        """By trigger, how long ago its first instant came that has not fired."""
        latest: dict[str, datetime] = {}
        for line in self.lines():
            if line.trigger in self._series and line.event == "start":
                latest[line.trigger] = max(line.scheduled, latest.get(line.trigger, line.scheduled))
        now = _now()
        return {
            name: now - (latest[name] + series.interval if name in latest else series.start)
            for name, series in self._series.items()
        }

    def is_caught_up(self) -> bool:
        return max(self.lag().values()) < UP_TO_DATE

    def wait_until_caught_up(self) -> None:
        """Wait until every trigger is up to date.

        Raises:
            StayedLateError: one is not; says what the system has of it.
        """
        deadline = time.monotonic() + CAUGHT_UP_WITHIN
        while not self.is_caught_up():
            if time.monotonic() > deadline:
                late = [f"{name}, by {lag}: {self._seen(name)}" for name, lag in self.lag().items() if lag > UP_TO_DATE]
                raise StayedLateError(f"late after {CAUGHT_UP_WITHIN:.0f} s: {'; '.join(late)}")
            time.sleep(0.2)

    def convictions(self) -> int:
        """How many verdicts over nodes there were: none of them is ever killed."""
        return sum(len(_CONVICTION.findall(text)) for text in self.logs().values())

    def tracebacks(self) -> int:
        return sum(len(_TRACEBACK.findall(text)) for text in self.logs().values())

    def logs(self) -> dict[str, str]:
        return {path.stem: path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log"))}

    def wait_for(self, reached: Callable[[], Any], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in self.logs().items())
                raise TimeoutError(f"waited {seconds:.0f} s for {what}\n{logs}")
            time.sleep(0.2)

    # --- how

    def _every(self, name: str, begin: datetime, milliseconds: int) -> Trigger:
        interval = timedelta(milliseconds=milliseconds)
        self._series[name] = Series(begin, interval)
        return SimpleTrigger(name, start_time=begin, interval=interval, repeat_count=None, misfire="ignore")

    def _each_second(self, name: str, begin: datetime) -> Trigger:
        self._series[name] = Series(begin, timedelta(seconds=1))
        return CronTrigger("* * * * * ?", name, start_time=begin, misfire="ignore")

    def _start_node(self, name: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            app.DSN_VARIABLE: self._dsn,
            app.SETTINGS_VARIABLE: json.dumps({**self._settings, "instance_id": name}),
            record.VARIABLE: str(self.record),
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "quartzpy", "node", "--app", "tests.ha.app:make_scheduler"],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _schedule_one_shots(self) -> None:
        number = 0
        while not self._stop.wait(ONE_SHOT_EVERY):
            number += 1
            name = f"once-{number}"
            try:
                self._client.schedule(SimpleTrigger(name, job_key=ONCE, misfire="ignore"))
            except OutcomeUnknownError as error:
                self.unknown.add(name)
                self.errors[name] = str(error)
            except QuartzpyError as error:
                self.refused.add(name)
                self.errors[name] = f"{type(error).__name__}: {error}"
            else:
                self.acknowledged.add(name)

    def _left(self) -> list[str]:
        """What is claimed, runs or is blocked, or waits although all is paused."""
        running = [f"execution {one.fire_id} of {one.trigger_key} is {one.state}" for one in self._client.running()]
        rest = {TriggerState.PAUSED, TriggerState.COMPLETE}
        stored = [
            f"trigger {one.trigger.key} is {one.state}"
            for one in self._client.triggers().page(MAX_LISTED)
            if one.state not in rest
        ]
        return running + stored

    def _seen(self, trigger: str) -> str:
        """A trigger and its executions as the system has them, for a report."""
        key = TriggerKey(trigger, "DEFAULT")
        try:
            stored = self._client.trigger_record(key)
            running = [
                f"execution {one.fire_id} of {one.scheduled_fire_time} is {one.state} on {one.instance_id}"
                f" ({one.epoch})"
                for one in self._client.running()
                if one.trigger_key == key
            ]
        except QuartzpyError as error:
            return str(error)
        return f"{stored.state if stored else 'not stored'}; {'; '.join(running) or 'nothing runs'}"
