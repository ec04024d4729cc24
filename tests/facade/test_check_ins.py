"""Outside monitors hear of the starts and the ends of jobs, and no job is late or fails because of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.events import check_ins
from quartzpy.outgoing import MAX_QUEUED, Ping, Pinger
from tests.waiting import wait_until
from tests.webhooks import Receiver, receiver


class Flaky(Job):
    """Fails before its attempt of the number in its data."""

    def execute(self, context: JobExecutionContext) -> None:
        if context.attempt < context.job_data["succeeds_at"]:
            raise ValueError("not yet")


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture(autouse=True)
def _last_calls_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a few calls are not always that quick."""
    monkeypatch.setattr(check_ins, "LAST_CALLS", 60.0)


def run(server: Receiver, *jobs: JobDetail, monitors: dict[str, str]) -> list[str]:
    """Run jobs once, and return the calls that arrived until the end of the scheduler."""
    with Scheduler("memory://", monitors=monitors) as scheduler:
        for detail in jobs:
            scheduler.schedule_job(detail, SimpleTrigger(f"once-{detail.name}"))
        scheduler.start()
        ended = {detail.name for detail in jobs}
        wait_until(
            lambda: {row.job_key.name for row in scheduler.executions() if row.retry_at is None} >= ended, "the ends"
        )
    return [f"{row.method} {urlsplit(row.path).path} {row.body.decode()}".strip() for row in server.requests]


def test_a_start_and_one_end_are_told_of_each_run_however_many_attempts_it_has(server: Receiver) -> None:
    retry = RetryPolicy(attempts=2, delay=0)
    jobs = [
        JobDetail(Flaky, "good", data={"succeeds_at": 1}),
        JobDetail(Flaky, "again", data={"succeeds_at": 2}, retry=retry),
        JobDetail(Flaky, "bad", "billing", data={"succeeds_at": 3}, retry=retry),
        JobDetail(Flaky, "quiet", data={"succeeds_at": 1}),
    ]
    calls = run(server, *jobs, monitors={"quiet": "none", "*": f"{server.url}/key/{{job}}"})
    assert sorted(calls) == [
        "GET /key/again",
        "GET /key/again/start",
        "GET /key/billing-bad/start",
        "GET /key/good",
        "GET /key/good/start",
        "POST /key/billing-bad/fail ValueError: not yet",
    ]
    runs = {row.path.rpartition("rid=")[2] for row in server.requests if "again" in row.path}
    assert len(runs) == 1, "both attempts are one run"


def test_sentry_is_told_our_schedule_with_the_start(server: Receiver) -> None:
    with Scheduler("memory://", monitors={"*": f"{server.url}/api/42/cron/{{job}}/public/"}) as scheduler:
        detail = JobDetail(Flaky, "good", data={"succeeds_at": 1}, timeout="10m")
        scheduler.schedule_job(detail, SimpleTrigger("hourly", interval="1h"))
        scheduler.start()
        wait_until(lambda: scheduler.executions().count() == 1, "the run")
    start, end = [row.document for row in server.requests]
    assert (start["status"], end["status"]) == ("in_progress", "ok")
    assert start["check_in_id"] == end["check_in_id"]
    schedule = {"type": "interval", "value": 60, "unit": "minute"}
    assert start["monitor_config"] == {"schedule": schedule, "max_runtime": 10}
    assert "monitor_config" not in end


def test_a_monitor_that_fails_or_hangs_neither_fails_nor_delays_a_job(
    server: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    going = threading.Event()

    def hang(path: str, headers: object) -> int:
        going.wait(30)
        return 500

    server.decide = hang
    with Scheduler("memory://", monitors={"*": f"{server.url}/secret/{{job}}"}) as scheduler:
        for number in range(5):
            scheduler.schedule_job(JobDetail(Flaky, f"j{number}", data={"succeeds_at": 1}), SimpleTrigger(f"t{number}"))
        scheduler.start()
        wait_until(lambda: scheduler.executions().count() == 5, "all jobs, while the first call hangs")
        assert len(server.requests) == 0
        going.set()
        wait_until(lambda: len(server.requests) >= 2, "two calls")
    warnings = [record for record in caplog.records if record.name == "quartzpy.events.check_ins"]
    assert [record.levelno for record in warnings if record.levelno >= logging.WARNING] == [logging.WARNING]
    assert "secret" not in caplog.text


def test_calls_that_come_too_fast_are_dropped_and_counted(server: Receiver) -> None:
    going = threading.Event()
    server.decide = lambda path, headers: 200 if going.wait(30) else 500
    pinger = Pinger("pinger", logging.getLogger("test"))
    for number in range(MAX_QUEUED + 12):
        pinger.put(Ping(f"{server.url}/{number}"))
    assert 10 <= pinger.dropped <= 12, "one may be under way"
    pinger.close(0)
    pinger.put(Ping(f"{server.url}/late"))
    with pinger._changed:
        pinger._queue.clear()
    going.set()
    pinger.close(30)
    assert len(server.requests) <= 2
