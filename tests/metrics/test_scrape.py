"""What a scrape of a real node says."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import SchedulerStateError, SettingsError, StoreUnavailableError
from quartzpy.metrics import Metrics
from quartzpy.metrics.collector import Collector
from quartzpy.metrics.recorder import Recorder
from tests.facade import jobs
from tests.metrics.scrape import Scrape, parsed, scraped
from tests.waiting import wait_until

Make = Callable[..., tuple[Scheduler, Metrics]]
SOON = timedelta(seconds=30)
DOCUMENTED = Path(__file__).parents[2] / "docs" / "operate" / "metrics.md"
UNITS = ("_seconds", "_size", "_info", "_state")


def eventually(read: Callable[[], Scrape], name: str, value: float, **labels: str) -> Scrape:
    found: list[Scrape] = []

    def is_there() -> bool:
        found[:] = [read()]
        return found[0].so_far(name, **labels) == value

    wait_until(is_there, f"{value} as {name} of {labels}", seen=lambda: found[0].samples)
    return found[0]


def test_a_node_tells_what_it_has_done(make: Make) -> None:
    scheduler, metrics = make()
    scheduler.start()
    for number in range(3):
        scheduler.schedule_job(JobDetail(jobs.Recorded, f"job-{number}", "reports"), SimpleTrigger(f"t{number}"))
    scheduler.schedule_job(JobDetail(Failing, "failing", "mail"), SimpleTrigger("failing"))
    assert scheduler.wait_until_recorded(4, SOON)
    # They may end in several steps, each of which is counted after it.
    found = eventually(lambda: scraped(metrics.port), "quartzpy_executions_total", 4)
    assert found.value("quartzpy_executions_total", outcome="SUCCEEDED") == 3
    name = scheduler.name
    assert found.value("quartzpy_fires_total", scheduler=name, job_group="reports") == 3
    assert found.value("quartzpy_executions_total", job_group="mail", outcome="FAILED") == 1
    assert found.value("quartzpy_fire_lateness_seconds_count") == 4
    assert found.value("quartzpy_execution_duration_seconds_count", job_group="reports") == 3
    assert found.value("quartzpy_step_duration_seconds_count", step="acquire") >= 1
    assert found.value("quartzpy_step_duration_seconds_count", step="complete") >= 1
    assert found.value("quartzpy_claim_batch_size_sum") == 4
    assert found.value("quartzpy_workers", executor="default") == scheduler.config.workers
    assert found.value("quartzpy_node_info", node=str(scheduler.instance_id)) == 1
    assert found.value("quartzpy_node_state", state="HEALTHY") == 1
    assert found.value("quartzpy_checkin_age_seconds") < 60
    assert found.value("quartzpy_threads_overdue") == 0


class InTransaction(Job):
    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            connection.execute(text("SELECT 1"))


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError("on purpose")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_job_with_its_own_transaction_is_counted_once(make: Make) -> None:
    scheduler, metrics = make()
    scheduler.start()
    scheduler.schedule_job(JobDetail(InTransaction, "job"), SimpleTrigger("t"))
    eventually(lambda: scraped(metrics.port), "quartzpy_executions_total", 1, outcome="SUCCEEDED")


def test_busy_workers_and_the_load_of_the_cluster(make: Make) -> None:
    scheduler, metrics = make(workers=1)
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Waiting, "long"), SimpleTrigger("long"))
    jobs.ran.get(timeout=30)
    due = datetime.now(UTC) - timedelta(seconds=10)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "waits"), SimpleTrigger("waits", start_time=due))
    found = eventually(lambda: scraped(metrics.port), "quartzpy_workers_busy", 1)
    # The load is read once in ten seconds, so that the one that was read too early is not asked again here.
    collector = Collector(scheduler, Recorder(), cluster=True)
    load = {family.name: family.samples for family in collector.collect()}["quartzpy_cluster_triggers"]
    by_state = {dict(labels)["state"]: value for labels, value in load.items()}
    assert by_state == {"due": 1, "late": 1, "error": 0}
    assert found.value("quartzpy_workers", executor="default") == 1


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_the_oldest_node_alone_tells_the_load_of_the_cluster(make: Make) -> None:
    (first, of_first), (second, of_second) = make(), make()
    first.start()
    second.start()
    eventually(lambda: scraped(of_first.port), "quartzpy_cluster_nodes", 2, state="alive")
    assert "quartzpy_cluster_nodes" not in scraped(of_second.port).names()
    first.shutdown()
    eventually(lambda: scraped(of_second.port), "quartzpy_cluster_nodes", 1, state="alive")


def test_the_load_is_read_at_most_once_in_ten_seconds(make: Make) -> None:
    scheduler, _ = make()
    reads, now = [], [0.0]

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(scheduler, name)

        @property
        def node(self) -> Any:
            return self

        def cluster_load(self) -> Any:
            reads.append(now[0])
            if len(reads) == 2:
                raise StoreUnavailableError("an outage")
            return scheduler.node.cluster_load()

    collector = Collector(Watched(), Recorder(), cluster=True, clock=lambda: now[0])

    def told() -> bool:
        return any(family.name == "quartzpy_cluster_nodes" and family.samples for family in collector.collect())

    answers = []
    for at in (0.0, 1.0, 9.9, 10.0, 15.0, 20.0):
        now[0] = at
        answers.append(told())
    assert reads == [0.0, 10.0, 20.0]
    assert answers == [True, True, True, False, False, True], "an outage hides old values"


def test_misfires_recoveries_and_skipped_fires_are_counted(make: Make) -> None:
    scheduler, metrics = make(misfire_threshold="100ms", workers=2)
    assert not scheduler.nodes().nodes
    scheduler._store.register(
        "dead", host="elsewhere", pid=1, checkin_interval=timedelta(seconds=1), window=timedelta(milliseconds=100)
    )
    late = SimpleTrigger("late", start_time=datetime.now(UTC) - timedelta(minutes=1))
    scheduler.schedule_job(JobDetail(jobs.Recorded, "late"), late)
    one_at_a_time = JobDetail(jobs.Waiting, "serial", max_concurrent=1, overlap_policy="skip")
    scheduler.schedule_job(one_at_a_time, SimpleTrigger("serial", interval=timedelta(milliseconds=200)))
    scheduler.start()
    read = partial(scraped, metrics.port)
    eventually(read, "quartzpy_recovered_nodes_total", 1)
    wait_until(lambda: read().so_far("quartzpy_misfires_total") >= 1)
    wait_until(lambda: read().so_far("quartzpy_skipped_fires_total") >= 2)


def test_names_units_and_help_keep_the_conventions(make: Make) -> None:
    """Those of https://prometheus.io/docs/practices/naming/, as `promtool check metrics` does."""
    scheduler, metrics = make(metrics=Metrics(port=0, by_job=True, cluster=True))
    scheduler.start()
    scheduler.schedule_job(
        JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", interval=timedelta(hours=1), repeat_count=3)
    )
    assert scheduler.wait_until_recorded(1, SOON)
    found = eventually(lambda: scraped(metrics.port, is_open=True), "quartzpy_executions_total", 1)
    for name, kind in found.kinds.items():
        assert re.fullmatch(r"quartzpy_[a-z_]+", name)
        assert kind in ("counter", "gauge", "histogram")
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name
        assert found.units[name] == ("seconds" if name.endswith("_seconds") else ""), name
        assert not re.search(r"_(ms|milliseconds|minutes|percent|bytes)$", name), name
        assert found.helps[name].endswith("."), name
    assert all(dict(labels).get("scheduler") == scheduler.name for _, labels in found.samples)


