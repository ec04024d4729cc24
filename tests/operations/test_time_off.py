"""Pauses with an end and maintenance windows, as operators set and see them."""

from __future__ import annotations

import pytest

from quartzpy.errors import ForbiddenError, InvalidValueError, ObjectNotFoundError
from quartzpy.operations import Actor, Operations, Role, Selection
from tests.contract.harness import Harness, at, every, job, key, stored_trigger

NIGHTLY = {"cron": "0 13 * * *", "duration": "1h", "zone": "UTC", "trigger_group": "DEFAULT"}


@pytest.fixture
def stored(store: Harness) -> Harness:
    """A store with a job and its trigger of every 25 minutes."""
    store.schedule(job(), every(1500, start=at(1500)))
    return store


def paused_incidents(operations: Operations) -> list[str]:
    return [incident.what for incident in operations.incidents().incidents if incident.kind == "paused-overdue"]


@pytest.mark.parametrize("until", ["2h", at(7200), "2026-03-02T15:00:00+01:00"])
def test_a_pause_until_an_instant_is_told_and_recorded(stored: Harness, operations: Operations, until: object) -> None:
    result = operations.actions.pause(key("every"), until, "skip", reason="the bank is closed")  # type: ignore[arg-type]
    assert str(result) == "Paused trigger DEFAULT.every until 2026-03-02T14:00:00+00:00."
    record = stored_trigger(stored.store, key("every"))
    assert record is not None
    assert record.paused_until == at(7200)
    after = operations.audit_log(limit=1)[0].after
    assert (after["until"], after["missed"]) == ("2026-03-02T14:00:00+00:00", "skip")
    assert operations.scheduler.why(key("every"))[0].endswith(
        "It is resumed at 2026-03-02T14:00:00+00:00; what it has missed by then is skipped."
    )
    stored.clock.set(at(7200))
    stored.store.apply_time_off("node-7")
    ended = operations.audit_log(limit=1)[0]
    assert (ended.actor, ended.action, ended.subject, ended.count) == (
        *("node-7", "pause_ended", "trigger DEFAULT.every"),
        1,
    )
    assert ended.before == {
        "by": operations.audit_log(limit=2)[1].actor,
        "reason": "the bank is closed",
        "until": "2026-03-02T14:00:00+00:00",
        "missed": "skip",
    }


def test_groups_and_everything_are_paused_until_an_instant(stored: Harness, operations: Operations) -> None:
    text = str(operations.actions.pause(Selection.trigger_group("DEFAULT"), "1h"))
    assert text == "Paused trigger group DEFAULT until 2026-03-02T13:00:00+00:00: DEFAULT. 1 trigger was paused."
    assert operations.groups().triggers[0].paused_until == at(3600)
    operations.actions.pause(Selection.everything(), "2h")
    assert operations.groups().all_paused_until == at(7200)
    first = operations.scheduler.why(key("every"))[0]
    assert "everything is paused until 2026-03-02T14:00:00+00:00 and its group 'DEFAULT' is paused until" in first
    assert "It is resumed at 2026-03-02T14:00:00+00:00; what it has missed by then is treated as a misfire." in first


@pytest.mark.parametrize("until", [at(0), at(-1), "never", "0s", "2026-03-02T15:00:00"])
def test_an_end_that_has_passed_or_says_nothing_is_refused(
    stored: Harness, operations: Operations, until: object
) -> None:
    with pytest.raises(InvalidValueError, match=r"^until: "):
        operations.actions.pause(key("every"), until)  # type: ignore[arg-type]
    assert stored.state("every") == "WAITING"


def test_a_pause_within_its_stated_time_is_no_incident_and_one_that_nobody_ends_is(
    stored: Harness, operations: Operations
) -> None:
    operations.actions.pause(key("every"), "2h")
    stored.clock.set(at(7100))
    assert paused_incidents(operations) == []
    stored.clock.set(at(7300))
    [what] = paused_incidents(operations)
    assert what.startswith("Trigger DEFAULT.every is paused")
    [incident] = [one for one in operations.incidents().incidents if one.kind == "paused-overdue"]
    assert "It was to end at 2026-03-02T14:00:00+00:00, and no node has ended it." in incident.why


