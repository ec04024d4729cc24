"""Where jobs run: executors by name, execution groups, labels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, JobKey, Scheduler, SimpleTrigger
from quartzpy.config.pools import ExecutorConfig
from quartzpy.errors import InvalidJobError, SchedulerStateError, SettingsError
from quartzpy.states import Outcome, PublicState
from tests.facade import jobs

SOON = timedelta(seconds=30)
Make = Callable[..., Scheduler]


def run_many(scheduler: Scheduler, count: int, name: str = "job", **values: object) -> None:
    of = values.pop("job", jobs.Waiting)
    triggers = [SimpleTrigger(f"{name}-{n}", start_time=datetime.now(UTC)) for n in range(count)]
    scheduler.schedule_jobs([(JobDetail(of, name, **values), triggers)])  # type: ignore[arg-type]


def started(count: int) -> list[str]:
    """The jobs of the next executions, and that no other begins."""
    begun = [jobs.ran.get(timeout=30).job_key.name for _ in range(count)]
    assert jobs.nothing_ran()
    return begun


def test_a_job_runs_on_the_threads_of_the_executor_it_names(make_scheduler: Make) -> None:
    scheduler = make_scheduler(executors={"io": "threads:2"})
    scheduler.start()
    run_many(scheduler, 1, job=jobs.ThreadName, executor="io")
    assert "-worker-io-" in jobs.ran.get(timeout=30).result


def test_each_executor_is_full_for_itself(make_scheduler: Make) -> None:
    scheduler = make_scheduler(workers=1, executors={"io": ExecutorConfig("threads", 2)})
    scheduler.start()
    run_many(scheduler, 5, "io", executor="io")
    run_many(scheduler, 3, "default")
    assert sorted(started(3)) == ["default", "io", "io"]
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(8, SOON)


def test_many_async_jobs_share_an_executor_of_their_own(make_scheduler: Make) -> None:
    scheduler = make_scheduler(workers=1, executors={"loop": "asyncio:50"})
    scheduler.start()
    run_many(scheduler, 50, job=jobs.WaitingAsync, executor="loop")
    assert len(started(50)) == 50
    assert sum("worker-loop" in thread.name for thread in threading.enumerate()) < 50
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(50, SOON)


def test_a_plain_job_is_refused_by_an_executor_for_async_ones(make_scheduler: Make) -> None:
    scheduler = make_scheduler(executors={"loop": "asyncio:5"})
    scheduler.start()
    run_many(scheduler, 1, job=jobs.Recorded, executor="loop")
    assert scheduler.wait_until_recorded(1, SOON)
    [record] = scheduler.executions()
    assert record.outcome is Outcome.FAILED
    assert "executor 'loop' runs only async def jobs; Recorded.execute is a plain def" in (record.error or "")


def test_a_job_waits_for_a_node_that_has_its_executor(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    scheduler.start()
    run_many(scheduler, 1, job=jobs.Recorded, executor="elsewhere")
    run_many(scheduler, 1, "here", job=jobs.Recorded)
    assert started(1) == ["here"]
    assert scheduler.trigger_state(scheduler.triggers_of_job(JobKey("job", "DEFAULT"))[0].key) is PublicState.NORMAL


def test_no_more_of_a_group_run_at_once_than_the_node_allows(make_scheduler: Make) -> None:
    scheduler = make_scheduler(workers=10, execution_groups={"reports": 2, "_": 3})
    scheduler.start()
    run_many(scheduler, 4, "a", execution_group="reports")
    run_many(scheduler, 4, "b", execution_group="reports")
    run_many(scheduler, 4, "other", execution_group="other")
    run_many(scheduler, 5, "none")
    begun = started(9)
    assert sum(name in "ab" for name in begun) == 2
    assert begun.count("other") == 4
    assert begun.count("none") == 3
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(17, SOON)


def test_a_node_may_take_some_groups_only(make_scheduler: Make) -> None:
    scheduler = make_scheduler(execution_groups={"reports": 5, "*": 0, "_": 0})
    scheduler.start()
    run_many(scheduler, 1, "none")
    run_many(scheduler, 1, "other", execution_group="other")
    run_many(scheduler, 1, "mine", execution_group="reports")
    assert started(1) == ["mine"]


def test_limits_of_groups_can_change_while_the_node_runs(make_scheduler: Make) -> None:
    scheduler = make_scheduler(execution_groups={"reports": 1})
    scheduler.start()
    run_many(scheduler, 4, execution_group="reports")
    assert len(started(1)) == 1
    scheduler.node.set_execution_groups({"reports": 3})
    assert len(started(2)) == 2
    with pytest.raises(SettingsError, match="'reports' must be an integer of 0 or more"):
        scheduler.node.set_execution_groups({"reports": -1})


def test_limits_of_groups_cannot_change_before_the_start(client: Scheduler) -> None:
    with pytest.raises(SchedulerStateError, match="pass execution_groups as a setting"):
        client.node.set_execution_groups({"reports": 1})


def test_a_job_runs_only_where_all_its_labels_are(make_scheduler: Make) -> None:
    scheduler = make_scheduler(labels=("gpu", "eu"))
    scheduler.start()
    run_many(scheduler, 1, "gpu", job=jobs.Recorded, requires=["gpu"])
    run_many(scheduler, 1, "both", job=jobs.Recorded, requires=["eu", "gpu"])
    run_many(scheduler, 1, "more", job=jobs.Recorded, requires=["gpu", "us"])
    assert sorted(started(2)) == ["both", "gpu"]


def test_a_placement_that_was_never_seen_is_taken_at_once(make_scheduler: Make) -> None:
    scheduler = make_scheduler(checkin_interval="60s", failure_window="300s", idle_wait="60s")
    scheduler.start()
    run_many(scheduler, 1, "first", job=jobs.Recorded)
    jobs.ran.get(timeout=30)
    run_many(scheduler, 1, "new", job=jobs.Recorded, execution_group="never-seen")
    assert jobs.ran.get(timeout=30).job_key.name == "new"


def test_a_job_moves_to_another_executor(make_scheduler: Make) -> None:
    scheduler = make_scheduler(executors={"io": "threads:2"})
    scheduler.start()
    scheduler.schedule_job(
        JobDetail(jobs.ThreadName, "job"), SimpleTrigger("t", start_time=datetime.now(UTC) + timedelta(hours=1))
    )
    scheduler.modify_job(JobKey("job", "DEFAULT"), executor="io")
    scheduler.trigger_job(JobKey("job", "DEFAULT"))
    assert "-worker-io-" in jobs.ran.get(timeout=30).result


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"executor": ""}, "executor: must not be empty"),
        ({"execution_group": 5}, "execution_group: must be str (got int)"),
        ({"requires": "gpu"}, "requires: must be a sequence of labels (got 'gpu')"),
        ({"requires": [""]}, "requires: a label: must not be empty"),
        ({"requires": ["x" * 200, "y" * 200, "z" * 200]}, "characters as stored, at most 500"),
        ({"overlap_policy": "wait"}, "overlap_policy: block, skip, buffer_one, cancel_other (got 'wait')"),
    ],
)
def test_a_wrong_place_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        JobDetail(jobs.Recorded, "job", **values)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_the_default_executor_may_be_named(scheduler: Scheduler) -> None:
    assert JobDetail(jobs.Recorded, "job", executor="default") == JobDetail(jobs.Recorded, "job")
