"""Programs that schedule at each start: no number of nodes or restarts fires an instant twice, or loses one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import CronTrigger, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey, every
from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.states import PublicState
from tests.facade import jobs

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
NODES = 3
ROUNDS = 5
JOBS = 6


def together(work: Callable[[int], object], times: int = NODES) -> list[BaseException]:
    """Call `work` on so many threads at one moment; the errors."""
    barrier = threading.Barrier(times)
    failed: list[BaseException] = []

    def one(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return failed


def program(scheduler: Scheduler, way: str, number: int) -> None:
    """What each node does at its start: the same jobs, though not in the same order."""
    names = [f"job-{n}" for n in range(JOBS)]
    if number % 2:
        names.reverse()
    pairs = [(JobDetail(jobs.Recorded, name), every("1h")) for name in names]
    match way:
        case "schedule_job":
            for detail, trigger in pairs:
                scheduler.schedule_job(detail, trigger, replace=True)
        case "the same again":
            for detail, trigger in pairs:
                scheduler.schedule_job(detail, trigger)
        case "schedule_jobs":
            scheduler.schedule_jobs([(detail, [trigger]) for detail, trigger in pairs], replace=True)
        case "sync":
            scheduler.sync(pairs, owner="program", prune=True)


@pytest.mark.parametrize("way", ["schedule_job", "the same again", "schedule_jobs", "sync"])
def test_nodes_that_start_at_once_make_one_schedule(
    make_scheduler: Callable[..., Scheduler], url: str, way: str
) -> None:
    shared = make_scheduler()
    nodes = [shared if url == "memory://" else make_scheduler() for _ in range(NODES)]
    for node in nodes:
        node.start()
    for _ in range(ROUNDS):
        assert together(lambda number: program(nodes[number], way, number)) == []
    ran = sorted(jobs.next_run().job_key.name for _ in range(JOBS))
    assert ran == [f"job-{n}" for n in range(JOBS)], "an interval fires at once, and not once a start"
    records = [shared.trigger_record(TriggerKey(f"job-{n}")) for n in range(JOBS)]
    assert all(record is not None and record.progress.times_triggered == 1 for record in records)
    assert not shared.wait_until_recorded(JOBS + 1, SECOND / 2)


@pytest.mark.parametrize("way", ["schedule_job", "scheduled_job", "sync"])
def test_a_deploy_keeps_the_fire_that_came_while_no_node_was_up(client: Scheduler, way: str) -> None:
    def start(description: str) -> None:
        detail = JobDetail(jobs.Recorded, "report", description=description)
        trigger = CronTrigger("0/20 * * * * ?", time_zone="UTC")
        if way == "schedule_job":
            client.schedule_job(detail, trigger, replace=True)
        elif way == "scheduled_job":
            client.scheduled_job(trigger, "report", description=description)(jobs_function)
        else:
            client.sync([(detail, trigger)], owner="program")

    start("old")
    [trigger] = client.triggers_of_job(JobKey("report"))
    record = client.trigger_record(trigger.key)
    assert record is not None
    due = record.progress.next_fire_time
    client.pause_trigger(trigger.key)
    start("new")
    record = client.trigger_record(trigger.key)
    assert record is not None
    assert record.progress.next_fire_time == due
    assert client.trigger_state(trigger.key) is PublicState.PAUSED
    detail = client.get_job_detail(JobKey("report"))
    assert detail is not None
    assert detail.description == "new"


def jobs_function() -> None:
    """A job."""


def test_an_adopted_trigger_keeps_its_pause_and_its_progress(client: Scheduler) -> None:
    later = datetime.now(UTC) + HOUR
    trigger = SimpleTrigger("t", start_time=later, interval=HOUR)
    client.schedule_job(JobDetail(jobs.Recorded, "report"), trigger)
    client.pause_trigger("t")
    plan = client.sync([(JobDetail(jobs.Recorded, "report", description="new"), trigger)], owner="program")
    assert [str(change) for change in plan.changes] == [
        "~ job DEFAULT.report (description)",
        "~ trigger DEFAULT.t (owner)",
    ]
    assert client.trigger_state(TriggerKey("t")) is PublicState.PAUSED


@pytest.mark.parametrize("way", ["schedule_job", "sync"])
def test_a_class_that_is_decorated_otherwise_since_the_last_release_is_stored_so(
    client: Scheduler, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> None:
        detail, trigger = JobDetail(jobs.Recorded, "report"), every("1h")
        if way == "sync":
            client.sync([(detail, trigger)], owner="program")
        else:
            client.schedule_job(detail, trigger, replace=True)

    start()
    assert client.job("report").detail.max_concurrent is None
    monkeypatch.setattr(jobs.Recorded, "disallows_concurrent_execution", True)
    start()
    assert client.job("report").detail.max_concurrent == 1


# --- which registration wins


def test_a_display_name_is_compared_like_a_description(client: Scheduler) -> None:
    trigger = SimpleTrigger("t", start_time=datetime.now(UTC) + HOUR)
    client.schedule_job(JobDetail(jobs.Recorded, "report", display_name="Report"), trigger)
    client.schedule_job(JobDetail(jobs.Recorded, "report", display_name="Report"), trigger)
    other = JobDetail(jobs.Recorded, "report", display_name="Nightly report")
    with pytest.raises(ObjectAlreadyExistsError, match="display_name is 'Report', not 'Nightly report'"):
        client.schedule_job(other, trigger)
    plan = client.sync([(other, trigger)], owner="program")
    assert str(plan.changes[0]) == "~ job DEFAULT.report (display_name)"
    assert client.modify_job("report", display_name=None).display_name is None


def declared(description: str, expression: str) -> list[Any]:
    return [(JobDetail(jobs.Recorded, "report", description=description), CronTrigger(expression, "t"))]


def stored(client: Scheduler) -> tuple[str | None, str]:
    trigger = client.get_trigger(TriggerKey("t"))
    assert isinstance(trigger, CronTrigger)
    return client.job("report").detail.description, trigger.expression


def test_the_first_registration_wins_where_that_is_wished(client: Scheduler) -> None:
    client.sync(declared("first", "0 0 1 * * ?"), owner="a")
    more = [*declared("second", "0 0 2 * * ?"), (JobDetail(jobs.Recorded, "more"), "@daily")]
    plan = client.sync(more, owner="b", existing="keep")
    assert [str(change) for change in plan.changes] == ["+ job DEFAULT.more", "+ trigger DEFAULT.more"]
    assert stored(client) == ("first", "0 0 1 * * ?")
    client.sync(more, owner="b")
    assert stored(client) == ("second", "0 0 2 * * ?")


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.9.1", "2.10"), (3, 4), ("1.0rc1", "1.0"), ("2.0", "2.0.1"), ("2025-01-31", "2025-02-01"), (9, "10"), (1.5, 2)],
)
def test_an_older_version_changes_nothing_and_reports_it(
    client: Scheduler, old: Any, new: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client.sync(declared("old", "0 0 1 * * ?"), owner="billing", version=old)
    client.sync(declared("new", "0 0 2 * * ?"), owner="billing", version=new)
    refused = client.sync(declared("old", "0 0 1 * * ?"), owner="billing", version=old)
    assert not refused
    assert refused.outdated_by == str(new)
    assert str(refused) == f"nothing: version {new} is newer"
    assert f"sync of owner billing: version {old} changes nothing" in caplog.text
    assert stored(client) == ("new", "0 0 2 * * ?")
    client.sync(declared("same", "0 0 2 * * ?"), owner="billing", version=new)
    assert stored(client)[0] == "same", "the same version may declare something else"
    client.sync(declared("old", "0 0 1 * * ?"), owner="other", version=old)
    assert stored(client)[0] == "old", "each owner has versions of its own"


def test_a_version_that_changes_nothing_else_is_kept(client: Scheduler) -> None:
    client.sync(declared("one", "0 0 1 * * ?"), owner="billing", version=1)
    client.sync(declared("one", "0 0 1 * * ?"), owner="billing", version=2)
    assert client.sync(declared("x", "0 0 9 * * ?"), owner="billing", version=1).outdated_by == "2"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"version": []}, "version: a number or a text"),
        ({"version": ""}, "version: a number or a text"),
        ({"version": True}, "version: a number or a text"),
        ({"existing": "replace"}, "existing: update or keep"),
    ],
)
def test_wrong_words_are_refused(client: Scheduler, values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        client.sync(declared("x", "0 0 9 * * ?"), owner="billing", **values)
    assert client.job_keys() == set()
