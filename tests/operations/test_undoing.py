"""What undoes an entry of the audit log: the action, its subject, and the command."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.cli.subjects import command_of
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations, Selection
from quartzpy.operations.actions.audit_log import undoing
from quartzpy.placement import Capabilities
from quartzpy.states import ActionState, JobMode, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from tests.contract.harness import Harness, job, key, once


@pytest.fixture
def stored(store: Harness) -> Harness:
    store.schedule(job("j"), once("t"))
    return store


@pytest.mark.parametrize(
    ("action", "selection", "undone_by", "command"),
    [
        ("pause", TriggerKey("t"), "resume", "quartzpy resume --trigger=DEFAULT.t"),
        ("pause", JobKey("j"), "resume", "quartzpy resume --job=DEFAULT.j"),
        ("pause", Selection.trigger_group("DEFAULT"), "resume", "quartzpy resume --group=DEFAULT"),
        ("pause", Selection.job_group("a group"), "resume", "quartzpy resume '--job-group=a group'"),
        ("pause", Selection.everything(), "resume", "quartzpy resume --everything"),
        ("resume", TriggerKey("t"), "pause", "quartzpy pause --trigger=DEFAULT.t"),
        ("disable", JobKey("j"), "enable", "quartzpy enable DEFAULT.j"),
        ("enable", JobKey("j"), "disable", "quartzpy disable DEFAULT.j"),
        ("drain", "node 1", "resume_node", "quartzpy resume-node 'node 1'"),
        ("standby", "node 1", "resume_node", "quartzpy resume-node 'node 1'"),
    ],
)
def test_an_entry_on_one_subject_has_the_action_that_undoes_it(
    stored: Harness, operations: Operations, action: str, selection: Any, undone_by: str, command: str
) -> None:
    stored.store.publish(stored.node("node 1"), Capabilities(frozenset(), workers={"default": 1}))
    getattr(operations.actions, action)(selection)
    [entry] = operations.audit_log()
    assert entry.undone_by == undone_by
    remedy = undoing(entry)
    assert remedy is not None
    assert command_of(remedy) == command
    getattr(operations.actions, remedy.action)(**remedy.arguments)
    assert [entry.action for entry in operations.audit_log()] == [undone_by, action]


def test_what_was_paused_and_disabled_is_as_before_when_that_is_undone(stored: Harness, operations: Operations) -> None:
    for action, selection in (("pause", key("t")), ("disable", JobKey("j"))):
        getattr(operations.actions, action)(selection)
        remedy = undoing(operations.audit_log(limit=1)[0])
        assert remedy is not None
        getattr(operations.actions, remedy.action)(**remedy.arguments)
    assert stored.state("t") == TriggerState.WAITING
    assert operations.scheduler.job(JobKey("j")).mode is JobMode.ENABLED


@pytest.mark.parametrize(
    "subject",
    [
        "2 triggers: DEFAULT.a, DEFAULT.b",
        "triggers with state=ERROR",
        "trigger a.b.c",
        "trigger group a.b",
        "trigger group a*",
        "trigger DEFAULT.x…",
    ],
)
def test_an_entry_that_does_not_name_one_subject_exactly_has_only_the_name_of_the_action(
    store: Harness, operations: Operations, subject: str
) -> None:
    admin(store.store).record_action(ActionEntry("ann", "admin", "pause", subject, state=ActionState.SUCCEEDED))
    [entry] = operations.audit_log()
    assert entry.undone_by == "resume"
    assert undoing(entry) is None


def test_what_was_not_done_or_cannot_be_undone_has_no_such_action(stored: Harness, operations: Operations) -> None:
    operations.actions.delete(key("t"))
    with pytest.raises(Exception, match="not stored"):
        operations.actions.pause(key("t"))
    assert [(entry.action, entry.undone_by) for entry in operations.audit_log()] == [("pause", None), ("delete", None)]
