"""What stands still, and who says it: whatever keeps a node from its work while it checks in, nothing says that all is
well, and each place names the cause."""

from __future__ import annotations

import html
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import make_url
from starlette.testclient import TestClient

from quartzpy import (
    HealthState,
    Job,
    JobDetail,
    JobExecutionContext,
    Scheduler,
    SimpleTrigger,
    factory,
)
from quartzpy.dashboard import create_app
from quartzpy.metrics.collector import Collector
from quartzpy.metrics.recorder import Recorder
from quartzpy.metrics.server import readiness
from quartzpy.node import cluster_manager, completer, troubles
from quartzpy.node.workers import executors
from quartzpy.operations import Actor, Operations, Role, judging, situation, triggers
from quartzpy.operations.situation import Situation
from quartzpy.store.postgresql.admin import admin
from tests.database import connect_to, execute
from tests.waiting import wait_until

REASON = "refused on purpose"


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError(REASON)


class Hanging(Job):
    ends = threading.Event()

    def execute(self, context: JobExecutionContext) -> None:
        self.ends.wait(60)


FACES = ("health", "incidents", "page", "doctor", "log", "metrics", "notification")


@dataclass
class Stage:
    dsn: str
    administrator: str
    log: pytest.LogCaptureFixture
    role: str
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = self.new_scheduler()
        self._page = TestClient(create_app(self.scheduler), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))

    def new_scheduler(self, **settings: Any) -> Scheduler:
        return Scheduler(
            self.dsn,
            name="standstill",
            checkin_interval="200ms",
            failure_window="10s",
            lock_timeout="300ms",
            idle_wait="300ms",
            executors={"narrow": "threads:1"},
            notify_channels={"ops": "http://127.0.0.1:9/"},
            **settings,
        )

    def ask(self) -> dict[str, str]:
        """Return what each face says now."""
        health = self.scheduler.health()
        operations = Operations(self.scheduler, actor=Actor("ann", Role.VIEWER))
        families = Collector(self.scheduler, Recorder(), cluster=True).collect()
        samples = {family.name: family.samples for family in families}
        messages = execute(self.administrator, "SELECT message ->> 'title', message ->> 'text' FROM qrtz_notifications")
        return {
            "health": " ".join([*health.problems, *map(str, health.incidents)]),
            "incidents": _joined(
                f"{one.kind} {one.what} {' '.join(one.why)}" for one in operations.overview().incidents
            ),
            "page": " ".join(html.unescape(self._page.get(path).text) for path in ("/", "/nodes")),
            "doctor": _joined(f"{one} {' '.join(one.rows)}" for one in admin(self.scheduler._store).audit()),
            "log": _joined(_text_of(record) for record in self.log.records if record.levelno >= logging.WARNING),
            "metrics": _joined(
                [
                    *(str(labels) for labels in samples["quartzpy_cluster_incidents"]),
                    *(["quartzpy_node_problems"] if any(samples["quartzpy_node_problems"].values()) else []),
                ]
            ),
            "notification": _joined(f"{title} {text}" for title, text in messages),
            "heartbeat": "" if Situation(operations._source).has_working_node else "it stops",
        }


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _text_of(record: logging.LogRecord) -> str:
    return f"{record.getMessage()} {record.exc_info[1] if record.exc_info else ''}"


