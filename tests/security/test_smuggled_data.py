"""Operators run jobs that others have defined. No data that they give makes another job of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.dashboard import create_app, token_auth
from quartzpy.errors import ForbiddenError, InvalidJobDataError, InvalidJobTypeError
from quartzpy.ext.celery import CeleryTask
from quartzpy.job_data import INTERNAL_KEYS
from quartzpy.jobs.command import Command, CommandJob
from quartzpy.jobs.function_job import job
from quartzpy.jobs.http import HttpJob, HttpRequest
from quartzpy.jobs.job import JobDetail, JobTypes
from quartzpy.jobs.type_facts import TypeFacts, facts_of
from quartzpy.keys import JobKey
from quartzpy.operations import Actor, Grant, Operations, Role

OPERATOR = Actor("ann", Role.OPERATOR)
WITH_A_GRANT = Actor("eve", Role.OPERATOR, Grant(["ops"], ["quartzpy.CommandJob"]))
ADMIN = Actor("root", Role.ADMIN)
TOKENS = {"the operator's token": OPERATOR, "the admin's token!": ADMIN}


class Regional(Job, type_name="smuggled.regional", operators_set=["region"]):
    def execute(self, context: JobExecutionContext) -> None: ...


@dataclass
class Region:
    region: str = "eu"
    table: str = "sales"


@job(type_name="smuggled.function", data_type=Region, operators_set=["region"])
def regional(data: Region) -> None: ...


@job(type_name="smuggled.free")
def free(region: str = "eu") -> None: ...


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    made = Scheduler(postgres_dsn)
    made.schedule_job(JobDetail(CommandJob, "backup", "ops", data=Command(["/usr/bin/true"]), durable=True))
    made.schedule_job(JobDetail(CommandJob, "other", data=Command(["/usr/bin/true"]), durable=True))
    request = HttpRequest("https://api.example.com/reports")
    made.schedule_job(JobDetail(HttpJob, "call", data=request, durable=True))
    made.schedule_job(CeleryTask("shop.report", "task", job_options={"durable": True}))
    made.schedule_job(JobDetail("quartzpy.Notification", "tell", durable=True))
    made.schedule_job(JobDetail(Regional, "regional", durable=True))
    made.schedule_job(regional.detail("function", durable=True))
    made.schedule_job(free.detail("free", durable=True))
    made.schedule_job(JobDetail("elsewhere:Unknown", "unknown", durable=True))
    yield made
    made.shutdown()


SMUGGLED = [
    (JobKey("backup", "ops"), {"shell": "id"}),
    (JobKey("backup", "ops"), {"argv": ["/bin/sh", "-c", "id"]}),
    (JobKey("backup", "ops"), {"directory": "/root"}),
    (JobKey("backup", "ops"), {"values": {}, "success": [0, 1]}),
    (JobKey("call"), {"url": "https://evil.example.com/"}),
    (JobKey("call"), {"method": "DELETE"}),
    (JobKey("call"), {"headers": {}, "values": {"a": 1}}),
    (JobKey("call"), {"auth": {"bearer": "other"}}),
    (JobKey("task"), {"task": "shop.drop"}),
    (JobKey("task"), {"options": {"queue": "root"}}),
    (JobKey("tell"), {"notification": "7"}),
    (JobKey("regional"), {"table": "salaries"}),
    (JobKey("function"), {"table": "salaries"}),
    (JobKey("function"), {"kwargs": {"table": "salaries"}}),
]


def test_an_operator_sets_no_more_than_a_type_leaves_to_operators(scheduler: Scheduler) -> None:
    operations = Operations(scheduler)
    for key, data in SMUGGLED:
        with pytest.raises(ForbiddenError, match="is an operator, and may set"):
            operations.acting_as(OPERATOR).actions.trigger(key, data)
    assert {(entry.state, entry.actor) for entry in operations.audit_log()} == {("REFUSED", "ann")}
    client = TestClient(create_app(scheduler, auth=token_auth(TOKENS), read_only=False))
    for key, data in SMUGGLED:
        body = {"job": {"name": key.name, "group": key.group}, "data": data}
        answers = [
            client.post("/api/v1/actions/trigger", json=body, headers={"Authorization": f"Bearer {token}"})
            for token in TOKENS
        ]
        assert answers[0].status_code == 403, f"by the API as well: {key} {data}"
        assert answers[1].status_code in (200, 400), answers[1].text


LEFT_TO_OPERATORS: list[tuple[JobKey, dict[str, Any] | None]] = [
    (JobKey("backup", "ops"), {"values": {"region": "eu"}}),
    (JobKey("call"), {"values": {"day": 1}}),
    (JobKey("task"), {"args": [1]}),
    (JobKey("regional"), {"region": "us"}),
    (JobKey("function"), {"region": "us"}),
    (JobKey("free"), {"region": "us"}),
    (JobKey("unknown"), {"region": "us"}),
    (JobKey("unknown"), None),
]


def test_an_operator_sets_what_is_left_to_operators(scheduler: Scheduler) -> None:
    for key, data in LEFT_TO_OPERATORS:
        assert Operations(scheduler).acting_as(OPERATOR).actions.trigger(key, data).count == 1


def test_a_process_that_knows_no_type_follows_what_nodes_publish(scheduler: Scheduler, postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn):
        client = Scheduler(postgres_dsn)
        client._job_types = JobTypes()
        actions = Operations(client).acting_as(OPERATOR).actions
        assert actions.trigger(JobKey("regional"), {"region": "us"}).count == 1
        assert actions.trigger(JobKey("free"), {"region": "us"}).count == 1
        with pytest.raises(ForbiddenError, match="may set only region"):
            actions.trigger(JobKey("regional"), {"table": "salaries"})
        with pytest.raises(ForbiddenError, match="may set"):
            actions.trigger(JobKey("backup", "ops"), {"shell": "id"})
        client.shutdown()


def test_a_node_that_is_gone_has_said_what_operators_may_set(
    scheduler: Scheduler, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scheduler(postgres_dsn):
        client = Scheduler(postgres_dsn)
        client._job_types = JobTypes()
        monkeypatch.setattr("quartzpy.store.protocol.cluster.CheckIn.alive", lambda check_in: [])
        actions = Operations(client).acting_as(OPERATOR).actions
        with pytest.raises(ForbiddenError, match="may set only region"):
            actions.trigger(JobKey("regional"), {"table": "salaries"})
        assert actions.trigger(JobKey("regional"), {"region": "us"}).count == 1
        client.shutdown()


def test_a_grant_lets_an_operator_set_the_data_of_the_jobs_that_it_covers(scheduler: Scheduler) -> None:
    eve = Operations(scheduler).acting_as(WITH_A_GRANT).actions
    assert eve.trigger(JobKey("backup", "ops"), {"argv": ["/usr/bin/false"]}).count == 1
    for key, data in ((JobKey("other"), {"argv": ["/usr/bin/false"]}), (JobKey("call"), {"method": "PUT"})):
        with pytest.raises(ForbiddenError):
            eve.trigger(key, data)


def test_nobody_sets_what_the_scheduler_itself_writes(scheduler: Scheduler) -> None:
    for name in sorted(INTERNAL_KEYS):
        with pytest.raises(InvalidJobDataError, match="an entry of the scheduler itself"):
            Operations(scheduler).acting_as(ADMIN).actions.trigger(JobKey("free"), {name: "x"})


def test_a_run_is_not_repeated_by_an_operator_after_the_job_became_a_command(postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn) as node:
        node.schedule_job(JobDetail("smuggled.open", "turned", durable=True))
        node.trigger_job("turned", {"argv": ["/bin/sh", "-c", "id"]}).wait("60s")
        [record] = node.executions()
        operations = Operations(node).acting_as(OPERATOR)
        assert operations.actions.run_again([record.fire_id]).count == 1
        node.schedule_job(JobDetail(CommandJob, "turned", data=Command(["/usr/bin/true"]), durable=True), replace=True)
        with pytest.raises(ForbiddenError, match="argv"):
            operations.actions.run_again([record.fire_id])


class Open(Job, type_name="smuggled.open"):
    def execute(self, context: JobExecutionContext) -> None: ...


def test_what_a_type_leaves_to_operators_is_published_by_nodes() -> None:
    for job_class in (CommandJob, HttpJob, Regional, regional.job_class, free.job_class):
        facts = facts_of(job_class)
        assert TypeFacts.from_json(facts.as_json()).operators_set == job_class.operators_set
    assert facts_of(CommandJob).operators_set == ("values",)


@pytest.mark.parametrize("wrong", ["region", 7, ["region", 1]])
def test_wrong_names_of_entries_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidJobTypeError, match="operators_set is a sequence of names"):
        job(type_name="smuggled.wrong", operators_set=wrong)(free._function)
