"""A process that a job has forked, and that comes back from the job, ends there; its parent goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.node.workers.forks import STATUS
from quartzpy.states import Outcome
from quartzpy.store.queries import ExecutionQuery
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
children: list[int] = []


def leaves(way: str) -> None:
    if way == "raises":
        raise ValueError("in the child")
    if way == "exits":
        sys.exit(3)


class Forks(Job):
    def execute(self, context: JobExecutionContext) -> None:
        child = os.fork()
        if not child:
            leaves(str(context.job_detail_data["way"]))
            return
        children.append(child)


class ForksAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        child = os.fork()
        if not child:
            way = str(context.job_detail_data["way"])
            if way == "awaits":
                await asyncio.sleep(0)
            leaves(way)
            return
        children.append(child)
        await asyncio.sleep(0)


def exit_status(child: int) -> int | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


@pytest.mark.parametrize(
    ("kind", "way", "status"),
    [
        (Forks, "returns", STATUS),
        (Forks, "raises", STATUS),
        (Forks, "exits", 3),
        (ForksAsync, "returns", STATUS),
        (ForksAsync, "raises", STATUS),
        (ForksAsync, "exits", 3),
        (ForksAsync, "awaits", STATUS),
    ],
)
def test_the_child_ends_and_the_parent_records_the_execution_once(
    kind: type[Job], way: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    children.clear()
    scheduler = Scheduler("memory://", name="forks")
    scheduler.start()
    scheduler.schedule_job(JobDetail(kind, "job", data={"way": way}), SimpleTrigger("t"))
    wait_until(lambda: children)
    began = time.monotonic()
    statuses: list[int] = []

    def has_ended() -> bool:
        if (ended := exit_status(children[0])) is not None:
            statuses.append(ended)
        return bool(statuses)

    wait_until(has_ended)
    assert statuses == [status]
    assert time.monotonic() - began < 20
    assert ("came back from the job and ends here" in capfd.readouterr().err) is (way != "exits")
    wait_until(lambda: scheduler._store.find(ExecutionQuery(), 10))
    assert [record.outcome for record in scheduler._store.find(ExecutionQuery(), 10)] == [Outcome.SUCCEEDED]
    scheduler.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("quick"))
    assert scheduler.wait_until_recorded(2, "30s")
    assert scheduler.shutdown()


class ForksBesideAnother(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        asyncio.get_running_loop().call_soon(lambda: os.write(told[1], b"once "))
        if child := os.fork():
            children.append(child)
        await asyncio.sleep(0)


told: list[int] = []


def test_what_the_loop_would_run_next_runs_in_the_parent_alone() -> None:
    children.clear()
    told[:] = os.pipe()
    scheduler = Scheduler("memory://", name="forks")
    scheduler.start()
    scheduler.schedule_job(JobDetail(ForksBesideAnother, "job"), SimpleTrigger("t"))
    wait_until(lambda: children)
    wait_until(lambda: exit_status(children[0]) is not None)
    assert scheduler.wait_until_recorded(1, "30s")
    assert scheduler.shutdown()
    assert os.read(told[0], 100) == b"once "
    for descriptor in told:
        os.close(descriptor)


class Quick(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.sleep(0)