@pytest.fixture
def stage(administrator_dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Stage]:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(troubles, "FAILING_FOR", 0.5)
    monkeypatch.setattr(completer, "RECORDED_WITHIN", 0.5)
    monkeypatch.setattr(executors, "STUCK_FOR", 0.5)
    monkeypatch.setattr(cluster_manager, "SCHEMA_CHECK_EVERY", 0.5)
    monkeypatch.setattr(judging, "EVERY", timedelta(seconds=0.5))
    monkeypatch.setattr(factory, "JUDGES_AFTER", 0.0)
    Hanging.ends.clear()
    role = f"standstill_{uuid.uuid4().hex[:8]}"
    execute(
        administrator_dsn,
        f"CREATE ROLE {role} LOGIN PASSWORD 'secret'",
        *(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}" for kind in ("TABLES", "SEQUENCES")),
        f"GRANT ALL ON SCHEMA public TO {role}",
    )
    dsn = make_url(administrator_dsn).set(username=role, password="secret").render_as_string(hide_password=False)
    stage = Stage(dsn, administrator_dsn, caplog, role)
    yield stage
    Hanging.ends.set()
    stage.scheduler.shutdown(timeout="3s")
    execute(administrator_dsn, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@contextmanager
def refused(stage: Stage, table: str, operation: str, sqlstate: str) -> Iterator[None]:
    """Let the database refuse an operation on a table with this SQLSTATE."""
    execute(
        stage.administrator,
        f"CREATE FUNCTION refuse_on_purpose() RETURNS trigger LANGUAGE plpgsql AS $$"
        f" BEGIN RAISE EXCEPTION '{REASON}' USING ERRCODE = '{sqlstate}'; END $$",
        f"CREATE TRIGGER refuse_on_purpose BEFORE {operation} ON {table} FOR EACH ROW"
        " EXECUTE FUNCTION refuse_on_purpose()",
    )
    try:
        yield
    finally:
        execute(stage.administrator, "DROP FUNCTION refuse_on_purpose() CASCADE")


@contextmanager
def held(stage: Stage, rows: str) -> Iterator[None]:
    """Hold the lock of some rows in a transaction of another program."""
    with connect_to(stage.administrator, autocommit=False, application_name="who holds it") as connection:
        connection.execute(f"SELECT * FROM {rows} FOR UPDATE".encode())
        yield
        connection.rollback()


@contextmanager
def as_stranger(stage: Stage, change: str, undo: str) -> Iterator[None]:
    """Change what the role of the nodes may see, which is not the owner of the tables."""
    execute(stage.administrator, change.format(role=stage.role))
    try:
        yield
    finally:
        execute(stage.administrator, undo.format(role=stage.role))


@contextmanager
def copied(stage: Stage) -> Iterator[None]:
    """Make the tables those of another database."""
    changed = "UPDATE qrtz_identity SET database_oid = database_oid {} 1"
    execute(stage.administrator, changed.format("+"))
    try:
        yield
    finally:
        execute(stage.administrator, changed.format("-"))


@contextmanager
def hung(stage: Stage, thread: str) -> Iterator[None]:
    """Let a thread of the node hang in its pass."""
    node = stage.scheduler._node
    assert node is not None
    service, ends, entered = getattr(node.parts, thread), threading.Event(), threading.Event()
    former = service.run_once

    def hang() -> float:
        entered.set()
        ends.wait(60)
        return 0.0

    service.period, service.run_once = 0.1, hang
    service.wakeup.set()
    entered.wait(10)
    try:
        yield
    finally:
        service.period, service.run_once = 15.0, former
        ends.set()


CLAIM = ("qrtz_fired_triggers", "INSERT")
CODES = ("53100", "25006", "58030", "57014", "53300", "55P03", "57P03", "08006", "XX000", "P0001")
CAUSES: dict[str, tuple[Callable[[Stage], Any], str]] = {
    **{
        f"claiming fails by {code}": (partial(refused, table=CLAIM[0], operation=CLAIM[1], sqlstate=code), REASON)
        for code in CODES
    },
    "a right is revoked": (
        partial(
            as_stranger,
            change='REVOKE INSERT ON qrtz_fired_triggers FROM "{role}"',
            undo='GRANT INSERT ON qrtz_fired_triggers TO "{role}"',
        ),
        "qrtz_fired_triggers",
    ),
    "recording fails": (partial(refused, table="qrtz_executions", operation="INSERT", sqlstate="53100"), REASON),
    "recording is refused": (partial(refused, table="qrtz_executions", operation="INSERT", sqlstate="23514"), REASON),
    "a lock is held": (partial(held, rows="qrtz_locks"), "who holds it"),
    "rows are hidden": (
        partial(
            as_stranger,
            change="ALTER TABLE qrtz_triggers ENABLE ROW LEVEL SECURITY",
            undo="ALTER TABLE qrtz_triggers DISABLE ROW LEVEL SECURITY",
        ),
        "hides rows of qrtz_triggers",
    ),
    "the database is a copy": (copied, "db adopt"),
    "the scheduler thread hangs": (partial(hung, thread="scheduler_thread"), "overdue"),
    "the misfire handler hangs": (partial(hung, thread="misfires"), "overdue"),
}


SILENT = {
    "a lock is held": {"notification"},
    "rows are hidden": {"notification"},
    "the database is a copy": {"notification"},
}
"""Where no trigger can be stored, no notification can: whoever is to be told notices that the heartbeat stops."""
WITHOUT_TRIGGERS = {*SILENT, "the scheduler thread hangs", "the misfire handler hangs"}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_face_names_why_a_node_stands_still(stage: Stage, cause: str) -> None:
    caused, reason = CAUSES[cause]
    stage.scheduler.start()
    if cause == "a lock is held":
        # Nothing can be stored later, and a node without due triggers takes no lock.
        often = SimpleTrigger("often", interval=timedelta(seconds=1))
        stage.scheduler.schedule_job(JobDetail(Quick, "often"), often)
    with caused(stage):
        for number in range(0 if cause in WITHOUT_TRIGGERS else 3):
            stage.scheduler.schedule_job(JobDetail(Quick, f"j{number}"), SimpleTrigger(f"t{number}"))
        said: dict[str, str] = {}
        words = dict.fromkeys(FACES, reason) | {"metrics": "quartzpy_node_problems", "heartbeat": "it stops"}
        silent = SILENT.get(cause, set())

        def missing() -> dict[str, str]:
            return {face: said[face][-900:] for face in words.keys() - silent if words[face] not in said[face]}

        def all_say_it() -> bool:
            said.update(stage.ask())
            return not missing()

        wait_until(all_say_it, "all to name the cause", seen=missing)
        lines = [text for text in said["log"].splitlines() if reason in text]
        assert 1 <= len(lines) <= 16, lines
    health = stage.scheduler.health
    wait_until(lambda: health().state is HealthState.HEALTHY, "health", seen=lambda: health().problems)
    wait_until(lambda: "unhealthy-node" not in stage.ask()["incidents"])


LONG_AGO = timedelta(hours=2)
HELD_UP: dict[str, tuple[str, str]] = {
    "a group is paused": ("paused-overdue", "reports"),
    "a trigger is in ERROR": ("trigger-error", "DEFAULT.broken-0"),
    "no node knows the type": ("unknown-type", "billing.Unknown"),
    "no node has the label": ("no-node-for-job", "DEFAULT.render"),
    "a job is at its limit": ("blocked-job", "DEFAULT.serial"),
    "all workers hang": ("full-pool", "'narrow'"),
    "a job fails": ("failures-in-a-row", "DEFAULT.failing"),
}
"""What keeps jobs, and no node, from their work: the kind of incident, and a word by which each face names it."""


def test_each_face_names_what_holds_jobs_up(
    stage: Stage, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (situation, triggers):
        monkeypatch.setattr(module, "OVERDUE", timedelta(seconds=1))
    begun = datetime.now(UTC) - LONG_AGO
    second = timedelta(seconds=1)
    scheduler = stage.scheduler

    def schedule(job: JobDetail, *, number: int = 1) -> None:
        once = [
            SimpleTrigger(f"{job.key.name}-{row}", job.key.group, start_time=begun, interval=second, misfire="ignore")
            for row in range(number)
        ]
        scheduler.schedule_job(job, once)

    schedule(JobDetail(Quick, "mails", "reports"))
    scheduler.pause_trigger_group("reports", reason="a test", by="ann")
    schedule(JobDetail(Quick, "broken"))
    schedule(JobDetail("billing.Unknown", "unknown"))
    schedule(JobDetail(Quick, "render", requires=("gpu",)))
    schedule(JobDetail(Hanging, "serial", max_concurrent=1), number=2)
    schedule(JobDetail(Hanging, "narrow", executor="narrow"), number=3)
    schedule(JobDetail(Failing, "failing"))
    execute(
        stage.administrator,
        "UPDATE qrtz_triggers SET paused_at = paused_at - interval '2 hours' WHERE paused_at IS NOT NULL",
        "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = 'broken by hand' WHERE trigger_name = 'broken-0'",
    )
    scheduler.start()
    said: dict[str, str] = {}

    def missing() -> dict[str, str]:
        return {
            f"{cause}: {face}": said[face][-300:]
            for cause, (kind, word) in HELD_UP.items()
            for face in FACES
            if (kind if face == "metrics" else word) not in said[face]
        }

    def all_say_it() -> bool:
        said.update(stage.ask())
        return not missing()

    with suppress(AssertionError):
        wait_until(all_say_it, "all faces")
    for cause, (kind, word) in HELD_UP.items():
        for face in FACES:
            with subtests.test(cause=cause, face=face):
                assert (kind if face == "metrics" else word) in said[face]
    health = scheduler.health()
    assert "no execution of executor 'narrow' has ended" in " ".join(health.problems)
    assert readiness(scheduler).ok, "long jobs are no reason to keep requests from the program"
