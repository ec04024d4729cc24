"""Jobs whose data has a type: `context.data` is a value of it, and what makes none is refused before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.definitions.files import definitions
from quartzpy.errors import InvalidJobDataError, JobNotFoundError
from quartzpy.states import Outcome
from quartzpy.store.records import ExecutionRecord
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

SOON = timedelta(seconds=30)
LATER = datetime(2090, 1, 1, tzinfo=UTC)
KEY = JobKey("report", "DEFAULT")


@dataclass(frozen=True)
class ReportData:
    region: str
    pages: int = 10


class Report(Job, data_type=ReportData):
    """Fails before the attempt that it prints as many pages as."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        if context.attempt < context.data.pages:
            raise ValueError("not yet")


class Stamp(Job, data_type=ReportData, type_name="stamp"):
    """Writes down what it did."""

    def execute(self, context: JobExecutionContext) -> None:
        region = context.data.region
        context.job_detail_data["region"] = f"{region}!"
        assert context.data.region == region, "it is built once"
        jobs.ran.put(context)


class RenamedData:
    def __init__(self, area: str) -> None:
        self.area = area

    @classmethod
    def from_job_data(cls, data: Mapping[str, Any]) -> RenamedData:
        return cls(data["area"] if "area" in data else data["region"])


@dataclass(frozen=True)
class NewData:
    area: str


def report(**data: Any) -> JobDetail:
    return JobDetail(Report, "report", data=data)


def later(name: str = "t", **data: Any) -> SimpleTrigger:
    return SimpleTrigger(name, start_time=LATER, data=data)


def stored(client: Scheduler) -> Any:
    return list(client.jobs()), list(client.triggers())


def by_attempt(scheduler: Scheduler) -> list[ExecutionRecord]:
    return sorted(scheduler.executions(), key=lambda execution: execution.attempt)


# --- what runs


def test_a_job_is_given_a_value_of_its_type(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(Report, "report", data=ReportData("eu", 1)), SimpleTrigger("t"))
    context = jobs.next_run()
    assert context.data == ReportData("eu", 1)
    assert context.job_data == context.job_detail_data == {"region": "eu", "pages": 1}


def test_a_triggers_data_overrides_the_jobs(scheduler: Scheduler) -> None:
    scheduler.schedule_job(report(region="eu", pages=1), SimpleTrigger("t", data={"region": "us"}))
    assert jobs.next_run().data == ReportData("us", 1)


