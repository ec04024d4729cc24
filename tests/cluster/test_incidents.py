"""What running nodes record of what is wrong, through an outage of the database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import QuartzpyError
from quartzpy.operations import Operations, Overview
from quartzpy.store.postgresql.admin import admin
from tests.database import execute
from tests.proxy import Proxy, over_tcp
from tests.waiting import wait_until

WINDOW = timedelta(seconds=20)
SETTINGS: dict[str, Any] = {
    "name": "judged",
    # A node that gets little time has come back before the others could be said to be dead.
    "checkin_interval": "3s",
    "lock_timeout": "2s",
    "failure_window": WINDOW,
    "idle_wait": "1s",
    "workers": 2,
}


class Idle(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture
def proxy(postgres_dsn: str) -> Iterator[Proxy]:
    with Proxy.to(over_tcp(postgres_dsn)) as proxy:
        yield proxy


@pytest.fixture
def nodes(postgres_dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Scheduler]]:
    monkeypatch.setattr("quartzpy.factory.HEALTH_CHECKS_AFTER", 0.0)
    url = proxy.through(over_tcp(postgres_dsn))
    nodes = [Scheduler(url, instance_id=name, **SETTINGS) for name in "ab"]
    for node in nodes:
        node.start()
    yield nodes
    for node in nodes:
        node.shutdown(wait=False)


def test_running_nodes_record_an_incident_once_and_see_that_it_is_over(
    nodes: list[Scheduler], postgres_dsn: str
) -> None:
    client = Operations(nodes[0])
    nodes[0].schedule_job(JobDetail(Idle, "idle"), SimpleTrigger("bad", interval=timedelta(hours=1)))
    key = TriggerKey("bad")
    wait_until(lambda: bool(nodes[0].executions()), "the first run")
    execute(postgres_dsn, "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = 'it is broken'")

    def is_open() -> list[Any]:
        # A busy machine may have others, such as a node that is late.
        return [record for record in admin(nodes[0]._store).open_incidents(10) if record.subject == str(key)]

    [record] = wait_until(is_open, "the record of the incident")
    assert record.why == ("it is broken",)
    client.actions.reset(key)
    wait_until(lambda: not is_open(), "the end of the incident")
    [over] = [incident for incident in client.past_incidents() if incident.subject == str(key)]
    assert over.incident_id == record.incident_id


def test_after_an_outage_of_the_database_nobody_is_said_to_be_dead(
    nodes: list[Scheduler], proxy: Proxy, postgres_dsn: str
) -> None:
    with closing_at_end(Scheduler(proxy.through(over_tcp(postgres_dsn)), **SETTINGS)) as client:
        page = Operations(client)
        wait_until(lambda: page.cluster().alive == 2, "both nodes")
        proxy.refuse()
        down_at = time.monotonic()
        while time.monotonic() - down_at < WINDOW.total_seconds() + 3:
            with pytest.raises(QuartzpyError):
                page.overview()
            time.sleep(0.2)
        back = page_when_back(proxy, page)
        overviews = [back]
        while any(node.last_checkin < back.now for node in overviews[-1].nodes):
            overviews.append(page.overview())
            time.sleep(0.05)
        told = [incident for overview in overviews for incident in overview.incidents]
        assert not told, "; ".join(f"{incident.what} {' '.join(incident.why)}" for incident in told)
        assert overviews[-1].calm.startswith("2 nodes alive")
    kinds = {kind for (kind,) in execute(postgres_dsn, "SELECT DISTINCT kind FROM qrtz_incidents")}
    assert kinds <= {"not-judged"}


@contextmanager
def closing_at_end(scheduler: Scheduler) -> Iterator[Scheduler]:
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def page_when_back(proxy: Proxy, page: Operations) -> Overview:
    """Let the database be reached again, and return the first page that is read."""
    proxy.admit()
    while True:
        with suppress(QuartzpyError):
            return page.overview()
