"""Each list says what a fire that is due waits for, and the lists agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from quartzpy import JobKey, Limit
from quartzpy.dashboard import create_app
from quartzpy.operations import Operations
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from tests.contract.harness import Harness, every, job
from tests.dashboard.conftest import LOCAL

Prepare = Callable[[Operations], object]


@pytest.mark.parametrize(
    ("prepare", "of_trigger", "of_job"),
    [
        (lambda _: None, "waits for a node", "waits for a node"),
        (None, "waits: no node is running", "waits: no node is running"),
        (lambda ops: ops.actions.standby("a"), "waits: no node takes work", "waits: no node takes work"),
        (lambda ops: ops.actions.drain("a"), "waits: no node takes work", "waits: no node takes work"),
        (lambda ops: ops.scheduler.pause_trigger("often"), "paused", "paused"),
        (lambda ops: ops.scheduler.pause_trigger_group("DEFAULT"), "its group is paused", "paused"),
        (
            lambda ops: ops.scheduler.pause_job_group("DEFAULT"),
            "the group of its job is paused",
            "its group is paused",
        ),
        (lambda ops: ops.scheduler.pause_all(), "everything is paused", "everything is paused"),
        (lambda ops: ops.actions.disable(JobKey("job")), "disabled", "disabled"),
    ],
)
def test_lists_say_what_a_fire_that_is_due_waits_for(
    store: Harness, operations: Operations, prepare: Prepare | None, of_trigger: str, of_job: str
) -> None:
    store.schedule(job("job"), every(60, "often"))
    node = None if prepare is None else store.node()
    if prepare is not None:
        prepare(operations)
    store.clock.advance(timedelta(seconds=61))
    if node is not None:
        store.store.check_in(node)
    [trigger], [one] = operations.triggers(), operations.jobs()
    assert (trigger.waits_for, one.waits_for) == (of_trigger, of_job)
    page = TestClient(create_app(operations.scheduler), **LOCAL)
    for path, words in (("/triggers", of_trigger), ("/jobs", of_job), ("/job?name=job", of_trigger)):
        text = re.sub(r"<[^>]*>", "", page.get(path).text)
        assert re.search(rf"due [\w ]+ ago, {re.escape(words)}", text), path
        assert page.get(f"/api/v1{path}").status_code == 200
    for listing, row in ((TRIGGERS, trigger), (JOBS, one)):
        assert listing.column("waits for").value(row) == row.waits_for


def test_a_trigger_that_is_not_due_waits_for_its_time_alone(store: Harness, operations: Operations) -> None:
    store.node()
    store.schedule(job("job"), every(60, "often", start=store.clock.now() + timedelta(minutes=1)))
    [trigger], [one] = operations.triggers(), operations.jobs()
    assert (trigger.waits_for, one.waits_for) == (None, None)


def test_a_paused_trigger_does_not_hide_the_next_fire_of_its_job(store: Harness, operations: Operations) -> None:
    store.node()
    soon, later = store.clock.now() + timedelta(seconds=60), store.clock.now() + timedelta(hours=1)
    store.schedule(job("job"), every(60, "often", start=soon), every(3600, "seldom", start=later))
    operations.scheduler.pause_trigger("often")
    store.clock.advance(timedelta(seconds=61))
    [one] = operations.jobs()
    [seldom] = operations.triggers(contains="seldom")
    assert (one.waits_for, one.next_fire_time) == (None, seldom.next_fire_time)


def test_a_job_whose_trigger_is_blocked_or_in_error_says_so(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job("job", max_concurrent=1), every(60, "often"), every(60, "other"))
    store.clock.advance(timedelta(seconds=60))
    store.fire_one(node)
    assert "waits for an execution of its job" in {one.waits_for for one in operations.triggers()}
    assert operations.jobs()[0].waits_for == "waits for an execution of its job"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rate_limit": "1/hour"}, "waits for its rate limit"),
        ({"limits": ["erp"]}, "waits for the limit erp"),
        ({"limits": ["erp", "crm"]}, "waits for the limits crm, erp"),
        ({"max_concurrent": 1, "limits": ["erp"]}, "waits for an execution of its job"),
    ],
)
def test_what_is_parked_names_its_limit(
    store: Harness, operations: Operations, values: dict[str, object], words: str
) -> None:
    node = store.node()
    for name in ("crm", "erp"):
        store.store.put_limit(name, Limit(1))
    store.schedule(job("job", **values), every(3600, "often"), every(3600, "other"))
    store.fire_due(node)
    store.acquire(node)
    assert words in {one.waits_for for one in operations.triggers()}
    assert operations.jobs()[0].waits_for == words


def test_a_job_with_slots_and_a_rate_waits_for_one_of_them(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job("job", max_concurrent=9, rate_limit="1/hour"), every(3600, "often"), every(3600, "other"))
    store.fire_due(node)
    assert "waits for its rate limit" in {one.waits_for for one in operations.triggers()}
    assert operations.jobs()[0].waits_for == "waits for a limit of its job"