def test_data_without_a_type_is_the_mapping(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", data={"a": 1}), SimpleTrigger("t", data={"b": 2}))
    context = jobs.next_run()
    assert context.data is context.job_data
    assert context.data == {"a": 1, "b": 2}


def test_what_a_job_persists_is_the_mapping(scheduler: Scheduler) -> None:
    job = JobDetail(Stamp, "report", data=ReportData("eu"), persist_data=True, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    assert jobs.next_run().data.region == "eu"
    assert scheduler.wait_until_recorded(1, SOON)
    assert scheduler.get_job_detail(KEY).data == {"region": "eu!", "pages": 10}  # type: ignore[union-attr]
    scheduler.trigger_job(KEY)
    assert jobs.next_run().data.region == "eu!"


def test_a_further_attempt_is_given_the_same_value(scheduler: Scheduler) -> None:
    policy = RetryPolicy(attempts=3, delay=timedelta(milliseconds=10))
    job = JobDetail(Report, "report", data=ReportData("eu", 3), retry=policy, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t", data={"region": "us"}))
    assert scheduler.wait_until_recorded(3, SOON)
    assert [each.outcome for each in by_attempt(scheduler)] == ["FAILED", "FAILED", "SUCCEEDED"]
    contexts = [jobs.next_run() for _ in range(3)]
    assert [context.data for context in contexts] == [ReportData("us", 3)] * 3
    assert len(contexts[-1].job_data) == 5, "with what the trigger of an attempt carries"
    with pytest.raises(InvalidJobDataError, match=r"QRTZ_RETRIED_.* is an entry of the scheduler itself; leave it out"):
        scheduler.trigger_job(KEY, contexts[-1].job_data, delay=timedelta(hours=1))
    assert scheduler.trigger_job(KEY, contexts[-1].data, delay=timedelta(hours=1)), "the value may be handed on"


def test_a_stored_job_whose_data_fits_no_longer_fails_with_the_reason(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    job = replace(report(region="eu"), retry=RetryPolicy(attempts=2, delay=timedelta()))
    scheduler.schedule_job(job, SimpleTrigger("t"))
    monkeypatch.setattr(Report, "data_type", NewData)
    scheduler.start()
    assert scheduler.wait_until_recorded(2, SOON)
    first, again = by_attempt(scheduler)
    assert (first.outcome, again.outcome) == (Outcome.FAILED, Outcome.FAILED)
    reason = "job DEFAULT.report, trigger DEFAULT.t: the data does not fit NewData: missing: area; unknown: 'region'"
    assert reason in (first.error or "")
    assert "the data does not fit NewData: missing: area; unknown: 'region' (known: area)" in (again.error or "")


def test_an_older_layout_is_read_by_the_type_itself(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    scheduler.schedule_job(JobDetail(Stamp, "report", data=ReportData("eu")), SimpleTrigger("t"))
    monkeypatch.setattr(Stamp, "data_type", RenamedData)
    monkeypatch.setattr(Stamp, "execute", lambda self, context: jobs.ran.put(context))
    scheduler.start()
    assert jobs.next_run().data.area == "eu"


def test_the_harness_gives_it_too() -> None:
    jobs.reset()
    harness = SchedulerHarness()
    harness.schedule_job(report(region="eu", pages=1), SimpleTrigger("t"))
    [execution] = harness.run_pending()
    assert execution.outcome is Outcome.SUCCEEDED
    assert jobs.next_run().data == ReportData("eu", 1)


# --- what is refused

DECLARED = {
    "job": [
        {
            "type": "stamp",
            "name": "report",
            "data": {"region": "eu"},
            "trigger": [{"kind": "simple", "name": "t", "start_time": LATER, "data": {"page": 1}}],
        }
    ]
}
HALF = JobDetail(Report, "half", durable=True)

WRONG: dict[str, tuple[Callable[[Scheduler], Any], str]] = {
    "a missing field": (
        lambda c: c.schedule_job(report(pages=3), later()),
        "job DEFAULT.report, trigger DEFAULT.t: the data does not fit ReportData: missing: region",
    ),
    "no data at all": (
        lambda c: c.schedule_job(JobDetail(Report, "report"), later()),
        "job DEFAULT.report, trigger DEFAULT.t: the data does not fit ReportData: missing: region",
    ),
    "an unknown field": (
        lambda c: c.schedule_job(report(region="eu", page=3), later()),
        "unknown: 'page' (did you mean pages?)",
    ),
    "an unknown field of one trigger": (
        lambda c: c.schedule_job(report(region="eu"), [later("a"), later("b", colour=1)]),
        "trigger DEFAULT.b: the data does not fit ReportData: unknown: 'colour' (known: region, pages)",
    ),
    "one job of many": (
        lambda c: c.schedule_jobs([(report(region="eu"), [later()]), (HALF, [later("u")])]),
        "job DEFAULT.half, trigger DEFAULT.u: the data does not fit ReportData: missing: region",
    ),
    "a registered name": (
        lambda c: c.schedule_job(JobDetail("stamp", "report", data={"area": "eu"}), later()),
        "missing: region; unknown: 'area'",
    ),
    "a job without a trigger": (
        lambda c: c.add_job(JobDetail(Report, "report", data={"regio": "eu"}, durable=True)),
        "job DEFAULT.report: the data does not fit ReportData: unknown: 'regio' (did you mean region?)",
    ),
    "a job without a trigger among others": (
        lambda c: c.schedule_jobs({JobDetail(Report, "report", data={"regio": "eu"}, durable=True): []}),
        "job DEFAULT.report: the data does not fit ReportData: unknown: 'regio' (did you mean region?)",
    ),
    "a changed job": (
        lambda c: c.modify_job(JobKey("stored", "DEFAULT"), data={"regio": "eu"}),
        "job DEFAULT.stored: the data does not fit ReportData: unknown: 'regio'",
    ),
    "what is declared": (
        lambda c: c.sync(definitions(DECLARED, "jobs.toml").jobs, owner="app"),
        "job DEFAULT.report, trigger DEFAULT.t: the data does not fit ReportData: unknown: 'page'",
    ),
    "a plan": (
        lambda c: c.sync([(report(), later())], owner="app", apply=False),
        "missing: region",
    ),
    "a run by hand": (
        lambda c: c.trigger_job(JobKey("stored", "DEFAULT"), {"regio": "eu"}),
        "job DEFAULT.stored, trigger MANUAL_TRIGGERS.MT_",
    ),
    "a run by hand with another value": (
        lambda c: c.trigger_job(JobKey("stored", "DEFAULT"), NewData("eu")),
        "data: must be a ReportData or a mapping (got NewData)",
    ),
    "data that is no mapping": (
        lambda c: c.trigger_job(JobKey("untyped", "DEFAULT"), ReportData("eu")),
        "data: must be a mapping (got ReportData)",
    ),
    "a trigger's data that is no mapping": (
        lambda c: c.schedule_job(report(), SimpleTrigger("t", data=ReportData("eu"))),  # type: ignore[arg-type]
        "data: must be a mapping (got ReportData)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_value_is_refused_before_anything_is_stored(client: Scheduler, case: str) -> None:
    act, message = WRONG[case]
    client.schedule_job(JobDetail(Report, "stored", data=ReportData("eu")), later("stored"))
    client.add_job(JobDetail(jobs.Recorded, "untyped", durable=True))
    before = stored(client)
    with pytest.raises(InvalidJobDataError) as caught:
        act(client)
    assert message in str(caught.value)
    assert stored(client) == before


def test_a_trigger_that_stays_is_held_against_its_jobs_changed_data(client: Scheduler) -> None:
    client.sync([(report(region="eu"), later())], owner="app")
    before = stored(client)
    with pytest.raises(InvalidJobDataError, match=r"trigger DEFAULT\.t: .* missing: region"):
        client.sync([(report(pages=1), later())], owner="app")
    assert stored(client) == before


# --- what is accepted


def test_what_is_missing_may_come_with_a_trigger(scheduler: Scheduler) -> None:
    scheduler.add_job(JobDetail(Report, "report", durable=True, data={"pages": 1}))
    with pytest.raises(InvalidJobDataError, match="missing: region"):
        scheduler.trigger_job(KEY)
    scheduler.trigger_job(KEY, {"region": "eu"})
    assert jobs.next_run().data == ReportData("eu", 1)
    scheduler.trigger_job(KEY, ReportData("us", 0), delay=timedelta(milliseconds=1))
    assert jobs.next_run().data == ReportData("us", 0)
    with pytest.raises(JobNotFoundError):
        scheduler.trigger_job(JobKey("none", "DEFAULT"), ReportData("eu"))


def test_what_a_node_of_another_program_takes_is_not_known_here(client: Scheduler) -> None:
    client.schedule_job(JobDetail("elsewhere:Report", "report", data={"regio": "eu"}), later())
    client.trigger_job(KEY, {"any": "thing"})


def test_the_rest_of_a_job_is_changed_though_its_data_fits_no_longer(
    client: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule_job(report(region="eu"), later())
    monkeypatch.setattr(Report, "data_type", NewData)
    assert client.modify_job(KEY, description="old").description == "old"
    assert client.modify_job(KEY, data=NewData("eu")).data == {"area": "eu"}