def test_the_documentation_lists_all_metrics_and_no_others(make: Make) -> None:
    scheduler, metrics = make(metrics=Metrics(by_job=True, cluster=True))
    scheduler.start()
    scheduler.schedule_job(JobDetail(Failing, "job"), SimpleTrigger("t", interval=timedelta(hours=1), repeat_count=3))
    assert scheduler.wait_until_recorded(1, SOON)
    assert metrics._collector is not None
    families = {family.name for family in metrics._collector.collect()}
    documented = set(re.findall(r"^\| `(quartzpy_\w+)`", DOCUMENTED.read_text(), re.M))
    assert {name.removesuffix("_total") for name in documented} == families


def test_text_needs_a_scheduler_and_each_scheduler_its_own() -> None:
    metrics = Metrics()
    for use in (metrics.text, lambda: metrics.asgi, lambda: metrics.wsgi):
        with pytest.raises(SchedulerStateError, match="plugins"):
            use()
    scheduler = Scheduler("memory://", plugins=[metrics])
    assert parsed(metrics.text()).value("quartzpy_node_state", state="STOPPED") == 1
    with pytest.raises(SchedulerStateError, match="create one for each"):
        Scheduler("memory://", plugins=[metrics])
    scheduler.shutdown()


@pytest.mark.parametrize("wrong", [{"port": 70_000}, {"port": "80"}, {"port": True}, {"most_groups": 0}])
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Metrics(**wrong)
