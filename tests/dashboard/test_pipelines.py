"""Each page asks the database at most three times, however much is wrong: a proxy counts the round trips."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.config.config import SchedulerConfig
from quartzpy.dashboard import create_app
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.operations import Operations
from quartzpy.placement import Capabilities
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import FiredTrigger, NamedTriggers, Node
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.harness import (
    HOUR,
    MINUTE,
    SECOND,
    Harness,
    SqlBackend,
    SqlHarness,
    every,
    job,
    key,
    once,
    serial,
)
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.full_reads import _every_read_is_full as _every_read_is_full
from tests.proxy import Proxy

BEGIN = datetime(2026, 3, 28, 4, tzinfo=UTC)
"""A day before the clocks of Europe change."""
MOST = 3
"""The largest number of round trips of a page. An examination is none: it reads whole tables."""


class Scene:
    """A cluster in which every part of the overview has something to say, and what the links of its pages name."""

    def __init__(self, store: Harness) -> None:
        self.store = store
        store.clock.set(BEGIN)
        self._node("dead")
        store.clock.advance(HOUR)
        self.node = self._node("a")
        self._late_and_held()
        self.attempts = self._retried()
        self._failing()
        self._stopped()
        self._misfired()
        self.running = self._running()
        self._gone()
        self.action = self.leaves_an_action()

    def _node(self, name: str) -> Node:
        node = self.store.node(name)
        known = frozenset({"report", "slow", "failing", "retried"})
        self.store.store.publish(node, Capabilities(known, workers={"default": 2, "gpu": 1}))
        return node

    def _once(self, name: str, seconds: float = 0) -> SimpleTrigger:
        return once(name, self.store.clock.now() + timedelta(seconds=seconds))

    def _every(self, seconds: float, name: str, first: float = 0) -> SimpleTrigger:
        return every(seconds, name, start=self.store.clock.now() + timedelta(seconds=first))

    def _late_and_held(self) -> None:
        store = self.store
        store.put_calendar("weekdays", WeeklyCalendar({6, 7}))
        store.put_calendar("saturdays", WeeklyCalendar({1, 2, 3, 4, 5, 7}))
        store.schedule(job("unknown", job_type="unknown"), self._once("unknown"))
        store.schedule(job("gpu", job_type="slow", executor="gpu"), self._once("gpu-0"), self._once("gpu-1", 1))
        store.schedule(job("nowhere", job_type="slow", requires=["label"]), self._once("nowhere"))
        planned = [
            CronTrigger("0 30 * * * ?", name, calendar=name, time_zone="Europe/Berlin")
            for name in ("weekdays", "saturdays")
        ]
        store.schedule(job("planned", timeout=timedelta(seconds=5)), *planned)
        nightly = CronTrigger("0 30 2 * * ?", "nightly", time_zone="Europe/Berlin")
        store.schedule(job("nightly"), nightly)

    def _fire(self, job_type: str) -> list[FiredTrigger]:
        return self.store.fire_due(self.node, types=[job_type])

    def _fail(self, fired: FiredTrigger, retry_after: timedelta | None) -> None:
        self.store.complete(
            self.node, fired, outcome=Outcome.FAILED, error="Traceback\nValueError: no", retry_after=retry_after
        )

    def _retried(self) -> int:
        """An execution that was retried twice; the fire id of the one in the middle."""
        store = self.store
        store.schedule(job("retried", job_type="retried"), self._once("retried"))
        fire_ids = []
        for _ in range(3):
            [fired] = self._fire("retried")
            fire_ids.append(fired.fire_id)
            self._fail(fired, SECOND)
            store.clock.advance(2 * SECOND)
        return fire_ids[1]

    def _failing(self) -> None:
        """A trigger whose last executions have failed for good, before two that are still repeated."""
        store = self.store
        store.schedule(job("failing", job_type="failing"), self._every(1, "failing"))
        for number in range(6):
            [fired] = [one for one in self._fire("failing") if one.trigger_name == "failing"]
            self._fail(fired, None if number < 4 else 10 * SECOND)
            store.clock.advance(SECOND)
        store.store.pause(NamedTriggers([key("failing")]))
        for _ in range(3):
            store.clock.advance(10 * SECOND)
            for fired in self._fire("failing"):
                self._fail(fired, 10 * SECOND)

    def _stopped(self) -> None:
        store = self.store
        paused = [self._every(60, "paused"), self._every(60, "failing-later", 60)]
        store.schedule(job("stopped", job_type="slow"), self._every(60, "poisoned"), *paused)
        store.set_state(key("poisoned"), TriggerState.ERROR)
        store.store.pause(NamedTriggers([trigger.key for trigger in paused]))

    def _running(self) -> int:
        """More executions than workers, some of which ignore their timeouts; the fire id of one."""
        store = self.store
        store.schedule(serial("serial"), self._once("serial-0"), self._once("serial-1"))
        hogs = [self._once(f"hog-{number}") for number in range(3)]
        store.schedule(job("hog", timeout=timedelta(seconds=1)), *hogs)
        limited = [self._once(f"limited-{number}") for number in range(3)]
        store.schedule(job("limited", job_type="limited", rate_limit=RateLimit(1, per="1h")), *limited)
        self._fire("limited")
        fired = self._fire("report")
        return next(one.fire_id for one in fired if one.job_key.name == "hog")

    def _misfired(self) -> None:
        store = self.store
        store.schedule(job("misfired", job_type="misfired"), self._every(60, "misfired"))
        store.clock.advance(5 * MINUTE)
        store.misfire(self.node, types=["misfired"])

    def _gone(self) -> None:
        store = self.store
        store.schedule(job("gone", job_type="gone"), self._once("gone"))
        [fired] = self._fire("gone")
        store.complete(self.node, fired)

    def leaves_an_action(self) -> int:
        """Let the process of an action end in the middle of it; return the number of the action."""
        action = admin(self.store.store).record_action(ActionEntry("ann", "admin", "resume", "trigger DEFAULT.paused"))
        self.store.clock.advance(2 * MINUTE)
        self.store.store.check_in(self.node)
        # So long has it been back that the silence of the other one means something.
        for _ in range(2):
            self.store.clock.advance(5 * SECOND)
            self.store.store.check_in(self.node)
        return action


PAGES = (
    "/",
    "/jobs",
    "/jobs?contains=a&mode=ENABLED",
    "/job?group=DEFAULT&name=hog",
    "/job?group=DEFAULT&name=planned",
    "/job?group=DEFAULT&name=gone",
    "/job?group=DEFAULT&name=never",
    "/triggers",
    "/triggers?state=LATE",
    "/triggers?state=ERROR&contains=p&sort=next",
    "/trigger?group=DEFAULT&name=weekdays",
    "/trigger?group=DEFAULT&name=failing",
    "/trigger?group=DEFAULT&name=gpu-1",
    "/trigger?group=DEFAULT&name=gone",
    "/trigger?group=DEFAULT&name=never",
    "/executions",
    "/executions?state=RUNNING&job=hog",
    "/executions?state=FAILED&since=1h",
    "/executions/{attempts}",
    "/executions/{running}",
    "/executions/999999",
    "/misfires",
    "/incidents",
    "/incidents?contains=nothing",
    "/misfires?since=1h&action=SKIPPED",
    "/nodes",
    "/nodes?node=node-1",
    "/groups",
    "/windows",
    "/limits",
    "/running",
    "/upcoming?until=1d",
    "/locks",
    "/calendars",
    "/calendar?name=weekdays",
    "/calendar?name=weekdays&year=2027",
    "/calendar?name=never",
    "/timeline",
    "/timeline?span=1d&lanes=node",
    "/audit?action=resume",
    "/audit?state=INTERRUPTED&actor=ann",
    "/audit",
    "/audit/{action}",
    "/search",
    "/search?q=gone",
    "/search?q={attempts}",
    "/system",
    "/actions/pause?kind=trigger&group=DEFAULT&name=weekdays",
    "/actions/trigger?kind=job&group=DEFAULT&name=hog",
    "/actions/trigger?kind=job&group=DEFAULT&name=never",
    "/actions/reschedule?kind=trigger&group=DEFAULT&name=weekdays",
    "/actions/reschedule/preview?kind=trigger&group=DEFAULT&name=weekdays&schedule=every+5m",
    "/actions/backfill?kind=trigger&group=DEFAULT&name=weekdays",
    "/actions/backfill/preview?kind=trigger&group=DEFAULT&name=weekdays&start=2026-03-01T00:00&end=2026-03-02T00:00",
    "/actions/delete?of=triggers&scope=all&state=LATE",
    "/actions/delete?of=jobs&scope=all",
)


@pytest.fixture
def scene(postgres_dsn: str, sql_backends: dict[str, SqlBackend], monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    if postgres_dsn not in sql_backends:
        sql_backends[postgres_dsn] = SqlBackend(postgres_dsn)
    harness = SqlHarness(sql_backends[postgres_dsn])
    monkeypatch.setattr(harness.store, "_config", SchedulerConfig(name=SqlBackend.NAME, pause_grace="1us"))
    yield Scene(harness)
    harness.close()


@pytest.fixture
def page(scene: Scene, proxy: Proxy, postgres_dsn: str) -> Iterator[TestClient]:
    """A dashboard whose connection to the database is counted, and has been used before."""
    store = SqlJobStore(proxy.through(postgres_dsn), SchedulerConfig(name=SqlBackend.NAME), now_sql=SqlBackend.NOW)
    scheduler = Scheduler(store, name=SqlBackend.NAME)
    with TestClient(create_app(scheduler, auth=THIS_USER, read_only=False), **LOCAL) as client:
        client.get("/nodes").raise_for_status()
        yield client
    store.close()


def test_the_scene_has_each_incident(scene: Scene) -> None:
    overview = Operations(Scheduler(scene.store.store, name=SqlBackend.NAME)).overview()
    assert {one.kind for one in overview.incidents} == {
        "blocked-job",
        "clock-change",
        "dead-node",
        "failures-in-a-row",
        "full-pool",
        "ignored-timeout",
        "no-node-for-job",
        "paused-overdue",
        "trigger-error",
        "unknown-type",
    }
    assert overview.late
    assert overview.failed
    assert overview.agenda
    assert len(Operations(Scheduler(scene.store.store, name=SqlBackend.NAME)).execution(scene.attempts).attempts) == 4


def test_each_page_asks_at_most_three_times(scene: Scene, page: TestClient, proxy: Proxy) -> None:
    def visit(path: str) -> int:
        before = proxy.pipelines
        answer = page.get(path.format(attempts=scene.attempts, running=scene.running, action=scene.action))
        assert answer.status_code in (200, 404), path
        return proxy.pipelines - before

    # The first round trip of many statements also prepares them. The server begins to answer before it has all of them.
    for path in PAGES:
        visit(path)
    scene.leaves_an_action()
    pipelines = {path: visit(path) for path in PAGES}
    assert {path: count for path, count in pipelines.items() if not 1 <= count <= MOST} == {}


def test_the_form_of_a_backfill_finds_its_span_by_what_its_preview_reads(page: TestClient, proxy: Proxy) -> None:
    trigger = "kind=trigger&group=DEFAULT&name=weekdays"
    span = "start=2026-03-01T00:00&end=2026-03-02T00:00"

    def questions(path: str) -> int:
        before = proxy.pipelines
        page.get(path).raise_for_status()
        return proxy.pipelines - before

    questions(f"/actions/backfill/preview?{trigger}&{span}")
    of_preview = questions(f"/actions/backfill/preview?{trigger}&{span}")
    # The trigger and its calendar. The span ends at the store's present, which is asked too.
    assert (of_preview, questions(f"/actions/backfill?{trigger}")) == (2, 3)


def test_a_page_asks_for_the_time_with_its_first_question(page: TestClient, proxy: Proxy) -> None:
    before = proxy.pipelines
    page.get("/nodes").raise_for_status()
    assert proxy.pipelines - before == 1
