"""What stands still, and who says it: whatever keeps a node from its work while it checks in, nothing says that all is
well, and each place names the cause."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient

from quartzpy import HealthState, Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.dashboard import create_app
from quartzpy.metrics.collector import Collector
from quartzpy.metrics.recorder import Recorder
from quartzpy.metrics.server import readiness
from quartzpy.node import completer, troubles
from quartzpy.operations import Actor, Operations, Role
from quartzpy.store.postgresql.admin import admin
from tests.database import connect_to, execute
from tests.waiting import wait_until

REASON = "refused on purpose"


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@dataclass
class Stage:
    scheduler: Scheduler
    operations: Operations
    administrator: str
    page: TestClient
    said: dict[str, str] = field(default_factory=dict)

    def ask(self) -> dict[str, str]:
        """Return what each place says now."""
        health, overview = self.scheduler.health(), self.operations.overview()
        return {
            "health": " ".join(health.problems) if health.state is not HealthState.HEALTHY else "",
            "probe": " ".join(readiness(self.scheduler).problems),
            "row": " ".join(problem.what for node in self.operations.cluster().nodes for problem in node.problems),
            "incidents": " ".join(f"{one.kind} {' '.join(one.why)}" for one in overview.incidents),
            "doctor": " ".join(
                " ".join(one.rows) for one in admin(self.scheduler._store).audit() if one.check == "unhealthy-node"
            ),
            "page": self.page.get("/nodes").text,
            "metrics": self._metric(),
        }

    def _metric(self) -> str:
        families = Collector(self.scheduler, Recorder(), cluster=False).collect()
        [samples] = [family.samples for family in families if family.name == "quartzpy_node_problems"]
        return REASON if any(samples.values()) else ""


@pytest.fixture
def stage(postgres_dsn: str, administrator_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(troubles, "FAILING_FOR", 0.5)
    monkeypatch.setattr(completer, "RECORDED_WITHIN", 0.5)
    scheduler = Scheduler(
        postgres_dsn,
        name="standstill",
        checkin_interval="200ms",
        failure_window="10s",
        lock_timeout="300ms",
        idle_wait="300ms",
    )
    page = TestClient(create_app(scheduler), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))
    yield Stage(scheduler, Operations(scheduler, actor=Actor("ann", Role.VIEWER)), administrator_dsn, page)
    scheduler.shutdown(timeout="3s")


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


CLAIM = ("qrtz_fired_triggers", "INSERT")
CAUSES: dict[str, tuple[Callable[[Stage], object], str]] = {
    **{
        f"claiming fails by {code}": (lambda stage, code=code: refused(stage, *CLAIM, code), REASON)  # type: ignore[misc]
        for code in ("53100", "25006", "42501", "58030", "57014", "53300", "55P03", "57P03", "08006", "XX000", "P0001")
    },
    "recording fails": (lambda stage: refused(stage, "qrtz_executions", "INSERT", "53100"), REASON),
    "recording is refused": (lambda stage: refused(stage, "qrtz_executions", "INSERT", "23514"), REASON),
    "a lock is held": (lambda stage: held(stage, "qrtz_locks"), "who holds it"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_place_names_the_cause_and_none_says_that_nothing_is_wrong(
    stage: Stage, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    caused, reason = CAUSES[cause]
    stage.scheduler.start()
    with caused(stage):  # type: ignore[attr-defined]
        if cause != "a lock is held":
            for number in range(3):
                stage.scheduler.schedule_job(JobDetail(Quick, f"j{number}"), SimpleTrigger(f"t{number}"))

        def all_say_it() -> bool:
            stage.said = stage.ask()
            return all(reason in text for place, text in stage.said.items() if place != "metrics") and bool(
                stage.said["metrics"]
            )

        wait_until(all_say_it, "all to name the cause", seen=lambda: {k: v[-300:] for k, v in stage.said.items()})
        lines = [text for record in caplog.records if reason in (text := f"{record.getMessage()} {record.exc_info}")]
        assert 1 <= len(lines) <= 12, lines
    wait_until(lambda: stage.scheduler.health().state is HealthState.HEALTHY)
    wait_until(lambda: "unhealthy-node" not in stage.ask()["incidents"])
