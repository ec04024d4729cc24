"""What stands still, and who says it: whatever keeps a node from its work while it checks in, nothing says that all is
well, and each place names the cause."""

from __future__ import annotations

import asyncio
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

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, factory
from quartzpy.dashboard import create_app
from quartzpy.metrics.collector import Collector
from quartzpy.metrics.endpoints import readiness
from quartzpy.metrics.recorder import Recorder
from quartzpy.node import completer, health, reactions, schema_watch, troubles
from quartzpy.node.workers import executors
from quartzpy.operations import Actor, Operations, Role
from quartzpy.operations.incidents import cluster_facts
from quartzpy.operations.incidents.cluster_diagnosis import ClusterDiagnosis
from quartzpy.operations.incidents.kinds import blocked_job
from quartzpy.operations.telling import health_check
from quartzpy.operations.views import triggers
from quartzpy.records import HealthState
from quartzpy.store.postgresql.admin import admin
from tests.database import Server, connect_to, end_sessions, execute
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
    asked: Scheduler = field(init=False)
    """Through whom the faces of the cluster are asked."""

    def __post_init__(self) -> None:
        self.show(self.new_scheduler())

    def show(self, scheduler: Scheduler, asked: Scheduler | None = None) -> None:
        """Have a node of a scheduler, and ask it of the cluster, or another process that runs no node."""
        self.scheduler, self.asked = scheduler, asked or scheduler
        self._page = TestClient(create_app(self.asked), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))

    def new_scheduler(self, *, dsn: str = "", failure_window: str = "10s") -> Scheduler:
        return Scheduler(
            dsn or self.dsn,
            name="standstill",
            checkin_interval="200ms",
            failure_window=failure_window,
            lock_timeout="300ms",
            idle_wait="300ms",
            executors={"narrow": "threads:1"},
            notify_channels={"ops": "http://127.0.0.1:9/"},
        )

    def ask(self) -> dict[str, str]:
        """Return what each face says now."""
        own = self.scheduler.health()
        operations = Operations(self.asked, actor=Actor("ann", Role.VIEWER))
        families = Collector(self.asked, Recorder(), cluster=True).collect()
        samples = {family.name: family.samples for family in families}
        messages = execute(self.administrator, "SELECT message ->> 'title', message ->> 'text' FROM qrtz_notifications")
        return {
            "health": " ".join([*own.problems, *map(str, own.incidents)]),
            "incidents": _joined(
                f"{one.kind} {one.what} {' '.join(one.why)}" for one in operations.overview().incidents
            ),
            "page": " ".join(html.unescape(self._page.get(path).text) for path in ("/", "/nodes")),
            "doctor": _joined(f"{one} {' '.join(one.rows)}" for one in admin(self.asked._store).audit()),
            "log": _joined(_text_of(record) for record in self.log.records if record.levelno >= logging.WARNING),
            "metrics": _joined(
                [
                    *(str(labels) for labels in samples["quartzpy_cluster_incidents"]),
                    *(f"{labels} {number:.0f}" for labels, number in samples["quartzpy_cluster_nodes"].items()),
                    *(["quartzpy_node_problems"] if any(samples.get("quartzpy_node_problems", {}).values()) else []),
                ]
            ),
            "notification": _joined(f"{title} {text}" for title, text in messages),
            "heartbeat": "" if ClusterDiagnosis(operations._context).has_working_node else "it stops",
        }


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _text_of(record: logging.LogRecord) -> str:
    return f"{record.getMessage()} {record.exc_info[1] if record.exc_info else ''}"


