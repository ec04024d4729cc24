"""When, why and by whom a trigger was paused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode
from quartzpy.store.protocol import EVERYTHING, JobGroups, NamedTriggers, PauseNote, TriggerGroups, TriggersOfJobs
from tests.contract.harness import SECOND, Harness, at, every, job, job_key, key, serial, stored_trigger

MIGRATION = PauseNote("the warehouse is being moved", "ann")


def note(store: Harness, name: str = "every") -> tuple[object, ...]:
    record = stored_trigger(store.store, key(name))
    assert record is not None
    return record.paused_at, record.paused_by, record.pause_reason


NOTHING = (None, None, None)


def test_a_pause_is_stored_with_its_note_until_it_is_resumed(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    assert note(store) == NOTHING
    store.clock.set(at(5))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert note(store) == (at(5), "ann", "the warehouse is being moved")
    store.store.resume(NamedTriggers([key("every")]))
    assert note(store) == NOTHING
    store.store.pause(NamedTriggers([key("every")]))
    assert note(store) == (at(5), None, None)


def test_every_way_to_pause_takes_a_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    everything = GroupMatcher.anything()
    for pause in (
        lambda: store.store.pause(TriggersOfJobs([job_key()]), MIGRATION),
        lambda: store.store.pause(TriggerGroups(everything), MIGRATION),
        lambda: store.store.pause(JobGroups(everything), MIGRATION),
        lambda: store.store.pause(EVERYTHING, MIGRATION),
    ):
        pause()
        assert note(store) == (at(0), "ann", "the warehouse is being moved")
        store.store.resume(EVERYTHING)
        assert note(store) == NOTHING


def test_a_later_reason_replaces_the_first_and_the_instant_stays(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    store.clock.advance(SECOND)
    store.store.pause(NamedTriggers([key("every")]))
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.store.pause(TriggersOfJobs([job_key()]), PauseNote("the tariff is wrong"))
    assert note(store) == (at(0), None, "the tariff is wrong")


def test_a_blocked_trigger_keeps_its_note_when_it_is_unblocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert store.state("every") == "PAUSED_BLOCKED"
    store.complete(node, fired)
    assert store.state("every") == "PAUSED"
    assert note(store) == (at(0), "ann", "the warehouse is being moved")


def test_a_mode_is_no_pause_with_a_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    assert (store.state("every"), note(store)) == ("PAUSED", NOTHING)
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert (store.state("every"), note(store)[1]) == ("PAUSED", "ann")


def test_storing_the_same_schedule_again_keeps_the_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    store.schedule(job(), every(10, start=at(100), description="new"), replace=True)
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.schedule(job(), every(20, start=at(100)), replace=True)
    assert note(store) == NOTHING


ANN = PauseNote("double bookings, ticket 4711", "ann")
FOR_A_WHILE = PauseNote("the bank is closed", "ben", at(3600))


@pytest.mark.parametrize("of", [TriggerGroups, JobGroups, None])
@pytest.mark.parametrize("by_group", [FOR_A_WHILE, replace(FOR_A_WHILE, until=None), PauseNote("", "ben")])
def test_the_pause_of_a_group_takes_no_name_off_a_triggers_own(store: Harness, of: Any, by_group: PauseNote) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), ANN)
    store.store.pause(EVERYTHING if of is None else of(GroupMatcher.equals("DEFAULT")), by_group)
    assert note(store) == (at(0), ANN.by, ANN.reason)


def test_a_pause_of_a_group_with_an_end_takes_no_name_off_an_endless_one(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")), ANN)
    store.store.pause(JobGroups(GroupMatcher.equals("DEFAULT")), FOR_A_WHILE)
    assert note(store)[1:] == (ANN.by, ANN.reason)
    store.clock.set(at(3600))
    store.store.apply_time_off("a")
    assert (store.state("every"), note(store)[1:]) == ("PAUSED", (ANN.by, ANN.reason))


def test_a_window_takes_no_name_off_and_its_end_leaves_it(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)), every(10, "other", start=at(100)))
    window = MaintenanceWindow(
        "night", start=at(3600), end=at(7200), trigger_group="DEFAULT", reason="the servers move"
    )
    store.store.set_window("night", window, by="ben")
    store.store.pause(NamedTriggers([key("every")]), ANN)
    for seconds in (3600, 7200):
        store.clock.set(at(seconds))
        store.store.apply_time_off("a")
        assert (store.state("every"), note(store)) == ("PAUSED", (at(0), ANN.by, ANN.reason))
        assert (note(store, "other")[2] is None) == (seconds == 7200)


def test_what_a_group_holds_on_after_a_triggers_own_pause_has_its_name(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), FOR_A_WHILE)
    store.clock.set(at(5))
    store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")), replace(ANN, until=at(7200)))
    store.clock.set(at(6))
    store.store.pause(JobGroups(GroupMatcher.equals("DEFAULT")), PauseNote("the tariff is wrong", "cy"))
    assert note(store) == (at(0), FOR_A_WHILE.by, FOR_A_WHILE.reason)
    store.clock.set(at(3600))
    store.store.apply_time_off("a")
    assert (store.state("every"), note(store)) == ("PAUSED", (at(6), "cy", "the tariff is wrong"))
