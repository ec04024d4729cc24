"""`quartzpy incidents` says what is wrong, and its commands mend it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Job, JobExecutionContext, JobKey, SimpleTrigger, TriggerKey
from quartzpy.cli.subjects import command_of
from quartzpy.operations import Operations, Selection
from quartzpy.operations.incidents.incident import Remedy
from quartzpy.operations.telling.health_check import LISTED_EVERY, HealthCheck
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import HealthRun
from tests.cli.conftest import Terminal
from tests.database import execute
from tests.waiting import wait_until


class Report(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def missed(name: str, group: str = "DEFAULT") -> SimpleTrigger:
    earlier = datetime.now(UTC) - timedelta(seconds=30)
    return SimpleTrigger(name, group, start_time=earlier, interval="1h", repeat_count=None)


@pytest.fixture(autouse=True)
def node(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    # The node says in its row by what it judges; the commands have no such setting.
    store = terminal.scheduler._store
    monkeypatch.setattr(store, "_config", replace(store._config, pause_grace="1us"))  # type: ignore[attr-defined]
    terminal.scheduler.start()


def test_nothing_is_wrong(terminal: Terminal) -> None:
    assert terminal.ok("incidents") == "Nothing is wrong: 1 node alive, nothing late, nothing in error, 0 running.\n"
    assert json.loads(terminal.ok("incidents", "--json")) == []


@pytest.mark.parametrize("key", [TriggerKey("nightly", "billing"), TriggerKey("it's.due; ls", "a.b -c")], ids=str)
def test_the_printed_command_mends_the_incident(terminal: Terminal, key: TriggerKey) -> None:
    terminal.scheduler.pause_trigger_group(key.group)
    terminal.scheduler.schedule_job(Report, missed(key.name, key.group), name="job")
    done = terminal.run("incidents")
    assert done.status == 1
    assert re.search(
        r"^WARNING: The group '.*' of triggers is paused, and 1 trigger of it has missed fires since ", done.out, re.M
    )
    [command, _] = re.findall(r"mend: quartzpy (.+)$", done.out, re.M)
    action, kind, *rest = shlex.split(command)
    terminal.ok(action, kind, "--yes", *rest)
    assert terminal.scheduler.trigger_record(key).state == "WAITING"  # type: ignore[union-attr]
    [group] = Operations(terminal.scheduler).groups().triggers
    assert not group.is_paused, "the group is resumed, and not only its trigger"
    assert "paused" not in terminal.run("incidents").out


@pytest.mark.parametrize("everything", [True, False])
def test_everything_and_groups_are_resumed(terminal: Terminal, everything: bool) -> None:
    if everything:
        terminal.scheduler.pause_all()
    else:
        terminal.scheduler.pause_job_group("DEFAULT")
    terminal.scheduler.schedule_job(Report, [missed("-a", "-group"), missed("b")], name="job")
    [command] = re.findall(r"mend: quartzpy (.+=skip.*)$", terminal.run("incidents").out, re.M)
    assert command.endswith("--everything" if everything else "--job-group=DEFAULT")
    terminal.ok(*shlex.split(command), "--yes")
    assert {one.state for one in terminal.scheduler.triggers()} == {"WAITING"}


def test_incidents_are_data_for_programs(terminal: Terminal) -> None:
    terminal.scheduler.pause_trigger_group("DEFAULT")
    terminal.scheduler.schedule_job(Report, missed("late"), name="job")
    done = terminal.run("incidents", "--json")
    assert done.status == 1
    [found] = json.loads(done.out)
    assert (found["kind"], found["severity"]) == ("paused-overdue", "warning")


def judge(terminal: Terminal) -> None:
    """Judge now, whoever's turn it is."""
    store = terminal.scheduler._store
    wait_until(
        lambda: (
            (turn := admin(store).take_slot(timedelta(microseconds=1), LISTED_EVERY)).turn and _judged(terminal, turn)
        )
    )


def _judged(terminal: Terminal, turn: HealthRun) -> bool:
    HealthCheck(terminal.scheduler).judge(turn)
    return True


def test_an_incident_is_acknowledged_by_its_number_and_listed_when_it_is_over(
    terminal: Terminal, postgres_dsn: str
) -> None:
    terminal.scheduler.schedule_job(Report, SimpleTrigger("bad", start_time=datetime(2030, 1, 1, tzinfo=UTC)))
    execute(postgres_dsn, "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = 'it is broken'")
    judge(terminal)
    sentence = "Trigger DEFAULT.bad is in ERROR and does not fire."
    out = terminal.run("incidents").out
    [number] = re.findall(r"quartzpy acknowledge (\d+) --reason=\.\.\.", out)
    assert terminal.run("acknowledge", number).status != 0, "a reason is needed"
    said = terminal.ok("acknowledge", number, "--reason", "known", "--until", "2h", "--zone", "UTC")
    assert re.fullmatch(rf"Incident {number} is acknowledged until .*: {re.escape(sentence)}\n", said)
    out = terminal.ok("incidents")
    assert out.startswith("Nothing is wrong: ")
    assert re.search(rf"^Acknowledged until .* by \w+: known\. {re.escape(sentence)}$", out, re.M)
    assert json.loads(terminal.ok("incidents", "--json")) == []
    assert "shown again" in terminal.ok("unacknowledge", number)
    assert terminal.run("incidents").status == 1
    nothing = terminal.run("incidents", "--past")
    assert (nothing.status, nothing.out) == (0, "")
    terminal.ok("reset", "bad")
    judge(terminal)
    past = terminal.ok("incidents", "--past")
    assert sentence in past
    assert past == terminal.ok("incidents", "--since=1d") == terminal.ok("incidents", "--contains=in error")
    assert terminal.ok("incidents", "--kind=dead-node") == ""
    [row] = json.loads(terminal.ok("incidents", "--past", "--json"))["items"]
    assert (row["incident_id"], row["what"], row["why"]) == (int(number), sentence, ["it is broken"])


@pytest.mark.parametrize(
    ("remedy", "line"),
    [
        (Remedy("cancel", {"selection": 85}, ""), "quartzpy cancel 85"),
        (Remedy("run_again", {"selection": [7, 8]}, ""), "quartzpy run-again 7 8"),
        (Remedy("reset", {"selection": TriggerKey("a")}, ""), "quartzpy reset DEFAULT.a"),
        (Remedy("pause", {"selection": JobKey("a.b", "c d")}, ""), "quartzpy pause '--group=c d' --job=a.b"),
        (
            Remedy("resume", {"selection": Selection.everything(), "missed": "skip"}, ""),
            "quartzpy resume --missed=skip --everything",
        ),
        (Remedy("resume_node", {"node": "-n 1"}, ""), "quartzpy resume-node -- '-n 1'"),
    ],
    ids=lambda one: one.action if isinstance(one, Remedy) else "",
)
def test_each_remedy_is_a_command(remedy: Remedy, line: str) -> None:
    assert command_of(remedy) == line