@pytest.fixture(scope="session")
def role(postgres_server: Server, _worker_database: str) -> Iterator[str]:
    """The role of the nodes, one for all tests of this process, so that they share its sessions."""
    administrator = postgres_server.administrator_dsn_of(_worker_database)
    name = f"standstill_{uuid.uuid4().hex[:8]}"
    execute(
        administrator,
        f"CREATE ROLE {name} LOGIN PASSWORD 'secret'",
        *(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {name}" for kind in ("TABLES", "SEQUENCES")),
        f"GRANT ALL ON SCHEMA public TO {name}",
    )
    yield name
    execute(administrator, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture
def stage(
    administrator_dsn: str, role: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Stage]:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(troubles, "FAILING_FOR", 0.5)
    monkeypatch.setattr(health, "FAILING_FOR", timedelta(seconds=0.5))
    monkeypatch.setattr(completer, "RECORDED_WITHIN", 2.0)
    monkeypatch.setattr(executors, "STUCK_FOR", 0.5)
    monkeypatch.setattr(schema_watch, "SCHEMA_CHECK_EVERY", 0.5)
    monkeypatch.setattr(health_check, "EVERY", timedelta(seconds=0.5))
    monkeypatch.setattr(factory, "HEALTH_CHECKS_AFTER", 0.0)
    Hanging.ends.clear()
    dsn = make_url(administrator_dsn).set(username=role, password="secret").render_as_string(hide_password=False)
    stage = Stage(dsn, administrator_dsn, caplog, role)
    yield stage
    Hanging.ends.set()
    for scheduler in {stage.scheduler, stage.asked}:
        scheduler.shutdown(timeout="30s")


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
    service, ends, entered = getattr(node_of(stage), thread), threading.Event(), threading.Event()
    former = service.run_once

    def hang() -> float:
        entered.set()
        ends.wait(60)
        return 0.0

    service.period, service.run_once = 0.1, hang
    service.wakeup.set()
    assert entered.wait(60)
    try:
        yield
    finally:
        service.period, service.run_once = 15.0, former
        ends.set()


@contextmanager
def ended(stage: Stage, thread: str) -> Iterator[None]:
    """End a thread of the node, which cannot be started again."""
    service = getattr(node_of(stage), thread)

    def ends() -> float:
        raise SystemExit

    def refuses() -> threading.Thread:
        raise RuntimeError("can't start new thread")

    service._guarded_pass, service._new_thread = ends, refuses
    service.wakeup.set()
    yield
    del service._guarded_pass, service._new_thread


@contextmanager
def raising(stage: Stage, thread: str) -> Iterator[None]:
    """Let each pass of a thread of the node raise an error."""
    service = getattr(node_of(stage), thread)

    def fails() -> float:
        raise ValueError(REASON)

    service.run_once = fails
    service.wakeup.set()
    yield
    del service.run_once
    service.wakeup.set()


@contextmanager
def loop_ended(stage: Stage) -> Iterator[None]:
    """End the thread of the event loop, before anybody looks."""
    loop = node_of(stage).loop
    thread = threading.Thread()
    thread.start()
    thread.join()
    loop.run(asyncio.sleep(0), "", lambda lost=None: None)
    wait_until(lambda: loop._thread is not None)
    former, loop._thread = loop._thread, thread
    check, restart = loop.check, loop.restart
    loop.check = loop.restart = lambda: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop._thread, loop.check, loop.restart = former, check, restart  # type: ignore[method-assign]


def node_of(stage: Stage) -> Any:
    assert stage.scheduler._node is not None
    return stage.scheduler._node.parts


@contextmanager
def beside(stage: Stage, cause: Callable[[Stage], Any]) -> Iterator[None]:
    """Let another node live, which judges in the place of one that cannot."""
    other = stage.new_scheduler()
    other.start()
    try:
        with cause(stage):
            yield
    finally:
        other.shutdown(timeout="30s")


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
    "the scheduler thread fails": (partial(raising, thread="scheduler_thread"), REASON),
    "the misfire handler fails": (partial(raising, thread="misfires"), REASON),
    "the cluster manager fails": (partial(beside, cause=partial(raising, thread="cluster")), REASON),
    "the scheduler thread ends": (partial(ended, thread="scheduler_thread"), "ended"),
    "the misfire handler ends": (partial(ended, thread="misfires"), "ended"),
    "the cluster manager ends": (partial(beside, cause=partial(ended, thread="cluster")), "ended"),
    "the event loop ends": (loop_ended, "event loop has ended"),
}


SILENT = {
    "a lock is held": {"notification"},
    "rows are hidden": {"notification"},
    "the database is a copy": {"notification"},
}
"""Where no trigger can be stored, no notification can: whoever is to be told notices that the heartbeat stops."""
WITHOUT_TRIGGERS = {*SILENT, *(cause for cause in CAUSES if cause.endswith(("hangs", "ends")))}


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
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
        words = dict.fromkeys(FACES, reason) | {"metrics": "quartzpy_node_problems"}
        if "cluster manager" not in cause:  # Another node works beside it.
            words["heartbeat"] = "it stops"
        silent = SILENT.get(cause, set())

        def missing() -> dict[str, str]:
            return {face: said[face][-900:] for face in words.keys() - silent if words[face] not in said[face]}

        def all_say_it() -> bool:
            said.update(stage.ask())
            return not missing()

        wait_until(all_say_it, "all to name the cause", seen=missing)
        lines = [text for text in said["log"].splitlines() if reason in text]
        assert 1 <= len(lines) <= 16, lines
    ask = stage.scheduler.health
    wait_until(lambda: ask().state is HealthState.HEALTHY, "health", seen=lambda: ask().problems)
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
    for module in (blocked_job, cluster_facts, triggers):
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
    own = scheduler.health()
    assert "no execution of executor 'narrow' has ended" in " ".join(own.problems)
    assert readiness(scheduler).ok, "long jobs are no reason to keep requests from the program"


@contextmanager
def deaf(stage: Stage) -> Iterator[None]:
    """End each session that listens, as something between the node and the server does it."""
    ends = threading.Event()

    def end_them() -> None:
        # By the session's name: its last statement is LISTEN only until the connection is probed.
        with connect_to(stage.administrator) as connection:
            while not ends.wait(0.05):
                end_sessions(connection, "usename = %s AND application_name LIKE 'quartzpy:%%:listen%%'", stage.role)

    thread = threading.Thread(target=end_them)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def clock_set(stage: Stage) -> Iterator[None]:
    """Set the clock of the database back by an hour, as the answers to check-ins tell it, while the node runs."""
    time_of_store = node_of(stage).store_time
    learn = time_of_store.learn
    time_of_store.learn = lambda now, asked_at: learn(now - timedelta(hours=1), asked_at)
    try:
        yield
    finally:
        del time_of_store.learn


STOPS_NOTHING: dict[str, tuple[Callable[[Stage], Any], dict[str, str]]] = {
    "no session can listen": (
        deaf,
        dict.fromkeys(FACES, "the LISTEN connection was lost") | {"metrics": "quartzpy_node_problems"},
    ),
    "a clock is set": (clock_set, {"log": "3600.0 s ahead of the database's"}),
}
"""What keeps no job from its time, or only from being early, and the words of those that say it."""


@pytest.mark.parametrize("cause", STOPS_NOTHING)
def test_what_stops_nothing_is_said_and_stops_nothing(
    stage: Stage, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactions, "WORKS_AFTER", 2.0)
    monkeypatch.setattr(reactions, "MAX_WAIT", 0.2)
    caused, words = STOPS_NOTHING[cause]
    stage.scheduler.start()
    said: dict[str, str] = {}

    def missing() -> dict[str, str]:
        return {face: said[face][-900:] for face, word in words.items() if word not in said[face]}

    def all_say_it() -> bool:
        said.update(stage.ask())
        return not missing()

    with caused(stage):
        wait_until(all_say_it, "all to name the cause", seen=missing)
        stage.scheduler.schedule_job(JobDetail(Quick, "still"), SimpleTrigger("still"))
        assert stage.scheduler.wait_until_recorded(1, timedelta(seconds=30))
        assert readiness(stage.scheduler).ok
        assert not stage.ask()["heartbeat"]
    wait_until(lambda: stage.scheduler.health().state is HealthState.HEALTHY)


def exhaust(stage: Stage) -> None:
    execute(
        stage.administrator,
        f"ALTER ROLE {stage.role} CONNECTION LIMIT 0",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{stage.role}'",
    )


NO_NODE: dict[str, tuple[Callable[[Stage], object], dict[str, str]]] = {
    "no node": (
        lambda stage: stage.scheduler.shutdown(timeout="30s"),
        {"incidents": "no-node", "page": "No node", "doctor": "no node is running", "metrics": "('state', 'alive')) 0"},
    ),
    "connections are exhausted": (
        exhaust,
        {
            "health": "too many connections",
            "log": "too many connections",
            "incidents": "no-node",
            "page": "No node",
            "doctor": "1 node is silent",
            "metrics": "('state', 'alive')) 0",
        },
    ),
    "all are in standby": (
        lambda stage: stage.scheduler.standby(),
        dict.fromkeys(FACES, "No node takes triggers") | {"metrics": "none-takes"},
    ),
}


@pytest.mark.parametrize("cause", NO_NODE)
def test_a_cluster_without_a_node_that_takes_triggers_is_seen_from_outside(stage: Stage, cause: str) -> None:
    stage.scheduler.shutdown()
    observer = None if cause == "all are in standby" else stage.new_scheduler(dsn=stage.administrator)
    stage.show(stage.new_scheduler(failure_window="2s"), observer)
    stage.scheduler.start()
    happens, words = NO_NODE[cause]
    stage.scheduler.schedule_job(
        JobDetail(Quick, "waits"), SimpleTrigger("waits", start_time=datetime.now(UTC) + LONG_AGO)
    )
    happens(stage)
    said: dict[str, str] = {}
    words = words | {"heartbeat": "it stops"}

    def missing() -> dict[str, str]:
        return {face: said[face][-900:] for face, word in words.items() if word not in said[face]}

    def all_say_it() -> bool:
        said.update(stage.ask())
        return not missing()

    wait_until(all_say_it, "all to name the cause", seen=missing)
    execute(stage.administrator, f"ALTER ROLE {stage.role} CONNECTION LIMIT -1")