def test_an_endless_pause_beside_one_with_an_end_is_an_incident(stored: Harness, operations: Operations) -> None:
    operations.actions.pause(Selection.job_group("DEFAULT"), "2h")
    operations.actions.pause(key("every"))
    stored.clock.set(at(3600))
    assert len(paused_incidents(operations)) == 1


def test_another_schedule_keeps_the_end_of_the_pause(stored: Harness, operations: Operations) -> None:
    operations.actions.pause(key("every"), "2h", "once")
    operations.actions.reschedule(key("every"), "every 5m")
    record = stored_trigger(stored.store, key("every"))
    assert record is not None
    assert (record.state, record.paused_until, record.pause_missed) == ("PAUSED", at(7200), "once")


def test_a_window_is_stored_announced_begun_and_deleted(stored: Harness, operations: Operations) -> None:
    result = operations.actions.set_window("nightly", **NIGHTLY, reason="the database")
    assert str(result) == (
        "Maintenance window nightly pauses trigger group DEFAULT from 2026-03-02T13:00:00+00:00 until"
        " 2026-03-02T14:00:00+00:00, and each time after that."
    )
    [view] = operations.overview().windows
    assert (view.name, view.is_open, view.schedule) == ("nightly", False, "0 13 * * * for 1h")
    assert str(view) == (
        "Maintenance window nightly begins at 2026-03-02T13:00:00+00:00 and lasts until 2026-03-02T14:00:00+00:00;"
        " it pauses trigger group DEFAULT: the database"
    )
    stored.clock.set(at(3600))
    stored.store.apply_time_off("node-7")
    begun = operations.audit_log(limit=1)[0]
    assert (begun.actor, begun.action, begun.subject, begun.reason) == (
        *("node-7", "window_began", "window nightly"),
        "the database",
    )
    [view] = operations.windows()
    assert view.is_open
    assert "(maintenance window nightly: the database)" in operations.scheduler.why(key("every"))[0]
    stored.clock.set(at(7000))
    assert paused_incidents(operations) == []
    operations.actions.delete_window("nightly", reason="done")
    assert operations.windows() == []
    deleted = operations.audit_log(limit=1)[0]
    assert (deleted.action, deleted.subject, deleted.before["cron"]) == (
        "delete_window",
        "window nightly",
        "0 13 * * *",
    )
    with pytest.raises(ObjectNotFoundError, match="no maintenance window 'nightly'"):
        operations.actions.delete_window("nightly")


def test_only_administrators_change_windows(stored: Harness, operations: Operations) -> None:
    acting = operations.acting_as(Actor("oper", Role.OPERATOR)).actions
    with pytest.raises(ForbiddenError):
        acting.set_window("nightly", **NIGHTLY)
    assert operations.windows() == []


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({}, "cron and duration"),
        ({"cron": "0 2 * * *"}, "cron and duration"),
        ({"cron": "0 2 * *", "duration": "1h"}, "fields"),
        ({"cron": "0 2 * * *", "duration": "0s"}, "duration: must be above zero"),
        ({"start": "2026-03-03T02:00"}, "start and end belong together"),
        ({"start": "2026-03-03T02:00", "end": "2026-03-03T01:00"}, "end: must be after start"),
        ({"start": "2026-03-01T02:00", "end": "2026-03-01T03:00"}, "it ended at"),
        ({**NIGHTLY, "job_group": "g"}, "not both"),
        ({**NIGHTLY, "missed": "never"}, "missed: "),
        ({**NIGHTLY, "zone": "Europe/Berlim"}, "Europe/Berlin"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(
    stored: Harness, operations: Operations, values: dict[str, str], wrong: str
) -> None:
    with pytest.raises(InvalidValueError, match=wrong):
        operations.actions.set_window("nightly", **values)  # type: ignore[arg-type]
    assert operations.windows() == []
