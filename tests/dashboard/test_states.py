"""What the pages show and offer depends on the state of what they are about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.jobs.progress import Progress
from tests.contract.harness import Harness, RamHarness, job, once
from tests.dashboard.conftest import LOCAL


@pytest.fixture
def store() -> Iterator[Harness]:
    """An empty store in memory, whose time the test moves."""
    harness = RamHarness()
    yield harness
    harness.close()


@pytest.fixture
def client(store: Harness) -> TestClient:
    """A client of a dashboard on this store."""
    return TestClient(create_app(Scheduler(store.store, name="contract")), **LOCAL)


def test_a_running_execution_shows_its_progress_and_its_last_log_lines(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    url = f"/executions/{fired.fire_id}"
    assert "None were captured yet" in client.get(url).text
    store.store.report_progress(node, {fired.fire_id: Progress(0.5, "halfway")}, {fired.fire_id: "<reading>"})
    page = client.get(url).text
    assert "halfway" in page
    assert "The last log lines" in page
    assert "&lt;reading&gt;" in page
    assert 'data-topics="executions schedule"' in page, "no event announces progress and lines"
    assert client.get(f"/api/v1/execution?fire_id={fired.fire_id}").json()["log"] == "<reading>"
    store.complete(node, fired, log="<reading>\ndone")
    page = client.get(url).text
    assert "done" in page
    assert "The last log lines" not in page
    assert 'data-topics="executions"' in page
