"""`trigger_job(debounce_key=...)`: of the calls with one key, at most one waits for its fire."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, Scheduler
from quartzpy.errors import InvalidKeyError, InvalidValueError
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ExecutionState
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

TEN = timedelta(seconds=10)


@pytest.fixture
def harness() -> SchedulerHarness:
    made = SchedulerHarness()
    made.add_job(JobDetail(jobs.Recorded, "index", durable=True))
    made.add_job(JobDetail(jobs.Recorded, "other", durable=True))
    jobs.reset()
    return made


def waiting(scheduler: Any) -> int:
    return len(scheduler.trigger_keys(GroupMatcher.equals(MANUAL_TRIGGERS)))


def test_a_later_call_takes_the_place_of_the_one_that_waits(harness: SchedulerHarness) -> None:
    for n in range(4):
        last = harness.trigger_job("index", {"n": n}, delay=TEN, debounce_key="page-7")
        assert not harness.advance(timedelta(seconds=6))
    assert waiting(harness) == 1
    [record] = harness.advance(TEN)
    assert record.fire_id == last.wait(0).fire_id
    assert jobs.next_run().job_data == {"n": 3}
    assert waiting(harness) == 0


def test_a_later_call_is_dropped_where_the_one_that_waits_is_kept(harness: SchedulerHarness) -> None:
    how: dict[str, Any] = {"delay": TEN, "debounce_key": "page-7", "keep_waiting": True}
    first = harness.trigger_job("index", {"n": 0}, **how)
    harness.advance(timedelta(seconds=6))
    second = harness.trigger_job("index", {"n": 1}, **how)
    [record] = harness.advance(timedelta(seconds=6))
    assert {first.wait(0).fire_id, second.wait(0).fire_id} == {record.fire_id}
    assert jobs.next_run().job_data == {"n": 0}
    assert harness.trigger_job("index", {"n": 2}, **how).record is not None
    harness.advance(TEN)
    assert jobs.next_run().job_data == {"n": 2}


def test_keys_and_jobs_do_not_disturb_each_other(harness: SchedulerHarness) -> None:
    for job in ("index", "other"):
        for key in ("page-7", "page-8"):
            harness.trigger_job(job, {"key": key}, delay=TEN, debounce_key=key)
    harness.trigger_job("index", delay=TEN)
    assert waiting(harness) == 5
    assert len(harness.advance(TEN)) == 5


def test_a_handle_does_not_take_an_earlier_execution_for_its_own(harness: SchedulerHarness) -> None:
    first = harness.trigger_job("index", delay=TEN, debounce_key="page-7")
    harness.advance(TEN)
    earlier = first.wait(0)
    second = harness.trigger_job("index", delay=TEN, debounce_key="page-7")
    assert second.record is not None
    assert second.record.state is ExecutionState.SCHEDULED
    harness.advance(TEN)
    assert second.wait(0).fire_id > earlier.fire_id


def test_what_runs_does_not_wait_any_more(scheduler: Scheduler) -> None:
    jobs.reset()
    scheduler.add_job(JobDetail(jobs.Waiting, "index", durable=True))
    first = scheduler.trigger_job("index", {"n": 1}, debounce_key="page-7", keep_waiting=True)
    assert jobs.next_run().job_data == {"n": 1}
    second = scheduler.trigger_job("index", {"n": 2}, debounce_key="page-7", keep_waiting=True)
    assert jobs.next_run().job_data == {"n": 2}
    jobs.go_on.set()
    assert second.wait(30).state is first.wait(30).state is ExecutionState.SUCCEEDED


def test_calls_that_come_at_once_leave_one_that_waits(client: Scheduler) -> None:
    client.add_job(JobDetail(jobs.Recorded, "index", durable=True))
    failed: list[BaseException] = []

    def call(n: int) -> None:
        try:
            for _ in range(5):
                client.trigger_job("index", {"n": n}, delay="1h", debounce_key="page-7", keep_waiting=n % 2 == 0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert waiting(client) == 1


def test_wrong_values_are_refused(harness: SchedulerHarness) -> None:
    with pytest.raises(InvalidKeyError, match="debounce_key"):
        harness.trigger_job("index", debounce_key="")
    with pytest.raises(InvalidValueError, match="needs a debounce_key"):
        harness.trigger_job("index", keep_waiting=True)
    assert waiting(harness) == 0
