"""What an incident and a notification say at three in the morning: the reason, where it was, and what was lost."""

from __future__ import annotations

import pytest

from quartzpy.operations import Incident, Operations
from quartzpy.operations.incidents.kinds.failures_in_a_row import COMMAND_TYPE, how_it_ran
from quartzpy.operations.telling.health_check import _judged
from quartzpy.operations.telling.notifications import NotificationEvent, NotifiedIncident, message
from quartzpy.placement import Capabilities
from quartzpy.states import Outcome
from quartzpy.store.protocol import Node
from quartzpy.texts import error_summary
from tests.contract.harness import MINUTE, REPORT, SECOND, Harness, at, every, job, key, once

TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
FAILED = (
    f"{TRACEBACK}quartzpy.errors.CommandFailedError: '/bin/sh' ended with exit status 4; the end of its output:\n"
    "pg_dump: dumping\npg_dump: error: disk full on /backup\n"
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FAILED, "exit status 4; the end of its output: pg_dump: dumping / pg_dump: error: disk full on /backup"),
        ("sync failed:\n\n  rsync: connection refused\n", "sync failed: rsync: connection refused"),
        ("many:\n" + "\n".join(f"line {number}" for number in range(9)), "many: line 6 / line 7 / line 8"),
        ("no reason:", "no reason:"),
        (f"{TRACEBACK}ValueError: bad order\na detail", "ValueError: bad order"),
        ("", ""),
    ],
)
def test_an_error_that_ends_in_a_colon_goes_on_with_what_it_announces(error: str, line: str) -> None:
    summary = error_summary(error)
    assert summary is not None
    assert summary.endswith(line)
    assert "\n" not in summary


def a_node(store: Harness, name: str = "a") -> Node:
    node = store.node(name)
    store.store.publish(node, Capabilities(frozenset({REPORT, COMMAND_TYPE}), workers={"default": 9}))
    return node


def of_kind(operations: Operations, kind: str) -> list[Incident]:
    return [row for row in operations.incidents().incidents if row.kind == kind]


def test_failures_say_the_reason_the_execution_its_host_and_the_command(store: Harness, operations: Operations) -> None:
    node = a_node(store)
    store.schedule(job("backup"), every(10, "night"))
    fired = []
    for _ in range(3):
        fired += store.fire_due(node)
        store.complete(node, fired[-1], outcome=Outcome.FAILED, error=FAILED)
        store.clock.advance(10 * SECOND)
        store.store.check_in(node)
    [incident] = of_kind(operations, "failures-in-a-row")
    lines = text_of(incident).splitlines()
    assert lines[0].endswith("the end of its output: pg_dump: dumping / pg_dump: error: disk full on /backup")
    assert lines[1] == f"Execution {fired[-1].fire_id} ran on node a (host host)."
    assert "\n" not in incident.cause
    assert "disk full" not in incident.cause, "the output is another one each time, and the cause stays"
    assert "disk full on /backup" in " ".join(operations.why(key("night")))
    assert operations.executions(job="backup")[0].error.endswith("disk full on /backup")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"shell": "/opt/backup.sh --all"}, "/opt/backup.sh --all"),
        ({"argv": ["/usr/bin/pg_dump", "two words"]}, "/usr/bin/pg_dump 'two words'"),
        ({"argv": ["/usr/bin/report", "--password", "hunter2"]}, "/usr/bin/report --password '[redacted]'"),
        ({"shell": "PGPASSWORD=hunter2 pg_dump app"}, "PGPASSWORD=[redacted] pg_dump app"),
        ({"shell": "a\nb"}, "a\\nb"),
        ({"shell": "x" * 900}, "x" * 200 + "..."),
    ],
)
def test_a_command_is_shown_as_a_person_types_it(data: dict[str, object], line: str) -> None:
    backup = job("backup", job_type=COMMAND_TYPE, data=data)
    assert how_it_ran(7, None, backup, {}) == (f"Execution 7 was the latest one: {line}",)
    assert how_it_ran(7, None, job("backup", data=data), {}) == ("Execution 7 was the latest one.",)
    assert how_it_ran(None, None, backup, {}) == ()


def text_of(incident: Incident) -> str:
    return str(
        message("main", "1", NotificationEvent.BEGAN, [NotifiedIncident(_judged(incident), at(0))], at(0))["text"]
    )


@pytest.mark.parametrize("number", [1, 4, 7])
def test_executions_that_were_lost_with_a_node_are_an_incident_until_they_run_again(
    store: Harness, operations: Operations, number: int
) -> None:
    dead = store.node("dead")
    store.store.publish(dead, Capabilities(frozenset({REPORT}), workers={"default": 20}))
    store.schedule(job("invoice", durable=True), *(once(f"t{place}") for place in range(number)))
    store.schedule(job("recovered", requests_recovery=True), once("recovered"))
    fired = [row for row in store.fire_due(dead, limit=20) if row.job_key.name == "invoice"]
    alive = a_node(store, "alive")
    store.clock.advance(MINUTE)
    store.store.check_in(alive)
    store.recover(alive, dead)
    [lost] = of_kind(operations, "executions-lost")
    assert lost.subject == "dead"
    assert lost.job == fired[0].job_key
    assert lost.what.startswith(f"{number} execution{'' if number == 1 else 's'} w")
    assert f"Execution {fired[0].fire_id} of job DEFAULT.invoice" in text_of(lost)
    [remedy] = lost.remedies
    assert remedy.action == "run_again"
    assert sorted(remedy.arguments["selection"]) == sorted(row.fire_id for row in fired)
    getattr(operations.actions, remedy.action)(**remedy.arguments)
    assert not of_kind(operations, "executions-lost")
    store.fire_due(alive, limit=20)
    assert not of_kind(operations, "executions-lost")


def test_a_lost_execution_that_nobody_runs_again_is_told_for_a_day(store: Harness, operations: Operations) -> None:
    dead = a_node(store, "dead")
    store.schedule(job(), once())
    store.fire_one(dead)
    alive = a_node(store, "alive")
    store.clock.advance(MINUTE)
    store.store.check_in(alive)
    store.recover(alive, dead)
    for hours, told in ((1, True), (23.9, True), (24.1, False)):
        store.clock.set(at(60 + 3600 * hours))
        assert bool(of_kind(operations, "executions-lost")) == told
