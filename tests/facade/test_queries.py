"""`scheduler.jobs()`, `.triggers()`, `.executions()` and `.misfires()`: filters, pages and cursors."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from quartzpy import (
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.errors import InvalidKeyError, InvalidMatcherError, InvalidValueError, SchedulerStateError
from quartzpy.matchers import GroupMatcher
from quartzpy.testing import SchedulerHarness

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class FailsTwice(Job):
    attempts: ClassVar[list[int]] = []

    def execute(self, context: JobExecutionContext) -> None:
        self.attempts.append(context.attempt)
        if len(self.attempts) <= 2:
            raise ConnectionError("no answer")


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness(START)


def stored(harness: SchedulerHarness, count: int, group: str = "DEFAULT") -> None:
    job = JobDetail("report", f"job-{group}", group, durable=True)
    harness.schedule_job(job, [SimpleTrigger(f"t{n:04}", group, start_time=START + SECOND) for n in range(count)])


def test_iterating_does_not_end_at_any_number_of_records(harness: SchedulerHarness) -> None:
    stored(harness, 1_203)
    query = harness.triggers()
    names = [record.key.name for record in query]
    assert names == [f"t{n:04}" for n in range(1_203)]
    assert query.count() == 1_203
    assert sum(1 for _ in query) == 1_203, "a second time"


def test_nothing_is_read_before_it_is_asked_for(harness: SchedulerHarness) -> None:
    query = harness.triggers(state="WAITING")
    assert not query
    assert query.first() is None
    stored(harness, 2)
    assert query
    first = query.first()
    assert first is not None
    assert first.key.name == "t0000"
    assert [record.key.name for record in reversed(query)] == ["t0001", "t0000"]
    assert (query[1].key.name, [record.key.name for record in query[:1]]) == ("t0001", ["t0000"])
    with pytest.raises(IndexError):
        query[2]


def test_pages_follow_one_another_by_cursors(harness: SchedulerHarness) -> None:
    stored(harness, 7)
    query, cursor, sizes, names = harness.triggers(order_by="next_fire_time"), None, [], []
    while True:
        page = query.page(limit=3, after=cursor)
        sizes.append(len(page))
        names += [record.key.name for record in page]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert cursor.isascii()
        assert cursor.replace("-", "").replace("_", "").isalnum(), "fit for a URL"
    assert sizes == [3, 3, 1]
    assert names == [f"t{n:04}" for n in range(7)]
    whole = query.page(limit=7)
    assert whole.next_cursor is None
    assert whole[0] == whole[-7]
    assert whole == query.page()


def test_a_cursor_outlives_the_record_that_it_was_made_from(harness: SchedulerHarness) -> None:
    stored(harness, 4)
    cursor = harness.triggers().page(2).next_cursor
    harness.unschedule_job(TriggerKey("t0001"))
    assert [record.key.name for record in harness.triggers().page(after=cursor)] == ["t0002", "t0003"]


def forged(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "%%%",
        "\ud800",
        5,
        b"x",
        forged(),
        forged("jobs", "DEFAULT", "x"),
        forged("triggers by key", "DEFAULT"),
        forged("triggers by key", "DEFAULT", 5),
        forged("triggers by key", "DEFAULT", "a\0b"),
        forged("triggers by key", "DEFAULT", ["x"]),
        forged("triggers by key", "DEFAULT", {"at": "2026-01-01"}),
        forged("triggers by next_fire_time", None, -5, "DEFAULT", "x"),
    ],
)
def test_what_is_no_cursor_of_the_query_is_refused(harness: SchedulerHarness, cursor: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"after: must be the next_cursor of a page of the same query"):
        harness.triggers().page(after=cursor)


def test_a_number_that_no_database_holds_is_no_cursor(harness: SchedulerHarness) -> None:
    with pytest.raises(InvalidValueError, match="after"):
        harness.misfires().page(after=forged("misfires", 10**30))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "5", None, 1_000_001])
def test_a_limit_is_a_whole_number_in_bounds(harness: SchedulerHarness, limit: Any) -> None:
    with pytest.raises(InvalidValueError, match="limit: must be a whole number from 1 to 1,000,000"):
        harness.jobs().page(limit)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda s: s.jobs(mode="ON"), InvalidValueError, "mode: must be one of ENABLED, MANUAL, DISABLED"),
        (lambda s: s.jobs(contains=""), InvalidValueError, "contains: must be a text that is not empty"),
        (lambda s: s.jobs(job_type=5), InvalidValueError, "job_type: must be a text"),
        (lambda s: s.jobs(group=5), InvalidMatcherError, "group"),
        (lambda s: s.triggers(state="ON"), InvalidValueError, "state: must be among WAITING, .*NORMAL"),
        (lambda s: s.triggers(state=["ERROR", 5]), InvalidValueError, "state"),
        (lambda s: s.triggers(job=TriggerKey("x")), InvalidKeyError, "JobKey"),
        (lambda s: s.triggers(order_by="name"), InvalidValueError, "order_by: must be one of key, next_fire_time"),
        (lambda s: s.triggers(since=datetime(2026, 1, 1)), InvalidValueError, "since"),
        (lambda s: s.executions(state="GONE"), InvalidValueError, "state: must be among SCHEDULED"),
        (lambda s: s.executions(exhausted="yes"), InvalidValueError, "exhausted: must be True or False"),
        (lambda s: s.executions(node="a\0"), InvalidValueError, "node"),
        (lambda s: s.misfires(action="LOST"), InvalidValueError, "action: must be one of FIRED_ONCE"),
        (lambda s: s.misfires(until="today"), InvalidValueError, "until"),
    ],
)
def test_a_wrong_filter_is_refused_at_once(harness: SchedulerHarness, wrong: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        wrong(harness)


def test_states_are_given_in_quartzs_terms_or_in_ours(harness: SchedulerHarness) -> None:
    stored(harness, 2)
    harness.pause_trigger(TriggerKey("t0000"))
    assert [record.key.name for record in harness.triggers(state="NORMAL")] == ["t0001"]
    assert [record.key.name for record in harness.triggers(state="PAUSED")] == ["t0000"]
    assert harness.triggers(state=["WAITING", "PAUSED", "ERROR"]).count() == 2
    assert harness.triggers(state="NORMAL", group=GroupMatcher.equals("other")).count() == 0


def test_an_exhausted_execution_is_found_and_run_again(harness: SchedulerHarness) -> None:
    FailsTwice.attempts = []
    job = JobDetail(FailsTwice, "import", durable=True, retry=RetryPolicy(attempts=2, delay=SECOND))
    harness.schedule_job(job, SimpleTrigger("t", start_time=START + SECOND))
    harness.advance(60 * SECOND)
    assert FailsTwice.attempts == [1, 2]
    assert harness.executions(state="FAILED").count() == 2
    [lost] = harness.executions(exhausted=True, job=JobKey("import"))
    assert (lost.attempt, lost.exhausted) == (2, True)
    harness.run_again(lost.fire_id)
    harness.run_pending()
    assert FailsTwice.attempts == [1, 2, 1]
    assert harness.executions()[0].outcome == "SUCCEEDED"


def test_a_query_of_a_scheduler_that_is_shut_down_raises(client: Scheduler) -> None:
    query = client.jobs()
    assert list(query) == []
    client.shutdown()
    with pytest.raises(SchedulerStateError):
        list(query)
    with pytest.raises(SchedulerStateError):
        client.jobs()


def test_cursors_work_on_a_database(client: Scheduler) -> None:
    job = JobDetail("report", "job", durable=True)
    client.schedule_job(job, [SimpleTrigger(f"t{n}", start_time=START + timedelta(days=36_500)) for n in range(5)])
    for order in ("key", "next_fire_time"):
        query = client.triggers(order_by=order)
        first = query.page(2)
        second = query.page(2, first.next_cursor)
        last = query.page(2, second.next_cursor)
        names = [record.key.name for page in (first, second, last) for record in page]
        assert (names, last.next_cursor) == ([f"t{n}" for n in range(5)], None)
    to_come = client.executions(state="SCHEDULED", job=job.key)
    page = to_come.page(3)
    assert [record.trigger_key.name for record in to_come.page(3, page.next_cursor)] == ["t3", "t4"]


@disallow_concurrent_execution
@persist_job_data_after_execution
class Serial(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Plain(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def test_jobs_that_were_stored_before_their_class_changed_are_found(client: Scheduler) -> None:
    serial, plain = Serial.type_name, Plain.type_name
    unchanged = [JobDetail(Serial, "serial", durable=True), JobDetail(Plain, "plain", durable=True)]
    # As an older release stored them, whose class had other decorators.
    before = [
        JobDetail(serial, "was-plain", durable=True),
        JobDetail(plain, "was-serial", durable=True, max_concurrent=1),
    ]
    given = [
        JobDetail(serial, "limited", durable=True, max_concurrent=3, persist_data=True),
        JobDetail("unknown", "other", durable=True),
    ]
    for job in [*unchanged, *before, *given]:
        client.add_job(job)
    found = {(one.key.name, one.option, one.stored, one.declared) for one in client.node.outdated_jobs()}
    assert found == {
        ("was-plain", "disallow_concurrent", False, True),
        ("was-plain", "persist_data", False, True),
        ("was-serial", "disallow_concurrent", True, False),
    }
    assert "store the job again" in str(client.node.outdated_jobs()[0])
